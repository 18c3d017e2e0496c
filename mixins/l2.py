"""L2: + weight / 2 ||W||^2, ridge regression or weight decay.

Hoerl, Kennard 1970.

The factor 1/2 is as in scikit-learn's SGD and in BIDMach; scikit-learn's Ridge has none.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from blocklearn.matcache import total

from .base import Mixin, Weights


class L2(Mixin):
    """Adds the ridge penalty, which makes weights smaller.

    Scores: `l2`, the term.
    """

    kind: Literal["l2"] = "l2"
    weight: Weights = Field(1e-4, description="one number, or one for each column (target)")

    @property
    def l2(self) -> Weights:
        """The weight of the term."""
        return self.weight

    def scores(self) -> dict[str, Any]:
        """Return the term itself."""
        return self.per_table("l2", lambda W: total(self.weight_of(self.weight, W) * (W * W)) / 2.0)
