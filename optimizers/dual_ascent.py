"""Stochastic dual coordinate ascent: linear models with an L2 penalty, without a rate to choose.

Shalev-Shwartz, Zhang, JMLR 14 (2013); with the fixed step of Math. Programming 155 (2016), "option
V". The weights are tied to dual variables a, one for each row and column:

    W = -sum_i c_i x_i a_i,  c_i = w_i / (l2 sum w);  at the optimum a_i = d loss / d eta_i.

A visit of row i moves a_i to the optimum of the dual problem on its line, or by the share
1 / (1 + L c_i (x_i'x_i + B)) of the way to its derivative. L bounds the second derivatives of the
loss: 1/4 of a logistic one, 1/2 of a softmax. `models/glm/links.py` has the steps of all losses.
A column has converged when what a pass over all rows measures has fallen to `tolerance` of the
first pass: here the squared moves of the rows' dual variables, in units of W.

`models/glm/solvers/dual.py` drives the same method for estimators whose rows lie in memory, and
says why.

Differs:

- b has no penalty. Within a pass it is the weight of a constant feature of square B, whose penalty
  is on its distance from where it was when the pass began (a proximal step).
- A row that moved nothing rests: for 1 pass, then 3, 7 and so on. The last pass visits all rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from blocklearn.matcache import (
    Entries,
    Mat,
    colsum,
    from_array,
    named,
    row_steps,
    scalar,
    total,
)

from .base import Optimizer, OwnRows
from .dual_programs import dual_moves, due_rows, keep_moves, move_bias, move_weight
from .errors import CombinationError
from .linear_loss import LEAST_WEIGHT, DualSteps, LinearLoss
from .updates import Objective, Update

BIAS = 0.1  # square of the constant feature, at most
NOISE = 1e-8  # mean squares that are the rounding of float32


def square_of_constant(l2_rows: Any) -> Any:
    """Return B, the square of the constant feature, from l2 times the number of rows."""
    return BIAS * np.minimum(1.0, l2_rows)


class DualAscent(Optimizer):
    """Takes a `LinearLoss` whose losses have dual steps, of sparse data, on one replica.

    Supports L2 penalties only, and needs one. Training starts from W = 0, also that of a loaded
    model.
    """

    kind: Literal["dual-ascent"] = "dual-ascent"
    tolerance: float = Field(
        1e-6,
        gt=0,
        lt=1,
        description="squared moves of a pass at which to stop, relative to the first pass",
    )

    keeps_rows: ClassVar[bool] = True
    moves_rows_alone: ClassVar[bool] = True

    def attach(self, cache: Any, parameters: dict[str, Mat], **kwargs: Any) -> None:
        """Make the sums over a pass."""
        super().attach(cache, parameters, **kwargs)
        self.name, self.l2 = self._penalised()
        self.columns = parameters[self.name].shape[1]
        for name in ("moved", "gained", "sizes", "first"):
            self.state[name] = self._zeros(name, self.columns)
        self.state["resting"] = self._zeros("resting", 1)
        self.state["pass"] = named(cache, "optimizer.pass (dual-ascent)", (1, 4), np.float64)
        self._now = scalar(cache, 0.0, "number of the pass (dual-ascent)")
        self._due = scalar(cache, 0.0, "rows due until (dual-ascent)")
        self._one = scalar(cache, 1.0, "rate (dual-ascent)")
        self._pace = scalar(cache, 0.0, "gain of the clock (dual-ascent)")
        self._clock = scalar(cache, 0.0, "clock (dual-ascent)")
        self._passes, self._within, self._all = 0, False, False
        self._remember()

    def row_columns(self) -> Mapping[str, int]:
        """Return the dual variables, the pass that visits a row again, and how many it waits."""
        return {"dual": self.columns, "due": 1, "waits": 1}

    def keep_rows(self, kept: Mapping[str, OwnRows], rows: int, weight: float) -> None:
        """Take the dual variables, and make the constants that the weights of rows decide."""
        self._kept = kept
        shares = 1.0 / (self.l2 * max(weight, LEAST_WEIGHT))
        bias = square_of_constant(self.l2 * rows)
        self._shares = self._numbers(shares, "c of a row of weight 1")
        self._bias = self._numbers(bias, "square of the constant feature")
        self._no_bias = self._numbers(0.0 * bias, "no constant feature")

    @property
    def form(self) -> Hashable | None:
        """The same for all blocks but the first of a pass, which moves the centre of b."""
        return () if self._within else None

    def step(self, updates: Mapping[str, Update], objective: Objective | None = None) -> None:
        """Visit the rows of the block that are due."""
        update, steps = self._only(updates)
        W, b, bias = self.parameters[self.name], None, self._no_bias
        if update.bias is not None:
            b, bias = self.parameters[update.bias], self._bias
        if not self._within or self.cache.reserving:
            self._begin_pass(W, b)
        self.cache.each_block(self._count)
        a, due, waits = (self._kept[name].rows for name in ("dual", "due", "waits"))
        X, weights = update.block.X, update.block.weights
        visits, squares, rests = due_rows(X, weights, due, self._due, bias)
        of_W, of_b = Entries((W,), (self._shares,), move_weight), None
        if b is not None:
            of_b = Entries((b, self.state["moved"]), (self._shares, bias), move_bias)
        moves = row_steps(
            X, dual_moves, (b, steps, a, visits, squares, self._shares), of_W, of_b,
            weights=visits, rate=self._one, pace=self._pace, clock=self._clock,
        )  # fmt: skip
        gains, sizes = keep_moves(moves, a, due, waits, visits, squares, self._shares, self._now)
        gained, size, resting = (self.state[name] for name in ("gained", "sizes", "resting"))
        gained <<= gained + colsum(gains)
        size <<= size + colsum(sizes)
        resting <<= resting + total(rests)

    def end_pass(self) -> None:
        """Finish a pass: `converged` if it moved little, and visited all rows."""
        gained, sizes, resting = (self._read(n) for n in ("gained", "sizes", "resting"))
        if self.cache.reserving:
            return
        if self._passes == 1:
            self.state["first"].set(gained.astype(np.float32))
        least = np.maximum(self.tolerance * self._read("first"), NOISE * sizes)
        near, whole = bool((gained <= least).all()), not resting.any()
        self.converged, self._all = near and whole, near and not whole
        self._within = False
        self._remember()

    def resume(self, paused: Mapping[str, Any]) -> None:
        """Continue where the state was taken."""
        super().resume(paused)
        passes, *flags = self.state["pass"].numpy()[0]
        self._passes, (self._within, self._all, self.converged) = int(passes), map(bool, flags)
        self._set_numbers()

    # ------------------------------------------------------------- helpers

    def _begin_pass(self, W: Mat, b: Mat | None) -> None:
        """Move the centre of b to where b is, and forget the sums of the pass before."""
        if not self._passes or self.cache.reserving:
            W <<= 0.0
        if b is not None:
            b <<= b - self._bias * self.state["moved"]
        for name in ("gained", "sizes", "resting"):
            mat = self.state[name]
            mat <<= 0.0
        if not self.cache.reserving:
            self._passes, self._within = self._passes + 1, True
            self._set_numbers()
            self._remember()

    def _set_numbers(self) -> None:
        self._now.set(float(self._passes))
        self._due.set(np.inf if self._all else float(self._passes))

    def _remember(self) -> None:
        numbers = [self._passes, self._within, self._all, self.converged]
        self.state["pass"].set(np.array([numbers], np.float64))

    def _count(self) -> None:
        self.steps += 1

    def _read(self, name: str) -> NDArray[np.float64]:
        """Read a row of the state to the host; ones while memory is being planned."""
        mat = self.state[name]
        return np.ones(mat.shape) if self.cache.reserving else mat.numpy().astype(np.float64)

    def _zeros(self, name: str, columns: int) -> Mat:
        mat = named(self.cache, f"optimizer.{name} (dual-ascent)", (1, columns))
        mat <<= 0.0
        return mat

    def _numbers(self, row: NDArray[np.float64], what: str) -> Mat:
        """Return [1 x columns] as constants, [1 x 1] if they are equal."""
        row = row[:, :1] if (row == row[0, 0]).all() else row
        return from_array(self.cache, row.astype(np.float32), f"{what} (dual-ascent)")

    # ------------------------------------------------------------- checks

    def _penalised(self) -> tuple[str, NDArray[np.float64]]:
        """Return the name of the weights, and their L2 weights [1 x columns]."""
        for name, terms in self.terms.items():
            for term in terms:
                if np.any(term.l1) or term.flows or term.smooth:
                    raise CombinationError(
                        f"{term.kind} on {name!r}: dual-ascent takes penalties of l2 only. Use "
                        "sgd, adagrad or ftrl."
                    )
            l2 = np.zeros((1, self.parameters[name].shape[1]))
            for term in terms:
                weight = np.asarray(term.l2, np.float64)
                if weight.ndim > 1:
                    raise CombinationError(
                        f"{term.kind} on {name!r} differs by feature, and dual-ascent takes one "
                        "weight for each target. Use lbfgs."
                    )
                l2 += weight
            if self.rates:
                raise CombinationError(
                    f"dual-ascent: the model sets rates for {', '.join(self.rates)}, but dual "
                    "ascent has no rate. Leave the rates out."
                )
            if (l2 > 0.0).all():
                return name, l2
        raise CombinationError(
            "dual-ascent needs an L2 penalty on the weights of every target. Set l2 of the model, "
            "such as l2: 1e-4, or use adagrad or lbfgs."
        )

    def _only(self, updates: Mapping[str, Update]) -> tuple[LinearLoss, DualSteps]:
        """Return the update, and the steps of its dual variables."""
        found = list(updates.items())
        update = found[0][1] if len(found) == 1 and found[0][0] == self.name else None
        if not isinstance(update, LinearLoss):
            raise CombinationError(
                "dual-ascent needs the losses of rows by their scores, and this model hands over "
                "gradients. Hand over one LinearLoss with `dual`, or use adagrad or lbfgs."
            )
        if update.dual is None:
            raise CombinationError(
                f"dual-ascent needs dual steps, which the losses of this model "
                f"({update.losses.__name__}) do not give. Their second derivatives must be "
                "bounded. Use adagrad or lbfgs."
            )
        if update.block.X.pattern is None:
            raise CombinationError(
                "dual-ascent is for sparse data, and the block is dense. Give the data as "
                "scipy.sparse.csr_array(X), or use lbfgs."
            )
        if update.mask is not None:
            raise CombinationError(
                "dual-ascent: some targets have `features` of their own, and dual ascent takes all "
                "features for all targets. Leave `features` out, or use lbfgs."
            )
        return update, DualSteps(update.dual, update.arguments)
