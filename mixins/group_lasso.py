"""Group lasso over targets: + weight sum_i ||W_i||.

A feature serves all targets or none.

Yuan, Lin, JRSS B 68 (2006), without their factor sqrt(group size): here all groups are of one size.
A row moves towards 0 at constant speed: ||w(t)|| = max(0, ||w|| - weight t).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from blocklearn.matcache import maximum, rowsum, sqrt, total
from blocklearn.matcache.notation.functions import TINY

from .base import Mixin


class GroupLasso(Mixin):
    """Adds a penalty that makes whole rows of weights exactly zero.

    Scores: `group_lasso`, the term; `zero_rows`, their share.
    """

    kind: Literal["group-lasso"] = "group-lasso"
    weight: float = Field(1e-4, ge=0, description="weight of the sum of the norms of rows")
    flows: ClassVar[bool] = True
    by_row: ClassVar[bool] = True

    @property
    def acts(self) -> bool:
        """Whether the weight is not 0."""
        return self.weight > 0

    def flow(self, w: Any, time: Any) -> Any:
        """Shorten the row by weight * time."""
        norm = sqrt(rowsum(w * w))
        return w * maximum(1.0 - self.weight * time / maximum(norm, TINY), 0.0)

    def scores(self) -> dict[str, Any]:
        """Return the term itself and the share of zero rows."""
        return self.per_table(
            "group_lasso", lambda W: self.weight * total(sqrt(rowsum(W * W)))
        ) | self.per_table("zero_rows", lambda W: total(rowsum(abs(W)) <= 0.0) / W.shape[0])
