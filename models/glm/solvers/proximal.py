"""Linear models of rows in memory with an L1 penalty, by proximal Newton steps.

Yuan, Ho, Lin, JMLR 13 (2012); Friedman, Hastie, Tibshirani, J. Stat. Software 33 (2010). A step
minimises, with the derivatives r and the second ones h of the mean loss by each row's score,

    r'X d + 1/2 d'X' diag(h) X d + l1 |W + d|_1 + l2 / 2 |W + d|^2

by coordinate descent, and goes as far along d as the objective gains enough.

Differs:

- b has no penalty, and is at its optimum for each d. So columns need not be centred.
- A step moves the columns with a weight, and of the others those that gain most: at first `FEW`,
  then as many as have a weight. All columns decide whether a fit has converged.
- Coordinate descent ends when its moves are small beside the distance that is left. Of squares,
  whose Hessian is the same everywhere, a step of a few columns moves all, and ends at the optimum.
- Targets are problems of their own. Classes of a softmax take steps one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache import cpu
from blocklearn.matcache.cpu.pool import Pool

from ..sums.curves import CURVES, Array, Loss, best_constants, robust_start
from ..sums.row_sums import Numbers, Targets

FEW = 64  # columns without a weight that a step may move
INNER = 0.1  # of the distance from the optimum: coordinate descent ends where its moves are smaller
CYCLES = 50  # over the columns in a step
DECREASE = 1e-4  # share of what a step promises that it must gain (Armijo)
TRIALS = 40  # shorter steps in a row
ROUNDING = 1e-13  # of the objective
CONSTANT = 1e-14  # share of a column's square about its mean: with less it is constant
LEAST = 1e-12  # tolerance: below is rounding
NOISE = 1e-13  # of derivatives of the loss, by rounding


class Columns(NamedTuple):
    """The columns of X, one after another: see `matcache/cpu/kernels/coordinate_descent.py`."""

    starts: NDArray[np.integer]
    rows: NDArray[np.integer]
    values: Numbers

    @classmethod
    def of(cls, X: Numbers | sp.csr_array) -> Columns:
        """Return the columns of X: dense, or CSR of float32 or 64, no column twice in a row."""
        if isinstance(X, sp.csr_array):
            turned = sp.csc_array(X)
            return cls(turned.indptr, turned.indices, turned.data)
        starts = np.arange(X.shape[1] + 1, dtype=np.int64) * X.shape[0]
        values: Numbers = X if X.dtype == np.float32 else np.asarray(X, np.float64)
        return cls(starts, np.empty(0, np.int32), values.T.ravel())

    def turned(self, v: Array) -> Array:
        """Return X'v."""
        found = np.empty(len(self.starts) - 1)
        cpu.multiply_columns(*self, v, found)
        return found

    def moments(self, which: NDArray[np.int64], bends: Array) -> tuple[Array, Array]:
        """Return X' bends, and the sums of bends x^2, of some columns."""
        sums, squares = np.empty((2, len(which)))
        cpu.column_moments(*self, which, bends, sums, squares)
        return sums, squares


class Penalties(NamedTuple):
    """Penalties of the mean loss."""

    l1: float
    l2: float

    def of(self, w: Array) -> float:
        """Return the penalty of some weights."""
        return self.l1 * float(abs(w).sum()) + 0.5 * self.l2 * float(w @ w)


