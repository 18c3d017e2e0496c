"""Non-negativity: set negative weights to 0 after every step (projected gradient).

Goldstein 1964; Levitin, Polyak 1966.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from blocklearn.matcache import maximum, total

from .base import Mixin


class NonNegative(Mixin):
    """Keeps all weights at 0 or above.

    Scores: `at_bound`, the share of weights that are 0.
    """

    kind: Literal["non-negative"] = "non-negative"
    projects: ClassVar[bool] = True
    flows: ClassVar[bool] = True

    def flow(self, w: Any, time: Any) -> Any:
        """Return max(w, 0), whatever the time."""
        return maximum(w, 0.0)

    def scores(self) -> dict[str, Any]:
        """Return the share of weights at their bound."""
        return self.per_table("at_bound", lambda W: total(W <= 0.0) / (W.shape[0] * W.shape[1]))
