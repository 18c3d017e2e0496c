"""Sums over dense rows in memory: losses, gradients and Hessians of linear models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.pool import Pool

from .curves import Array, Loss
from .row_sums import AtScores, Chunks, Numbers, RowSums, Targets, summed

Places: TypeAlias = NDArray[np.intp]
AT_ONCE = 2**16  # numbers of a chunk of a Hessian
LONGER = 4  # times as long are chunks of a pass of one target: calls take as long as its products
LOOKED_AT = 256  # rows that tell the centre of columns
ABOUT = 0.5, 2.0  # times the squares of each column a sample has: few rows may have most of them
SAMPLE = 1000, 10  # rows of a Hessian that is no more than a guide, and further ones for a column
MOST_COPIED = 2**28  # bytes of a copy of X in float32
USUAL = 1e-24, 1e24  # mean squares of columns that float32 holds, with those far from the mean
FLAT = 1e-4  # of mean squares: with less variance, float32 does not hold a column that varies


class DenseSums(RowSums):
    """Sums over all rows of a dense X, or of a copy of float32 where a guide will do.

    sample: rows of a Hessian: all of squares, else enough for a guide, if they tell all columns.
    """

    def __init__(
        self,
        X: Numbers,
        Y: Targets,
        weights: Array | None,
        loss: Loss,
        *,
        far: float,
    ) -> None:
        """Keep the data: see `NewtonSolver`.

        far: mean of a column, in its deviations, from which on it is centred.
        """
        super().__init__(X.shape, Y, weights, loss)
        self._X, self._width = X, self.features
        self.centre = centre_of(X, far)
        self._narrow = X if X.dtype == np.float32 and self.centre is None else None
        copied = loss.link != "linear" and 4 * X.size <= MOST_COPIED
        self.single = self._narrow is not None or copied
        enough = SAMPLE[0] + SAMPLE[1] * self.features
        some = loss.link != "linear" and self.rows >= 2 * enough
        self.sample = enough if some else self.rows

    def at(
        self, theta: Array, pool: Pool, *, rough: bool = False, columns: bool = False
    ) -> AtScores:
        """Return means: see `RowSums.at`."""
        k, features, read = self.targets, self.features, self._reader(pool, rough=rough)
        size = self._at_once(rough=rough)
        ones = np.ones(min(size, self.rows))

        def add(part: slice, room: Array, into: list[Array]) -> None:
            x = read(part, room)
            eta = scores_of(x, theta)
            losses, residuals = self._curve.losses(eta, self._y(part), self._shape)
            own = ones[: len(x)] if self._weights is None else self._weights[part]
            into[0] += own @ losses
            into[1][-1] += own @ residuals
            if self._weights is not None:
                residuals *= own[:, None]
            into[1][:-1] += x.T @ residuals.astype(x.dtype, copy=False)
            if columns:
                own = own.astype(x.dtype, copy=False)
                into[2] += own @ x
                into[3] += own @ (x * x)

        shapes = [(k,), (features + 1, k), (features,), (features,)][: 4 if columns else 2]
        return AtScores(*self._summed(pool, add, shapes, self.rows, size))

    def hessians(self, pool: Pool, at: tuple[Array, Places] | None, *, rough: bool) -> Array:
        """Return means of bend x x' [columns x features + 1 x features + 1].

        Those of squares are of all rows, others of some.

        at: theta = [W; b], and the columns of Y wanted; None: bends are 1, for any column.
        rough: products are float32.
        """
        columns = [self._weights] if at is None else self._bends(*at, pool, rough=rough).T
        return np.stack([self._squares(bends, pool, rough=rough) for bends in columns])

    def curve(self, theta: Array, pool: Pool) -> Array | None:
        """Return second derivatives: see `RowSums.curve`."""
        if self.loss.link == "linear":
            return None
        found, read = np.empty((self.rows, self.targets)), self._reader(pool, rough=self.single)

        def add(part: slice, room: Array, into: list[Array]) -> None:
            found[part] = self._curve_at(scores_of(read(part, room), theta), part)

        self._summed(pool, add, [], self.rows, self._at_once(rough=self.single))
        return found

    def curved(self, V: Array, curve: Array | None, pool: Pool) -> Array:
        """Return the product of the Hessians and V: see `RowSums.curved`."""
        read = self._reader(pool, rough=self.single)

        def add(part: slice, room: Array, into: list[Array]) -> None:
            x = read(part, room)
            U = scores_of(x, V).astype(np.float64, copy=False)
            self._bend(U, curve, part)
            into[0][-1] += U.sum(axis=0)
            into[0][:-1] += x.T @ U.astype(x.dtype, copy=False)

        how = Chunks(
            self.rows, self._at_once(rough=self.single), self.rows * self._width, self._width
        )
        return summed(pool, add, [V.shape], how)[0]

    def _bends(self, theta: Array, which: Places, pool: Pool, *, rough: bool) -> Array:
        """Return second derivatives of the losses of rows, times their weights, [n x which]."""
        found, read = np.empty((self.rows, len(which))), self._reader(pool, rough=rough)

        def add(part: slice, room: Array, into: list[Array]) -> None:
            eta = scores_of(read(part, room), theta)
            found[part] = self._curve.bends(eta, self._y(part), self._shape)[:, which]
            if self._weights is not None:
                found[part] *= self._weights[part, None]

        self._summed(pool, add, [], self.rows, LONGER * self._chunk)
        return found

    def _squares(self, bends: Array | None, pool: Pool, *, rough: bool) -> Array:
        """Return the mean of bend x x' over rows. bends: [n], times weights of rows; None: 1."""
        read, wide, rows = self._reader(pool, rough=rough), self.features + 1, None
        if self.sample < self.rows:
            rows, bends = spread(self._shares if bends is None else bends, self.sample)

        def add(part: slice, room: Array, into: list[Array]) -> None:
            x = read(part if rows is None else rows[part], room)
            add_squares(x, None if bends is None else bends[part], into[0])

        count, size = self.rows if rows is None else len(rows), max(4 * wide, self._chunk)
        return self._summed(pool, add, [(wide, wide)], count, size)[0]

    def at_start(self, theta: Array, pool: Pool) -> AtScores:
        """Return means: see `RowSums.at_start`. They are of float32 where that holds X."""
        rough = self.single and self.loss.link != "linear"
        found = self.at(theta, pool, rough=rough, columns=True)
        assert found.columns is not None and found.squares is not None  # they are asked for
        if self.single and not self.usual(found.columns, found.squares):
            self.single, self._narrow = False, None
            found = self.at(theta, pool, columns=True)
        if self.sample < self.rows and not self._told(found, pool):
            self.sample = self.rows
        return found

    def _told(self, means: AtScores, pool: Pool) -> bool:
        """Return whether a sample has about its share of the squares of each column."""
        assert means.squares is not None
        rows, stand_for = spread(self._shares, self.sample)

        def add(part: slice, room: Array, into: list[Array]) -> None:
            x = self._wide(rows[part], room)
            into[0] += stand_for[part] @ (x * x)

        found = self._summed(pool, add, [(self.features,)], len(rows), self._chunk)[0]
        least, most = (share * means.squares for share in ABOUT)
        return bool(((found >= least) & (found <= most)).all())

    @property
    def _shares(self) -> Array:
        """The weights of rows [n]."""
        return np.ones(self.rows) if self._weights is None else self._weights

    def usual(self, mean: Array, squares: Array) -> bool:
        """Return whether float32 holds weights, and X with what tells its numbers apart.

        mean, squares: of columns [features], as float32 found them.
        """
        if self._weights is not None and not USUAL[0] < self._weights.max() < USUAL[1]:
            return False
        X, base = self._X, 0.0 if self.centre is None else self.centre
        zero = (squares == 0.0) & (X[0] == base)
        if not (zero | ((squares > USUAL[0]) & (squares < USUAL[1]))).all():
            return False
        flat = np.flatnonzero(squares - mean**2 <= FLAT * squares)
        return all((X[:, column] == X[0, column]).all() for column in flat)

    def _reader(self, pool: Pool, *, rough: bool) -> Callable[[slice | Places, Array], Numbers]:
        """Return what reads rows less the centre; where X is not such rows itself, of a copy."""
        if not rough:
            return self._wide
        narrow = self._narrow
        if narrow is None:
            self._narrow = narrow = np.empty(self._X.shape, np.float32)

            def copy(part: slice, room: Array, into: list[Array]) -> None:
                np.copyto(narrow[part], self._wide(part, room), casting="same_kind")

            self._summed(pool, copy, [], self.rows, LONGER * self._chunk)
        return lambda part, room: narrow[part]

    def _at_once(self, *, rough: bool) -> int:
        """Return the number of rows of a chunk of a pass."""
        return (LONGER if self.targets == 1 else 1) * self._chunk * (2 if rough else 1)

    @property
    def _chunk(self) -> int:
        """The number of rows whose numbers stay in the cache."""
        return rows_at_once(max(self.features, self.targets))

    def _wide(self, part: slice | Places, room: Array) -> Array:
        return widened(self._X[part], self.centre, room)

    def _numbers(self, rows: int) -> int:
        return rows * max(self.features, self.targets)


