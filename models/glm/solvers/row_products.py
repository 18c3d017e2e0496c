"""Hessians of as many columns as rows, inverted by way of the products of rows K = X X'.

With T = diag(weights bend / total)^1/2, Woodbury's identity is

    (X' T T X + l2)^-1 = (1 - X' T (l2 + T K T)^-1 T X) / l2,

so a new Hessian is a Cholesky factor, and takes no product with X. The intercept has no penalty: it
is eliminated first (Golub, Van Loan, Matrix Computations, 2.1.4 and 3.2.11).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.algebra.lapack import cholesky, prepare, triangular
from blocklearn.matcache.cpu.pool import Pool

from ..sums.curves import Array, Loss
from ..sums.dense_sums import DenseSums
from ..sums.row_sums import AtScores, Targets
from .first_matrices import MOST_BYTES, Standing

LATE = 32  # passes after which, and after twice as many, and so on, all have new Hessians
CHEAP = 1e7  # n^3 of all columns that take no longer than a pass
LEAST = 1e-10  # of l2, relative to the sum of the diagonal of T K T: rounding stays small


class SquareSums(DenseSums):
    """Sums over rows X of float64, whose products K [n x n] are known."""

    def __init__(self, X: Array, K: Array, Y: Targets, weights: Array | None, loss: Loss) -> None:
        """Keep the data: see `NewtonSolver`."""
        super().__init__(X, Y, weights, loss, far=np.inf)
        self.X, self.K, self.single = X, K, False

    def weighted_bends(self, theta: Array) -> Array:
        """Return shares of rows in all weights, times second derivatives at theta, [n x k]."""
        eta = self.X @ theta[:-1] + theta[-1]
        return self.weighted(self._curve.bends(eta, self._y(slice(None)), self._shape))

    def weighted(self, bends: Array) -> Array:
        """Return bends [n x columns], times shares of rows in all weights."""
        shares = 1.0 if self._weights is None else self._weights[:, None]
        return bends * shares / self.total


class Root(NamedTuple):
    """The inverse of a Hessian.

    T: [n]. C: the Cholesky factor of l2 + T K T. A: the solution of C C' A = T. rest: T'A.
    """

    l2: float
    T: Array
    C: Array
    A: Array
    rest: float


class RowProducts:
    """Inverses of Hessians: one for all columns at first, then one of each."""

    exact = spent = False

    def __init__(self, sums: SquareSums, bends: Array, l2: float) -> None:
        """Keep the second derivatives of losses [k] where W = 0."""
        prepare("dpotrf", "dtrsm")
        self._sums, self._bends, self._l2 = sums, bends.copy(), l2

    def moments(self, theta: Array, pool: Pool) -> AtScores:
        """Return means: see `FirstMatrix`."""
        return self._sums.at_start(theta, pool)

    def begin(self, pool: Pool, within: Array, silent: NDArray[np.bool_]) -> None:
        """Factorize the first Hessian."""
        self._intercept = not silent[-1]
        ones = self._sums.weighted(np.ones((self._sums.rows, 1)))
        self._roots = [self._root(ones[:, 0], self._l2 / float(self._bends.mean()))]

    def solved(self, G: Array) -> Array:
        """Return H^-1 G."""
        G = G / self._bends
        one = len(self._roots) == 1
        parts = [G] if one else [G[:, column, None] for column in range(G.shape[1])]
        return np.hstack([self._times(*each) for each in zip(self._roots, parts, strict=True)])

    def renewed(self, pool: Pool, number: int, at: Standing, tolerance: float) -> bool:
        """Factorize the Hessians of where the columns are now; in each pass, if that is cheap.

        Those of a softmax lack its classes' products, which pairs of steps tell in time, and those
        of huber are of parabolas above the loss, so its last steps are by pairs, too.
        """
        link, k, n = self._sums.loss.link, self._bends.size, self._sums.rows
        if link == "linear" or number == 1 or 8 * k * n**2 > MOST_BYTES:
            return False
        often = link != "softmax" and (k == 1 or k * n**3 <= CHEAP)
        if (link == "huber" and number > LATE) or not often:
            often = number >= LATE and number & (number - 1) == 0
        if not often:
            return False
        if len(self._roots) < self._bends.size:
            self._roots = self._roots * self._bends.size
        weights = self._sums.weighted_bends(at.theta)
        for column in np.flatnonzero(np.broadcast_to(at.left, self._bends.shape)):
            self._roots[column] = self._root(weights[:, column], self._l2)
            self._bends[column] = 1.0
        return True

    def _root(self, weights: Array, l2: float) -> Root:
        """Return the inverse for T^2 = weights."""
        K = self._sums.K
        l2 = max(l2, LEAST * float(weights @ np.diagonal(K)), 1e-300)
        T = np.sqrt(weights)
        C = K * T
        C *= T[:, None]
        np.einsum("ii->i", C)[:] += l2
        cholesky(C)
        A = _inverse_times(C, T[:, None])[:, 0]
        return Root(l2, T, C, A, float(T @ A))

    def _times(self, root: Root, G: Array) -> Array:
        l2, T, C, A, rest = root
        X, G, gradient = self._sums.X, G[:-1], G[-1]
        Z = _inverse_times(C, T[:, None] * (X @ G))
        b = np.zeros(len(gradient))
        if self._intercept and rest > 0.0:
            b = (gradient - T @ Z) / (l2 * rest)
            Z += l2 * A[:, None] * b
        return np.vstack([(G - X.T @ (T[:, None] * Z)) / l2, b])


def _inverse_times(C: Array, B: Array) -> Array:
    """Return (C C')^-1 B."""
    found = np.array(B, order="C")
    triangular("solve", C, found, left=True, lower=True, turned=False)
    triangular("solve", C, found, left=True, lower=False, turned=True)
    return found
