"""RMSProp: rates by a running mean of squared gradients.

Tieleman, Hinton, lecture 6.5 (2012).

    G <- decay G + (1 - decay) g^2,     w <- w - rate g / (sqrt(G) + eps).

The same as torch.optim.RMSprop (centered=False), with its decay called `alpha` there.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from blocklearn.matcache import sqrt

from .gradient import GradientOptimizer
from .managed import ALL, Slot


class RMSProp(GradientOptimizer):
    """Divides each weight's steps by the root of a running mean of squared gradients.

    Takes gradients. G of a feature is the mean over the blocks that have the feature.
    """

    kind: Literal["rmsprop"] = "rmsprop"
    rate: float = Field(0.01, gt=0, description="step size")
    decay: float = Field(0.9, ge=0, lt=1, description="decay of the mean of squared gradients")
    eps: float = Field(1e-8, gt=0, description="keeps steps finite where gradients vanish")
    by_entry: ClassVar[bool] = True

    def slots(self) -> dict[str, Slot]:
        """G, the running mean of squared gradients."""
        return {"G": Slot(ALL)}

    def direction(self, g: Any, *state: Any) -> Any:
        """Update G, and return the gradient itself."""
        (G,) = state
        G <<= G + (1.0 - self.decay) * (g * g - G)
        return g

    def scale(self, *state: Any) -> Any:
        """Return 1 / (sqrt(G) + eps)."""
        (G,) = state
        return 1.0 / (sqrt(G) + self.eps)