def centre_of(X: Numbers, many: float) -> Array | None:
    """Return a centre of columns, where one is so many deviations from 0; else None.

    Rows evenly spaced tell it: a centre need not be the mean, only near.
    """
    if many == np.inf:
        return None
    some = X[:: -(-len(X) // LOOKED_AT)]
    near, sums = some[0].astype(np.float64), np.zeros((2, X.shape[1]))
    size = rows_at_once(X.shape[1])
    room = np.empty((size, X.shape[1]))
    for begin in range(0, len(some), size):
        x = widened(some[begin : begin + size], near, room)
        sums += x.sum(axis=0), np.einsum("nf,nf->f", x, x)
    mean, squares = sums / len(some)
    deviations = np.sqrt(np.maximum(squares - mean**2, 0.0))
    mean += near
    far = abs(mean) > many * deviations
    return np.where(far, mean, 0.0) if far.any() else None


def spread(shares: Array, most: int) -> tuple[Places, Array]:
    """Return at most so many rows, spread evenly by their shares [n], and what each stands for.

    >>> spread(np.array([1.0, 1.0, 0.0, 4.0]), 3)
    (array([0, 3]), array([2., 4.]))
    """
    sums = np.cumsum(shares)
    each = sums[-1] / most
    rows = np.searchsorted(sums, (np.arange(most) + 0.5) * each).clip(max=len(sums) - 1)
    found, counts = np.unique(rows, return_counts=True)
    return found, counts * each


def scores_of(x: Numbers, theta: Array) -> Array:
    """Return x W + b, where theta = [W; b], by a product in the type of x."""
    return np.asarray(x @ theta[:-1].astype(x.dtype, copy=False) + theta[-1])


def rows_at_once(width: int) -> int:
    """Return the number of rows whose numbers stay in the cache."""
    return max(64, AT_ONCE // width)


def widened(X: Numbers, centre: Array | None, room: Array) -> Array:
    """Return rows in float64, less the centre of columns, in the room given."""
    if centre is None and X.dtype == np.float64:
        return np.asarray(X, np.float64)
    x = room[: len(X)]
    if centre is None:
        np.copyto(x, X)
    else:
        np.subtract(X, centre, out=x)
    return x


def add_squares(x: Numbers, weights: Array | None, into: Array) -> None:
    """Add the sum of weight (x, 1) (x, 1)' over rows to a matrix; weights: [n], None: 1."""
    if weights is not None:
        x = x * np.sqrt(weights, dtype=np.float64).astype(x.dtype)[:, None]
        edge, corner = (x.T @ np.sqrt(weights).astype(x.dtype)), weights.sum()
    else:
        edge, corner = x.sum(axis=0, dtype=np.float64), float(len(x))
    into[:-1, :-1] += x.T @ x
    into[-1, :-1] += edge
    into[:-1, -1] += edge
    into[-1, -1] += corner
