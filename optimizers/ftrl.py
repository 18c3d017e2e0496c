"""FTRL-proximal: follow the regularised leader.

McMahan et al., KDD 2013, algorithm 1.

    s = (sqrt(n + g^2) - sqrt(n)) / alpha,     z <- z + g - s w,     n <- n + g^2,
    w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2).

alpha is `rate`. l1 and l2 penalise the *sum* of the losses, as in the paper and its imitators: they
fade as data accumulate. Those of mixins penalise the *mean* loss: they count once for every step
(McMahan, AISTATS 2011, table 1: t l1). So w follows from (z, n, t) whenever it is read.
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
    """Follows the regularised leader: L1 penalties make weights exactly zero.

    Takes gradients. Parameters start at 0, whatever the model has set.
    """

    kind: Literal["ftrl"] = "ftrl"
    beta: float = Field(1.0, gt=0, description="keeps the first steps small")
    l1: float = Field(
        0.0, ge=0, description="L1 penalty, added to the sum of all losses, not to their mean"
    )
    l2: float = Field(
        0.0, ge=0, description="L2 penalty, added to the sum of all losses, not to their mean"
    )
    schedule: Constant = Field(
        Constant(), description="constant: the rates of FTRL fall by themselves"
    )
    by_entry: ClassVar[bool] = True
    keeps_time: ClassVar[bool] = False
    starts_at_zero: ClassVar[bool] = True

    def attach(self, cache: MatCache, parameters: dict[str, Mat], **kwargs: Any) -> None:
        """Make the state, and set the parameters to 0."""
        super().attach(cache, parameters, **kwargs)
        for w in parameters.values():
            w <<= 0.0

    def slots(self) -> dict[str, Slot]:
        """z, the gradients less the proximal terms; n, the sum of squared gradients."""
        return {"z": Slot(ALL), "n": Slot(ALL)}

    def move(self, row: Row, g: Any) -> Any:
        """Step as algorithm 1 does."""
        z, n = row.state
        grown = n + g * g
        z <<= z + g - (sqrt(grown) - sqrt(n)) / row.pace() * row.w
        n <<= grown
        return self.rest(row)

    def rest(self, row: Row) -> Any:
        """Set w from z, n and the number of steps."""
        z, n = row.state
        l1 = self.l1 if row.l1 is None else self.l1 + row.now * row.l1
        l2 = self.l2 if row.l2 is None else self.l2 + row.now * row.l2
        row.w <<= (clip(z, -l1, l1) - z) / ((self.beta + sqrt(n)) / row.pace() + l2)
        return None

    def gain(self, rate: float) -> float:
        """Return 1: the clock counts steps."""
        return 1.0

    def weigh(self, row: Row, weight: Any) -> None:
        """Multiply the gradient by the weight: z and n depend on no rate of the row."""
        row.g = row.g * weight
