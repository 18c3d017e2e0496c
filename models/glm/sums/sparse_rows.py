"""Products with few sparse rows in memory, in float64: they are short, so one thread makes them.

Columns far from 0 have few numbers that are 0. They are dense ones, less their centre.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache.cpu.pool import Pool

from .curves import Array


class SparseRows:
    """Rows X in memory, and products with them, as those of `DenseRows`.

    Callers give BLAS one thread.
    """

    def __init__(self, X: sp.csr_array, *, far: float) -> None:
        """Keep X [n x features], no column twice in a row. far: see `DenseSums`."""
        X = sp.csr_array(X, dtype=np.float64)
        self.count, self.features = (int(n) for n in X.shape)
        mean, squares = (Z.sum(axis=0) / self.count for Z in (X, X.power(2)))
        deviations = np.sqrt(np.maximum(squares - mean**2, 0.0))
        self._far = (
            np.flatnonzero(abs(mean) > far * deviations) if far < np.inf else np.empty(0, np.intp)
        )
        self.centre = np.zeros(self.features)
        self.centre[self._far] = mean[self._far]
        self._dense: Array = X[:, self._far].toarray() - mean[self._far]
        near = np.ones(self.features)
        near[self._far] = 0.0
        self._X = _scaled(X, near)

    def moments(self, shares: Array, pool: Pool) -> tuple[Array, Array]:
        """Return weighted means of columns and of their squares [features]."""
        mean, squares = self._X.T @ shares, self._X.power(2).T @ shares
        mean[self._far], squares[self._far] = shares @ self._dense, shares @ self._dense**2
        return mean, squares

    def scores(self, theta: Array, pool: Pool) -> Array:
        """Return X W + b, where theta = [W; b]."""
        W = theta[:-1]
        return np.asarray(self._X @ W + self._dense @ W[self._far] + theta[-1])

    def turned(self, v: Array, pool: Pool) -> Array:
        """Return (X, 1)'v."""
        found = np.append(self._X.T @ v, v.sum())
        found[:-1][self._far] = v @ self._dense
        return found

    def squares(self, q: Array, pool: Pool) -> Array:
        """Return (X, 1)' diag(q) (X, 1)."""
        rows = np.hstack([self._X.toarray(), np.ones((self.count, 1))])
        rows[:, self._far] = self._dense
        return np.asarray(rows.T @ (q[:, None] * rows))

    def products(self, d: Array, pool: Pool) -> Array:
        """Return X diag(d) X'."""
        K: Array = (_scaled(self._X, d) @ self._X.T).toarray()
        K += (self._dense * d[self._far]) @ self._dense.T
        return K


def _scaled(X: sp.csr_array, d: Array) -> sp.csr_array:
    """Return X diag(d)."""
    return sp.csr_array((X.data * d[X.indices], X.indices, X.indptr), shape=X.shape)
