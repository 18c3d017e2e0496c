"""Products with dense rows in memory, in float64 and in chunks; threads change no bits."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.algebra.blas import matmul
from blocklearn.matcache.cpu.pool import Pool

from .column_products import columns_at_once
from .curves import Array
from .dense_sums import add_squares, centre_of, rows_at_once, widened
from .row_sums import Adder, Chunks, Numbers, summed


class DenseRows:
    """Rows X in memory, and products with them; scores have a constant, too."""

    def __init__(self, X: Numbers, *, far: float) -> None:
        """Keep X [n x features]. far: see `DenseSums`."""
        self._X, self.centre = X, centre_of(X, far)
        self.count, self.features = (int(n) for n in X.shape)
        self._size = rows_at_once(self.features)

    def chosen(self, rows: NDArray[np.intp]) -> DenseRows:
        """Return a copy of some rows."""
        found = copy(self)
        found._X, found.count = self._X[rows], len(rows)
        return found

    def moments(self, shares: Array, pool: Pool) -> tuple[Array, Array]:
        """Return weighted means of columns and of their squares [features]."""

        def add(part: slice, room: Array, into: list[Array]) -> None:
            x = widened(self._X[part], self.centre, room)
            into[0] += shares[part] @ x
            into[1] += shares[part] @ (x * x)

        mean, squares = self._summed(pool, add, [(self.features,), (self.features,)], self._size)
        return mean, squares

    def scores(self, theta: Array, pool: Pool) -> Array:
        """Return X W + b, where theta = [W; b]."""
        found = np.empty(self.count)

        def add(part: slice, room: Array, into: list[Array]) -> None:
            np.matmul(widened(self._X[part], self.centre, room), theta[:-1], out=found[part])

        self._summed(pool, add, [], self._size)
        found += theta[-1]
        return found

    def turned(self, v: Array, pool: Pool) -> Array:
        """Return (X, 1)'v."""

        def add(part: slice, room: Array, into: list[Array]) -> None:
            into[0][:-1] += v[part] @ widened(self._X[part], self.centre, room)
            into[0][-1] += v[part].sum()

        return self._summed(pool, add, [(self.features + 1,)], self._size)[0]

    def squares(self, q: Array | None, pool: Pool) -> Array:
        """Return (X, 1)' diag(q) (X, 1). q: None: 1."""

        def add(part: slice, room: Array, into: list[Array]) -> None:
            x = widened(self._X[part], self.centre, room)
            add_squares(x, None if q is None else q[part], into[0])

        wide = self.features + 1
        return self._summed(pool, add, [(wide, wide)], max(4 * wide, self._size))[0]

    def products(self, d: Array, pool: Pool) -> Array:
        """Return X diag(d) X', for d not negative."""
        K, part = np.zeros((self.count, self.count)), np.empty((self.count, self.count))
        roots, size = np.sqrt(d), columns_at_once(self.count)
        for begin in range(0, self.features, size):
            some = slice(begin, begin + size)
            centre = 0.0 if self.centre is None else self.centre[some]
            x = (self._X[:, some] - centre) * roots[some]
            matmul(pool, x, x.T, part, symmetric=True)
            K += part
        return K

    def _summed(
        self, pool: Pool, add: Adder, shapes: list[tuple[int, ...]], size: int
    ) -> list[Array]:
        numbers = self.count * self.features
        return summed(pool, add, shapes, Chunks(self.count, size, numbers, self.features))
