"""L1: + weight ||W||_1, by its proximal operator, which makes weights exactly zero.

Tibshirani, JRSS B 58 (1996); truncated gradient: Langford, Li, Zhang, JMLR 10 (2009). Differs from
BIDMach's L1Regularizer, which adds -w sign(W) to the gradient: that never reaches zero.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from blocklearn.matcache import equal, total

from .base import Mixin, Weights


class L1(Mixin):
    """Adds the lasso penalty, which makes weights exactly zero.

    Scores: `l1`, the term; `zeros`, the share of weights that are 0.
    """

    kind: Literal["l1"] = "l1"
    weight: Weights = Field(1e-4, description="one number, or one for each column (target)")

    @property
    def l1(self) -> Weights:
        """The weight of the term."""
        return self.weight

    def scores(self) -> dict[str, Any]:
        """Return the term itself and the share of zeros."""
        return self.per_table(
            "l1", lambda W: total(self.weight_of(self.weight, W) * abs(W))
        ) | self.per_table("zeros", lambda W: total(equal(W, 0.0)) / (W.shape[0] * W.shape[1]))
