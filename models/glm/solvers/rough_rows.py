"""Squared errors of fewer dense rows than columns, by products of rows of float32.

The optimum is W = X'A (`wide_rows.py`), where with s the shares of rows in all weights

    (K + diag(l2 / s)) A + 1 b = Y,   K = X X',   sum of A = 0 where there is an intercept b.

K of float32 takes half the time of K of float64. Its Cholesky factor is a guess of the inverse, by
which conjugate gradients with X in float64 (Golub, Van Loan, Matrix Computations, 11.5) come to the
optimum in 1 to 4 passes. That holds where l2 is above the rounding of K, or rows are about
independent. Elsewhere another solver takes over.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.algebra.blas import matmul, one_thread
from blocklearn.matcache.cpu.algebra.lapack import rough_cholesky, rough_solve
from blocklearn.matcache.cpu.pool import Pool

from ..sums.column_products import columns_at_once, variance_of
from ..sums.curves import Array
from ..sums.row_sums import Numbers

ROUNDING = 2e-7  # of K, relative to the sum of its diagonal
INDEPENDENT = 1.5  # most squares of K beside its diagonal, in squares of that: rows may be so
SAMPLE = 64  # rows that tell
MOST = 6  # passes
EXACT = 1e-7  # of the first distance from the optimum


class RoughRows:
    """Solves for W and b, pass by pass, as `NewtonSolver`.

    mean, variance: of columns, with the weights of rows; known after the first pass.
    spent: whether another solver takes over.
    """

    def __init__(
        self, X: Numbers, Y: Array, weights: Array | None, *, l2: float, intercept: bool
    ) -> None:
        """Keep the problem. Y: [n x k]. weights: above 0; None: 1. l2: of the mean loss."""
        self._X, self._Y, self._intercept = X, np.asarray(Y, np.float64), intercept
        n, features = X.shape
        self._shares = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
        with np.errstate(all="ignore"):
            self._penalties = l2 / self._shares
            self._centre = X.mean(axis=0) if intercept else np.zeros(features)
        self._chunk = columns_at_once(n)
        self._W = np.zeros((features, self._Y.shape[1]))
        self._b = np.zeros(self._Y.shape[1])
        self.converged = self.spent = False

    @property
    def promising(self) -> bool:
        """Whether the factor of float32 is near enough to the inverse."""
        every = max(1, len(self._X) // SAMPLE)
        with np.errstate(all="ignore"), one_thread:
            x = np.asarray(self._X[::every] - self._centre, np.float32)
            K = x @ x.T
            own = float(np.diagonal(K).mean(dtype=np.float64))
            others = float(np.square(K, dtype=np.float64).mean()) - own**2 / len(K)
            independent = others * len(self._X) <= INDEPENDENT * own**2
            small = ROUNDING * own * len(self._X) > self._penalties.min()
        return bool(np.isfinite(own) and (independent or not small))

    @property
    def W(self) -> NDArray[np.float32]:
        """The weights [features x k]."""
        return np.asarray(self._W, np.float32)

    @property
    def b(self) -> NDArray[np.float32]:
        """The intercepts [k] that belong to the rounded weights."""
        with one_thread:
            return np.asarray(self._b - self._centre @ self.W, np.float32)

    def passes(self, most: int, tolerance: float, threads: int) -> Iterator[int]:
        """Make passes until the optimum is reached, whatever the tolerance; yield their numbers."""
        pool = Pool(threads)
        try:
            self._factorize(pool)
        finally:
            pool.close()
        if self.spent:
            return
        left = self._Y.copy()
        self._level(left)
        along = guess = self._guessed(left)
        first = length = _dot(left, guess)
        for number in range(1, most + 1):
            if not np.isfinite(length).all():
                self.spent = True
                return
            with np.errstate(all="ignore"), one_thread:
                scores, turned = self._products(along, moments=number == 1)
                change = scores + self._penalties[:, None] * along
                step = np.nan_to_num(length / _dot(along, change))
                self._W += step * turned
                left -= step * change
                self._level(left)
                guess = self._guessed(left)
                before, length = length, _dot(left, guess)
                along = guess + np.nan_to_num(length / before) * along
            self.converged = bool((length <= EXACT**2 * first).all())
            self.spent = not self.converged and number == MOST
            yield number
            if self.converged:
                return

    def _factorize(self, pool: Pool) -> None:
        """Factorize K + diag(penalties) in float32."""
        n, features = self._X.shape
        K, part = np.zeros((n, n), np.float32), np.empty((n, n), np.float32)
        with np.errstate(all="ignore"):
            for begin in range(0, features, self._chunk):
                some = slice(begin, begin + self._chunk)
                x = np.asarray(self._X[:, some] - self._centre[some], np.float32)
                matmul(pool, x, x.T, part, symmetric=True)
                K += part
            least = ROUNDING * float(np.trace(K, dtype=np.float64))
            np.einsum("ii->i", K)[:] += np.maximum(self._penalties, least)
        self._factor, self.spent = K, not rough_cholesky(K)
        if not self.spent:
            self._ones = self._solved(np.ones((n, 1)))

    def _products(self, V: Array, *, moments: bool) -> tuple[Array, Array]:
        """Return K V and X'V; moments: set those of columns."""
        features = self._X.shape[1]
        scores, turned = np.zeros_like(V), np.empty((features, V.shape[1]))
        if moments:
            self.mean, self.variance = np.empty((2, features))
        for begin in range(0, features, self._chunk):
            some = slice(begin, begin + self._chunk)
            x = self._X[:, some].astype(np.float64)
            x -= self._centre[some]
            np.matmul(x.T, V, out=turned[some])
            scores += x @ turned[some]
            if moments:
                mean = self._shares @ x
                squares = self._shares @ np.multiply(x, x, out=x)
                self.mean[some] = self._centre[some] + mean
                self.variance[some] = variance_of(squares - mean**2, self.mean[some])
        if self._intercept:
            turned[self.variance == 0.0] = 0.0  # constant columns
        return scores, turned

    def _level(self, left: Array) -> None:
        """Move the means of what is left of Y into b."""
        if self._intercept:
            means = left.mean(axis=0)
            self._b += means
            left -= means

    def _guessed(self, left: Array) -> Array:
        """Return the guess of the solution for what is left, of sum 0 with an intercept."""
        found = self._solved(left)
        if self._intercept:
            found -= self._ones * (found.sum(axis=0) / self._ones.sum())
        return found

    def _solved(self, B: Array) -> Array:
        found = np.array(B.T, np.float32, order="C")
        rough_solve(self._factor, found)
        return np.asarray(found.T, np.float64)


def _dot(a: Array, b: Array) -> Array:
    """Return products of columns [k]."""
    return np.asarray(np.einsum("nk,nk->k", a, b))
