"""Fit factorization machines of degree 2: weights of features and of their pairs.

The score of a row x is b + sum_a x_a w_a + sum_{a < b} x_a x_b (V_a . V_b): Rendle, *Factorization
machines*, ICDM 2010. So a pair that never occurred together has a weight, too. The cost is linear
in the non-zeros, see `pairs.py`. Differs from libFM: optimizers are those of gradients, by blocks;
any number of outputs is trained at once.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from blocklearn.matcache import Mat, Matrix, Rows, colsum, from_array, maximum, total
from blocklearn.optimizers import AdaGrad, Gradient, Objective, Optimizer, Penalty, Term
from blocklearn.optimizers.linear_loss import RowLosses, mean_derivatives, row_losses

from ..glm import GLM
from ..glm.rows import losses
from ..glm.targets import Weight
from ..inputs import Block, Randomness, Shapes
from .pairs import added_up, pair_scores, sparse_pair_scores, square_factors

LEAST_WEIGHT = 1e-30  # of a block, whose rows may all have weight 0


class FM(GLM):
    """Fits targets by weights of features and of all their pairs, as a GLM otherwise.

    Parameters: `W` [features x outputs] and `intercept`, as of a GLM, and `factors`
    [features x K * outputs], whose column f * outputs + t is factor f of output t.
    """

    kind: Literal["fm"] = "fm"  # type: ignore[assignment]
    factors: int = Field(8, ge=1, description="numbers that describe a feature in pairs, K")
    factor_l2: Weight | None = Field(
        None, description="penalty on half the sum of squared factors; null: as `l2`"
    )
    start: float = Field(
        0.1, gt=0, lt=1e6, description="first factors are uniform between -start and start"
    )

    def optimizer_for(self, shapes: Shapes, terms: list[Term]) -> Optimizer:  # type: ignore[override]
        """Return AdaGrad by blocks."""
        return self.default_optimizer()

    def default_optimizer(self) -> Optimizer:
        """Return AdaGrad by blocks: rare features take larger steps than common ones."""
        return AdaGrad(rate=0.1)

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create the parameters of a GLM and, at random, the factors."""
        super().allocate(shapes, rng)
        d, T, K = shapes.columns, self.W.shape[1], self.factors
        random = (rng.uniform(d, K * T) - 0.5) * (2.0 * self.start)
        self.V = self.parameter("factors", d, K * T, random)
        self.squares = self.scratch("squares of factors", d, T)
        self.penalised.append("factors")
        each = np.tile(np.eye(T, dtype=np.float32), K)
        self.each = from_array(self.cache, each, "outputs of factors")
        self.sums = from_array(self.cache, each.T, "factors of outputs") if T > 1 else None
        self.pair_mask = None if self.mask is None else self._for_factors(self.mask)
        if "W" in self.rates:
            self.rates["factors"] = self._for_factors(self.rates["W"])
        own = [fit.l2 if self.factor_l2 is None else self.factor_l2 for fit in self.fits]
        l2 = [weight for fit, weight in zip(self.fits, own, strict=True) for _ in fit.y]
        if any(l2):
            self.terms["factors"] = [Penalty(l2=l2 * K)]

    def update(self, block: Block) -> None:
        """Hand the gradients of the block's mean loss to the optimizer."""
        X, weights, weight = block.X, block.weights, total(block.weights)
        eta, S = self._scores(X)
        of_rows = RowLosses(losses, (self._labels(block), self.links))
        R = mean_derivatives(eta, None, self.b, of_rows, weights, maximum(weight, LEAST_WEIGHT))
        each = R if self.sums is None else (R @ self.each).mat()
        self.updates["W"] = Gradient(X, R, self.mask)
        self.updates["factors"] = Gradient(X, (each * S).mat(), self.pair_mask, (-each).mat())
        if self.intercept:
            self.updates["intercept"] = colsum(R)
        lost = row_losses(eta, None, self.b, of_rows)[1]
        self.objective = Objective(total(lost * weights), weight)

    def _for_factors(self, of_outputs: Mat) -> Mat:
        """Return [n x K * outputs], the columns of [n x outputs] once for each factor."""
        rows, columns = of_outputs.shape[0], self.each.shape[1]
        found = self.scratch(f"{of_outputs.label} of factors", rows, columns)
        found <<= of_outputs @ self.each
        return found

    def _scores(self, X: Matrix) -> tuple[Mat, Mat]:
        """Return the scores without constants, and X V."""
        if X.pattern is None:
            self.squares <<= added_up(self.V * self.V, self.sums)
            eta, S = pair_scores(X, self.W, self.V, self.squares, self.sums)
            return eta.mat(), S.mat()
        square_factors(X.T, self.V, self.squares, self.sums)
        found: tuple[Mat, Mat] = sparse_pair_scores(X, self.W, self.V, self.squares, self.sums)
        return found

    def _input(self, block: Block) -> tuple[Rows, None]:
        """Return the scores without constants in place of X W."""
        return self._scores(block.X)[0], None
