"""Sums over sparse rows in memory: losses and gradients of linear models.

Columns are centred without being changed: X - m has the scores X W - m W, and its gradient is that
of X less m times the sum of residuals. Products are float64, of X as it is.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import cpu
from blocklearn.matcache.cpu.pool import Pool

from .curves import Array, Loss
from .row_sums import AtScores, Chunks, RowSums, Targets, summed

AT_ONCE = 2**14  # scores of a chunk


class SparseSums(RowSums):
    """Sums over all rows of X: CSR of float32 or float64, no column twice in a row."""

    def __init__(
        self,
        X: sp.csr_array,
        Y: Targets,
        weights: Array | None,
        loss: Loss,
        *,
        centred: bool,
    ) -> None:
        """Keep the data: see `NewtonSolver`. centred: whether the centre is the mean."""
        super().__init__(X.shape, Y, weights, loss)
        self._X, self._width = (X.indptr, X.indices, X.data), self.targets
        shares = (np.ones(self.rows) if weights is None else weights) / self.total
        sums = np.zeros((self.features, 2))
        cpu.sum_columns(*self._X, shares, sums)
        self._mean, self._squares = sums.T
        if centred:
            self.centre = self._mean
            self._mean = np.zeros(self.features)
            self._squares = np.maximum(self._squares - self.centre**2, 0.0)

    def at(
        self, theta: Array, pool: Pool, *, rough: bool = False, columns: bool = False
    ) -> AtScores:
        """Return means: see `RowSums.at`. None is rough."""
        k, centre, shift = self.targets, self.centre, self._shift(theta)

        def add(part: slice, room: Array, into: list[Array]) -> None:
            eta = room[: part.stop - part.start]
            cpu.multiply_rows(part.start, part.stop, *self._X, theta, eta)
            eta += shift
            losses, residuals = self._curve.losses(eta, self._y(part), self._shape)
            if self._weights is not None:
                own = self._weights[part, None]
                losses *= own
                residuals *= own
            into[0] += losses.sum(axis=0)
            into[1][-1] += residuals.sum(axis=0)
            cpu.add_turned_rows(part.start, part.stop, *self._X, residuals, into[1])

        shapes = [(k,), (self.features + 1, k)]
        losses, gradient = self._summed(pool, add, shapes, self.rows, self._size)
        if centre is not None:
            gradient[:-1] -= centre[:, None] * gradient[-1]
        found = AtScores(losses, gradient)
        return found._replace(columns=self._mean, squares=self._squares) if columns else found

    def curve(self, theta: Array, pool: Pool) -> Array | None:
        """Return second derivatives: see `RowSums.curve`."""
        if self.loss.link == "linear":
            return None
        found, shift = np.empty((self.rows, self.targets)), self._shift(theta)

        def add(part: slice, room: Array, into: list[Array]) -> None:
            eta = found[part]
            cpu.multiply_rows(part.start, part.stop, *self._X, theta, eta)
            eta += shift
            eta[:] = self._curve_at(eta, part)

        self._summed(pool, add, [], self.rows, self._size)
        return found

    def curved(self, V: Array, curve: Array | None, pool: Pool) -> Array:
        """Return the product of the Hessians and V: see `RowSums.curved`."""
        shift = self._shift(V)

        def add(part: slice, room: Array, into: list[Array]) -> None:
            U = room[: part.stop - part.start]
            cpu.multiply_rows(part.start, part.stop, *self._X, V, U)
            U += shift
            self._bend(U, curve, part)
            into[0][-1] += U.sum(axis=0)
            cpu.add_turned_rows(part.start, part.stop, *self._X, U, into[0])

        how = Chunks(self.rows, self._size, self._numbers(self.rows), self._width)
        found = summed(pool, add, [V.shape], how)[0]
        if self.centre is not None:
            found[:-1] -= self.centre[:, None] * found[-1]
        return found

    def _shift(self, theta: Array) -> Array:
        """Return what the intercept and the centre add to scores [k]."""
        found: Array = theta[-1]
        return found if self.centre is None else found - self.centre @ theta[:-1]

    @property
    def _size(self) -> int:
        return max(64, AT_ONCE // self.targets)

    def _numbers(self, rows: int) -> int:
        return int(self._X[2].size) + rows * self.targets
