"""Fit linear estimators by dual ascent, which reads the rows in memory and needs no learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import resolve
from blocklearn.models import glm
from blocklearn.models.glm.links import HINGES, KINKED
from blocklearn.models.glm.solvers.dual_problem import NUMBERS, Link, Problem

from .hessians import better_dense, keeps_scores, worth_hessian
from .passes import Fit
from .seen import Seen
from .units import Units

FEW_ROWS = 1000  # of fewer, "auto" has a solver that no order of rows changes, but for the hinge
SLOW = 25.0  # mean of x_i'x_i / (4 l2 n); beyond, Newton's method is as fast, and nearer
SLOW_EVEN, EVEN = 8.0, 3.0  # the same of two classes, if no column has so many mean counts
SLOW_NUMBERS = 15.0  # the same of x_i'x_i / (l2 n), for targets that are no classes
FEW_HINGES = 8  # of more, interior points take many times as long, and end a little lower
MOST_BYTES = 2**30  # of labels and dual variables


@dataclass(frozen=True)
class DualProblem(Problem):
    """The problem of an estimator. units: of Y; None: its own."""

    units: Units | None = None

    @classmethod
    def of(cls, X: Any, Y: Any, weights: Any, l2: float, link: Link, **more: Any) -> DualProblem:
        """Return the problem of rows X, whose columns may occur twice, with Y [n] or [n x k]."""
        X = sp.csr_array(X, dtype=np.float32)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        Y = Y[:, None] if Y.ndim == 1 else Y
        return cls(X, Y, np.asarray(weights, np.float32), l2, link, **more)

    def obstacle(
        self, l1_ratio: float, class_weights: Sequence[float] | None, device: str
    ) -> str | None:
        """Return why dual ascent cannot solve the problem; None: it can."""
        by_column = self.link in HINGES and self.Y.shape[1] > 1
        if by_column and class_weights is not None:
            return "takes class_weight of two classes only, where the loss is a hinge"
        if l1_ratio or not self.l2 > 0.0:
            return "needs an L2 penalty alone (alpha > 0, l1_ratio=0)"
        if resolve(device) != "cpu":
            return 'runs on device="cpu"'
        if not (np.isfinite(self._squares) or np.isfinite(self.X.data).all()):
            return "takes X of float32, and X has larger values"
        if not (np.isfinite(self.weights) & (self.weights >= 0.0)).all() or not self.weights.any():
            return "takes weights of rows that are not negative"
        return None

    @cached_property
    def _squares(self) -> float:
        """The sum of all squares of X: if it is finite, so are all numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.dot(self.X.data, self.X.data))

    @property
    def suits(self) -> bool:
        """Whether dual ascent is fast here, and the memory small."""
        rows, columns = self.Y.shape
        if 8 * rows * columns > MOST_BYTES:
            return False
        if self.link == "hinge":  # no other solver has its optimum
            return True
        squares = self._squares / rows  # of the length of a row
        total = float(self.weights.sum(dtype=np.float64))
        most = SLOW_NUMBERS if self.link in NUMBERS else 4.0 * SLOW
        if squares > most * self.l2 * total:
            return False
        slow = squares > 4.0 * SLOW_EVEN * self.l2 * total
        return not (slow and self.link == "logistic" and columns == 1 and self._even)

    @property
    def _even(self) -> bool:
        """Whether all columns of X have about as many numbers: then Newton's steps are few."""
        counts = np.bincount(self.X.indices, minlength=1)
        return bool(counts.max() * self.X.shape[1] <= EVEN * self.X.nnz)

    def fit(self, data: Any, intercept: bool) -> Fit:
        """Return a fit at its start. data: (X, Y) or (X, Y, weights), as the estimator has them."""
        found = glm.DualSolver(self, intercept=intercept)
        ends = self.link not in KINKED
        return Fit(found, found.passes, lambda: Seen.of(*data), ends=ends, units=self.units)


def may_ascend(loss: str, device: str, X: Any, Y: Any) -> bool:
    """Return whether "auto" considers dual ascent: on the CPU, X sparse, of enough rows.

    Not where X is as good as dense, and a solver with a Hessian has memory for all targets. Hinges
    have no other solver in memory but interior points, which take a Hessian for each target and
    pass. There X may be dense, and rows may be few.
    """
    (rows, columns), targets = X.shape, 1 if Y.ndim == 1 else Y.shape[1]
    hinge = loss == "hinge"
    few = not hinge or targets <= FEW_HINGES
    kept = few and keeps_scores(rows * columns, rows, targets)
    if sp.issparse(X):
        suits = not (better_dense(X) and kept) and (hinge or rows >= FEW_ROWS)
    else:
        solved = worth_hessian(max(X.shape), min(X.shape)) and kept
        suits = hinge and not solved and 8 * X.size <= MOST_BYTES
    return bool(suits and resolve(device) == "cpu")
