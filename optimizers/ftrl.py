"""FTRL-proximal: follow the regularised leader. McMahan et al., KDD 2013, algorithm 1.

    s = (sqrt(n + g^2) - sqrt(n)) / alpha,     z <- z + g - s w,     n <- n + g^2,
    w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2).

alpha is `rate`. l1 and l2 are of the *sum* of the losses, as in the paper and its imitators: they
fade as data accumulate. Those of mixins are of the *mean* loss: they count once for every step done
(McMahan, AISTATS 2011, table 1: t l1), so w follows from (z, n, t) whenever it is read.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from blocklearn.matcache import Mat, MatCache, clip, sqrt

from .gradient import GradientOptimizer
from .managed import ALL, Slot
from .row import Row
from .schedules import Constant


class FTRL(GradientOptimizer):
    """Each update is a gradient. Parameters are set to 0 first, where the leader starts."""

    kind: Literal["ftrl"] = "ftrl"
    beta: float = Field(1.0, gt=0, description="keeps the first steps small")
    l1: float = Field(0.0, ge=0, description="of the sum of all losses, not of their mean")
    l2: float = Field(0.0, ge=0, description="of the sum of all losses, not of their mean")
    schedule: Constant = Field(Constant(), description="its rates fall by themselves")
    by_entry: ClassVar[bool] = True
    keeps_time: ClassVar[bool] = False

    def attach(self, cache: MatCache, parameters: dict[str, Mat], **kwargs: Any) -> None:
        """Also sets the parameters to 0."""
        super().attach(cache, parameters, **kwargs)
        for w in parameters.values():
            w <<= 0.0

    def slots(self) -> dict[str, Slot]:
        """z, gradients less what holds w at its past values; n, sum of squared gradients."""
        return {"z": Slot(ALL), "n": Slot(ALL)}

    def move(self, row: Row, g: Any) -> Any:
        """The step of algorithm 1."""
        z, n = row.state
        grown = n + g * g
        z <<= z + g - (sqrt(grown) - sqrt(n)) / row.pace() * row.w
        n <<= grown
        return self.rest(row)

    def rest(self, row: Row) -> Any:
        """w from z, n and the number of steps."""
        z, n = row.state
        l1 = self.l1 if row.l1 is None else self.l1 + row.now * row.l1
        l2 = self.l2 if row.l2 is None else self.l2 + row.now * row.l2
        row.w <<= (clip(z, -l1, l1) - z) / ((self.beta + sqrt(n)) / row.pace() + l2)
        return None

    def gain(self, rate: float) -> float:
        """Its clock counts steps."""
        return 1.0

    def weigh(self, row: Row, weight: Any) -> None:
        """The gradient is that of so many losses: z and n have no rate that a row could change."""
        row.g = row.g * weight
