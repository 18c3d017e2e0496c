"""Fit factorization machines of degree 2: weights of features and of their pairs.

The score of a row x is b + sum_a x_a w_a + sum_{a < b} x_a x_b (V_a . V_b): Rendle, *Factorization
machines*, ICDM 2010. So a pair that never occurred together has a weight, too. The cost is linear
in the non-zeros, see `pairs.py`. Differs from libFM: optimizers are those of gradients, by blocks;
any number of outputs is trained at once. Field-aware factors: see `fields.py`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from pydantic import Field

from blocklearn.matcache import (
    Mat,
    Matrix,
    Rows,
    colsum,
    from_array,
    local,
    local_table,
    maximum,
    total,
)
from blocklearn.optimizers import AdaGrad, Gradient, Groups, Objective, Optimizer, Penalty, Term
from blocklearn.optimizers.linear_loss import LEAST_WEIGHT, RowLosses, mean_derivatives, row_losses

from ..glm import GLM
from ..glm.rows import losses
from ..glm.targets import Weight
from ..inputs import Block, Randomness, Shapes
from .fields import FieldPairs, fields_of
from .pairs import (
    added_up,
    features_alone,
    pair_scores,
    scores_of,
    sparse_features_alone,
    sparse_pair_scores,
    sparse_scores_of,
    square_factors,
)


class FM(GLM):
    """Fits targets by weights of features and of pairs of features.

    All else is as of a GLM. Parameters: `W` [features x outputs] and `intercept`, and `factors`
    [features x K * outputs], whose column f * outputs + t is factor f of output t. With F fields
    there are F * F times as many columns, those of a pair of fields side by side; training also
    keeps `fields` [features x 1], the number of each feature's field.
    """

    reads_occurring: ClassVar[bool] = True
    stays_at_zero: ClassVar[bool] = True
    kind: Literal["fm"] = "fm"  # type: ignore[assignment]
    factors: int = Field(8, ge=1, description="numbers that describe a feature in pairs, K")
    factor_l2: Weight | None = Field(
        None, description="penalty on half the sum of squared factors; null: as `l2`"
    )
    start: float = Field(
        0.1, gt=0, lt=1e6, description="first factors are uniform between -start and start"
    )
    fields: list[Annotated[int, Ge(1)]] | Literal["names"] | None = Field(
        None,
        description="field-aware factors: the columns of each field, in their order; or names: the "
        "field is what a column's name has before `=`; null: no fields",
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
        self.by_field = None
        if self.fields is not None:
            fields = fields_of(self.fields, d, shapes.names)
            self.by_field = FieldPairs(self, fields, K * T)
            K *= self.by_field.pairs
        drawn = rng.drawn(d, K * T, lambda uniform: (uniform - 0.5) * (2.0 * self.start))
        first = drawn if self.by_field is None else self.by_field.masked(drawn)
        self.V = self.parameter("factors", d, K * T, first)
        self.penalised.append("factors")
        each = np.tile(np.eye(T, dtype=np.float32), K)
        self.each = from_array(self.cache, each, "outputs of factors")
        self.sums = from_array(self.cache, each.T, "factors of outputs") if T > 1 else None
        self.pair_mask: Mat | Groups | None = None if self.by_field is None else self.by_field.mask
        if self.mask is not None:
            groups = None if self.by_field is None else self.by_field.mask
            self.pair_mask = self._for_factors(self.mask, groups)
        if "W" in self.rates:
            self.rates["factors"] = self._for_factors(self.rates["W"])
        own = self.factor_l2
        l2 = [fit.l2 if own is None else own for fit in self.fits for _ in fit.y]
        if any(l2):
            self.terms["factors"] = [Penalty(l2=l2 * K)]

    def update(self, block: Block) -> None:
        """Hand the gradients of the block's mean loss to the optimizer."""
        X, weights, weight = block.X, block.weights, total(block.weights)
        eta, partners = self._scores(X)
        of_rows = RowLosses(losses, (self._labels(block), self.links))
        R = mean_derivatives(eta, None, self.b, of_rows, weights, maximum(weight, LEAST_WEIGHT))
        each = R if self.sums is None else (R @ self.each).mat()
        self.updates["W"] = Gradient(X, R, self.mask)
        itself = -each if self.by_field is None else -each * self.by_field.own
        self.updates["factors"] = Gradient(X, (each * partners).mat(), self.pair_mask, itself.mat())
        if self.intercept:
            self.updates["intercept"] = colsum(R)
        lost = row_losses(eta, None, self.b, of_rows)[1]
        self.objective = Objective(total(lost * weights), weight)

    def _for_factors(self, of_outputs: Mat, mask: Groups | None = None) -> Mat:
        """Return [n x K * outputs], the columns of [n x outputs] once for each factor.

        mask: [n x K * outputs], multiplied with them; None: 1.
        """
        rows, columns = of_outputs.shape[0], self.each.shape[1]
        found = self.scratch(f"{of_outputs.label} of factors", rows, columns)
        found <<= of_outputs @ self.each
        if mask is not None:
            found <<= mask.times(found)
        return found

    def _scores(self, X: Matrix) -> tuple[Mat, Mat]:
        """Return the scores without constants, and the sums that each factor meets, as X V."""
        W, V, sums = self.W, self.V, self.sums
        own = None if self.by_field is None else self.by_field.own
        dense = X.pattern is None
        if dense:
            squares = added_up(V * V if own is None else V * V * own, sums)
            alone = features_alone(X, squares)
        else:
            few = local(X)
            squares = local_table(few, W.shape[1], "squares of factors (scratch)")
            square_factors(few.T, V, squares, sums, own)
            alone = sparse_features_alone(few, squares)
        if self.by_field is not None:
            S = (X @ V).mat()
            partners = S[:, self.by_field.partner].mat()
            scores = (scores_of if dense else sparse_scores_of)(X, W, (S, partners), alone, sums)
            return scores.mat(), partners
        eta, S = (pair_scores if dense else sparse_pair_scores)(X, W, V, alone, sums)
        return eta.mat(), S.mat()

    def _input(self, block: Block) -> tuple[Rows, None]:
        """Return the scores without constants in place of X W."""
        return self._scores(block.X)[0], None
