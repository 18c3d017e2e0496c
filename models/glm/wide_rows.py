"""Linear models of more columns than rows, in memory, as models of square rows.

The optimum W is a sum of rows (Schoelkopf, Herbrich, Smola, COLT 2001: the representer theorem). So
W = Q' V, where X = L Q, L has as many columns as X has independent rows, and Q Q' = 1. Scores are
L V, and |W| = |V|: this is a problem of the same kind, with few columns. L is the pivoted Cholesky
factor of K = X X', so X is read once at the start, and once for W.

Differs: X is less a centre of its columns where there is an intercept. Directions in which rows
differ by less than a millionth of their lengths have no part in W.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache.cpu.blas import matmul, one_thread
from blocklearn.matcache.cpu.lapack import pivoted_cholesky, prepare, triangular
from blocklearn.matcache.cpu.pool import Pool

from .curves import Array, Loss
from .interior import InteriorSolver
from .links import KINKED
from .newton import CONSTANT, NewtonSolver
from .proximal import Penalties
from .row_products import SquareSums
from .row_sums import Numbers, Targets

AT_ONCE = 2**19  # numbers of a chunk of columns
RANK = 1e-12  # of the largest product of a row by itself: less is rounding


class WideSolver:
    """Solves for W and b, pass by pass, as `NewtonSolver`.

    mean, variance: of columns, with the weights of rows; known after the first pass.
    """

    def __init__(
        self,
        X: Numbers,
        Y: Targets,
        weights: Array | None,
        loss: Loss,
        *,
        l2: float,
        intercept: bool,
    ) -> None:
        """Keep the problem: see `sums_of`. l2: of the mean loss."""
        prepare("dpstrf", "dtrsm")
        self._heard: slice | NDArray[np.intp] = slice(None)
        if weights is not None and not weights.all():  # 0: no row
            self._heard = heard = np.flatnonzero(weights)
            Y = sp.csr_array(Y)[heard] if sp.issparse(Y) else Y[heard]
            weights = weights[heard]
        self._X, self._Y, self._weights, self._loss = X, Y, weights, loss
        self._l2, self._intercept = l2, intercept
        self._known: tuple[Array, NDArray[np.float32]] | None = None  # V with b, and their W

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
            found = np.empty((self._X.shape[1], V.shape[1]), np.float32)
            with one_thread():
                for some in self._chunks():
                    found[some] = self._columns(some)[self._rows].T @ V
            found[self._silent] = 0.0
            self._known = theta, found
        return self._known[1]

    @property
    def b(self) -> NDArray[np.float32]:
        """The intercepts [k] that belong to the rounded weights."""
        return np.asarray(self._inner.theta[-1] - self._centre @ self.W, np.float32)

    def passes(self, most: int, tolerance: float, threads: int) -> Iterator[int]:
        """Make passes: see `NewtonSolver`."""
        pool = Pool(threads)
        try:
            K = self._multiply(pool)
        finally:
            pool.close()
        L, order, rank = pivoted_cholesky(K, RANK)
        if rank == 0:  # all columns are constant
            L, rank = np.zeros((len(K), 1)), 1
        self._rows, self._corner = order[:rank], L[:rank] + np.diag(np.diagonal(L) == 0.0)
        X = np.empty_like(L)
        X[order] = L
        self._inner = self._square(X, K)
        yield from self._inner.passes(most, tolerance, threads)

    def _square(self, X: Array, K: Array) -> NewtonSolver | InteriorSolver:
        """Return a solver for the rows X in place of those given, whose products are K."""
        given, how = (self._Y, self._weights, self._loss), self._intercept
        if self._loss.link in KINKED:
            penalties = Penalties(0.0, self._l2)
            return InteriorSolver(X, *given, penalties, intercept=how)
        sums = SquareSums(X, K, *given)
        return NewtonSolver(sums, l2=self._l2, intercept=how, diagonal=False)

    def _multiply(self, pool: Pool) -> Array:
        """Return K = X X', and set the moments of columns."""
        n, features = self._Y.shape[0], self._X.shape[1]
        K, part = np.zeros((n, n)), np.empty((n, n))
        ones = np.ones(n) if self._weights is None else self._weights
        shares = ones / ones.sum()
        self._centre, self.mean, self.variance = np.zeros((3, features))
        self._silent = np.zeros(features, bool)
        for some in self._chunks():
            if self._intercept:
                self._centre[some] = self._X[:, some][self._heard].mean(axis=0, dtype=np.float64)
            x = self._columns(some)
            mean, squares = shares @ x, shares @ (x * x)
            self.mean[some] = self._centre[some] + mean
            variance = squares - mean**2
            constant = variance <= (CONSTANT * self.mean[some]) ** 2
            self.variance[some] = np.where(constant, 0.0, variance)
            if self._intercept:
                self._silent[some] = constant
                x[:, constant] = 0.0
            matmul(pool, x, x.T, part, symmetric=True)
            K += part
        return K

    def _columns(self, some: slice) -> Array:
        return np.asarray(self._X[:, some][self._heard] - self._centre[some], np.float64)

    def _chunks(self) -> Iterator[slice]:
        n, features = self._Y.shape[0], self._X.shape[1]
        size = max(64, AT_ONCE // n)
        return (slice(begin, begin + size) for begin in range(0, features, size))
