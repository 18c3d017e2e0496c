"""Change the step size: rate_t = rate * factor(t), after t steps (blocks)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from blocklearn.fields import Fields


class Schedule(Fields):
    """Base of all schedules."""

    model_config = ConfigDict(frozen=True)

    @abstractmethod
    def factor(self, step: int) -> float:
        """Return the factor of the rate after `step` steps."""


class Constant(Schedule):
    """factor = 1."""

    kind: Literal["constant"] = "constant"

    def factor(self, step: int) -> float:
        """Return 1.

        >>> Constant().factor(1000)
        1.0
        """
        return 1.0


class Power(Schedule):
    """factor = (1 + t / delay)^-exponent.

    Robbins, Monro (1951): exponents in (0.5, 1] converge.

    With delay 1 it is BIDMach's t^-texp (there t starts at 1).
    """

    kind: Literal["power"] = "power"
    exponent: float = Field(0.5, ge=0, description="0.5: inverse square root")
    delay: PositiveFloat = Field(1.0, description="steps until the decay sets in")

    def factor(self, step: int) -> float:
        """Return a factor that falls as a power of the number of steps.

        >>> Power(exponent=0.5).factor(3)
        0.5
        """
        return float((1.0 + step / self.delay) ** -self.exponent)


class Exponential(Schedule):
    """factor = decay^(t / every)."""

    kind: Literal["exponential"] = "exponential"
    decay: float = Field(0.5, gt=0, le=1, description="factor after `every` steps")
    every: PositiveInt = Field(1000, description="steps")

    def factor(self, step: int) -> float:
        """Return a factor that falls by `decay` in every period.

        >>> Exponential(decay=0.1, every=100).factor(200)
        0.01
        """
        return round(float(self.decay ** (step / self.every)), 15)


class Piecewise(Schedule):
    """factor = factors[i] from step starts[i] on; 1 before the first."""

    kind: Literal["piecewise"] = "piecewise"
    starts: list[PositiveInt] = Field(description="steps at which a new factor begins, ascending")
    factors: list[PositiveFloat] = Field(description="one for each start")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if len(self.starts) != len(self.factors) or sorted(set(self.starts)) != self.starts:
            raise ValueError(
                f"piecewise schedule: starts={self.starts} must ascend, and factors={self.factors} "
                "must have one factor for each start"
            )
        return self

    def factor(self, step: int) -> float:
        """Return the last factor that has begun.

        >>> Piecewise(starts=[10, 20], factors=[0.5, 0.1]).factor(15)
        0.5
        """
        begun = [f for s, f in zip(self.starts, self.factors, strict=True) if s <= step]
        return begun[-1] if begun else 1.0


class WarmUp(Schedule):
    """factor = min(1, (t + 1) / steps) times that of `then`, which counts t, too."""

    kind: Literal["warm-up"] = "warm-up"
    steps: PositiveInt = Field(description="steps until the full rate")
    then: Annotated[Constant | Power | Exponential | Piecewise, Field(discriminator="kind")] = (
        Constant()
    )

    def factor(self, step: int) -> float:
        """Return a factor that first rises linearly.

        >>> WarmUp(steps=4).factor(1)
        0.5
        """
        return min(1.0, (step + 1) / self.steps) * self.then.factor(step)


AnySchedule = Annotated[
    Constant | Power | Exponential | Piecewise | WarmUp, Field(discriminator="kind")
]
