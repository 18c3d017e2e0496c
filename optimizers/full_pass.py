"""Base class of optimizers that step once per pass, with a line search.

During a pass the parameters hold the trial x + step * d, and the gradients and losses of all blocks
are summed. After it, the line search accepts the trial or proposes another one. Between passes, and
for other readers, the parameters hold x, the best point so far.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import astuple
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from blocklearn.matcache import Mat, Merge, from_array, named, scalar, total

from .base import Optimizer
from .errors import CombinationError
from .line_search import LineSearch
from .linear_loss import LinearLoss
from .pass_sums import PassSums
from .updates import Objective, Update


class FullPass(Optimizer):
    """Base of optimizers that sum the gradients of blocks over a pass.

    A rule defines `direction` and `restart`. Takes a `LinearLoss`, or gradients together with
    `model.objective`. Supports L2 penalties only. It has `converged` when the gradient's norm has
    fallen to `tolerance` times its first one, or no step lowers the loss.
    """

    tolerance: float = Field(
        1e-4, gt=0, lt=1, description="gradient norm at which to stop, relative to the first"
    )

    steps_by_pass: ClassVar[bool] = True
    curvature: ClassVar[float] = 0.9

    @abstractmethod
    def direction(self) -> None:
        """Set `self.d` from the gradients `self.sum` (new), `self.g`, and the last step.

        The last step was `self.search.step` times `self.d`. `self.g` is replaced after the call.
        """

    @abstractmethod
    def restart(self) -> None:
        """Forget earlier directions: `self.d` is now the steepest descent."""

    def first_step(self, slope: float) -> float:
        """Return the first step that the line search tries.

        slope: along the new direction.
        """
        return 1.0

    # ------------------------------------------------------------- life

    def attach(self, cache: Any, parameters: dict[str, Mat], **kwargs: Any) -> None:
        """Make x, gradient, direction and sum for each parameter."""
        super().attach(cache, parameters, **kwargs)
        self.kind_ = str(getattr(self, "kind", type(self).__name__))
        self._check()
        self.x = {
            n: named(cache, f"{n}: best point", w.shape, w.dtype) for n, w in parameters.items()
        }
        self.g = self.keep("g")
        self.d = self.keep("d")
        self.sum = {  # gradient of the pass, once it has ended
            n: named(cache, f"{n}: gradient of the pass", w.shape, w.dtype)
            for n, w in parameters.items()
        }
        self.sums = PassSums(cache, parameters)
        self.state |= self.sums.state
        self.l2 = {name: self._l2(name) for name in parameters}
        for name, w in parameters.items():
            x = self.x[name]
            x <<= w
        self._step = scalar(cache, 0.0, f"step ({self.kind_})")
        self.state["search"] = named(
            cache, f"optimizer.search ({self.kind_})", (1, LineSearch.NUMBERS + 3), np.float64
        )
        self.search = LineSearch()
        self._started = False
        self._first_norm = 0.0
        self._steepest = False
        self._at_x = True
        self._remember()  # a run that is stopped before the first search resumes with this one

    def merge_rule(self, name: str) -> Merge:
        """Return how replicas combine a state: sums over a pass add up, all else follows."""
        return PassSums.merge_rule(name)

    @property
    def form(self) -> Hashable | None:
        """The same for all blocks but the first of a pass, which moves to the trial."""
        return None if self._at_x else ()

    def begin(self, X: Any) -> None:
        """Set the parameters to the trial, w = x + step d."""
        if self._at_x:
            self._step.set(self.search.step if self._started else 0.0)
            for name, w in self.parameters.items():
                w <<= self.x[name] + self._step * self.d[name]
            self._at_x = False

    def step(self, updates: Mapping[str, Update], objective: Objective | None = None) -> None:
        """Add the block's gradients and losses to those of the pass."""
        linear = [(n, update) for n, update in updates.items() if isinstance(update, LinearLoss)]
        if linear and len(updates) == 1:
            ((name, update),) = linear
            self.sums.add_rows(name, update, *update.row_by_row(name, self.parameters))
        elif linear:
            raise CombinationError(
                f"{self.kind_}: a LinearLoss of {linear[0][0]!r} beside other updates "
                f"({', '.join(updates)}), but it must be the only one. Use sgd, adagrad or ftrl."
            )
        elif objective is None:
            raise CombinationError(
                f"{self.kind_} needs the loss of every block, and the model does not state it: "
                "`update` must set self.objective, or hand over a LinearLoss. Use sgd, adagrad or "
                "ftrl."
            )
        else:
            self.sums.add(updates, objective)
        self.cache.each_block(self._count)

    def _count(self) -> None:
        self.steps += 1

    def settle(self) -> None:
        """Set the parameters to x."""
        if not self._at_x or self.cache.reserving:
            for name, w in self.parameters.items():
                w <<= self.x[name]
            self._at_x = True

    def end_pass(self) -> None:
        """Finish the pass: accept the trial or propose another one."""
        if self.cache.reserving:
            self._rehearse()
            return
        self.begin(None)  # a reader may have settled the parameters after the last block
        if self.sums.complete():
            self._decide(*self._finish())
        self.sums.clear()
        self.settle()
        self._remember()

    def _decide(self, f: float, slope: float, norm: float) -> None:
        """Accept the trial or propose another one. f, slope, norm: at the trial."""
        if not self._started:
            self._started, self._first_norm = True, norm
            self._steepest_descent()
            self._look(f, norm)
            self.converged = norm == 0.0
        elif self.search.accepts(f, slope):
            self._accept()
            self.direction()
            self._take_gradient()
            self._steepest = False
            self._look(f, norm)
            self.converged = norm <= self.tolerance * self._first_norm
        elif self.search.failed:
            self.converged = self._steepest  # nothing lowers the loss any more
            self.search.step = 0.0
            if not self.converged:
                self._descend_from_x()

    def pause(self) -> dict[str, Any]:
        """Set the parameters to x; the next block sets them to the trial again."""
        self.settle()
        return super().pause()

    def resume(self, paused: Mapping[str, Any]) -> None:
        """Continue the search that the state describes."""
        super().resume(paused)
        numbers = self.state["search"].numpy()[0]
        self.search = LineSearch(*(float(x) for x in numbers[: LineSearch.NUMBERS]))
        started, self._first_norm, steepest = (float(x) for x in numbers[LineSearch.NUMBERS :])
        self._started = bool(started)
        self._steepest, self.converged = bool(int(steepest) & 1), bool(int(steepest) & 2)
        self._at_x = True
        for name, x in self.x.items():
            x <<= self.parameters[name]

    # ------------------------------------------------------------- the search

    def _finish(self) -> tuple[float, float, float]:
        """Finish the sums of the pass, and return value, slope along d, norm."""
        for name, s in self.sum.items():
            s <<= self.sums.gradient(name)
            if self.l2[name] is not None:
                s <<= s + self.l2[name] * self.parameters[name]
        penalty = sum(
            self.read(total(l2 * self.parameters[name] * self.parameters[name]))
            for name, l2 in self.l2.items()
            if l2 is not None
        )
        f = self.read(self.sums.loss) / self.read(self.sums.weight) + penalty / 2.0
        return f, self.dot(self.sum, self.d), self.dot(self.sum, self.sum) ** 0.5

    def _look(self, f: float, norm: float) -> None:
        """Start a line search along d from x, where the value is f."""
        slope = self.dot(self.g, self.d)
        if not slope < 0:  # not downhill
            self._steepest_descent(self.g)
            slope = -norm * norm
        step = self.first_step(slope)
        if self._steepest:
            step = 1.0 / max(norm, 1e-30)  # a step of length 1
        self.search = LineSearch.start(f, slope, step, self.curvature)

    def _accept(self) -> None:
        for name, x in self.x.items():
            x <<= self.parameters[name]

    def _take_gradient(self) -> None:
        for name, g in self.g.items():
            g <<= self.sum[name]

    def _steepest_descent(self, of: dict[str, Mat] | None = None) -> None:
        if of is None:
            self._take_gradient()
        for name, d in self.d.items():
            d <<= -self.g[name]
        self.restart()
        self._steepest = True

    def _descend_from_x(self) -> None:
        f0 = self.search.f0
        self._steepest_descent(self.g)
        self._look(f0, self.dot(self.g, self.g) ** 0.5)

    def _remember(self) -> None:
        flags = float(self._steepest) + 2.0 * self.converged
        numbers = [*astuple(self.search), float(self._started), self._first_norm, flags]
        self.state["search"].set(np.array([numbers]))

    def _rehearse(self) -> None:
        """Compute all that the end of a pass may need, for the memory plan."""
        self._finish()
        self._steepest_descent()
        self._descend_from_x()
        self._accept()
        self.direction()
        self._take_gradient()
        self.sums.clear()
        self._at_x = False
        self.settle()

    # ------------------------------------------------------------- helpers

    def keep(self, what: str) -> dict[str, Mat]:
        """Add a Mat of zeros of each parameter's shape to the state."""
        found: dict[str, Mat] = {}
        for name, w in self.parameters.items():
            mat = named(self.cache, f"optimizer.{name}.{what}", w.shape, w.dtype)
            mat <<= 0.0
            found[name] = self.state[f"{name}.{what}"] = mat
        return found

    def read(self, number: Any) -> float:
        """Read a number to the host; 1 while memory is being planned."""
        if self.cache.reserving:
            number.mat()
            return 1.0
        return float(number)

    def dot(self, a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
        """Return the sum of the products over all parameters."""
        return sum(self.read(total(a[name] * b[name])) for name in a)

    def _l2(self, name: str) -> Mat | None:
        terms = self.terms.get(name, [])
        if not terms:
            return None
        w = self.parameters[name]
        row = np.zeros((1, w.shape[1]), w.dtype)
        for term in terms:
            row = (row + np.asarray(term.l2)).astype(w.dtype)  # [features x columns] if by feature
        return from_array(self.cache, row, f"{name}: l2 weights ({self.kind_})")

    def _check(self) -> None:
        for name, terms in self.terms.items():
            for term in terms:
                if np.any(term.l1) or term.flows or term.smooth:
                    raise CombinationError(
                        f"{term.kind} on {name!r}: {self.kind_} searches along smooth objectives, "
                        "and of penalties takes l2 only. Use sgd, adagrad or ftrl."
                    )
        if self.rates:
            raise CombinationError(
                f"{self.kind_}: the model sets rates for {', '.join(self.rates)}, but the length "
                "of a step is found by line search. Leave the rates out."
            )
