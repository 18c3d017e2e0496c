"""An L2 penalty that differs from feature to feature."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from blocklearn.mixins import Mixin


class PenaltyByFeature(Mixin):
    """An L2 penalty with a weight for each entry of W: [features x 1] or [features x targets]."""

    kind: Literal["penalty by feature"] = "penalty by feature"
    weights: Any = Field(exclude=True)

    @property
    def l2(self) -> Any:
        """The weights."""
        return self.weights

    def scores(self) -> dict[str, Any]:
        """Return nothing: it is part of the model's own penalty."""
        return {}
