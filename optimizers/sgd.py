"""Stochastic gradient descent.

Robbins, Monro 1951; momentum: Polyak 1964; Sutskever et al. 2013.

    v <- mu v + g,     w <- w - rate v,     Nesterov: w <- w - rate (g + mu v).

The same as torch.optim.SGD (dampening 0), but penalties are proximal. They act for the time
rate / (1 - mu), so momentum does not move the optimum.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from .gradient import GradientOptimizer
from .managed import ALL, Slot


class SGD(GradientOptimizer):
    """Steps against the gradient of each block, with or without momentum.

    Takes gradients. v of a row rests while its feature does not occur.
    """

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(0.0, ge=0, lt=1, description="mu, weight of the earlier steps")
    nesterov: bool = Field(False, description="look ahead along the momentum")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("sgd: nesterov=true looks ahead along the momentum; set momentum > 0")
        return self

    def slots(self) -> dict[str, Slot]:
        """v, the velocity."""
        return {"v": Slot(ALL)} if self.momentum else {}

    def direction(self, g: Any, *state: Any) -> Any:
        """Update v, and return the step as a mean of gradients: (1 - mu) v."""
        if not state:
            return g
        (v,) = state
        v <<= self.momentum * v + g
        return (1.0 - self.momentum) * (g + self.momentum * v if self.nesterov else v)

    def scale(self, *state: Any) -> Any:
        """Return 1 / (1 - mu): the weights of one gradient, summed over all later steps."""
        return 1.0 / (1.0 - self.momentum)
