"""Steps of an interior point, for one column of targets: see `interior.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.pool import Pool

from ..sums.curves import Array
from ..sums.dense_rows import DenseRows
from ..sums.sparse_rows import SparseRows
from .factors import Factor
from .few_rows import RowFactor
from .lines import Lines
from .proximal import Penalties

INSIDE = 0.9995  # of the way to the nearest bound
CENTRING = 0.5  # of the mean product, which a step without correction leads to
NEARER = 0.1  # times the tolerance
LEAST = 1e-12  # of the loss of a constant: a smaller gap is rounding
NOTHING = 1e-100  # of the largest weight of a row, or of 1 as a penalty: less is as if 0
STUCK = 1e-6  # a shorter step is the last
ZERO = 1e-3  # of l1: a weight is 0 if the dual variable of its row is further from both bounds,
UNFELT = 1e-6  # and if it changes scores by less than this share of the loss of a constant


class Start(NamedTuple):
    """Where steps begin.

    theta: [W; b], [features + 1]. errors: of rows there [n]. first: the loss of a constant; gaps
    are measured by it.
    """

    theta: Array
    errors: Array
    first: float


class Moves(NamedTuple):
    """A direction: how theta, scores, a, u and v change along it."""

    theta: Array
    scores: Array
    a: Array
    u: Array
    v: Array


class Column:
    """One column of W and b: theta [features + 1], or some of its rows.

    Vectors by row are those of the rows of X and then, with an L1 penalty, of each weight.
    """

    def __init__(
        self,
        rows: DenseRows | SparseRows,
        lines: Lines,
        penalties: Penalties,
        start: Start,
        pull: Array | float = 0.0,
    ) -> None:
        """Keep the problem. pull: (X, 1)'a of further rows, whose a stays [features + 1]."""
        self._rows, (l1, self._l2), (_, up, down, margin) = rows, penalties, lines
        self._l1 = l1 if l1 > NOTHING else 0.0
        self.theta, errors, self._first = start
        self._pull, self.count = pull, rows.count
        size = 2.0 * max(abs(errors).mean(), margin, LEAST * self._first) * (up + down).mean()
        more = -self.theta[:-1] if self._l1 else np.zeros(0)
        self._errors = np.concatenate([errors, more])
        up, down = (np.append(line, np.full(more.size, self._l1)) for line in (up, down))
        self._a = 0.5 * (up - down)
        self._to_up = self._to_down = 0.5 * (up + down)  # up - a, and down + a
        self._u = np.maximum(self._errors, 0.0) + size / (up + down)
        self._v = np.maximum(-self._errors, 0.0) + size / (up + down)
        self._lacks = 1.0  # share of the start's distance of X'a from l2 W
        self.converged = self._first == 0.0

    def sparse_theta(self, sizes: Array) -> Array:
        """Return theta, with the weights that an L1 penalty makes 0. sizes: of columns."""
        found = self.theta.copy()
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
        self.theta = self.theta + share * moves.theta
        self._errors = self._errors - share * moves.scores
        self._u, self._v = u + share * moves.u, v + share * moves.v
        self._a = self._a + share * moves.a
        self._to_up, self._to_down = to_up - share * moves.a, to_down + share * moves.a
        self._lacks *= 1.0 - share
        least = max((NEARER * tolerance) ** 2, LEAST) * self._first
        near = self._gap <= least and self._lacks <= tolerance
        self.converged = bool(near or not share > STUCK)

    def rest(self, pool: Pool, silent: NDArray[np.bool_]) -> Array:
        """Return (X, 1)'a less l2 W, with that of further rows, which is 0 at the optimum."""
        return self._rest(self._a, silent, pool)

    @property
    def _gap(self) -> float:
        """The sum of products, which is how far the objective is above its dual."""
        return float(self._u @ self._to_up + self._v @ self._to_down)

    def _ahead(self, moves: Moves, share: float) -> float:
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
    ) -> Moves:
        """Return the step after which u is near cu, or a near its bound, and v likewise."""
        errors = self._errors - (cu - cv)
        G = self._rest(self._a + q * errors, silent, pool)
        theta = factor.solved(G[:, None])[:, 0]
        scores = self._rows.scores(theta, pool)
        if self._l1:
            scores = np.concatenate([scores, theta[:-1]])
        a = q * (errors - scores)
        u, v = self._u, self._v
        return Moves(theta, scores, a, cu - u + u / self._to_up * a, cv - v - v / self._to_down * a)

    def _rest(self, a: Array, silent: NDArray[np.bool_], pool: Pool) -> Array:
        count = self._rows.count
        G = self._rows.turned(a[:count], pool) + self._pull
        G[:-1] += (a[count:] if self._l1 else 0.0) - self._l2 * self.theta[:-1]
        G[silent] = 0.0
        return G

    def _room(self, moves: Moves) -> float:
        """Return how many times the moves fit between here and the nearest bound."""
        pairs = (
            (self._u, moves.u),
            (self._v, moves.v),
            (self._to_up, -moves.a),
            (self._to_down, moves.a),
        )
        most = max(float((-move / place).max()) for place, move in pairs)
        return 1.0 / most if most > 0.0 else np.inf
