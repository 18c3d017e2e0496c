"""Sums over dense rows in memory: losses, gradients and Hessians of linear models."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.pool import Pool

from .curves import Array, Loss
from .row_sums import AtScores, Numbers, RowSums, Targets

AT_ONCE = 2**16  # numbers of a chunk of a Hessian
LONGER = 4  # times as long are chunks of a pass, whose calls of NumPy take as long as products
LOOKED_AT = 1024  # rows that tell the centre of columns
SAMPLE = 1000, 10  # rows of a Hessian that is no more than a guide, and further ones for a column


class DenseSums(RowSums):
    """Sums over all rows of a dense X."""

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
        self.single = X.dtype == np.float32 and self.centre is None

    def at(
        self, theta: Array, pool: Pool, *, rough: bool = False, columns: bool = False
    ) -> AtScores:
        """Return means: see `RowSums.at`."""
        k, features = self.targets, self.features
        size = LONGER * self._chunk * (2 if rough else 1)
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
                add_squares(x, weights, into[0][0])
                return
            theta, which = at
            eta = x @ theta[:-1].astype(x.dtype, copy=False) + theta[-1]
            bends = self._curve.bends(eta, self._y(own), self._shape)[:, which]
            if weights is not None:
                bends *= weights[:, None]
            for column in range(count):
                add_squares(x, bends[:, column], into[0][column])

        size = max(4 * wide, self._chunk)
        found = self._summed(pool, add, [(count, wide, wide)], some, size)[0]
        if step > 1:
            weight = some if self._weights is None else self._weights[::step].sum()
            found *= self.total / max(weight, 1e-300)
        return found

    @property
    def _chunk(self) -> int:
        """The number of rows whose numbers stay in the cache."""
        return rows_at_once(max(self.features, self.targets))

    @property
    def _step(self) -> int:
        """The distance between rows of a Hessian that is a guide; that of squares is more."""
        if self.loss.link == "linear":
            return 1
        step = max(1, self.rows // (SAMPLE[0] + SAMPLE[1] * self.features))
        return step if self._weights is None or self._weights[::step].any() else 1

    @property
    def sample(self) -> int:
        """The number of rows of a Hessian that is a guide."""
        return -(-self.rows // self._step)

    def _wide(self, part: slice, room: Array) -> Array:
        return widened(self._X[part], self.centre, room)

    def _numbers(self, rows: int) -> int:
        return rows * max(self.features, self.targets)


def centre_of(X: Numbers, many: float) -> Array | None:
    """Return a centre of columns, where one is so many deviations from 0; else None.

    Rows evenly spaced tell it: a centre need not be the mean, only near.
    """
    if many == np.inf:
        return None
    some = np.asarray(X[:: -(-len(X) // LOOKED_AT)], np.float64)
    mean = some.mean(axis=0)
    far = abs(mean) > many * some.std(axis=0)
    return np.where(far, mean, 0.0) if far.any() else None


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
