"""The part of a gradient optimizer that differs between rules: how a row steps and rests."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field

from blocklearn.matcache import repeat

from .base import Optimizer
from .errors import CombinationError
from .flow import NEAR, shrunk
from .managed import Slot
from .row import Row
from .schedules import AnySchedule, Constant


class GradientRule(Optimizer):
    """Settings and rule of an optimizer that descends gradients.

    A rule defines `slots`, `direction` and `scale`; the step is rate * scale * direction. Penalties
    use rate * scale as their step size, so `direction` must be in units of a gradient.
    """

    rate: float = Field(0.1, gt=0, description="step size")
    schedule: AnySchedule = Field(Constant(), description="how the rate changes, in steps (blocks)")
    clip_value: float | None = Field(None, gt=0, description="bound of each entry of a gradient")
    clip_row_norm: float | None = Field(None, gt=0, description="bound of the norm of each row")
    clip_global_norm: float | None = Field(
        None, gt=0, description="bound of the norm of all gradients together; dense updates only"
    )
    average_from: int | None = Field(
        None, ge=0, description="step from which on iterates are averaged (Polyak, Ruppert)"
    )
    step_per: Literal["block", "row"] = Field(
        "block", description="one step per block, by its mean, or one per row (sparse data only)"
    )

    by_entry: ClassVar[bool] = False  # whether entries of one row have different scales
    keeps_time: ClassVar[bool] = True  # whether `seen` measures the penalties that rows missed

    @abstractmethod
    def slots(self) -> dict[str, Slot]:
        """Return the state of a parameter, by the paper's names."""

    def direction(self, g: Any, *state: Any) -> Any:
        """Return the direction to descend, from the gradient g; update the state."""
        return g

    def scale(self, *state: Any) -> Any:
        """Return the rule's own factor of the rate, from the state."""
        return 1.0

    def move(self, row: Row, g: Any) -> Any:
        """Step a row, and return the time that penalties acted for."""
        before = dict(vars(self))
        direction = self.direction(g, *row.state)
        if direction is None:
            raise CombinationError(
                f"{self.name}.direction returns None: must return the direction to descend."
            )
        for name, value in vars(self).items():
            if isinstance(getattr(type(self), name, None), cached_property):
                continue
            if name not in before or before[name] is not value:
                raise CombinationError(
                    f"{self.name}.direction sets self.{name}: must keep nothing in Python. It runs "
                    "once, to make the kernel. Keep what changes in a slot: m <<= value."
                )
        return self._shrink(row, row.pace(), direction)

    def rest(self, row: Row) -> Any:
        """Apply the missed penalties to a row, and return the time that they acted for."""
        missed = row.missed()
        return self._shrink(row, missed if row.rates is None else missed * row.rates)

    def _shrink(self, row: Row, pace: Any, direction: Any = None) -> Any:
        """Move a row for pace * scale, and return that time.

        Where the scale is bounded, most rows need no exponential; the bits are the same.
        """
        time = pace * self.scale(*row.state)
        if row.most_l2 is None or math.isinf(self.most_scale):
            row.w <<= shrunk(row.w, time, row.l1, row.l2, direction)
            return time
        near = row.most_l2 * pace * self.most_scale < NEAR
        for _ in repeat(near):
            row.w <<= shrunk(row.w, time, row.l1, row.l2, direction, near=True)
        for _ in repeat(1.0 - near):
            row.w <<= shrunk(row.w, time, row.l1, row.l2, direction)
        return time

    @property
    def most_scale(self) -> float:
        """What no result of `scale` exceeds."""
        return math.inf

    def gain(self, rate: float) -> float:
        """Return how far a step with this rate advances the clock of the penalties."""
        return rate

    def weigh(self, row: Row, weight: Any) -> None:
        """Make the step of a single row (`step_per: row`) count `weight` times."""
        row.rate = row.rate * weight

    @property
    def name(self) -> str:
        """The name for messages and labels."""
        return str(getattr(self, "kind", type(self).__name__))

    @property
    def takes_rows(self) -> bool:
        """Whether the optimizer steps row after row: with `step_per: row`."""
        return self.step_per == "row"
