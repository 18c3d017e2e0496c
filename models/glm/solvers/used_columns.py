"""Linear models of sparse rows that have fewer numbers than columns.

Hashed features are such rows. Most columns have no number, so their weights are 0, and a solver
need not read them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..sums.curves import Array
from .newton import NewtonSolver


class UsedColumns:
    """A solver for columns that have numbers, as one for all columns.

    mean, variance: of columns; known after the first pass.
    """

    def __init__(self, inner: NewtonSolver, used: NDArray[np.intp], features: int) -> None:
        """Keep the solver of the columns `used`. features: the number of all columns."""
        self._inner, self._used, self._features = inner, used, features

    @property
    def converged(self) -> bool:
        """Whether all columns of targets have converged."""
        return self._inner.converged

    @property
    def W(self) -> NDArray[np.float32]:
        """The weights [features x k]."""
        inner = self._inner.W
        found = np.zeros((self._features, inner.shape[1]), np.float32)
        found[self._used] = inner
        return found

    @property
    def b(self) -> NDArray[np.float32]:
        """The intercepts [k]."""
        return self._inner.b

    @property
    def mean(self) -> Array:
        """The means of columns [features]."""
        return self._spread(self._inner.mean)

    @property
    def variance(self) -> Array:
        """The variances of columns [features]."""
        return self._spread(self._inner.variance)

    def passes(self, most: int, tolerance: float, threads: int) -> Iterator[int]:
        """Make passes: see `NewtonSolver`."""
        yield from self._inner.passes(most, tolerance, threads)

    def _spread(self, inner: Array) -> Array:
        found = np.zeros(self._features)
        found[self._used] = inner
        return found


def used_columns(X: sp.csr_array) -> tuple[NDArray[np.intp], sp.csr_array]:
    """Return which columns of X have numbers, and these columns.

    >>> used, X = used_columns(sp.csr_array(([2.0, 3.0], [5, 1], [0, 1, 2]), shape=(2, 9)))
    >>> used.tolist(), X.toarray().tolist()
    ([1, 5], [[0.0, 2.0], [3.0, 0.0]])
    """
    has = np.zeros(X.shape[1], np.bool_)
    has[X.indices] = True
    used = np.flatnonzero(has)
    places = np.empty(X.shape[1], np.int32)
    places[used] = np.arange(used.size, dtype=np.int32)
    return used, sp.csr_array((X.data, places[X.indices], X.indptr), shape=(X.shape[0], used.size))
