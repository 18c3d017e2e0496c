"""The streaming average: natural gradient of Hoffman, Blei, Bach (2010), IncNorm of BIDMach.

rho_t = (tau0 + t)^-kappa,   w <- (1 - rho_t) w + rho_t u,   t = 0, 1, ... blocks seen so far.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ..matcache import Mat, MatCache, scalar
from .base import Optimizer


class StreamingAverage(Optimizer):
    """Each update is an estimate of the parameter made from one block alone; average them.

    For conjugate models this is stochastic natural gradient (Hoffman et al. 2013, eq. 26).
    tau0 >= 0 slows down the first steps; kappa in (0.5, 1] forgets early blocks (Robbins-Monro).
    Differs from BIDMach's IncNorm: the decay counts blocks, and nothing is normalised.
    """

    kind: Literal["streaming-average"] = "streaming-average"
    tau0: float = Field(1.0, ge=0, description="delay: larger values down-weight early blocks")
    kappa: float = Field(0.7, ge=0, le=1, description="forgetting rate; 0.5 < kappa <= 1 converges")

    def attach(self, cache: MatCache, parameters: dict[str, Mat]) -> None:
        """Make the one number that changes from step to step."""
        super().attach(cache, parameters)
        self.rho = scalar(cache, 0.0, "rho (streaming average)")

    def step(self, parameters: dict[str, Mat], updates: dict[str, Any]) -> None:
        """w <- (1 - rho) w + rho u, in one kernel with the expression u."""
        base = self.tau0 + self.steps
        self.rho.set(1.0 if base <= 1.0 else base**-self.kappa)
        for name, update in updates.items():
            parameter = parameters[name]
            parameter <<= parameter + self.rho * (update - parameter)
        self.steps += 1
