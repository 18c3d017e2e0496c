"""Sums over rows in memory, in chunks: losses and gradients of linear models.

The shape of the data alone decides the chunks and the stripes of chunks that are summed up one
after another. Each is computed on one thread of BLAS, so bits do not depend on threads.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache.cpu.algebra.blas import one_thread
from blocklearn.matcache.cpu.pool import Pool

from .curves import CURVES, Array, Loss, probabilities, robust_start

Numbers: TypeAlias = NDArray[np.floating]  # or whole numbers: of any type
Targets: TypeAlias = Numbers | sp.sparray
Adder: TypeAlias = Callable[[slice, Array, list[Array]], None]

STRIPES = 16  # most sums that threads make at a time
MOST_SUMS = 2**25  # numbers of all stripes' sums
WORTH = 2**21  # numbers that are worth a stripe


class AtScores(NamedTuple):
    """Weighted means over rows.

    losses: [k]. gradient: [features + 1 x k], b's last. columns, squares: [features], of X less its
    centre, where they are asked for.
    """

    losses: Array
    gradient: Array
    columns: Array | None = None
    squares: Array | None = None


class RowSums(ABC):
    """Sums over all rows.

    loss: of a row. total: of the weights of rows. centre: of columns [features]; None: 0.
    single: whether products may be float32.
    """

    centre: Array | None = None
    single = False
    _width: int

    def __init__(
        self, shape: tuple[int, ...], Y: Targets, weights: Array | None, loss: Loss
    ) -> None:
        """Keep targets and weights: see `NewtonSolver`. shape: of X."""
        self.loss, self._weights = loss, weights
        self._curve, self._shape = CURVES[loss.link], loss.shape
        if sp.issparse(Y):
            Y = sp.csr_array(Y)
            if not Y.has_canonical_format:
                Y = Y.copy()
                Y.sum_duplicates()
        self._Y = Y
        self._kept: Array | None = None  # sparse Y, once it is read as a whole
        self.rows, self.features, self.targets = (int(n) for n in (*shape, Y.shape[1]))
        self.total = float(self.rows if weights is None else weights.sum())

    def target_means(self) -> Array:
        """Return the weighted mean of each column of Y."""
        Y = self._Y
        sums = Y.sum(axis=0, dtype=np.float64) if self._weights is None else Y.T @ self._weights
        return np.asarray(sums).ravel() / self.total

    def robust_starts(self, *, intercept: bool) -> Array:
        """Return the constants to start at, and the mean bends there, [2 x k]: `robust_start`."""
        weights, found = np.ones(self.rows) if self._weights is None else self._weights, []
        for column in range(self.targets):
            y = self._Y[:, [column]]
            y = np.asarray(y.toarray() if isinstance(y, sp.sparray) else y, np.float64).ravel()
            found.append(robust_start(y, weights, self._shape, intercept=intercept))
        return np.array(found).T

    @abstractmethod
    def at(
        self, theta: Array, pool: Pool, *, rough: bool = False, columns: bool = False
    ) -> AtScores:
        """Return means at scores X W + b, theta = [W; b].

        rough: products are float32. columns: also those of columns and of their squares.
        """

    def at_start(self, theta: Array, pool: Pool) -> AtScores:
        """Return means at scores X W + b, with those of columns; set `single`."""
        return self.at(theta, pool, columns=True)

    @abstractmethod
    def curve(self, theta: Array, pool: Pool) -> Array | None:
        """Return shares of rows in all weights, times second derivatives at theta, [n x k].

        Of a softmax: probabilities alone. None: shares alone, of squares.
        """

    @abstractmethod
    def curved(self, V: Array, curve: Array | None, pool: Pool) -> Array:
        """Return the product of the Hessians of losses and V [features + 1 x k]."""

    @abstractmethod
    def _numbers(self, rows: int) -> int:
        """Return how many numbers are read of so many rows."""

    def _curve_at(self, eta: Array, part: slice) -> Array:
        """Return `curve` of the scores of some rows."""
        if self.loss.link == "softmax":
            return probabilities(eta)[1].T
        return self._curve.bends(eta, self._y(part), self._shape) * self._shares_of(part)

    def _bend(self, U: Array, curve: Array | None, part: slice) -> None:
        """Turn changes U of the scores of some rows into changes of their residuals, in place."""
        if curve is None:
            U *= self._shares_of(part)
            return
        U *= curve[part]
        if self.loss.link == "softmax":
            U -= curve[part] * U.sum(axis=1, keepdims=True)
            U *= self._shares_of(part)

    def _shares_of(self, part: slice) -> Array | float:
        """Return the shares of some rows in all weights."""
        return (1.0 if self._weights is None else self._weights[part, None]) / self.total

    def _y(self, part: slice) -> Array:
        """Return targets of some rows; those in CSR without SciPy's own cuts, which are slow."""
        first, stop, step = part.indices(self.rows)
        if not isinstance(self._Y, sp.sparray):
            return np.asarray(self._Y[part], np.float64)
        if step > 1:
            return np.asarray(self._Y[part].toarray(), np.float64)
        if self._kept is not None:
            return self._kept[first:stop]
        starts = self._Y.indptr[first : stop + 1]
        entries = slice(starts[0], starts[-1])
        y = np.zeros((self.targets, stop - first))
        rows = np.repeat(np.arange(stop - first), np.diff(starts))
        y[self._Y.indices[entries], rows] = self._Y.data[entries]
        if stop - first == self.rows:
            self._kept = y.T
        return y.T

    def _summed(
        self, pool: Pool, add: Adder, shapes: Sequence[tuple[int, ...]], rows: int, size: int
    ) -> list[Array]:
        """Return sums over rows of what `add` adds, divided by `total`: see `summed`."""
        found = summed(pool, add, shapes, Chunks(rows, size, self._numbers(rows), self._width))
        for into in found:
            into /= self.total
        return found


class Chunks(NamedTuple):
    """How rows are read.

    rows: their number. at_once: that of a chunk. numbers: of all rows. width: of the room of a row.
    """

    rows: int
    at_once: int
    numbers: int
    width: int


def summed(
    pool: Pool, add: Adder, shapes: Sequence[tuple[int, ...]], chunks: Chunks
) -> list[Array]:
    """Return sums over rows of what `add` adds.

    add: takes rows, room [at least rows x width], and what to add to.
    """
    rows, size, numbers, width = chunks
    if rows <= size:
        found = [np.zeros(shape) for shape in shapes]
        with one_thread, np.errstate(all="ignore"):
            add(slice(0, rows), np.empty((rows, width)), found)
        return found
    room_for = MOST_SUMS // max(1, sum(math.prod(shape) for shape in shapes))
    stripes = max(1, min(STRIPES, 1 + numbers // WORTH, -(-rows // size), room_for))
    each = -(-rows // (stripes * size)) * size  # rows of a stripe
    parts = [[np.zeros(shape) for shape in shapes] for _ in range(stripes)]

    def stripe(number: int, thread: int) -> None:
        one_thread.lower_here()
        room = np.empty((min(size, rows), width))
        stop = min(rows, (number + 1) * each)
        with np.errstate(all="ignore"):
            for begin in range(number * each, stop, size):
                add(slice(begin, min(stop, begin + size)), room, parts[number])

    with one_thread:
        pool.run(stripe, stripes)
    for part in parts[1:]:
        for into, more in zip(parts[0], part, strict=True):
            into += more
    return parts[0]
