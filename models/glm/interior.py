"""Linear models whose losses are two straight lines, of rows in memory: interior points.

Portnoy, Koenker, Statistical Science 12 (1997); Mehrotra, SIAM J. Optimization 2 (1992). With
errors t - X W - b = u - v, where u and v are not negative, a fit minimises

    sum of up u + down v over rows, + l1 |W|_1 + l2 / 2 |W|^2.

    quantile: t = y, up = shape, down = 1 - shape, both times the row's share of all weights.
    hinge: t = 2 y - 1, up = y, down = 1 - y, likewise.

Each row has a dual variable a in [-down, up]. At the optimum X'a = l2 W, and the products
u (up - a) and v (down + a) are 0. A pass is a step towards a point where all these products are
equal, and smaller: two solutions with one Hessian X' diag(q) X, or by way of rows (`few_rows.py`)
if they are fewer than columns, with an L1 penalty.

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
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache.cpu.blas import one_thread
from blocklearn.matcache.cpu.lapack import prepare
from blocklearn.matcache.cpu.pool import Pool

from .curves import Array, Loss
from .dense_rows import DenseRows
from .factors import Factor
from .few_rows import RowFactor
from .lines import Lines, best_constant
from .proximal import Penalties
from .row_sums import Numbers, Targets
from .sparse_rows import SparseRows

FAR = 4.0  # deviations from 0 to the mean of a column that is centred
CONSTANT = 1e-7  # a column that varies less, relative to its size, is constant
INSIDE = 0.9995  # of the way to the nearest bound
CENTRING = 0.5  # of the mean product, which a step without correction leads to
NEARER = 0.1  # times the tolerance
LEAST = 1e-12  # of the loss of a constant: a smaller gap is rounding
NOTHING = 1e-100  # of the largest weight of a row, or of 1 as a penalty: less is as if 0
STUCK = 1e-6  # a shorter step is the last
ZERO = 1e-3  # of l1: a weight is 0 if the dual variable of its row is further from both bounds,
UNFELT = 1e-6  # and if it changes scores by less than this share of the loss of a constant


class InteriorSolver:
    """Solves for W and b, pass by pass, with the same bits on any number of threads.

    A pass is a step of each column that has not converged.

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
        self._sizes = np.zeros(self._rows.features)  # of columns, as scores feel them
        self._problems = [
            _Problem(
                self._rows, Lines.of(column, self._shares, loss), penalties, intercept=intercept
            )
            for column in y.T
        ]

    @property
    def converged(self) -> bool:
        """Whether all columns have converged."""
        return all(problem.converged for problem in self._problems)

    @property
    def theta(self) -> Array:
        """The weights and the intercepts, [features + 1 x k]."""
        found = np.stack([problem.theta(self._sizes) for problem in self._problems], axis=1)
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

    def _intercepts(self, W: Numbers) -> Array:
        """Return the intercepts for columns as they are, not less their centre."""
        b: Array = np.array([problem.theta(self._sizes)[-1] for problem in self._problems])
        return b if self._rows.centre is None else b - self._rows.centre @ W

    def passes(self, most: int, tolerance: float, threads: int) -> Iterator[int]:
        """Make passes until all columns have converged; yield the number of each, from 1.

        tolerance: a column has converged when the objective and its dual differ by no more than
        the square of a tenth of this share of a constant's loss.
        """
        pool = Pool(threads)
        try:
            for number in range(1, most + 1):
                with one_thread():
                    if number == 1:
                        silent = self._look(pool)
                    for problem in self._problems:
                        if not problem.converged:
                            problem.step(pool, silent, tolerance)
                yield number
        finally:
            pool.close()

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


class _Moves(NamedTuple):
    """A direction: how theta, scores, a, u and v change along it."""

    theta: Array
    scores: Array
    a: Array
    u: Array
    v: Array