class ProximalSolver:
    """Solves for W and b, pass by pass, with the same bits on any number of threads.

    A pass is a step of each column that has not converged.

    columns: of X. shares: of rows in all weights [n]. mean, squares, variance: of columns, with
    these.
    """

    def __init__(
        self,
        X: Numbers | sp.csr_array,
        Y: Targets,
        weights: Array | None,
        loss: Loss,
        penalties: Penalties,
        *,
        intercept: bool,
    ) -> None:
        """Start at W = 0, with b the best constants, or near them (huber).

        X, Y, weights, loss: see `sums_of`.
        """
        self.columns, self.loss = Columns.of(X), loss
        self.penalties, self.intercept = penalties, intercept
        y: Array = np.asarray(Y.toarray() if isinstance(Y, sp.sparray) else Y, np.float64)
        weights = np.ones(len(y)) if weights is None else weights
        total = float(weights.sum())
        self.shares = weights / total
        self.mean, self.squares = self.columns.moments(np.arange(X.shape[1]), self.shares)
        self.variance = np.maximum(self.squares - self.mean**2, 0.0)
        starts: Array = np.zeros(y.shape[1])
        if loss.link == "huber":
            each = [
                robust_start(column, weights, loss.shape, intercept=intercept)[0] for column in y.T
            ]
            starts = np.array(each)
        elif intercept:
            mean: Array = self.shares @ y
            starts = best_constants(mean, total, loss.link)
        size = y.shape[1] if loss.link == "softmax" else 1
        self._problems = [
            _Problem(self, y[:, c : c + size], starts[c : c + size])
            for c in range(0, y.shape[1], size)
        ]

    @property
    def converged(self) -> bool:
        """Whether all columns have converged."""
        return all(problem.converged for problem in self._problems)

    @property
    def W(self) -> NDArray[np.float32]:
        """The weights [features x k]."""
        return np.hstack([problem.W for problem in self._problems]).astype(np.float32)

    @property
    def b(self) -> NDArray[np.float32]:
        """The intercepts [k]."""
        return np.hstack([problem.b for problem in self._problems]).astype(np.float32)

    def passes(self, most: int, tolerance: float, threads: int) -> Iterator[int]:
        """Make passes until all columns have converged; yield the number of each, from 1.

        tolerance: a column has converged when the norm of its least subgradient, in units in which
        the Hessian's diagonal was 1 at first, has fallen to this share of the first one.
        """
        pool, tolerance = Pool(threads), max(tolerance, LEAST)
        try:
            for number in range(1, most + 1):
                self._pass(pool, tolerance)
                yield number
        finally:
            pool.close()

    def _pass(self, pool: Pool, tolerance: float) -> None:
        """Make steps of the columns that have not converged."""
        left = [problem for problem in self._problems if not problem.converged]
        pool.run(lambda place, _: left[place].sweep(tolerance), len(left))


