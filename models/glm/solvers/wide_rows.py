"""Linear models of more columns than rows, in memory, as models of square rows.

The optimum W is a sum of rows (Schoelkopf, Herbrich, Smola, COLT 2001: the representer theorem). So
W = Q' V, where X = L Q, L has as many columns as X has independent rows, and Q Q' = 1. Scores are
L V, and |W| = |V|: this is a problem of the same kind, with few columns. L is the pivoted Cholesky
factor of K = X X', so X is read once at the start, and once for W. `column_products.py` computes K
of dense and of sparse rows.

Differs: where there is an intercept, columns are less a centre, as far as that is needed.
Directions in which rows differ by less than a millionth of their lengths have no part in W.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache.cpu.algebra.blas import one_thread
from blocklearn.matcache.cpu.algebra.lapack import pivoted_cholesky, prepare, triangular
from blocklearn.matcache.cpu.pool import Pool

from ..links import KINKED
from ..sums.column_products import Columns, DenseColumns, SparseColumns
from ..sums.curves import Array, Loss
from ..sums.row_sums import Numbers, Targets
from .interior import InteriorSolver
from .newton import NewtonSolver
from .proximal import Penalties
from .row_products import SquareSums

RANK = 1e-12  # of the largest product of a row by itself: less is rounding


class WideSolver:
    """Solves for W and b, pass by pass, as `NewtonSolver`.

    mean, variance: of columns, with the weights of rows; known after the first pass.
    found: W and b of another solver, where the first step ends; for dense rows.
    """

    def __init__(
        self,
        X: Numbers | sp.csr_array,
        Y: Targets,
        weights: Array | None,
        loss: Loss,
        *,
        l2: float,
        intercept: bool,
    ) -> None:
        """Keep the problem: see `sums_of`, for any loss. l2: of the mean loss."""
        prepare("dpstrf", "dtrsm")
        if weights is not None and not weights.all():  # 0: no row
            heard = np.flatnonzero(weights)
            Y = sp.csr_array(Y)[heard] if sp.issparse(Y) else Y[heard]
            X, weights = X[heard], weights[heard]
        sparse = isinstance(X, sp.csr_array)
        self._columns: Columns = (SparseColumns if sparse else DenseColumns)(X, centred=intercept)
        ones = np.ones(X.shape[0]) if weights is None else weights
        self._shares = ones / ones.sum()
        self._Y, self._weights, self._loss = Y, weights, loss
        self._l2, self._intercept = l2, intercept
        self._known: tuple[Array, NDArray[np.float32]] | None = None  # V with b, and their W
        self.found: tuple[Array, Array] | None = None

    @property
    def converged(self) -> bool:
        """Whether all columns have converged."""
        return self._inner.converged

    @property
    def W(self) -> NDArray[np.float32]:
        """The weights [features x k]."""
        theta = self._inner.theta
        if self._known is None or not np.array_equal(self._known[0], theta):
            V = theta[:-1].copy()
            triangular("solve", self._corner, V, left=True, lower=False, turned=True)
            self._known = theta, self._columns.turned(self._rows, V)
        return self._known[1]

    @property
    def b(self) -> NDArray[np.float32]:
        """The intercepts [k] that belong to the rounded weights."""
        with one_thread:
            return np.asarray(self._inner.theta[-1] - self._columns.centre @ self.W, np.float32)

    def passes(self, most: int, tolerance: float, threads: int) -> Iterator[int]:
        """Make passes: see `NewtonSolver`."""
        pool = Pool(threads)
        try:
            K = self._columns.products(self._shares, pool)
        finally:
            pool.close()
        self.mean, self.variance = self._columns.mean, self._columns.variance
        L, order, rank = pivoted_cholesky(K, RANK)
        if rank == 0:  # all columns are constant
            L, rank = np.zeros((len(K), 1)), 1
        self._rows, self._corner = order[:rank], L[:rank] + np.diag(np.diagonal(L) == 0.0)
        X = np.empty_like(L)
        X[order] = L
        self._inner, columns = self._square(X, K), self._columns
        if (
            self.found
            and isinstance(self._inner, NewtonSolver)
            and isinstance(columns, DenseColumns)
        ):
            W, b = self.found
            V = columns.scores(self._rows, W)
            triangular("solve", self._corner, V, left=True, lower=True, turned=False)
            with one_thread:
                self._inner.first_trial = np.vstack([V, b + columns.centre @ W])
        yield from self._inner.passes(most, tolerance, threads)

    def _square(self, X: Array, K: Array) -> NewtonSolver | InteriorSolver:
        """Return a solver for the rows X in place of those given, whose products are K."""
        given, how = (self._Y, self._weights, self._loss), self._intercept
        if self._loss.link in KINKED:
            penalties = Penalties(0.0, self._l2)
            return InteriorSolver(X, *given, penalties, intercept=how)
        sums = SquareSums(X, K, *given)
        return NewtonSolver(sums, l2=self._l2, intercept=how, diagonal=False)
