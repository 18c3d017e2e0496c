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


class Step(NamedTuple):
    """What all directions of a step share.

    ratios: u / (up - a) and v / (down + a) [2 x rows]. q: 1 / their sum. factor: of the Hessian.
    """

    ratios: Array
    q: Array
    factor: Factor | RowFactor


class Moves(NamedTuple):
    """A direction: how theta, scores and `Column._places` change along it."""

    theta: Array
    scores: Array
    places: Array


class Column:
    """One column of W and b: theta [features + 1], or some of its rows.

    Vectors by row are those of the rows of X and then, with an L1 penalty, of each weight. The
    distances of a row from its bounds are u, v, up - a and down + a: `_places` [4 x rows].
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
        least, half = size / (up + down), 0.5 * (up + down)
        u, v = np.maximum(self._errors, 0.0) + least, np.maximum(-self._errors, 0.0) + least
        self._places = np.stack([u, v, half, half])
        self._lacks = 1.0  # share of the start's distance of X'a from l2 W
        self.converged = self._first == 0.0

    def sparse_theta(self, sizes: Array) -> Array:
        """Return theta, with the weights that an L1 penalty makes 0. sizes: of columns."""
        found = self.theta.copy()
        if self._l1:
            inside = self._places[2:, self._rows.count :].min(axis=0)
            unfelt = sizes * abs(found[:-1]) <= UNFELT * self._first
            found[:-1][unfelt & (inside > ZERO * self._l1)] = 0.0
        return found

    def step(self, pool: Pool, silent: NDArray[np.bool_], tolerance: float) -> None:
        """Make a step, and find out whether it ends near the optimum.

        silent: which numbers of theta stay as they are.
        """
        places, free = self._places, self._places[2:]
        ratios = places[:2] / free
        q = 1.0 / (ratios[0] + ratios[1])
        step = Step(ratios, q, self._factor(q, silent, pool))
        first = self._moves(step, np.zeros((2, 1)), silent, pool)
        share, gap = min(1.0, self._room(first)), gap_of(places)
        wanted = (self._ahead(first, share) / gap) ** 3 * gap / places[:2].size
        corrected = (wanted - first.places[:2] * first.places[2:]) / free
        moves = self._moves(step, corrected, silent, pool)
        share = min(1.0, INSIDE * self._room(moves))
        if self._ahead(moves, share) > gap:  # else steps may end in a circle (Cartis, 2009)
            centre = CENTRING * gap / places[:2].size
            moves = self._moves(step, centre / free, silent, pool)
            share = min(1.0, INSIDE * self._room(moves))
            fall = (1.0 - CENTRING) * share * gap
            rise = self._ahead(moves, share) - gap + fall  # grows with the square of the share
            share *= min(1.0, 0.5 * fall / max(rise, 1e-300))
        self.theta = self.theta + share * moves.theta
        self._errors = self._errors - share * moves.scores
        self._a = self._a + share * moves.places[3]
        self._places = places + share * moves.places
        self._lacks *= 1.0 - share
        least = max((NEARER * tolerance) ** 2, LEAST) * self._first
        near = gap_of(self._places) <= least and self._lacks <= tolerance
        self.converged = bool(near or not share > STUCK)

    def rest(self, pool: Pool, silent: NDArray[np.bool_]) -> Array:
        """Return (X, 1)'a less l2 W, with that of further rows, which is 0 at the optimum."""
        return self._rest(self._a, silent, pool)

    def _ahead(self, moves: Moves, share: float) -> float:
        """Return what the gap would be after a share of a step."""
        return gap_of(self._places + share * moves.places)

    def _factor(self, q: Array, silent: NDArray[np.bool_], pool: Pool) -> Factor | RowFactor:
        rows, own = self._rows, q[self._rows.count :]
        if self._l1 and rows.count < rows.features:
            return RowFactor.of(rows, q[: rows.count], self._l2 + own, silent, pool)
        H = rows.squares(q[: rows.count], pool)
        np.einsum("ii->i", H)[:-1] += self._l2 + (own if self._l1 else 0.0)
        H[silent] = H[:, silent] = 0.0
        return Factor.of(H)

    def _moves(self, step: Step, aims: Array, silent: NDArray[np.bool_], pool: Pool) -> Moves:
        """Return the direction after which u and v are near their aims, or a near its bound.

        aims: [2 x rows].
        """
        errors = self._errors - (aims[0] - aims[1])
        G = self._rest(self._a + step.q * errors, silent, pool)
        theta = step.factor.solved(G[:, None])[:, 0]
        scores = self._rows.scores(theta, pool)
        if self._l1:
            scores = np.concatenate([scores, theta[:-1]])
        places = np.empty_like(self._places)
        np.multiply(step.q, errors - scores, out=places[3])
        np.negative(places[3], out=places[2])
        places[:2] = aims - self._places[:2] - step.ratios * places[2:]
        return Moves(theta, scores, places)

    def _rest(self, a: Array, silent: NDArray[np.bool_], pool: Pool) -> Array:
        count = self._rows.count
        G = self._rows.turned(a[:count], pool) + self._pull
        G[:-1] += (a[count:] if self._l1 else 0.0) - self._l2 * self.theta[:-1]
        G[silent] = 0.0
        return G

    def _room(self, moves: Moves) -> float:
        """Return how many times the moves fit between here and the nearest bound."""
        least = float((moves.places / self._places).min())
        return -1.0 / least if least < 0.0 else np.inf


def gap_of(places: Array) -> float:
    """Return the sum of products, which is how far the objective is above its dual."""
    return float(places[0] @ places[2] + places[1] @ places[3])
