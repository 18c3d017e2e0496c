"""Steps of Newton's method by conjugate gradients, which take products with X, and no matrix.

Nocedal, Wright, Numerical Optimization, algorithms 5.3 and 7.1: a step far from the optimum is
solved roughly. The diagonal of the Hessian at W = 0 is a first guess of its inverse, unless rows
are fewer than columns. Each target has steps of its own.

Where another solver stands by, it takes over after a number of products.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.pool import Pool

from ..sums.curves import Array
from ..sums.row_sums import AtScores, RowSums
from .first_matrices import Standing, evened

MOST = 200  # products of a step
DOUBLE = 20  # what a product of float64 counts: columns of so different sizes take many
NEAR = 0.5  # of the tolerance: what they leave of the gradient
FORCING = 0.5  # most that they leave of it far from the optimum
PIECEWISE = "linear", "squared_hinge"  # a Hessian may lead to the optimum: its steps are exact


def worth_products(sums: RowSums) -> bool:
    """Return whether steps by Hessians take fewer products with X than pairs of steps.

    Of huber `bends` are no second derivatives.
    """
    link = sums.loss.link
    return link == "linear" or (sums.rows < sums.features and link != "huber")


class ConjugateGradients:
    """The inverses of the Hessians of where the columns are now, up to a share of the gradient."""

    exact = False

    def __init__(self, sums: RowSums, bends: Array, l2: float, most: float = math.inf) -> None:
        """Keep the second derivatives of losses [k] where W = 0.

        most: products after which another solver takes over.
        """
        self._sums, self._bends, self._l2 = sums, bends, l2
        self._most, self._made = most, 0

    @property
    def spent(self) -> bool:
        """Whether another solver takes over."""
        return self._made >= self._most

    def moments(self, theta: Array, pool: Pool) -> AtScores:
        """Return means: see `FirstMatrix`."""
        return self._sums.at_start(theta, pool)

    def begin(self, pool: Pool, within: Array, silent: NDArray[np.bool_]) -> None:
        """Prepare the inverse of a diagonal [k x features + 1]; 0: of a weight that stays 0."""
        within = evened(self._sums, within, silent[:-1])
        entries = np.append(within, 1.0) * self._bends[:, None]
        entries[:, :-1] += self._l2
        heard = ~silent & (entries > 0.0)
        self._at: Array | None = None
        self._inverse = np.divide(1.0, entries, where=heard, out=np.zeros_like(entries))

    def renewed(self, pool: Pool, number: int, at: Standing, tolerance: float) -> bool:
        """Compute the second derivatives of where the columns are, if any has moved."""
        if self._at is not None and np.array_equal(self._at, at.theta):
            return False
        self._at = at.theta
        with np.errstate(all="ignore"):
            share = np.nan_to_num(NEAR * tolerance * at.first / at.norm)
            if self._sums.loss.link not in PIECEWISE:
                share = np.maximum(share, np.minimum(FORCING, np.sqrt(at.norm / at.first)))
        self._share, self._left, self._pool = share, at.left, pool
        self._curve = self._sums.curve(at.theta, pool)
        return True

    def solved(self, G: Array) -> Array:
        """Return the inverses of the Hessians, times G."""
        wide, shape = G.shape[::-1], (len(self._left), -1)  # problems x numbers
        R, inverse = G.T.copy().reshape(shape), self._inverse.reshape(shape)
        found, P = np.zeros_like(R), R * inverse
        left, length = self._left, _dot(R, P)
        least = self._share**2 * length
        for _ in range(MOST):
            Q = self._product(P.reshape(wide)).reshape(shape)
            self._made += 1 if self._sums.single else DOUBLE
            bend = _dot(P, Q)
            left = left & (bend > 0.0)
            step = np.divide(length, bend, where=left, out=np.zeros_like(bend))[:, None]
            found += step * P
            R -= np.multiply(step, Q, out=Q)
            Z = np.multiply(R, inverse, out=Q)
            before, length = length, _dot(R, Z)
            left = left & (length > least)
            if self.spent or not left.any():
                break
            P *= np.divide(length, before, where=left, out=np.zeros_like(length))[:, None]
            P += Z
        return found.reshape(wide).T.copy()

    def _product(self, P: Array) -> Array:
        """Return the product of the Hessians and P [k x features + 1]."""
        V = np.ascontiguousarray(P.T)
        found = self._sums.curved(V, self._curve, self._pool)
        found[:-1] += self._l2 * V[:-1]
        return np.ascontiguousarray(found.T)


def _dot(a: Array, b: Array) -> Array:
    """Return products of problems [problems]."""
    return np.array([np.vdot(a, b)]) if len(a) == 1 else np.einsum("pf,pf->p", a, b)
