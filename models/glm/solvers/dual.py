"""Linear models of rows in memory, by dual ascent: see `optimizers/dual_ascent.py`.

That module states the method, and drives it where rows come in blocks: traced kernels step any link
on any device, the dual variables are states of rows, and a run resumes. This one drives it where a
`fit` has all rows. It copies none: a pass visits them where they lie, in one random order. Its
kernels are written by hand, for any number of columns, so a fit loads one and plans no memory. The
optimizer's blocks, plans and kernels by column would multiply the time of such a fit:
`docs/log/linear.md` has figures. So the steps have two texts: those of `links.py` are the
definition, and a test compares the kernels with it.

Differs:

- Classes are 0 or 1. Hinges: Hsieh, Chang, Lin, Keerthi, Sundararajan, ICML 2008, both their
  losses.
- A pass is measured by the duality gap of hinges and quantiles, and else by the squares of
  (derivative - dual variable), with which the gap falls.
- Only rows of the hinge and of quantiles rest. liblinear leaves out rows beyond a threshold.
- Labels are solved in groups of WIDTH columns, the last of fewer, each for itself. Columns of
  zeros make lines of the cache whole, unless there are few; they do not decide when a group has
  converged.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache.cpu.fitting import (
    ASCENTS,
    FEW,
    HINGE,
    HUBER,
    LINE,
    LOGISTIC,
    QUANTILE,
    SQUARED,
    SQUARED_HINGE,
    WIDTH,
    ascend,
    ascend_softmax,
)
from blocklearn.matcache.cpu.pool import Pool
from blocklearn.optimizers.dual_ascent import NOISE, square_of_constant

from .dual_problem import NUMBERS, FloatArray, Link, Problem, Targets

LOSSES = {
    "logistic": LOGISTIC,
    "softmax": LOGISTIC,
    "hinge": HINGE,
    "squared_hinge": SQUARED_HINGE,
    "linear": SQUARED,
    "huber": HUBER,
    "quantile": QUANTILE,
}


class DualSolver:
    """Solves for W and b, pass by pass; labels on several threads, with the same bits on any.

    converged: whether a further pass would gain nothing.
    """

    def __init__(self, problem: Problem, *, intercept: bool) -> None:
        """Start at W = 0, with b the best constants."""
        X, Y, weights, l2 = problem.X, problem.Y, problem.weights, problem.l2
        self.X, self.link, self.intercept = X, problem.link, intercept
        total = float(weights.sum(dtype=np.float64))
        self._weights = np.asarray(weights / (l2 * total), np.float32)
        self._bias = np.float32(intercept * square_of_constant(l2 * total / weights.max()))
        columns = Y.shape[1]
        bounds = [0, columns] if self.link == "softmax" else [*range(0, columns, WIDTH), columns]
        Y = sp.csc_array(Y) if sp.issparse(Y) else np.asarray(Y)
        shapes = np.zeros(columns) if problem.shapes is None else problem.shapes
        self._groups = [
            _Group(self, Y[:, start:stop], shapes[start:stop], weights)
            for start, stop in pairwise(bounds)
        ]

    @property
    def W(self) -> FloatArray:
        """The weights [features x k]."""
        return np.concatenate([group.W for group in self._groups], axis=1)

    @property
    def b(self) -> FloatArray:
        """The intercepts [k]."""
        return np.concatenate([group.b for group in self._groups])

    @property
    def converged(self) -> bool:
        """Whether all groups have converged."""
        return all(group.converged for group in self._groups)

    def passes(self, most: int, tolerance: float, seed: int, threads: int) -> Iterator[int]:
        """Make passes until all columns have converged; yield the number of each, from 1.

        tolerance: a column has converged when the measure of a pass has fallen to this share of
        that of the first pass.
        """
        random = np.random.default_rng(seed)
        pool = Pool(threads)
        try:
            for number in range(1, most + 1):
                self._pass(number, tolerance, random, pool)
                yield number
                if self.converged:
                    return
        finally:
            pool.close()

    def _pass(self, number: int, tolerance: float, random: np.random.Generator, pool: Pool) -> None:
        """Visit the rows that are due to any group, in one order for all."""
        left = [group for group in self._groups if not group.converged]
        due = np.logical_or.reduce([group.due(number) for group in left])
        order = random.permutation(len(due) if due.all() else np.flatnonzero(due))
        pool.run(lambda group, _: left[group].ascend(order, number, tolerance), len(left))


class _Group:
    """Columns that one kernel solves together.

    W: [features x columns]. b: [columns].
    """

    def __init__(
        self, of: DualSolver, Y: Targets, shapes: NDArray[np.floating], weights: FloatArray
    ) -> None:
        rows, k = Y.shape
        dense = Y.toarray() if isinstance(Y, sp.sparray) else Y
        self._of, self._columns = of, k
        if of.link == "softmax":
            self._kernel = ascend_softmax
        elif k < FEW:
            self._kernel = ascend
        else:
            k = -(-k // LINE) * LINE  # whole lines; the further columns have no ones
            self._kernel = ASCENTS[k]
        self._Y = np.zeros((rows, k), np.float32)
        self._Y[:, : self._columns] = dense
        self._W = np.zeros((of.X.shape[1], k), np.float32)
        self._shapes = np.zeros(k, np.float32)
        self._shapes[: self._columns] = shapes
        self._b = np.zeros(k, np.float32)
        if of.link not in NUMBERS:
            mean = np.average(self._Y, axis=0, weights=weights).clip(0.5 / rows, 1.0 - 0.5 / rows)
            self._b[:] = best_constants(mean, of.link)
        if not of.intercept:
            self._b[: self._columns] = 0.0
        self.W, self.b = self._W[:, : self._columns], self._b[: self._columns]
        self._A = np.zeros((rows, k), np.float32)
        self._rests = np.zeros((rows, 2), np.int32)
        self._squares = np.empty(rows, np.float32)  # each kernel sums in an order of its own
        self._moved = np.zeros(k, np.float32)
        self._eta, self._lacks = np.zeros(k, np.float32), np.zeros(k, np.float32)
        self._gaps, self._first = np.zeros(k), np.zeros(k)
        self.converged = False

    def due(self, pass_: int) -> NDArray[np.bool_]:
        """Return which rows a pass visits [n]; a later one also visits those that rest."""
        return self._rests[:, 0] <= pass_

    def ascend(self, order: NDArray[np.int64], pass_: int, tolerance: float) -> None:
        """Make a pass. Only one over all rows tells whether the columns have converged."""
        whole = bool(self.due(pass_).all())
        X, of, first = self._of.X, self._of, not self._first.any()
        self._b -= of._bias * self._moved  # the proximal step's new centre
        self._gaps[:] = 0.0
        self._kernel(
            order, X.indptr, X.indices, X.data, self._Y, of._weights, self._squares, of._bias,
            LOSSES[of.link], self._shapes, self._W, self._b, self._A, self._rests, pass_,
            self._moved, self._eta, self._lacks, self._gaps,
        )  # fmt: skip
        if first:
            self._first[:] = np.maximum(self._gaps, NOISE * of._weights.sum(dtype=np.float64))
        near = bool((self._gaps <= tolerance * self._first)[: self._columns].all())
        self.converged = near and whole
        if near and not whole:
            self._rests[:] = 0  # the next pass checks all rows


def best_constants(mean: NDArray[np.floating], link: Link) -> NDArray[np.floating]:
    """Return the best scores of classes where W = 0, from their shares of ones [k], in 0 to 1.

    >>> best_constants(np.array([0.2, 0.7]), "hinge").tolist()
    [-1.0, 1.0]
    """
    if link == "hinge":
        return np.where(mean < 0.5, -1.0, 1.0)
    if link == "squared_hinge":
        return 2.0 * mean - 1.0
    return np.asarray(np.log(mean) if link == "softmax" else np.log(mean / (1.0 - mean)))
