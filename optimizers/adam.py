"""Adam: running means of gradients and of their squares.

Kingma, Ba, ICLR 2015, algorithm 1.

    m <- b1 m + (1 - b1) g,     v <- b2 v + (1 - b2) g^2,     t <- t + 1,
    w <- w - rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).

Differs from torch.optim.SparseAdam: t is a feature's own count of steps, so that the bias of a rare
feature is corrected too. Penalties are proximal, with each weight's own rate: not AdamW's decay.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from blocklearn.matcache import maximum, sqrt

from .flow import saturation
from .gradient import GradientOptimizer
from .managed import ALL, ONE, Slot


class Adam(GradientOptimizer):
    """Steps along a running mean of gradients, with a rate for each weight.

    Takes gradients. m, v and t of a row rest while its feature does not occur.
    """

    kind: Literal["adam"] = "adam"
    rate: float = Field(0.001, gt=0, description="step size")
    beta1: float = Field(0.9, gt=0, lt=1, description="decay of the mean of gradients")
    beta2: float = Field(0.999, gt=0, lt=1, description="decay of the mean of squared gradients")
    eps: float = Field(1e-8, gt=0, description="keeps steps finite where gradients vanish")
    by_entry: ClassVar[bool] = True

    def slots(self) -> dict[str, Slot]:
        """m and v, the means; t, the steps of the row."""
        return {"m": Slot(ALL), "v": Slot(ALL), "t": Slot(ONE)}

    def direction(self, g: Any, *state: Any) -> Any:
        """Update the state, and return the mean gradient, corrected for its start at 0."""
        m, v, t = state
        m <<= m + (1.0 - self.beta1) * (g - m)
        v <<= v + (1.0 - self.beta2) * (g * g - v)
        t <<= t + 1.0
        return m / _weight(self.beta1, t)

    def scale(self, *state: Any) -> Any:
        """Return 1 / (root mean square of the gradients + eps)."""
        _, v, t = state
        return 1.0 / (sqrt(v / _weight(self.beta2, t)) + self.eps)


def _weight(beta: float, t: Any) -> Any:
    """Return 1 - beta^t to full precision; a row without steps has t = 1."""
    x = maximum(t, 1.0) * -math.log(beta)
    return x * saturation(x)
