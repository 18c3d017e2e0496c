"""Report the largest weights of each column: what a topic or target is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, PositiveInt

from blocklearn.matcache import Mat, maximum, total
from blocklearn.matcache.notation.functions import TINY

from .base import Mixin


class TopWeights(Mixin):
    """Reports the largest weights, and changes nothing.

    Scores: `above_threshold`, the share of weights above the threshold; `mass_above_threshold`,
    their share of the sum of absolute values.
    """

    kind: Literal["top-weights"] = "top-weights"
    count: PositiveInt = Field(10, description="weights to name for each column")
    threshold: float = Field(1e-3, ge=0, description="absolute value from which weights count")

    def scores(self) -> dict[str, Any]:
        """Return the shares above the threshold."""
        return self.per_table(
            "above_threshold",
            lambda W: total(abs(W) > self.threshold) / (W.shape[0] * W.shape[1]),
        ) | self.per_table("mass_above_threshold", self._mass)

    def report(self, name: str, W: np.ndarray[Any, Any], names: Sequence[str] | None) -> list[str]:
        """Return a line per column: the rows of its largest weights, by absolute value."""
        lines = []
        for column, w in enumerate(W.T):
            rows = np.argsort(-abs(w), kind="stable")[: self.count]
            words = (f"{names[r] if names else r} {w[r]:.4g}" for r in rows if w[r])
            lines.append(f"{name}[{column}]: {', '.join(words)}")
        return lines

    def _mass(self, W: Mat) -> Any:
        return total(abs(W) * (abs(W) > self.threshold)) / maximum(total(abs(W)), TINY)
