"""Base class of optimizers that take gradients: one kernel per parameter.

The kernel of a step applies to each row the gradient, clipping, the optimizer's rule and the
penalties. For a sparse `Gradient` it runs over the features that occur in the block only:

- The state of a row *rests* while its feature does not occur (as in torch.optim.SparseAdam).
- Penalties do not rest. When a row is read next (`begin`, `settle`), it makes up exactly for the
  penalties that it has missed: see `flow.py`. Their clock is the sum of the rates of past steps.

Longer than 300 lines: steps share their clock with what keeps resting rows and averages exact.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from blocklearn.matcache import Mat, Merge, colsum, copy, minimum, named, scalar, sqrt
from blocklearn.matcache import total as total_of
from blocklearn.matcache.containers.expressions import Elementwise

from .by_row import ByRow, moves_of
from .errors import CombinationError
from .linear_loss import LEAST_WEIGHT, LinearLoss, Weighted
from .managed import ALL, ONE, Managed, Slot, check_rows, check_sparse, weight_row
from .row_programs import kernels_of
from .rule import GradientRule
from .updates import Gradient, Objective, Update, masked


class GradientOptimizer(GradientRule):
    """Base of optimizers that descend gradients of a block's mean loss.

    A rule is a subclass: see `GradientRule` for what it defines. This class steps with it, by block
    or by row, and keeps resting rows and averages up to date.
    """

    moves_rows_alone: ClassVar[bool] = True

    # ------------------------------------------------------------- life

    def attach(
        self,
        cache: Any,
        parameters: dict[str, Mat],
        *,
        terms: Any = None,
        rates: Any = None,
    ) -> None:
        """Make the state: `slots` of every parameter, and its average where one is kept."""
        if getattr(self, "cache", None) is not cache:  # attached twice: for the plan, then to run
            self._kernels: dict[str, dict[str, Any]] = {}
        super().attach(cache, parameters, terms=terms, rates=rates)
        self._time = self._before = 0.0  # the clock of the penalties; before the present step
        self._reading = False  # parameters hold averages now
        self._rate = scalar(cache, self.rate, f"rate ({self.name})")
        self._now = scalar(cache, 0.0, f"clock of penalties ({self.name})")
        self._count = scalar(cache, 0.0, f"steps averaged ({self.name})")
        self._norm = scalar(cache, 0.0, f"weight of the block ({self.name})")
        self._rows = ByRow(self, self._now, self._rate) if self.step_per == "row" else None
        if self._rows is not None and not self.keeps_time:
            self.state["clock"] = self._now  # the weights of the rows so far
        self._managed = {name: self._manage(name, w) for name, w in parameters.items()}

    @property
    def form(self) -> Hashable | None:
        """Which parameters have sparse updates."""
        return None if self._reading else tuple([p.sparse for p in self._managed.values()])

    @property
    def end_form(self) -> Hashable | None:
        """Which rows have missed penalties; None: averages will take the place of iterates."""
        return None if self.average_from is not None else (self.form, self._time > 0)

    @property
    def begins_with_all(self) -> bool:
        """Whether parameters hold averages, in whose place the iterates come."""
        return self._reading

    def begin(self, X: Any) -> None:
        """Bring up to date the rows that the block will read."""
        if self._reading or self.cache.reserving:
            self._swap(float(self._averaged_steps()))
        for p in self._managed.values():
            resting = p.sparse and p.rests and self._rows is None  # single rows wake by themselves
            if resting and X.pattern is not None and X.shape[1] == p.w.shape[0]:
                p.kernels["rest"](XT=X.T, now=self._now, rate=self._rate, seen=p.seen, **p.common())
        self._reading = False

    def step(self, updates: Mapping[str, Update], objective: Objective | None = None) -> None:
        """Apply the updates, with one kernel each."""
        weighted = next((u.block for u in updates.values() if isinstance(u, LinearLoss)), None)
        self.cache.each_block(lambda: self._advance(weighted))
        if self._rows is not None:
            self._rows.step(updates, self._managed)
            return
        gradients = {
            name: self._gradient(self._find(name), update)
            for name, update in self._of_means(updates).items()
        }
        shorten = self._shorten(gradients)
        for name, gradient in gradients.items():
            p = self._managed[name]
            p.kernels["step"](
                shorten=shorten,
                rate=self._rate,
                now=self._now,
                average=p.average,
                averaged=p.averaged,
                count=None if p.average is None else self._count,
                seen=p.seen if p.sparse else None,
                **gradient,
                **p.common(),
            )

    def _advance(self, weighted: Weighted | None) -> None:
        """Set the numbers that change from step to step, and count the step.

        weighted: the block of a `LinearLoss`, if there is one.
        """
        rate = self.rate * self.schedule.factor(self.steps)
        self._rate.set(rate)
        gained = self.gain(rate)
        self._before, self._time = self._time, self._time + gained
        if self._rows is not None:
            self._rows.advance(gained)
        else:
            if self.average_from is not None:
                self._count.set(self._averaged_steps())
            self._now.set(self._time)
            if weighted is not None:
                self._norm.set(max(weighted.weight, LEAST_WEIGHT))
        self.steps += 1

    def settle(self) -> None:
        """Bring all rows up to date, and put the averages in place of the iterates."""
        planning = self.cache.reserving
        for p in self._managed.values():
            if p.sparse and p.rests and (planning or self._time > 0):
                if self._rows is None:
                    p.kernels["settle"](now=self._now, rate=self._rate, seen=p.seen, **p.common())
                else:
                    self._rows.settle(p)
        if self.keeps_time:
            self.cache.each_block(self._rewind)
        self._count.set(self._averaged_steps())
        if planning or self._averages:
            for p in self._managed.values():
                if p.average is not None:
                    p.kernels["catch up"](
                        w=p.w, average=p.average, averaged=p.averaged, count=self._count
                    )
                    self._reading = True
            self._swap(0.0)  # in all replicas, whose numbers of steps differ

    def _rewind(self) -> None:
        """Start the clock of the penalties at 0."""
        self._time = 0.0
        self._now.set(0.0)

    @property
    def _averages(self) -> bool:
        """Whether `settle` will put averages in place of iterates.

        It does so before steps are averaged, too: other replicas may have begun already.
        """
        return self.average_from is not None and not self._reading

    @property
    def rests(self) -> bool:
        """See `Optimizer.rests`: rows with penalties do, and averages."""
        return any(p.rests or p.average is not None for p in self._managed.values())

    @property
    def derives(self) -> bool:
        """See `Optimizer.derives`: rows with penalties do that need no clock."""
        late = any(p.sparse and p.rests for p in self._managed.values())
        return late and not self.keeps_time and self._time > 0

    def unsettled(self, *, ever: bool = False) -> list[Mat]:
        """Return the Mats to put back after `settle`: see `Optimizer.unsettled`.

        Missed penalties, and an average, must be brought up to date in one step: in two steps they
        would be rounded differently.
        """
        found: list[Mat | None] = []
        for p in self._managed.values():
            if p.sparse and p.rests and self.keeps_time and (ever or self._time > 0):
                found += [p.w, p.seen]
            if p.average is not None and (ever or self._averages):
                found += [p.w, p.average, p.averaged]
        return [mat for mat in found if mat is not None]

    def pause(self) -> dict[str, Any]:
        """Return the steps, the clock of the penalties, and the form of the parameters.

        reading: whether parameters hold averages.
        sparse: names of the parameters with sparse updates.
        """
        sparse = [p.name for p in self._managed.values() if p.sparse]
        clock = {"time": float(self._now), "reading": self._reading, "sparse": sparse}
        return super().pause() | clock

    def resume(self, paused: Mapping[str, Any]) -> None:
        """Continue from `paused`.

        At the end of a pass, parameters hold averages if there are any, and no penalty is missed.
        """
        super().resume(paused)
        if "clock" not in self.state:
            self._now.set(paused.get("time", 0.0 if self.keeps_time else float(self.steps)))
        self._time = float(self._now)
        self._reading = bool(paused.get("reading", self._averaged_steps() > 0))
        for p in self._managed.values():
            p.sparse = p.name in paused.get("sparse", ())
            if p.seen is not None and self._time == 0:
                p.seen.set(0.0)
            if p.averaged is not None and self._reading:
                p.averaged.set(0.0)  # older states have the steps of the first replica

    def merge_rule(self, name: str) -> Merge:
        """Return how replicas combine a state.

        At a merge no row has missed a penalty or an average: counters are 0 in all replicas.
        """
        return "same" if name.endswith((".seen", ".averaged")) else "mean"

    # ------------------------------------------------------------- gradients

    def _find(self, name: str) -> Managed:
        if name not in self._managed:
            raise CombinationError(
                f"{self.name}: updates[{name!r}], but the model's parameters are "
                f"{', '.join(self._managed)}."
            )
        return self._managed[name]

    def _of_means(self, updates: Mapping[str, Update]) -> dict[str, Update]:
        """Return the updates, with gradients in place of each `LinearLoss`."""
        found: dict[str, Update] = {}
        for name, update in updates.items():
            if not isinstance(update, LinearLoss):
                found[name] = update
                continue
            R = update.derivatives(self._find(name).name, self.parameters, self._norm)
            found[name] = Gradient(update.block.X, R, update.mask)
            if update.bias is not None:
                found[update.bias] = colsum(R)
        return found

    def _gradient(self, p: Managed, update: Update) -> dict[str, Any]:
        """Return the arguments of the step's kernel that hold the gradient."""
        sparse = isinstance(update, Gradient) and update.sparse
        if sparse:
            check_sparse(
                self.name,
                p,
                average_from=self.average_from,
                clip_global_norm=self.clip_global_norm,
            )
            if not p.sparse and p.seen is not None:
                p.seen <<= self._before
            p.sparse = True
            return {"XT": update.X.T, "R": update.R, "mask": update.mask, "D": update.D}
        if p.sparse and self._before > 0 and p.rests:
            raise CombinationError(
                f"{self.name}: the updates of {p.name!r} were sparse, and now one is dense. Make "
                "all sparse or all dense: otherwise rows that missed a penalty never get it."
            )
        g = update.at(p.w) if isinstance(update, Gradient) else update
        for term in p.terms:
            if term.smooth:
                slope = term.gradient(p.w)
                if getattr(slope, "shape", None) != p.w.shape:
                    found = " x ".join(map(str, getattr(slope, "shape", [type(slope).__name__])))
                    raise CombinationError(
                        f"{term.kind}.gradient is {found}, but {p.name!r} is {p.w.shape[0]} x "
                        f"{p.w.shape[1]}: must be an expression of its shape."
                    )
                g = g + slope
        if isinstance(g, Elementwise):  # else another number in it would need another container
            into = named(self.cache, f"gradient of {p.name} (scratch)", p.w.shape, p.w.dtype)
            into <<= g
            g = into
        return {"g": g, "mask": update.mask if isinstance(update, Gradient) else None}

    def _shorten(self, gradients: dict[str, dict[str, Any]]) -> Any:
        """Return the factor that limits the norm of all gradients to `clip_global_norm`."""
        if self.clip_global_norm is None or not gradients:
            return None
        squares = 0.0
        for found in gradients.values():
            found["g"] = copy(masked(found["g"], found["mask"])).mat()
            squares = squares + total_of(found["g"] * found["g"])
        return minimum(self.clip_global_norm / sqrt(squares), 1.0)

    # ------------------------------------------------------------- helpers

    def _swap(self, averaged: float) -> None:
        """Swap parameters and their averages. averaged: what to note as the steps averaged."""
        for p in self._managed.values():
            if p.average is not None and p.averaged is not None:
                p.kernels["swap"](w=p.w, average=p.average)
                p.averaged <<= averaged

    def _averaged_steps(self) -> int:
        return 0 if self.average_from is None else max(0, self.steps - self.average_from)

    def _manage(self, name: str, w: Mat) -> Managed:
        terms = sorted(self.terms.get(name, []), key=lambda t: not t.projects)
        p = Managed(name, w, terms, rates=self.rates.get(name))
        check_rows(self.name, p, by_entry=self.by_entry)
        for slot, what in self._slots().items():
            p.state += (self._keep(f"{name}.{slot}", w, what),)
        p.l1 = weight_row(self.cache, self.name, p, "l1", [t.l1 for t in terms])
        p.l2 = weight_row(self.cache, self.name, p, "l2", [t.l2 for t in terms])
        if p.l2 is not None and p.rates is None:
            most = sum(np.max(t.l2) for t in terms)
            p.most_l2 = weight_row(self.cache, self.name, p, "most l2", [float(most)])
        if self.average_from is not None:
            p.average = self._keep(f"{name}.average", w, Slot(ALL))
            p.averaged = self._keep(f"{name}.averaged", w, Slot(ONE))
        if p.rests and self.keeps_time:
            exact = w.dtype if self._rows is None else np.float64  # a row adds little to the clock
            p.seen = self._keep(f"{name}.seen", w, Slot(ONE), exact)
        if name not in self._kernels:
            self._kernels[name] = kernels_of(self, p) | moves_of(self, p)
        p.kernels = self._kernels[name]
        return p

    def _slots(self) -> Mapping[str, Slot]:
        found: Any = self.slots()
        whole = isinstance(found, Mapping)
        if not whole or not all(isinstance(slot, Slot) for slot in found.values()):
            raise CombinationError(
                f"{self.name}.slots returns {found!r}: must be a dictionary of slots by name, such "
                "as {'m': Slot('all')}."
            )
        return dict(found)

    def _keep(self, name: str, w: Mat, slot: Slot, dtype: Any = None) -> Mat:
        rows, columns = w.shape
        label = f"optimizer.{name}"
        shape = (rows, columns if slot.columns == ALL else 1)
        mat = named(self.cache, label, shape, w.dtype if dtype is None else dtype)
        mat <<= slot.initial
        self.state[name] = mat
        return mat
