"""Products of rows X X' by columns, and moments of columns; threads change no bits.

Columns of many numbers are less a centre where there is an intercept, and are multiplied in chunks
of dense ones. The others are too far from constant to need a centre, and their products are sparse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache.cpu.algebra.blas import matmul, one_thread
from blocklearn.matcache.cpu.pool import Pool

from .curves import Array
from .row_sums import Numbers

CONSTANT = 1e-7  # a column that varies less, relative to its size, is constant
AT_ONCE = 2**18  # numbers of a chunk of columns
MANY = 1 / 8  # share of rows in which a column has a number, to be multiplied as a dense one


class Columns(Protocol):
    """The columns of X less their centre.

    centre, mean, variance: [features], known after `products`, as are weights of rows in the last
    two.
    """

    centre: Array
    mean: Array
    variance: Array

    def products(self, shares: Array, pool: Pool) -> Array:
        """Return X X', and set the moments. shares: of rows in all weights [n]."""

    def turned(self, rows: NDArray[np.integer], V: Array) -> NDArray[np.float32]:
        """Return the product of some rows, turned, and V [rows x k]."""


def columns_at_once(rows: int) -> int:
    """Return the number of columns of a chunk."""
    return max(64, AT_ONCE // rows)


class DenseColumns:
    """Columns of dense rows, or of CSC, made dense in chunks. See `Columns`."""

    def __init__(self, X: Numbers | sp.csc_array, *, centred: bool) -> None:
        """Keep X [n x features]. centred: there is an intercept, so constants tell nothing."""
        self._X, self._centred = X, centred

    def products(self, shares: Array, pool: Pool) -> Array:
        """Return X X', and set the moments."""
        n, features = self._X.shape
        K, part = np.zeros((n, n)), np.empty((n, n))
        self.centre, self.mean, self.variance = np.zeros((3, features))
        self._silent = np.zeros(features, bool)
        for some in self._chunks():
            x = np.array(self._given(some), np.float64)
            if self._centred:
                self.centre[some] = x.mean(axis=0)
                x -= self.centre[some]
            mean, squares = shares @ x, shares @ (x * x)
            self.mean[some] = self.centre[some] + mean
            self.variance[some] = variance_of(squares - mean**2, self.mean[some])
            if self._centred:
                self._silent[some] = constant = self.variance[some] == 0.0
                x[:, constant] = 0.0
            matmul(pool, x, x.T, part, symmetric=True)
            K += part
        return K

    def turned(self, rows: NDArray[np.integer], V: Array) -> NDArray[np.float32]:
        """Return the product of some rows, turned, and V."""
        found = np.empty((self._X.shape[1], V.shape[1]), np.float32)
        whole = np.zeros((self._X.shape[0], V.shape[1]))
        whole[rows] = V
        with one_thread:
            for some in self._chunks():
                x = np.array(self._given(some), np.float64)
                x -= self.centre[some]
                found[some] = x.T @ whole
        found[self._silent] = 0.0
        return found

    def scores(self, rows: NDArray[np.integer], W: Array) -> Array:
        """Return the product of some rows and W [features x k]."""
        W = np.where(self._silent[:, None], 0.0, W)
        found = np.zeros((self._X.shape[0], W.shape[1]))
        with one_thread:
            for some in self._chunks():
                found += (np.asarray(self._given(some), np.float64) - self.centre[some]) @ W[some]
        return np.asarray(found[rows])

    def _given(self, some: slice) -> Numbers:
        x = self._X[:, some]
        return x.toarray() if isinstance(x, sp.csc_array) else x

    def _chunks(self) -> Iterator[slice]:
        (rows, features) = self._X.shape
        size = columns_at_once(rows)
        return (slice(begin, begin + size) for begin in range(0, features, size))


class SparseColumns:
    """Columns of sparse rows, those of many numbers by `DenseColumns`. See `Columns`."""

    def __init__(self, X: sp.csr_array, *, centred: bool) -> None:
        """Keep X [n x features], no column twice in a row. centred: as in `DenseColumns`."""
        (n, features), columns = X.shape, sp.csc_array(X)
        self._many = np.diff(columns.indptr) >= MANY * n
        self._dense = DenseColumns(columns[:, self._many], centred=centred)
        self._few = sp.csr_array(columns[:, ~self._many], dtype=np.float64)
        self.centre, self.mean, self.variance = np.zeros((3, features))

    def products(self, shares: Array, pool: Pool) -> Array:
        """Return X X', and set the moments."""
        few, dense, many = self._few, self._dense, self._many
        K = dense.products(shares, pool)
        self.centre[many], self.mean[many] = dense.centre, dense.mean
        self.variance[many] = dense.variance
        self.mean[~many] = mean = few.T @ shares
        self.variance[~many] = variance_of(few.power(2).T @ shares - mean**2, mean)
        K += (few @ few.T).toarray()
        return K

    def turned(self, rows: NDArray[np.integer], V: Array) -> NDArray[np.float32]:
        """Return the product of some rows, turned, and V."""
        found = np.empty((len(self._many), V.shape[1]), np.float32)
        found[self._many] = self._dense.turned(rows, V)
        found[~self._many] = self._few[rows].T @ V
        return found


def variance_of(found: Array, mean: Array) -> Array:
    """Return the variances found, or 0 where they are rounding."""
    return np.where(found <= (CONSTANT * mean) ** 2, 0.0, found)
