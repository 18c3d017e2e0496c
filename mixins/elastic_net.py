"""Elastic net: + weight (l1_ratio ||W||_1 + (1 - l1_ratio) / 2 ||W||^2).

Zou, Hastie, JRSS B 67 (2005). Parametrised as scikit-learn's ElasticNet (weight is its `alpha`).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from blocklearn.matcache import equal, total

from .base import Mixin, Weights


class ElasticNet(Mixin):
    """Adds L1 and L2 in one term.

    Scores: `elastic_net`, the term; `zeros`, the share of zeros.
    """

    kind: Literal["elastic-net"] = "elastic-net"
    weight: Weights = Field(1e-4, description="one number, or one for each column (target)")
    l1_ratio: float = Field(0.5, ge=0, le=1, description="1: all of it is L1")

    @property
    def l1(self) -> Weights:
        """The L1 part of the weight."""
        return _times(self.weight, self.l1_ratio)

    @property
    def l2(self) -> Weights:
        """The L2 part of the weight."""
        return _times(self.weight, 1.0 - self.l1_ratio)

    def scores(self) -> dict[str, Any]:
        """Return the term itself and the share of zeros."""
        r = self.l1_ratio
        return self.per_table(
            "elastic_net",
            lambda W: total(
                self.weight_of(self.weight, W) * (r * abs(W) + (1.0 - r) / 2.0 * (W * W))
            ),
        ) | self.per_table("zeros", lambda W: total(equal(W, 0.0)) / (W.shape[0] * W.shape[1]))


def _times(weight: Weights, factor: float) -> Weights:
    return [w * factor for w in weight] if isinstance(weight, list) else weight * factor
