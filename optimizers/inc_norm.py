"""Average estimates and normalise columns.

IncNorm of BIDMach (Canny, Zhao, KDD 2013).

rho_t = (1 + t)^-power,   w <- (1 - rho_t) w + rho_t u,   then each column is divided by its sum.

Differs from BIDMach: the first estimate replaces the initial values (there: 99 % of them); t counts
blocks only; a column that sums to 0 is left as it is instead of becoming NaN.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from blocklearn.matcache import colsum, scalar, where

from .estimates import StatisticsOptimizer
from .updates import Objective


class IncNorm(StatisticsOptimizer):
    """Averages estimates of blocks, and divides each column by its sum.

    Takes estimates of a parameter whose columns are distributions.
    """

    normalises: ClassVar[bool] = True
    kind: Literal["inc-norm"] = "inc-norm"
    power: float = Field(0.3, ge=0, le=1, description="forgetting rate; small forgets early blocks")

    def attach(self, *args: Any, **kwargs: Any) -> None:
        """Make the state: rho, which changes from step to step."""
        super().attach(*args, **kwargs)
        self._rho = scalar(self.cache, 0.0, "rho (inc-norm)")

    @property
    def form(self) -> Hashable:
        """Always the same."""
        return ()

    def step(self, updates: Mapping[str, Any], objective: Objective | None = None) -> None:
        """Average the estimates, then normalise."""
        self.cache.each_block(self._advance)
        for name, update in updates.items():
            w = self.parameters[name]
            w <<= w + self._rho * (update - w)
            sums = colsum(w)
            w <<= w / where(sums, sums, 1.0)

    def _advance(self) -> None:
        """Set rho, and count the step."""
        self._rho.set((1.0 + self.steps) ** -self.power)
        self.steps += 1
