"""Maps: discs in a plane, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .markup import Markup, join, tag

SCREEN, PHONE = (720, 420), (340, 400)
"""Width and height of the two drawings of a map; the page shows the one that fits."""
MARGIN = 0.1  # of a side, around the centres of discs
SHARE = 0.2  # of the plane that all discs cover together
LEAST, MOST = 7.0, 44.0  # radius
GAP, ROUNDS = 1.0, 300  # between discs, and steps that move them apart
LETTER, LINE = 7.0, 13.0  # width and height of a digit of a label

Floats = NDArray[np.float64]


class Disc(NamedTuple):
    """A disc at (x, y) with an area in proportion to `size`.

    x, y, size: of any scale; sizes are positive.
    label: text in the middle, left out where it would touch another one.
    told: text under a mouse.
    link: fragment of the page that a click goes to.
    """

    x: float
    y: float
    size: float
    label: str
    told: str
    link: str


def disc_map(discs: Sequence[Disc], *, about: str) -> Markup:
    """Return a map of discs, drawn twice: for screens and for phones.

    The drawing for phones is upright: the longer side of the plane runs from top to bottom.

    about: text for those who cannot see it.
    """
    across = np.array([[disc.x, disc.y] for disc in discs], np.float64)
    return join(
        drawn(discs, across, SCREEN, about, "on-screens"),
        drawn(discs, across[:, ::-1], PHONE, about, "on-phones"),
    )


def drawn(
    discs: Sequence[Disc], places: Floats, size: tuple[int, int], about: str, class_: str
) -> Markup:
    """Return one drawing of the discs at `places` [n x 2], with one scale for both axes."""
    box = np.array(size, np.float64)
    span = np.maximum(np.ptp(places, axis=0), 1e-12)
    scale = float(((1 - 2 * MARGIN) * box / span).min())
    centres = box / 2 + scale * (places - (places.max(axis=0) + places.min(axis=0)) / 2)
    sizes = np.array([disc.size for disc in discs])
    area = SHARE * box.prod() / sizes.sum()
    radii = np.clip(np.sqrt(area * sizes / math.pi), LEAST, MOST)
    centres = apart(centres, radii, box)
    labels: list[tuple[float, float, float]] = []
    circles, texts = [], []
    for i in np.argsort(-sizes, kind="stable").tolist():  # small ones lie on large ones
        disc, (x, y), radius = discs[i], centres[i].tolist(), float(radii[i])
        circle = tag("circle", tag("title", disc.told), cx=x, cy=y, r=radius, class_="disc c1")
        circles.append(tag("a", circle, href=f"#{disc.link}"))
        label = x, y, LETTER * len(disc.label)
        if not any(touch(label, other) for other in labels):
            labels.append(label)
            texts.append(tag("text", disc.label, x=x, y=y + 4, class_="middle over"))
    view = f"0 0 {size[0]} {size[1]}"
    shown = {"viewBox": view, "role": "img", "aria_label": about, "class_": class_}
    return tag("svg", *circles, *texts, **shown)


def apart(centres: Floats, radii: Floats, box: Any) -> Floats:
    """Return the centres [n x 2] of discs, moved so that few of them overlap, all in the box.

    Each step moves every two discs that overlap away from each other, by half of what they lack.
    Discs of one centre part along directions that differ by their numbers.

    radii: [n]. box: width and height.
    """
    number = len(radii)
    turned = 2.4 * np.arange(number)  # the golden angle: no two directions are alike
    ways = np.stack([np.cos(turned), np.sin(turned)], axis=1)
    lead = (ways[:, None] - ways) / 2
    wanted = radii[:, None] + radii + GAP
    np.fill_diagonal(wanted, 0.0)
    low, high = radii[:, None] + GAP, np.asarray(box) - radii[:, None] - GAP
    found = np.clip(centres, low, high)
    for _ in range(ROUNDS):
        between = found[:, None] - found
        length = np.hypot(between[..., 0], between[..., 1])
        lacking = np.maximum(wanted - length, 0.0)
        if not lacking.any():
            break
        same = length < 1e-9
        way = np.where(same[..., None], lead, between / np.maximum(length, 1e-9)[..., None])
        found = np.clip(found + (lacking[..., None] * way).sum(axis=1) / 2, low, high)
    return found


def touch(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Return whether two labels, each a middle (x, y) and a width, touch.

    >>> touch((0, 0, 14), (10, 5, 14)), touch((0, 0, 14), (20, 0, 14))
    (True, False)
    """
    near = abs(one[0] - other[0]) < (one[2] + other[2]) / 2 + 2
    return near and abs(one[1] - other[1]) < LINE
