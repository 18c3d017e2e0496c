"""Charts: curves over two axes and shares of a whole as SVG, bars as HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .markup import Markup, join, tag

WIDTH, HEIGHT = 360, 200
TOP, RIGHT, BOTTOM, LEFT = 12, 14, 38, 44.0
MOST = 400  # points of a curve; more are replaced by means
MOST_STRIPS = 240  # drawn intervals; of more, neighbours are merged
TOLD = 150  # points that show their numbers under a mouse
FAR = 30  # largest / least number from which an axis is logarithmic
UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Curve:
    """Points (x, y) with x ascending.

    color: 1 to 5.
    steps: y holds from the x before to its own; the first one holds from 0.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: int = 1
    steps: bool = False


class Bar(NamedTuple):
    """A name, the number that sets the bar's length, and the text beside it."""

    name: str
    value: float
    text: str = ""


def line_chart(
    curves: Sequence[Curve],
    *,
    x_label: str,
    zero: bool = False,
    top: float | None = None,
    log_x: bool = False,
    linear: bool = False,
    x_names: Sequence[str] = (),
) -> Markup:
    """Return a chart of curves, each with at least one point.

    zero: begin the vertical axis at 0.
    top: end of the vertical axis.
    log_x: logarithmic horizontal axis.
    linear: no logarithmic vertical axis, however far apart the numbers are.
    x_names: names of x = 0, 1, ..., in place of numbers.
    """
    curves = [thinned(curve) for curve in curves]
    ys = [y for curve in curves for y in curve.y]
    log_y = not (zero or linear) and min(ys) > 0 and max(ys) / min(ys) > FAR
    low, high = span(ys, zero=zero, log=log_y)
    vertical = Axis(low, top or high, HEIGHT - BOTTOM, TOP, log_y)
    numbers = [label(tick, vertical.ticks) for tick in vertical.ticks]
    left = 12 + 6.5 * max(map(len, numbers), default=0)
    xs = [x for curve in curves for x in curve.x]
    start, end = 0.0 if any(curve.steps for curve in curves) else min(xs), max(xs)
    start, end = (start, max(end, 1.01 * start)) if log_x else widened(start, end)
    horizontal = Axis(start, end, left, WIDTH - RIGHT, log_x)
    side = []
    for tick, number in zip(vertical.ticks, numbers, strict=True):
        y = vertical.place(tick)
        side.append(tag("line", x1=left, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        side.append(tag("text", number, x=left - 6, y=y + 4, class_="end"))
    drawn = [_curve(curve, horizontal, vertical) for curve in curves]
    names = ", ".join(curve.name for curve in curves)
    foot = _foot(horizontal, x_label, x_names)
    return _svg(join(*side), foot, *drawn, about=names)


def strips(
    ends: Sequence[float],
    parts: Mapping[str, Sequence[float]],
    colors: Mapping[str, int],
    x_label: str,
) -> Markup:
    """Return the shares of `parts` in each interval, stacked, over the intervals.

    ends: ends of the intervals; the first one begins at 0.
    """
    table = np.array([list(values) for values in parts.values()], np.float64)  # [parts x intervals]
    edges = np.concatenate([[0.0], np.asarray(ends, np.float64)])
    horizontal = Axis(0.0, max(float(edges[-1]), 1e-9), LEFT, WIDTH - RIGHT)
    vertical = Axis(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    found = []
    for group in np.array_split(np.arange(table.shape[1]), min(MOST_STRIPS, table.shape[1])):
        sums = table[:, group].sum(axis=1)
        x0, x1 = horizontal.place(edges[group[0]]), horizontal.place(edges[group[-1] + 1])
        level, whole = 0.0, sums.sum() or 1.0
        for name, share in zip(parts, sums / whole, strict=True):
            top = vertical.place(level + share)
            size = {"width": x1 - x0 + 0.2, "height": vertical.place(level) - top}
            found.append(tag("rect", x=x0, y=top, **size, class_=f"area c{colors[name]}"))
            level += share
    for percent in (0, 50, 100):
        y = vertical.place(percent / 100) + 4
        found.append(tag("text", f"{percent}%", x=LEFT - 6, y=y, class_="end"))
    return _svg(*found, _foot(horizontal, x_label), about=f"shares of {', '.join(parts)}")


def strip(shares: Mapping[str, float], colors: Mapping[str, int]) -> Markup:
    """Return shares side by side in one bar."""
    whole = sum(shares.values()) or 1.0
    x, parts = 0.0, []
    for name, value in shares.items():
        width = 100 * value / whole
        parts.append(tag("rect", x=x, y=0, width=width, height=6, class_=f"area c{colors[name]}"))
        x += width
    flat = {"viewBox": "0 0 100 6", "class_": "strip", "preserveAspectRatio": "none"}
    return tag("svg", *parts, **flat, role="img")


def legend(entries: Mapping[str, str], colors: Mapping[str, int]) -> Markup:
    """Return names with their colours and a text each."""
    spans = (
        tag("span", tag("i", class_=f"swatch c{colors[name]}"), name, " ", tag("b", text))
        for name, text in entries.items()
    )
    return tag("div", *spans, class_="legend")


def bars(rows: Sequence[Bar], full: float = 0.0) -> Markup:
    """Return bars below each other.

    full: the number that fills a bar; 0: the largest one.
    """
    full = full or max((abs(row.value) for row in rows), default=0.0) or 1.0
    parts = []
    for row in rows:
        width = f"width:{100 * min(abs(row.value) / full, 1):.1f}%"
        fill = tag("i", class_=f"fill c{1 if row.value >= 0 else 2}", style=width)
        parts.append(tag("span", row.name, class_="name", title=row.name))
        parts.append(tag("span", fill, class_="track"))
        parts.append(tag("span", row.text, class_="value"))
    return tag("div", *parts, class_="bars")


def thinned(curve: Curve) -> Curve:
    """Return the curve with at most `MOST` points."""
    if len(curve.x) <= MOST:
        return curve
    parts = np.array_split(np.arange(len(curve.x)), MOST)
    x = [float(curve.x[part[-1]]) for part in parts]
    y = [float(np.mean([curve.y[i] for i in part])) for part in parts]
    return replace(curve, x=x, y=y)


def _curve(curve: Curve, horizontal: Axis, vertical: Axis) -> Markup:
    places = [
        (horizontal.place(x), vertical.place(y)) for x, y in zip(curve.x, curve.y, strict=True)
    ]
    if curve.steps:
        path = f"M{horizontal.first:.1f} {places[0][1]:.1f}"
        path += "".join(f"V{y:.1f}H{x:.1f}" for x, y in places)
    else:
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    parts = [tag("path", d=path, class_=f"curve c{curve.color}")]
    if not curve.steps:
        x, y = places[-1]
        parts.append(tag("circle", cx=x, cy=y, r=3.5, class_=f"dot c{curve.color}"))
    if len(places) <= TOLD:
        for (x, y), number, value in zip(places, curve.x, curve.y, strict=True):
            told = tag("title", f"{curve.name} {value:.6g} at {number:.6g}")
            parts.append(tag("circle", told, cx=x, cy=y, r=7, class_="told"))
    return join(*parts)


def _foot(axis: Axis, title: str, names: Sequence[str] = ()) -> Markup:
    """Return the horizontal axis with its title, and numbers or the names of numbers."""
    y = HEIGHT - BOTTOM
    parts = [tag("line", x1=axis.first, x2=axis.last, y1=y, y2=y, class_="axis")]
    ticks = axis.ticks
    texts = {tick: label(tick, ticks) for tick in ticks}
    if names:
        texts = {t: names[int(t)] for t in ticks if t == int(t) and 0 <= t < len(names)}
    for tick, text in texts.items():
        x = axis.place(tick)
        parts.append(tag("line", x1=x, x2=x, y1=y, y2=y + 4, class_="axis"))
        parts.append(tag("text", text, x=x, y=y + 16, class_="middle"))
    middle = (axis.first + axis.last) / 2
    return join(*parts, tag("text", title, x=middle, y=HEIGHT - 5, class_="middle"))


def _svg(*parts: str, about: str) -> Markup:
    size = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", *parts, viewBox=size, role="img", aria_label=about)


# ---- axes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """Maps numbers from `low` to `high` to places from `first` to `last`."""

    low: float
    high: float
    first: float
    last: float
    log: bool = False

    def place(self, value: float) -> float:
        """Return the place of `value`."""
        low, high = self._of(self.low), self._of(self.high)
        return self.first + (self._of(value) - low) / (high - low) * (self.last - self.first)

    @property
    def ticks(self) -> list[float]:
        """Round numbers on the axis."""
        return log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high)

    def _of(self, value: float) -> float:
        return math.log10(value) if self.log else value


def span(values: Sequence[float], *, zero: bool, log: bool) -> tuple[float, float]:
    """Return the bounds of an axis, with some room around the values."""
    low, high = min(values), max(values)
    if log:
        first, last = math.log10(low), math.log10(high)
        room = 0.06 * (last - first) or 0.3
        return 10.0 ** max(first - room, -307.0), 10.0 ** min(last + room, 308.0)
    low, high = widened(min(0.0, low) if zero else low, high)
    room = 0.06 * (high - low)
    return (low if zero else low - room), high + room


def widened(low: float, high: float) -> tuple[float, float]:
    """Return the two numbers, or others around them if they are too close.

    >>> widened(0.5, 3.0), widened(4.0, 4.0), widened(1e6, 1e6)
    ((0.5, 3.0), (3.5, 4.5), (900000.0, 1100000.0))
    """
    size = max(abs(low), abs(high))
    if high - low > 1e-6 * size:
        return low, high
    room = max(0.5, 0.1 * size)
    return low - room, high + room


def linear_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most `most` + 1 multiples of 1, 2 or 5 times a power of ten in [low, high].

    >>> linear_ticks(0, 9.3), linear_ticks(0.11, 0.19)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.12, 0.14, 0.16, 0.18])
    """
    rough = (high - low) / most
    if rough <= 0 or not math.isfinite(rough):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [
        round(index * step, 12 - math.floor(math.log10(step))) for index in range(first, last + 1)
    ]


def log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten from `low` to `high`, thinned to six; fewer than two: linear ticks.

    >>> log_ticks(0.5, 2000), log_ticks(20, 90)
    ([1.0, 10.0, 100.0, 1000.0], [20.0, 40.0, 60.0, 80.0])
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    powers = range(first, last + 1)
    if len(powers) < 2:
        return [tick for tick in linear_ticks(low, high) if tick > 0]
    return [10.0**power for power in powers[:: -(-len(powers) // 6)]]


def label(value: float, among: list[float]) -> str:
    """Return a tick's text with as many digits as the ticks in `among` need.

    >>> [label(v, [0, 50_000, 100_000]) for v in (0, 50_000)], label(0.5, [0.5, 1.0])
    (['0', '50k'], '0.5')
    """
    if value == 0:
        return "0"
    largest = max(map(abs, among))
    for scale, unit in UNITS:
        if largest >= 10 * scale:
            return f"{value / scale:.4g}{unit}"
    return f"{value:.4g}" if abs(value) >= 1e-4 else f"{value:.0e}".replace("e-0", "e-")
