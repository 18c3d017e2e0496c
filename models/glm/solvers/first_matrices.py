"""The matrices that Newton's method begins with: a Hessian of each column, or its diagonal."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.algebra.lapack import prepare
from blocklearn.matcache.cpu.pool import Pool

from ..sums.curves import Array
from ..sums.dense_sums import DenseSums
from ..sums.row_sums import AtScores, RowSums
from .factors import inverse_root

LATER = "logistic", "poisson"  # losses of one target that begin with a diagonal
LEAST = 1e-5  # l2 below which columns that nearly agree may seem to be at the optimum by a diagonal
FIRST = 3  # passes that count as those before the first Hessian
ENOUGH = 5  # passes that squares take at most with a Hessian of float32
PATIENCE = 2  # times as many passes as before the last Hessian come before the next
# Times, in products of a Hessian: a pass, and a target's share of a number of X in it; a number of
# X in a Hessian; a number of the cube of columns in its factor.
PASS, SHARE, SQUARING, FACTORING = 1.5e7, 8, 100, 10
MOST_BYTES = 2**28  # of Hessians


class Standing(NamedTuple):
    """How far a fit has come.

    theta: [W; b], [features + 1 x k]. left: which columns, or problems, have not converged.
    first, norm: of the gradient at first and now, for each.
    """

    theta: Array
    left: NDArray[np.bool_]
    first: Array
    norm: Array


class FirstMatrix(Protocol):
    """An approximation of the Hessians.

    exact: whether a step by it ends at the optimum. spent: whether another solver takes over.
    """

    exact: bool

    @property
    def spent(self) -> bool:
        """See above."""

    def moments(self, theta: Array, pool: Pool) -> AtScores:
        """Return means at theta, with those of columns: `RowSums.at_start`."""

    def begin(self, pool: Pool, within: Array, silent: NDArray[np.bool_]) -> None:
        """Prepare the matrix where W = 0.

        within: mean squares [features] of centred columns. silent: rows and columns of the matrix
        that take no part.
        """

    def solved(self, G: Array) -> Array:
        """Return the inverse of the matrix, times G."""

    def renewed(self, pool: Pool, number: int, at: Standing, tolerance: float) -> bool:
        """Compute the matrix anew if it is worth its time after pass `number`; return whether."""


def evened(sums: RowSums, within: Array, silent: NDArray[np.bool_]) -> Array:
    """Return entries of a diagonal [features]: of fewer rows than columns, their mean.

    The optimum is a sum of such rows, and so are gradients. Unequal entries would turn steps away.
    """
    if sums.rows >= sums.features or silent.all():
        return within
    return np.full_like(within, within[~silent].mean())


class Diagonal:
    """Half the diagonal of the Hessian, and half its geometric mean.

    The diagonal alone makes long steps along rare columns, whose pairs then say little of others.
    """

    exact = spent = False

    def __init__(self, sums: RowSums, bends: Array, l2: float) -> None:
        """Keep the second derivatives of losses [k] where W = 0."""
        self._sums, self._bends, self._l2 = sums, bends, l2

    def moments(self, theta: Array, pool: Pool) -> AtScores:
        """Return means: see `FirstMatrix`."""
        return self._sums.at_start(theta, pool)

    def begin(self, pool: Pool, within: Array, silent: NDArray[np.bool_]) -> None:
        """Prepare the diagonal [features + 1 x k]."""
        within = evened(self._sums, within, silent[:-1])
        found = np.append(within, 1.0)[:, None] * self._bends
        found[:-1] += self._l2
        found[~(found > 0.0)] = 1.0
        heard = found[:-1][~silent[:-1]]
        if heard.size:
            found[:-1] = 0.5 * (found[:-1] + np.exp(np.log(heard).mean(axis=0)))
        self._entries = found

    def solved(self, G: Array) -> Array:
        """Return G divided by the diagonal."""
        return G / self._entries

    def renewed(self, pool: Pool, number: int, at: Standing, tolerance: float) -> bool:
        """Return False: pairs of steps tell how it changes."""
        return False


class Hessians:
    """Inverse roots of Hessians: one for all columns at first, then one of each.

    Where the first one takes longer than some passes, these come first, by its diagonal. So they do
    for one target of smooth losses with a penalty, whose columns may need no more.
    """

    exact = spent = False

    def __init__(self, sums: DenseSums, bends: Array, l2: float) -> None:
        """Keep the second derivatives of losses [k] where W = 0."""
        prepare("dpotrf", "dtrsm")
        self._sums, self._bends, self._l2 = sums, bends.copy(), l2
        self._squares = sums.loss.link == "linear"  # H is the same everywhere
        early = sums.loss.link not in LATER or bends.size > 1 or l2 < LEAST
        self._small = early and self._products <= FIRST * self._reading
        self._diagonal = Diagonal(sums, bends, l2)

    def moments(self, theta: Array, pool: Pool) -> AtScores:
        """Return means: see `FirstMatrix`. A Hessian of squares tells those of columns."""
        if not self._squares:
            return self._diagonal.moments(theta, pool)
        self.exact = self._small or not self._sums.single
        H = self._sums.hessians(pool, None, rough=not self.exact)[0]
        if not (self.exact or self._sums.usual(H[-1, :-1], np.diagonal(H)[:-1])):
            self.exact = True
            H = self._sums.hessians(pool, None, rough=False)[0]
        self._whole, columns, squares = H, H[-1, :-1].copy(), np.diagonal(H)[:-1].copy()
        return self._sums.at(theta, pool)._replace(columns=columns, squares=squares)

    def begin(self, pool: Pool, within: Array, silent: NDArray[np.bool_]) -> None:
        """Factorize the Hessian, or take its diagonal."""
        self._silent, self._unsure = silent, self._squares and not self.exact
        self._factored: tuple[int, Array] | None = None
        self._factors: list[Array] = []
        if self._squares:
            H = self._whole
        elif self._small:
            H = self._sums.hessians(pool, None, rough=self._sums.single)[0]
        else:
            self._diagonal.begin(pool, within, silent)
            return
        self._factors = [self._factor(H, self._l2 / float(self._bends.mean()))]

    def solved(self, G: Array) -> Array:
        """Return H^-1 G."""
        if not self._factors:
            return self._diagonal.solved(G)
        if len(self._factors) == 1:
            return np.asarray(self._factors[0].T @ (self._factors[0] @ (G / self._bends)))
        found = np.zeros_like(G)
        for column, M in enumerate(self._factors):
            if M.size:  # else the column had converged
                found[:, column] = M.T @ (M @ (G[:, column] / self._bends[column]))
        return found

    def renewed(self, pool: Pool, number: int, at: Standing, tolerance: float) -> bool:
        """Factorize the Hessians of where the columns are now, if that is worth its time."""
        if self._squares:
            return self._sharpened(pool, number)
        if not self._worth_anew(number, at, tolerance):
            return False
        self._factored = number, at.norm
        which = np.flatnonzero(np.broadcast_to(at.left, self._bends.shape))
        Hs = self._sums.hessians(pool, (at.theta, which), rough=self._sums.single)
        if len(self._factors) < self._bends.size:
            self._factors = (self._factors or [np.empty(0)]) * self._bends.size
        for column, H in zip(which, Hs, strict=True):
            self._factors[column] = self._factor(H, self._l2)
            self._bends[column] = 1.0
        return True

    def _sharpened(self, pool: Pool, number: int) -> bool:
        """Factorize the Hessian in float64 if one of float32 has not led to the optimum soon."""
        if not self._unsure or number != ENOUGH:
            return False
        self.exact = True
        self._factors = [self._factor(self._sums.hessians(pool, None, rough=False)[0], self._l2)]
        return True

    def _worth_anew(self, number: int, at: Standing, tolerance: float) -> bool:
        """Return whether new Hessians take no longer than passes so far, and those that seem left.

        number: of the last pass.
        """
        since, before = self._factored or (FIRST, at.first)
        if number < PATIENCE * since:
            return False
        left, wide = int(np.broadcast_to(at.left, self._bends.shape).sum()), len(self._silent)
        if 8 * left * wide**2 > MOST_BYTES or left * self._products > number * self._reading:
            return False
        with np.errstate(all="ignore"):  # logarithms of 0, where a gradient is
            rest, fall = np.log(at.norm / at.first / tolerance), np.log(before / at.norm)
        passes = (number - since) * rest[at.left] / np.maximum(fall[at.left], 1e-3)
        saved = passes.max() - (0 if self._factors else FIRST)  # some passes follow the first one
        return bool(left * self._products <= min(number, saved) * self._reading)

    @property
    def _products(self) -> int:
        """The time of a Hessian and its factor."""
        wide = self._sums.features + 1
        return self._sums.sample * wide * (SQUARING + wide) + FACTORING * wide**3

    @property
    def _reading(self) -> float:
        """The time of a pass."""
        sums = self._sums
        return PASS + sums.rows * (sums.features + 1) * SHARE * (4 + sums.targets)

    def _factor(self, H: Array, l2: float) -> Array:
        """Return M with M' M = (H + l2)^-1, or near it where that is singular."""
        H[self._silent] = H[:, self._silent] = 0.0
        np.einsum("ii->i", H)[:-1] += l2
        found, regular = inverse_root(H)
        self.exact &= regular
        return found
