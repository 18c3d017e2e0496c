"""Linear models whose losses are two straight lines, of rows in memory: interior points.

Portnoy, Koenker, Statistical Science 12 (1997); Mehrotra, SIAM J. Optimization 2 (1992). With
errors t - X W - b = u - v, where u and v are not negative, a fit minimises

    sum of up u + down v over rows, + l1 |W|_1 + l2 / 2 |W|^2.

    quantile: t = y, up = shape, down = 1 - shape, both times the row's share of all weights.
    hinge: t = 2 y - 1, up = y, down = 1 - y, likewise.

Each row has a dual variable a in [-down, up]. At the optimum X'a = l2 W, and the products
u (up - a) and v (down + a) are 0. A pass is a step towards a point where all these products are
equal, and smaller: two solutions with one Hessian X' diag(q) X, or by way of rows (`few_rows.py`)
if they are fewer than columns, with an L1 penalty. Of many rows, parts tell (`near_rows.py`).

Differs:

- The penalty l1 |w_j| is one more row, whose error is -w_j, with up = down = l1.
- u, v and a begin within their bounds, and u - v as the errors, so steps keep them there. X'a comes
  near l2 W with steps.
- Where a step would increase the products, a shorter one without correction takes its place.
- Targets are problems of their own.

Without a penalty, columns that others tell to a millionth may leave W above the optimum: rounding
makes H singular.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache.cpu.algebra.blas import one_thread
from blocklearn.matcache.cpu.algebra.lapack import prepare
from blocklearn.matcache.cpu.pool import Pool

from ..sums.column_products import CONSTANT
from ..sums.curves import Array, Loss
from ..sums.dense_rows import DenseRows
from ..sums.row_sums import Numbers, Targets
from ..sums.sparse_rows import SparseRows
from .interior_steps import NOTHING, Column, Start
from .lines import Lines, best_constant
from .near_rows import NearRows, worth_parts
from .proximal import Penalties

FAR = 4.0  # deviations from 0 to the mean of a column that is centred


class InteriorSolver:
    """Solves for W and b, pass by pass, with the same bits on any number of threads.

    A pass is a step of each column that has not converged, or several that read parts of the rows.

    mean, variance: of columns, with the weights of rows; known after the first pass.
    """

    def __init__(
        self,
        X: Numbers | sp.csr_array,
        Y: Targets,
        weights: Array | None,
        loss: Loss,
        penalties: Penalties,
        *,
        intercept: bool,
    ) -> None:
        """Start at W = 0. X, Y, weights: see `sums_of`. loss: hinge or quantile."""
        prepare("dpotrf", "dtrsm")
        y: Array = np.asarray(Y.toarray() if isinstance(Y, sp.sparray) else Y, np.float64)
        if weights is not None:
            heard = weights > NOTHING * weights.max()
            if not heard.all():
                X, y, weights = X[heard], y[heard], weights[heard]
        self._shares = np.full(len(y), 1.0) if weights is None else weights
        self._shares = self._shares / self._shares.sum()
        far = FAR if intercept else np.inf
        sparse = isinstance(X, sp.csr_array)
        self._rows = SparseRows(X, far=far) if sparse else DenseRows(X, far=far)
        self._intercept = intercept
        self._targets = y.shape[1]
        self._sizes = np.zeros(self._rows.features)  # of columns, as scores feel them
        self._columns = [
            self._column(Lines.of(column, self._shares, loss), penalties) for column in y.T
        ]

    @property
    def converged(self) -> bool:
        """Whether all columns have converged."""
        return all(column.converged for column in self._columns)

    @property
    def theta(self) -> Array:
        """The weights and the intercepts, [features + 1 x k]."""
        columns = [column.sparse_theta(self._sizes) for column in self._columns]
        found = np.stack(columns, axis=1)
        found[-1] = self._intercepts(found[:-1])
        return found

    @property
    def W(self) -> NDArray[np.float32]:
        """The weights [features x k]."""
        return np.asarray(self.theta[:-1], np.float32)

    @property
    def b(self) -> NDArray[np.float32]:
        """The intercepts [k] that belong to the rounded weights."""
        return np.asarray(self._intercepts(self.W), np.float32)

    @one_thread
    def _intercepts(self, W: Numbers) -> Array:
        """Return the intercepts for columns as they are, not less their centre."""
        b: Array = np.array([column.theta[-1] for column in self._columns])
        return b if self._rows.centre is None else b - self._rows.centre @ W

    def passes(self, most: int, tolerance: float, threads: int) -> Iterator[int]:
        """Make passes until all columns have converged; yield the number of each, from 1.

        tolerance: a column has converged when the objective and its dual differ by no more than
        the square of a tenth of this share of a constant's loss.
        """
        pool = Pool(threads)
        try:
            for number in range(1, most + 1):
                with one_thread:
                    if number == 1:
                        silent = self._look(pool)
                    for column in self._columns:
                        if not column.converged:
                            column.step(pool, silent, tolerance)
                yield number
        finally:
            pool.close()

    def _column(self, lines: Lines, penalties: Penalties) -> Column | NearRows:
        """Return a column at W = 0, with b a best constant, or 0."""
        rows, b = self._rows, best_constant(*lines[:3]) * self._intercept
        errors = lines.t - b
        start = Start(np.append(np.zeros(rows.features), b), errors, lines.loss(errors))
        if isinstance(rows, DenseRows) and worth_parts(rows, self._targets):
            return NearRows(rows, lines, penalties, start)
        return Column(rows, lines, penalties, start)

    def _look(self, pool: Pool) -> NDArray[np.bool_]:
        """Set the moments of columns; return which numbers of theta stay 0."""
        mean, squares = self._rows.moments(self._shares, pool)
        variance = np.maximum(squares - mean**2, 0.0)
        self.mean = mean if self._rows.centre is None else mean + self._rows.centre
        constant = variance <= (CONSTANT * self.mean) ** 2
        self.variance = np.where(constant, 0.0, variance)
        self._sizes = np.sqrt(self.variance if self._intercept else squares)
        silent = constant if self._intercept else squares == 0.0
        return np.append(silent, not self._intercept)
