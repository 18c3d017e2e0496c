"""Average estimates of blocks: natural gradient of Hoffman, Blei, Bach (2010).

rho_t = (tau0 + t)^-kappa,   w <- (1 - rho_t) w + rho_t u,   t = 0, 1, ... blocks of this phase.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from blocklearn.matcache import scalar

from .base import Objective
from .estimates import StatisticsOptimizer

Delay = Annotated[float, Field(ge=0)]


class StreamingAverage(StatisticsOptimizer):
    """Averages estimates of a parameter, each made from one block alone.

    For conjugate models this is stochastic natural gradient (Hoffman et al. 2013, eq. 26).
    tau0 >= 0 slows down the first steps; kappa in (0.5, 1] forgets early blocks (Robbins-Monro).
    Differs from BIDMach's IncNorm: the decay counts blocks, and nothing is normalised.
    """

    kind: Literal["streaming-average"] = "streaming-average"
    tau0: Delay | list[Delay] = Field(
        1.0, description="delay: larger values down-weight early blocks; one, or one per phase"
    )
    kappa: float = Field(0.7, ge=0, le=1, description="forgetting rate; 0.5 < kappa <= 1 converges")

    def attach(self, *args: Any, **kwargs: Any) -> None:
        """Make the state: rho, which changes from step to step."""
        super().attach(*args, **kwargs)
        self._rho = scalar(self.cache, 0.0, "rho (streaming average)")

    def enter(self, phase: int) -> None:
        """Count steps from the beginning of the phase."""
        super().enter(phase)
        self.steps = 0

    @property
    def form(self) -> Hashable:
        """Always the same."""
        return ()

    def step(self, updates: Mapping[str, Any], objective: Objective | None = None) -> None:
        """Set w <- (1 - rho) w + rho u, in one kernel with the expression u."""
        self.cache.each_block(self._advance)
        for name, update in updates.items():
            w = self.parameters[name]
            w <<= w + self._rho * (update - w)

    def _advance(self) -> None:
        """Set rho, and count the step."""
        delays = self.tau0 if isinstance(self.tau0, list) else [self.tau0]
        base = delays[min(self.phase, len(delays) - 1)] + self.steps
        self._rho.set(1.0 if base <= 1.0 else base**-self.kappa)
        self.steps += 1
