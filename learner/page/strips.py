"""Shares of a whole, and how they change: rectangles, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .axes import BOTTOM, HEIGHT, RIGHT, TOP, WIDTH, Axis, foot
from .markup import Markup, tag

MOST = 240  # intervals that are drawn; of more, neighbours are added
LEFT = 44.0


def strip(shares: Mapping[str, float], colors: Mapping[str, int]) -> Markup:
    """The shares side by side in one bar."""
    whole = sum(shares.values()) or 1.0
    x, parts = 0.0, []
    for name, value in shares.items():
        width = 100 * value / whole
        parts.append(tag("rect", x=x, y=0, width=width, height=6, class_=f"area c{colors[name]}"))
        x += width
    return tag(
        "svg", *parts, viewBox="0 0 100 6", class_="strip", preserveAspectRatio="none", role="img"
    )


def strips(
    ends: Sequence[float],
    parts: Mapping[str, Sequence[float]],
    colors: Mapping[str, int],
    x_label: str,
) -> Markup:
    """The shares that `parts` have in each interval, one above the other, over the intervals.

    ends: where intervals end; the first one begins at 0.
    """
    table = np.array([list(values) for values in parts.values()], np.float64)  # [parts x intervals]
    edges = np.concatenate([[0.0], np.asarray(ends, np.float64)])
    horizontal = Axis(0.0, max(float(edges[-1]), 1e-9), LEFT, WIDTH - RIGHT)
    vertical = Axis(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    found = []
    for group in np.array_split(np.arange(table.shape[1]), min(MOST, table.shape[1])):
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
    return tag(
        "svg",
        *found,
        foot(horizontal, x_label),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"shares of {', '.join(parts)}",
    )


def legend(entries: Mapping[str, str], colors: Mapping[str, int]) -> Markup:
    """Names with their colours and a text each."""
    return tag(
        "div",
        *(
            tag("span", tag("i", class_=f"swatch c{colors[name]}"), name, " ", tag("b", text))
            for name, text in entries.items()
        ),
        class_="legend",
    )
