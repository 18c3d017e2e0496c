"""AdaGrad: rates that fall with the gradients seen.

Duchi, Hazan, Singer, JMLR 12 (2011).

    G <- G + g^2,     w <- w - rate g / (sqrt(G) + eps).

Differs from torch.optim.Adagrad: schedules instead of `lr_decay`; penalties are proximal, with each
weight's own rate. BIDMach's ADAGrad with vexp = texp = 1/2 is the same written as a running mean.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from blocklearn.matcache import sqrt

from .gradient import GradientOptimizer
from .managed import ALL, Slot


class AdaGrad(GradientOptimizer):
    """Divides each weight's steps by the root of the sum of its squared gradients.

    Takes gradients. A feature that does not occur has none, so G is exact. A weight without any
    gradient so far has the rate `rate / eps`: any penalty sets it to 0.
    """

    kind: Literal["adagrad"] = "adagrad"
    eps: float = Field(1e-6, gt=0, description="keeps the first steps finite")
    initial: float = Field(0.0, ge=0, description="initial value of G")
    by_entry: ClassVar[bool] = True

    def slots(self) -> dict[str, Slot]:
        """G, the sum of squared gradients."""
        return {"G": Slot(ALL, self.initial)}

    @property
    def most_scale(self) -> float:
        """The scale of a weight without any gradient."""
        return 1.0 / (math.sqrt(self.initial) + self.eps)

    def direction(self, g: Any, *state: Any) -> Any:
        """Add to G, and return the gradient itself."""
        (G,) = state
        G <<= G + g * g
        return g

    def scale(self, *state: Any) -> Any:
        """Return 1 / (sqrt(G) + eps), by which `GradientRule` multiplies the rate."""
        (G,) = state
        return 1.0 / (sqrt(G) + self.eps)
