"""Sums over the rows of dense data, in chunks: losses, gradients and Hessians of linear models.

The shape of the data alone decides the chunks and the stripes of chunks that are summed up one
after another. Each is computed on one thread of BLAS, so bits do not depend on threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache.cpu.blas import limited
from blocklearn.matcache.cpu.pool import Pool

from .curves import CURVES, Array, Loss

Numbers: TypeAlias = NDArray[np.floating]  # or whole numbers: of any type
Targets: TypeAlias = Numbers | sp.sparray

AT_ONCE = 2**16  # numbers of a chunk
STRIPES = 16  # most sums that threads make at a time
MOST_SUMS = 2**25  # numbers of all stripes' sums
WORTH = 2**21  # numbers that are worth a stripe
FAR = 4.0  # mean of a column, in its deviations, from which on it is centred
LOOKED_AT = 1024  # rows that tell the centre of columns
SAMPLE = 1000, 10  # rows of a Hessian that is no more than a guide, and further ones for a column


class AtScores(NamedTuple):
    """Weighted means over rows.

    losses: [k]. gradient: [features + 1 x k], b's last. columns, squares: [features], of X less its
    centre, where they are asked for.
    """

    losses: Array
    gradient: Array
    columns: Array | None = None
    squares: Array | None = None


class RowSums:
    """Sums over all rows.

    total: of the weights of rows. centre: of columns [features]; None: 0.
    """

    def __init__(
        self,
        X: Numbers,
        Y: Targets,
        weights: Array | None,
        loss: Loss,
        *,
        centred: bool,
    ) -> None:
        """Keep the data: see `NewtonSolver`. centred: whether columns may have a centre."""
        self._X, self._weights = X, weights
        self._curve, self._shape = CURVES[loss.link], loss.shape
        self._Y = sp.csr_array(Y) if sp.issparse(Y) else Y
        self.rows, self.features, self.targets = (int(n) for n in (*X.shape, Y.shape[1]))
        self.total = float(self.rows if weights is None else weights.sum())
        self.centre = centre_of(X) if centred else None
        self.single = X.dtype == np.float32 and self.centre is None

    def target_means(self) -> Array:
        """Return the weighted mean of each column of Y."""
        Y = self._Y
        sums = Y.sum(axis=0, dtype=np.float64) if self._weights is None else Y.T @ self._weights
        return np.asarray(sums).ravel() / self.total

    def at(
        self, theta: Array, pool: Pool, *, rough: bool = False, columns: bool = False
    ) -> AtScores:
        """Return means at scores X W + b, theta = [W; b].

        rough: products are float32, as X. columns: also those of columns and of their squares.
        """
        k, features = self.targets, self.features
        size = 2 * self._chunk if rough else self._chunk
        ones = np.ones(size)

        def add(part: slice, room: Array, into: list[Array]) -> None:
            x = self._X[part] if rough else self._wide(part, room)
            W = theta[:-1].astype(x.dtype, copy=False)
            losses, residuals = self._curve.losses(x @ W + theta[-1], self._y(part), self._shape)
            own = ones[: len(x)] if self._weights is None else self._weights[part]
            into[0] += own @ losses
            into[1][-1] += own @ residuals
            if self._weights is not None:
                residuals *= own[:, None]
            into[1][:-1] += x.T @ residuals.astype(x.dtype, copy=False)
            if columns:
                into[2] += own @ x
                into[3] += own @ (x * x)

        shapes = [(k,), (features + 1, k), (features,), (features,)][: 4 if columns else 2]
        return AtScores(*self._summed(pool, add, shapes, self.rows, size))

    def hessians(
        self, pool: Pool, at: tuple[Array, NDArray[np.intp]] | None, *, exact: bool
    ) -> Array:
        """Return means of bend x x' [columns x features + 1 x features + 1].

        at: theta = [W; b], and the columns of Y wanted; None: bends are 1, for any column.
        exact: of all rows, in float64; else of some, in the type of X.
        """
        rows, wide = self.rows, self.features + 1
        step = 1 if exact else self._step
        some = -(-rows // step)
        count = 1 if at is None else len(at[1])
        single = self.single and not exact

        def add(part: slice, room: Array, into: list[Array]) -> None:
            own = slice(part.start * step, min(rows, part.stop * step), step)
            x = np.ascontiguousarray(self._X[own]) if single else self._wide(own, room)
            weights = None if self._weights is None else self._weights[own]
            if at is None:
                self._add_squares(x, weights, into[0][0])
                return
            theta, which = at
            eta = x @ theta[:-1].astype(x.dtype, copy=False) + theta[-1]
            bends = self._curve.bends(eta, self._y(own), self._shape)[:, which]
            if weights is not None:
                bends *= weights[:, None]
            for column in range(count):
                self._add_squares(x, bends[:, column], into[0][column])

        size = max(4 * wide, self._chunk)
        found = self._summed(pool, add, [(count, wide, wide)], some, size)[0]
        if step > 1:
            weight = some if self._weights is None else self._weights[::step].sum()
            found *= self.total / max(weight, 1e-300)
        return found

    @property
    def _chunk(self) -> int:
        """The number of rows whose numbers stay in the cache."""
        return max(64, AT_ONCE // max(self.features, self.targets))

    @property
    def _step(self) -> int:
        """The distance between rows of a Hessian that is a guide."""
        step = max(1, self.rows // (SAMPLE[0] + SAMPLE[1] * self.features))
        return step if self._weights is None or self._weights[::step].any() else 1

    @property
    def sample(self) -> int:
        """The number of rows of a Hessian that is a guide."""
        return -(-self.rows // self._step)

    def _add_squares(self, x: Numbers, weights: Array | None, into: Array) -> None:
        if weights is not None:
            x = x * np.sqrt(weights, dtype=np.float64).astype(x.dtype)[:, None]
            edge, corner = (x.T @ np.sqrt(weights).astype(x.dtype)), weights.sum()
        else:
            edge, corner = x.sum(axis=0, dtype=np.float64), float(len(x))
        into[:-1, :-1] += x.T @ x
        into[-1, :-1] += edge
        into[:-1, -1] += edge
        into[-1, -1] += corner

    def _wide(self, part: slice, room: Array) -> Array:
        """Return rows in float64, centred, in the room given."""
        X = self._X[part]
        if self.centre is None and X.dtype == np.float64:
            return np.asarray(X, np.float64)
        x = room[: len(X)]
        if self.centre is None:
            np.copyto(x, X)
        else:
            np.subtract(X, self.centre, out=x)
        return x

    def _y(self, part: slice) -> Array:
        y = self._Y[part]
        return np.asarray(y.toarray() if isinstance(y, sp.sparray) else y, np.float64)

    def _summed(
        self,
        pool: Pool,
        add: Callable[[slice, Array, list[Array]], None],
        shapes: list[tuple[int, ...]],
        rows: int,
        size: int,
    ) -> list[Array]:
        """Return sums over rows of what `add` adds, divided by `total`. size: rows of a chunk."""
        worth = rows * max(self.features, self.targets) // WORTH
        room_for = MOST_SUMS // sum(math.prod(shape) for shape in shapes)
        stripes = max(1, min(STRIPES, 1 + worth, -(-rows // size), room_for))
        each = -(-rows // (stripes * size)) * size  # rows of a stripe
        parts = [[np.zeros(shape) for shape in shapes] for _ in range(stripes)]

        def stripe(number: int, thread: int) -> None:
            limited.lower_here()
            room = np.empty((min(size, rows), self.features))
            stop = min(rows, (number + 1) * each)
            with np.errstate(all="ignore"):
                for begin in range(number * each, stop, size):
                    add(slice(begin, min(stop, begin + size)), room, parts[number])

        with limited:
            pool.run(stripe, stripes)
        for part in parts[1:]:
            for into, more in zip(parts[0], part, strict=True):
                into += more
        for into in parts[0]:
            into /= self.total
        return parts[0]


def centre_of(X: Numbers) -> Array | None:
    """Return a centre of columns, where one is far from 0 for its deviation; else None.

    Rows evenly spaced tell it: a centre need not be the mean, only near.
    """
    some = np.asarray(X[:: -(-len(X) // LOOKED_AT)], np.float64)
    mean = some.mean(axis=0)
    far = abs(mean) > FAR * some.std(axis=0)
    return np.where(far, mean, 0.0) if far.any() else None
