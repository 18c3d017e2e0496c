"""Curves over two axes, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .axes import BOTTOM, HEIGHT, RIGHT, TOP, WIDTH, Axis, foot, side, span, widened
from .markup import Markup, join, tag
from .ticks import label

MOST = 400  # points of a curve; of more, means are drawn
TOLD = 150  # points that tell their numbers to a mouse
FAR = 30  # times the least number: from there on an axis is logarithmic


@dataclass(frozen=True)
class Curve:
    """Points (x, y) with x ascending. steps: y holds from the x before to its own, the first one
    from 0. color: 1 to 5.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: int = 1
    steps: bool = False


def line_chart(
    curves: Sequence[Curve],
    *,
    x_label: str,
    zero: bool = False,
    top: float | None = None,
    log_x: bool = False,
) -> Markup:
    """A chart of curves with a point at least. zero: the vertical axis begins at 0. top: and ends
    there.
    """
    curves = [thinned(curve) for curve in curves]
    ys = [y for curve in curves for y in curve.y]
    log_y = not zero and min(ys) > 0 and max(ys) / min(ys) > FAR
    low, high = span(ys, zero=zero, log=log_y)
    vertical = Axis(low, top or high, HEIGHT - BOTTOM, TOP, log_y)
    names = [label(tick, vertical.ticks) for tick in vertical.ticks]
    left = 12 + 6.5 * max(map(len, names), default=0)
    xs = [x for curve in curves for x in curve.x]
    start, end = 0.0 if any(curve.steps for curve in curves) else min(xs), max(xs)
    if log_x:
        end = max(end, 1.01 * start)
    else:
        start, end = widened(start, end)
    horizontal = Axis(start, end, left, WIDTH - RIGHT, log_x)
    return tag(
        "svg",
        side(vertical, names, left),
        foot(horizontal, x_label),
        *(_drawn(curve, horizontal, vertical) for curve in curves),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=", ".join(curve.name for curve in curves),
    )


def thinned(curve: Curve) -> Curve:
    """The same curve with at most `MOST` points."""
    if len(curve.x) <= MOST:
        return curve
    parts = np.array_split(np.arange(len(curve.x)), MOST)
    x = [float(curve.x[part[-1]]) for part in parts]
    y = [float(np.mean([curve.y[i] for i in part])) for part in parts]
    return replace(curve, x=x, y=y)


def _drawn(curve: Curve, horizontal: Axis, vertical: Axis) -> Markup:
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
