"""Linear models of rows in memory, by Newton's method with few Hessians, or with none.

McCullagh, Nelder, Generalized Linear Models (1989), 2.5; Nocedal, Wright, Numerical Optimization,
algorithm 7.4, whose first matrix is here a Hessian of each column

    H = X' diag(w bend) X + l2,

or its diagonal, where X is sparse or has too many columns. Of the squared error H is the same
everywhere, so the first step by it ends at the optimum. Elsewhere the last pairs of steps and
changes of the gradient tell how H has changed, as in L-BFGS, and a pass is two products with X, as
one of gradient descent: a new H costs as much as ten. H is computed anew where a fit takes long.
The first one, at W = 0, serves all targets and all classes. `wide_rows.py` brings fewer rows than
columns here, whose new H costs as much as few passes.

Differs:

- Targets are problems of their own, with steps of their own. Classes of a softmax are one problem,
  and H has their diagonal blocks.
- H is scaled to a diagonal of 1 before its Cholesky factor. Where it is singular, a little is added
  to that, so solutions have no part in its null space.
- H is that of some rows, spread evenly by their second derivatives, where all are more than enough
  for a guide.
- Where X is dense, its products far from the optimum are float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.algebra.blas import one_thread
from blocklearn.matcache.cpu.pool import Pool

from ..sums.column_products import CONSTANT
from ..sums.curves import Array, best_constants, mean_bends
from ..sums.dense_sums import DenseSums
from ..sums.row_sums import AtScores, RowSums
from .conjugate_gradients import ConjugateGradients, worth_products
from .first_matrices import Diagonal, FirstMatrix, Hessians, Standing
from .row_products import RowProducts, SquareSums

MEMORY = 10  # pairs (step, change of the gradient)
BYTES = 8 * (2 * MEMORY + 12)  # that a solver takes for each number of W
DECREASE = 1e-4  # share of the slope that a step must gain (Armijo)
ROUNDING = 1e-6, 1e-12  # of a sum of losses, where products are float32 and where float64
ROUGH = 1e-4  # of the gradient's norm, relative to the first: above, products may be float32
LEAST = 1e-12  # the same: below is rounding
GAIN = 1e-20  # of the objective: a step that gains less is the last
TRIALS = 40  # shorter steps in a row


class NewtonSolver:
    """Solves for W and b, pass by pass.

    theta: the weights and the intercepts of columns less their centre, [features + 1 x k].
    converged: whether a further pass would gain nothing.
    mean, variance: of columns, with the weights of rows; known after the first pass.
    first_trial: theta after the first step, if that is downhill; None: as the matrix says.
    """

    def __init__(
        self,
        sums: RowSums,
        *,
        l2: float,
        intercept: bool,
        diagonal: bool,
        products: float = math.inf,
    ) -> None:
        """Start at W = 0, with b the best constants, or near them (huber).

        sums: see `sums/choice.py`. l2: of the mean loss. diagonal: a Hessian is not worth its time.
        products: of conjugate gradients, after which another solver takes over.
        """
        self._sums, loss, link = sums, sums.loss, sums.loss.link
        self.link, self.l2, self._intercept = link, l2, intercept
        mean = sums.target_means()
        self.theta = np.zeros((sums.features + 1, mean.size))
        if link == "huber":
            self.theta[-1], bends = sums.robust_starts(intercept=intercept)
        else:
            if intercept:
                self.theta[-1] = best_constants(mean, sums.total, link)
            bends = mean_bends(self.theta[-1], loss)
        self._matrix: FirstMatrix
        self._together = link == "softmax" or mean.size == 1  # all columns are one problem
        if isinstance(sums, SquareSums):
            self._matrix = RowProducts(sums, bends, l2)
        elif isinstance(sums, DenseSums) and not diagonal:
            self._matrix = Hessians(sums, bends, l2)
        elif worth_products(sums):
            self._matrix = ConjugateGradients(sums, bends, l2, products)
        else:
            self._matrix = Diagonal(sums, bends, l2)
        problems = 1 if self._together else mean.size
        self._left = np.ones(problems, bool)
        self._rough, self._trial = False, self.theta
        self._pairs: list[tuple[Array, Array, Array]] = []
        self._steps, self._tries = np.ones(problems), np.zeros(problems)
        self.first_trial: Array | None = None

    @property
    def converged(self) -> bool:
        """Whether all columns have converged."""
        return not self._left.any()

    @property
    def spent(self) -> bool:
        """Whether another solver takes over."""
        return self._matrix.spent

    @property
    def W(self) -> NDArray[np.float32]:
        """The weights [features x k]."""
        return np.asarray(self.theta[:-1], np.float32)

    @property
    def b(self) -> NDArray[np.float32]:
        """The intercepts [k] that belong to the rounded weights."""
        theta = np.vstack([self.W, self.theta[-1:]])
        return np.asarray(self._uncentred(theta), np.float32)

    @one_thread
    def _uncentred(self, theta: Array) -> Array:
        """Return the intercepts for columns as they are."""
        centre = self._sums.centre
        return np.asarray(theta[-1] if centre is None else theta[-1] - centre @ theta[:-1])

    @property
    def last_trial(self) -> tuple[Array, Array]:
        """The weights and the intercepts that the next pass would try, for columns as they are."""
        return self._trial[:-1], self._uncentred(self._trial)

    def passes(self, most: int, tolerance: float, threads: int) -> Iterator[int]:
        """Make passes until all columns have converged; yield the number of each, from 1.

        tolerance: a column has converged when its gradient's norm, in units in which columns of X
        have size 1, has fallen to this share of the first one.
        """
        pool = Pool(threads)
        tolerance = max(tolerance, LEAST)
        try:
            for number in range(1, most + 1):
                with one_thread:
                    if number == 1:
                        self._begin(pool)
                    else:
                        rough = self._rough
                        self._move(self._sums.at(self._trial, pool, rough=rough), tolerance)
                        if rough and not self._rough and self._left.any():
                            self._stand(pool)
                    if self._left.any():
                        at = Standing(self.theta, self._left, self._first, self._norm)
                        if self._matrix.renewed(pool, number, at, tolerance):
                            self._pairs = []
                            self._taken = np.ones_like(self._left)
                            if self._matrix.exact:
                                self._steps[:] = 1.0
                        self._choose()
                yield number
        finally:
            pool.close()

    def _begin(self, pool: Pool) -> None:
        """Take the start as a point, and prepare its first matrix."""
        sums, matrix = self._sums, self._matrix
        found = matrix.moments(self.theta, pool)
        assert found.columns is not None and found.squares is not None
        mean, squares = found.columns, found.squares
        self.mean = mean if sums.centre is None else mean + sums.centre
        self.variance = np.maximum(squares - mean**2, 0.0)
        within = self.variance if self._intercept else squares
        silent = within <= (CONSTANT * self.mean) ** 2  # columns that tell nothing
        self.variance[self.variance <= (CONSTANT * self.mean) ** 2] = 0.0
        self._silent = np.append(silent, not self._intercept)
        self._any_silent = bool(self._silent.any())
        self._units = np.sqrt(np.append(np.where(silent, 1.0, within) + self.l2, 1.0))[:, None]
        self._f, self._g = self._penalised(found, self.theta)
        self._first = self._norm = self._size(self._g)
        self._along, self._slope = np.zeros_like(self.theta), np.zeros_like(self._f)
        self._taken = np.ones(self._f.size, bool)
        matrix.begin(pool, within, self._silent)
        self._rough = sums.single and self.link != "linear"

    def _stand(self, pool: Pool) -> None:
        """Look from here in float64: steps from here shall not be compared with rough sums."""
        self._f, self._g = self._penalised(self._sums.at(self.theta, pool), self.theta)
        self._norm = self._size(self._g)
        self._taken, self._steps[:], self._tries[:] = np.ones_like(self._taken), 1.0, 0

    def _penalised(self, found: AtScores, theta: Array) -> tuple[Array, Array]:
        """Return objectives and gradients."""
        W, G, losses = theta[:-1], found.gradient, found.losses
        G[:-1] += self.l2 * W
        if self._any_silent:
            G[self._silent] = 0.0
        losses = losses.sum(keepdims=True) if self._together else losses
        return losses + 0.5 * self.l2 * self._dot(W, W), G

    def _move(self, found: AtScores, tolerance: float) -> None:
        """Accept the trials that gain enough."""
        f, G = self._penalised(found, self._trial)
        noise = ROUNDING[0 if self._rough else 1] * abs(self._f)
        taken = self._left & (f <= self._f + DECREASE * self._steps * self._slope + noise)
        step, change = self._trial - self.theta, G - self._g
        if taken.all():
            self.theta, self._f, self._g = self._trial, f, G
            self._steps[:], self._tries[:] = 1.0, 0
        else:  # also where f is NaN
            self._shorten(f, self._left & ~taken)
            step, change = np.where(taken, step, 0.0), np.where(taken, change, 0.0)
            self.theta = np.where(taken, self._trial, self.theta)
            self._f, self._g = np.where(taken, f, self._f), np.where(taken, G, self._g)
        self._taken = taken
        self._remember(step, change)
        self._norm = self._size(self._g)
        far, smooth = self._norm > ROUGH * self._first, taken[self._left].all()
        if tolerance >= ROUGH or not self._rough:
            self._left &= ~(taken & (self._norm <= tolerance * self._first))
        self._rough = bool(self._rough and smooth and far[self._left].any())

    def _remember(self, step: Array, change: Array) -> None:
        """Keep a pair, for the columns whose gradient has grown along it."""
        curvature = self._dot(step, change)
        grown = curvature > 0.0
        if grown.any():
            inverse = np.where(grown, 1.0 / np.where(grown, curvature, 1.0), 0.0)
            self._pairs = [*self._pairs[1 - MEMORY :], (step, change, inverse)]

    def _shorten(self, f: Array, refused: NDArray[np.bool_]) -> None:
        """Set steps: where refused, to the minimum of a parabola, within 0.1 and 0.5 of before."""
        with np.errstate(all="ignore"):
            bend = f - self._f - self._steps * self._slope
            share = -0.5 * self._steps * self._slope / bend
        share = np.where(np.isfinite(share), share, 0.1).clip(0.1, 0.5)
        self._steps = np.where(refused, self._steps * share, 1.0)
        self._tries = np.where(refused, self._tries + 1, 0)
        self._left &= self._tries < TRIALS

    def _choose(self) -> None:
        """Set the next trials, in new directions where the last ones were accepted."""
        if self._taken.any():
            direction = self._direction()
            if self.first_trial is not None:
                given, self.first_trial = self.first_trial - self.theta, None
                direction = np.where(self._dot(given, self._g) < 0.0, given, direction)
            slope = self._dot(direction, self._g)
            old = not self._taken.all()
            self._along = np.where(self._taken, direction, self._along) if old else direction
            self._slope = np.where(self._taken, slope, self._slope) if old else slope
        moved = self.theta + self._steps * self._along
        self._trial = np.where(self._left, moved, self.theta)
        last = self._left & (self._matrix.exact | (-self._slope <= GAIN * abs(self._f)))
        self.theta = np.where(last, self._trial, self.theta)
        self._left &= ~last

    def _direction(self) -> Array:
        """Return -H^-1 g, corrected by the pairs."""
        d, shares = -self._g, []
        for step, change, inverse in reversed(self._pairs):
            shares.append(inverse * self._dot(step, d))
            d = d - shares[-1] * change
        d = self._solved(d)
        if self._pairs:
            step, change, inverse = self._pairs[-1]
            length = inverse * self._dot(change, self._solved(change))
            d = d / np.where(length > 0.0, length, 1.0)
        for step, change, inverse in self._pairs:
            d = d + step * (shares.pop() - inverse * self._dot(change, d))
        return d

    def _solved(self, G: Array) -> Array:
        """Return the inverse of the matrix, times G.

        The softmax does not feel a change that all its classes share, so no step has one.
        """
        found = self._matrix.solved(G)
        return found - found.mean(axis=1, keepdims=True) if self.link == "softmax" else found

    def _size(self, G: Array) -> Array:
        G = G / self._units
        return np.sqrt(self._dot(G, G))

    def _dot(self, a: Array, b: Array) -> Array:
        """Return products of columns; of a softmax, whose columns are one problem, their sum."""
        return np.array([np.vdot(a, b)]) if self._together else np.einsum("fk,fk->k", a, b)
