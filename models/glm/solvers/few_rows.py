"""Solve for a Hessian of more columns than rows, with a penalty of each column, by way of its rows.

With D = diag(penalties) and Q = diag(q), the equations (Woodbury's identity, and the intercept b)

    (X'Q X + D) w + X'q b = g,   q'X w + (sum of q) b = gamma

are those of z = Q (X w + b), with S = X D^-1 X' + Q^-1:

    S z = X D^-1 g + b,   sum of z = gamma,   w = D^-1 (g - X'z).

Where a penalty is tiny, rounding of g - X'z moves w far. What Q^-1 z and X w + b then differ by is
small and well known: z and w are corrected by a solution for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.pool import Pool

from ..sums.curves import Array
from ..sums.dense_rows import DenseRows
from ..sums.sparse_rows import SparseRows
from .factors import Factor

REFINED = 2  # times that a solution is corrected; with 1, some gaps stay above rounding


class RowFactor(NamedTuple):
    """The factor of S.

    inverse: of penalties [features]; 0: a weight that stays 0. ones: S^-1 1. pool: as the rows use.
    """

    rows: DenseRows | SparseRows
    pool: Pool
    q: Array
    inverse: Array
    S: Factor
    ones: Array
    intercept: bool

    @classmethod
    def of(
        cls,
        rows: DenseRows | SparseRows,
        q: Array,
        penalties: Array,
        silent: NDArray[np.bool_],
        pool: Pool,
    ) -> RowFactor:
        """Return the factor for q [n] and penalties [features].

        silent: which numbers of theta = [w; b] stay 0.
        """
        inverse = np.where(silent[:-1], 0.0, 1.0 / penalties)
        S = rows.products(inverse, pool)
        np.einsum("ii->i", S)[:] += 1.0 / q
        factor = Factor.of(S)
        ones = factor.solved(np.ones((rows.count, 1)))[:, 0]
        return cls(rows, pool, q, inverse, factor, ones, not silent[-1])

    def solved(self, G: Array) -> Array:
        """Return theta for G = [g; gamma], [features + 1 x 1]."""
        g, rows, pool = G[:-1, 0], self.rows, self.pool
        z, b = self._ends(rows.scores(np.append(self.inverse * g, 0.0), pool), G[-1, 0])
        theta = np.append(self.inverse * (g - rows.turned(z, pool)[:-1]), b)
        for _ in range(REFINED):
            more, b = self._ends(rows.scores(theta, pool) - z / self.q, 0.0)
            theta -= np.append(self.inverse * rows.turned(more, pool)[:-1], -b)
            z += more
        return theta[:, None]

    def _ends(self, scores: Array, gamma: float) -> tuple[Array, float]:
        """Return z and b with S z = scores + b; if there is an intercept, gamma is the sum of z."""
        z = self.S.solved(scores[:, None])[:, 0]
        b = float((gamma - z.sum()) / self.ones.sum()) if self.intercept else 0.0
        return z + b * self.ones, b
