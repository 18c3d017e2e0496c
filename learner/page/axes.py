"""Axes of charts, as SVG: where numbers are drawn, and which of them are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .markup import Markup, join, tag
from .ticks import label, linear_ticks, log_ticks

WIDTH, HEIGHT = 360, 200
TOP, RIGHT, BOTTOM = 12, 14, 38


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high` as places from `first` to `last`."""

    low: float
    high: float
    first: float
    last: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where `value` is drawn."""
        low, high = self._of(self.low), self._of(self.high)
        return self.first + (self._of(value) - low) / (high - low) * (self.last - self.first)

    @property
    def ticks(self) -> list[float]:
        """Round numbers."""
        return log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high)

    def _of(self, value: float) -> float:
        return math.log10(value) if self.log else value


def span(values: Sequence[float], *, zero: bool, log: bool) -> tuple[float, float]:
    """The least and the largest number of an axis, with some room around the values."""
    low, high = min(values), max(values)
    if log:
        first, last = math.log10(low), math.log10(high)
        room = 0.06 * (last - first) or 0.3
        return 10.0 ** max(first - room, -307.0), 10.0 ** min(last + room, 308.0)
    low, high = widened(min(0.0, low) if zero else low, high)
    room = 0.06 * (high - low)
    return (low if zero else low - room), high + room


def widened(low: float, high: float) -> tuple[float, float]:
    """The same two numbers; others around them where there is nothing to see between these.

    >>> widened(0.5, 3.0), widened(4.0, 4.0), widened(1e6, 1e6)
    ((0.5, 3.0), (3.5, 4.5), (900000.0, 1100000.0))
    """
    size = max(abs(low), abs(high))
    if high - low > 1e-6 * size:
        return low, high
    room = max(0.5, 0.1 * size)
    return low - room, high + room


def side(axis: Axis, names: Sequence[str], left: float) -> Markup:
    """Numbers to the left, and lines across the chart."""
    parts = []
    for tick, name in zip(axis.ticks, names, strict=True):
        y = axis.place(tick)
        parts.append(tag("line", x1=left, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", name, x=left - 6, y=y + 4, class_="end"))
    return join(*parts)


def foot(axis: Axis, title: str) -> Markup:
    """The line below, its numbers, and what they are of."""
    y = HEIGHT - BOTTOM
    parts = [tag("line", x1=axis.first, x2=axis.last, y1=y, y2=y, class_="axis")]
    for tick in axis.ticks:
        x = axis.place(tick)
        parts.append(tag("line", x1=x, x2=x, y1=y, y2=y + 4, class_="axis"))
        parts.append(tag("text", label(tick, axis.ticks), x=x, y=y + 16, class_="middle"))
    middle = (axis.first + axis.last) / 2
    parts.append(tag("text", title, x=middle, y=HEIGHT - 5, class_="middle"))
    return join(*parts)