class _Problem:
    """A column of W, or those of a softmax.

    W: [features x columns]. b: [columns].
    """

    def __init__(self, of: ProximalSolver, Y: Array, starts: Array) -> None:
        """Start at W = 0 and b = starts [columns]."""
        self._columns, self._shares, self._Y = of.columns, of.shares, Y
        self._curve, self._shape = CURVES[of.loss.link], of.loss.shape
        self._penalties, self._intercept = of.penalties, of.intercept
        self.W, self.b = np.zeros((len(of.columns.starts) - 1, Y.shape[1])), starts.copy()
        self._eta = np.tile(self.b, (len(Y), 1))
        self._loss, self._residuals = self._at(self._eta)
        self._same = (of.mean, of.squares) if of.loss.link == "linear" else None  # at all scores
        self._units: list[Array] = []  # of columns: the Hessian's diagonal at first
        self._bend: list[float] = []  # the same of b
        self._first, self.converged = 0.0, False

    def sweep(self, tolerance: float) -> None:
        """Make a step in each column."""
        begins = not self._units
        noise = self._noise() if begins else 0.0
        norm = np.sqrt(sum(self._step(column, tolerance) ** 2 for column in range(self.b.size)))
        if begins:
            self._first = norm if norm > noise else np.inf  # it may start at the optimum
        self.converged |= bool(norm <= tolerance * self._first)

    def _noise(self) -> float:
        """Return how far from the optimum a start may seem that is there, by rounding."""
        bends = self._curve.bends(self._eta, self._Y, self._shape)
        sizes = abs(self._residuals) + bends * abs(self._eta)
        squares = np.divide(sizes * sizes, bends, out=np.zeros_like(sizes), where=bends > 0.0)
        return NOISE * float(np.sqrt((self._shares @ squares).sum()))

    def _step(self, column: int, tolerance: float) -> float:
        """Make a step in a column; return how far it was from the optimum before."""
        columns, (l1, l2), w = self._columns, self._penalties, self.W[:, column]
        slopes = self._shares * self._residuals[:, column]
        bends = self._shares * self._bends(column)
        rest, total = (float(slopes.sum()), float(bends.sum())) if self._intercept else (0.0, 0.0)
        lacks = self._subgradient(columns.turned(slopes) + l2 * w, w)
        every = self._same
        if len(self._units) == column:
            every = every or columns.moments(np.arange(w.size), bends)
            self._units.append(self._curvature(*every, total))
            self._bend.append(total)
        units = self._units[column]
        lacks = np.where(units > 0.0, lacks * lacks / np.where(units > 0.0, units, 1.0), 0.0)
        lack = float(lacks.sum()) + (rest * rest / self._bend[column] if rest else 0.0)
        goal = (tolerance * (self._first or np.sqrt(lack))) ** 2
        whole = self._same is not None and w.size <= FEW
        if whole and self._first and lack <= goal:
            return float(np.sqrt(lack))
        which = np.arange(w.size) if whole else _wanted(w, lacks)
        sums, squares = (of[which] for of in every) if every else columns.moments(which, bends)
        before, v = w[which], slopes.copy()
        after = before.copy()
        cpu.descend(
            *columns, which, bends, v, sums, self._curvature(sums, squares, total), after, l1, l2,
            total, rest, CYCLES, INNER**2 * (goal if whole else lack),
        )  # fmt: skip
        steps = after - before
        moved = np.zeros(len(slopes))
        cpu.add_columns(*columns, which, steps, moved)
        constant = -(rest + float(sums @ steps)) / total if total > 0.0 else 0.0
        moved += constant
        self._go(column, which, steps, constant, moved, float(slopes @ moved))
        return float(np.sqrt(lack))

    def _bends(self, column: int) -> Array:
        """Return second derivatives by the scores of a column; those of a softmax take no exp."""
        if self.b.size > 1:
            mean = self._residuals[:, column] + self._Y[:, column]
            return mean * (1.0 - mean)
        return self._curve.bends(self._eta, self._Y, self._shape)[:, 0]

    def _subgradient(self, gradient: Array, w: Array) -> Array:
        """Return the sizes of the least subgradients of columns."""
        l1 = self._penalties.l1
        return np.where(
            w == 0.0, np.maximum(abs(gradient) - l1, 0.0), abs(gradient + l1 * np.sign(w))
        )

    def _curvature(self, sums: Array, squares: Array, total: float) -> Array:
        """Return the Hessian's diagonal with b at its optimum, 0 of constant columns."""
        within = squares - sums * sums / total if total > 0.0 else squares
        return np.where(within > CONSTANT * squares, within + self._penalties.l2, 0.0)

    def _go(
        self,
        column: int,
        which: NDArray[np.int64],
        steps: Array,
        constant: float,
        moved: Array,
        slope: float,
    ) -> None:
        """Go along a direction as far as the objective gains enough.

        steps: of the weights `which`. constant: of b. moved: of scores. slope: of the loss.
        """
        w, penalties = self.W[which, column], self._penalties
        before = penalties.of(w)
        promised = slope + penalties.l2 * float(w @ steps)
        promised += penalties.l1 * float(abs(w + steps).sum() - abs(w).sum())
        share, eta = 1.0, self._eta.copy()
        for _ in range(TRIALS):
            eta[:, column] = self._eta[:, column] + share * moved
            loss, residuals = self._at(eta)
            gained = loss - self._loss + penalties.of(w + share * steps) - before
            if gained <= DECREASE * share * promised + ROUNDING * abs(self._loss):
                self.W[which, column] = w + share * steps
                self.b[column] += share * constant
                self._eta, self._loss, self._residuals = eta, loss, residuals
                return
            share *= 0.5

    def _at(self, eta: Array) -> tuple[float, Array]:
        """Return the mean loss at scores, and its derivatives by them."""
        with np.errstate(all="ignore"):
            losses, residuals = self._curve.losses(eta, self._Y, self._shape)
        return float((self._shares @ losses).sum()), residuals


def _wanted(w: Array, lacks: Array) -> NDArray[np.int64]:
    """Return the columns that a step moves."""
    known = np.flatnonzero(w)
    others = np.flatnonzero((w == 0.0) & (lacks > 0.0))
    most = max(FEW, known.size)
    if others.size > most:
        others = others[np.argpartition(-lacks[others], most - 1)[:most]]
    return np.sort(np.concatenate([known, others]))