class _Problem:
    """One column of W and b: theta [features + 1].

    Vectors by row are those of the rows of X and then, with an L1 penalty, of each weight.
    """

    def __init__(
        self, rows: DenseRows | SparseRows, lines: Lines, penalties: Penalties, *, intercept: bool
    ) -> None:
        """Start at W = 0, with b a best constant, or 0."""
        self._rows, (l1, self._l2), (t, up, down, margin) = rows, penalties, lines
        self._l1 = l1 if l1 > NOTHING else 0.0
        self._theta = np.append(np.zeros(rows.features), best_constant(t, up, down) * intercept)
        more = np.zeros(rows.features if self._l1 else 0)
        self._errors = np.concatenate([t - self._theta[-1], more])
        up, down = (np.concatenate([line, more + self._l1]) for line in (up, down))
        above, below = np.maximum(self._errors, 0.0), np.maximum(-self._errors, 0.0)
        self._first = float(up @ above + down @ below)
        self._a = 0.5 * (up - down)
        self._to_up = self._to_down = 0.5 * (up + down)  # up - a, and down + a
        inside = 2.0 * max(abs(t - self._theta[-1]).mean(), margin) / rows.count / (up + down)
        self._u, self._v = above + inside, below + inside
        self._lacks = 1.0  # share of the start's distance of X'a from l2 W
        self.converged = self._first == 0.0

    def theta(self, sizes: Array) -> Array:
        """Return the weights, some of them 0 with an L1 penalty, and the intercept.

        sizes: of columns.
        """
        found = self._theta.copy()
        if self._l1:
            inside = np.minimum(self._to_up, self._to_down)[self._rows.count :]
            unfelt = sizes * abs(found[:-1]) <= UNFELT * self._first
            found[:-1][unfelt & (inside > ZERO * self._l1)] = 0.0
        return found

    def step(self, pool: Pool, silent: NDArray[np.bool_], tolerance: float) -> None:
        """Make a step, and find out whether it ends near the optimum.

        silent: which numbers of theta stay as they are.
        """
        u, v, to_up, to_down = self._u, self._v, self._to_up, self._to_down
        q = 1.0 / (u / to_up + v / to_down)
        factor = self._factor(q, silent, pool)
        first = self._moves(q, factor, silent, np.zeros(1), np.zeros(1), pool)
        share, gap = min(1.0, self._room(first)), self._gap
        wanted = (self._ahead(first, share) / gap) ** 3 * gap / (2 * len(u))
        cu, cv = (wanted + first.u * first.a) / to_up, (wanted - first.v * first.a) / to_down
        moves = self._moves(q, factor, silent, cu, cv, pool)
        share = min(1.0, INSIDE * self._room(moves))
        if self._ahead(moves, share) > gap:  # else steps may end in a circle (Cartis, 2009)
            centre = CENTRING * gap / (2 * len(u))
            moves = self._moves(q, factor, silent, centre / to_up, centre / to_down, pool)
            share = min(1.0, INSIDE * self._room(moves))
            fall = (1.0 - CENTRING) * share * gap
            rise = self._ahead(moves, share) - gap + fall  # grows with the square of the share
            share *= min(1.0, 0.5 * fall / max(rise, 1e-300))
        self._theta = self._theta + share * moves.theta
        self._errors = self._errors - share * moves.scores
        self._u, self._v = u + share * moves.u, v + share * moves.v
        self._a = self._a + share * moves.a
        self._to_up, self._to_down = to_up - share * moves.a, to_down + share * moves.a
        self._lacks *= 1.0 - share
        least = max((NEARER * tolerance) ** 2, LEAST) * self._first
        near = self._gap <= least and self._lacks <= tolerance
        self.converged = bool(near or not share > STUCK)

    @property
    def _gap(self) -> float:
        """The sum of products, which is how far the objective is above its dual."""
        return float(self._u @ self._to_up + self._v @ self._to_down)

    def _ahead(self, moves: _Moves, share: float) -> float:
        """Return what the gap would be after a share of a step."""
        above = (self._u + share * moves.u) @ (self._to_up - share * moves.a)
        return float(above + (self._v + share * moves.v) @ (self._to_down + share * moves.a))

    def _factor(self, q: Array, silent: NDArray[np.bool_], pool: Pool) -> Factor | RowFactor:
        rows, own = self._rows, q[self._rows.count :]
        if self._l1 and rows.count < rows.features:
            return RowFactor.of(rows, q[: rows.count], self._l2 + own, silent, pool)
        H = rows.squares(q[: rows.count], pool)
        np.einsum("ii->i", H)[:-1] += self._l2 + (own if self._l1 else 0.0)
        H[silent] = H[:, silent] = 0.0
        return Factor.of(H)

    def _moves(
        self,
        q: Array,
        factor: Factor | RowFactor,
        silent: NDArray[np.bool_],
        cu: Array,
        cv: Array,
        pool: Pool,
    ) -> _Moves:
        """Return the step after which u is near cu, or a near its bound, and v likewise."""
        errors, count = self._errors - (cu - cv), self._rows.count
        pulls = self._a + q * errors
        G = self._rows.turned(pulls[:count], pool)
        G[:-1] += (pulls[count:] if self._l1 else 0.0) - self._l2 * self._theta[:-1]
        G[silent] = 0.0
        theta = factor.solved(G[:, None])[:, 0]
        scores = self._rows.scores(theta, pool)
        if self._l1:
            scores = np.concatenate([scores, theta[:-1]])
        a = q * (errors - scores)
        u, v = self._u, self._v
        return _Moves(
            theta, scores, a, cu - u + u / self._to_up * a, cv - v - v / self._to_down * a
        )

    def _room(self, moves: _Moves) -> float:
        """Return how many times the moves fit between here and the nearest bound."""
        pairs = (
            (self._u, moves.u),
            (self._v, moves.v),
            (self._to_up, -moves.a),
            (self._to_down, moves.a),
        )
        most = max(float((-move / place).max()) for place, move in pairs)
        return 1.0 / most if most > 0.0 else np.inf
