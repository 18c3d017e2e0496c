"""Maps: discs in a plane, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .markup import Markup, tag

WIDTH, HEIGHT = 720, 420
MARGIN = 44  # around the centres of discs
SHARE = 0.12  # of the plane that all discs cover together
LEAST = 5.0  # radius
LETTER, LINE = 7.0, 13.0  # width and height of a digit of a label


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
    """Return a map of discs, with one scale for both axes.

    about: text for those who cannot see it.
    """
    xs, ys = [disc.x for disc in discs], [disc.y for disc in discs]
    wide, high = max(max(xs) - min(xs), 1e-12), max(max(ys) - min(ys), 1e-12)
    scale = min((WIDTH - 2 * MARGIN) / wide, (HEIGHT - 2 * MARGIN) / high)
    left, top = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    area = SHARE * WIDTH * HEIGHT / sum(disc.size for disc in discs)
    labels: list[tuple[float, float, float]] = []
    circles, texts = [], []
    for disc in sorted(discs, key=lambda disc: -disc.size):  # small ones lie on large ones
        x, y = WIDTH / 2 + scale * (disc.x - left), HEIGHT / 2 + scale * (disc.y - top)
        radius = min(max(math.sqrt(area * disc.size / math.pi), LEAST), float(MARGIN))
        circle = tag("circle", tag("title", disc.told), cx=x, cy=y, r=radius, class_="disc c1")
        circles.append(tag("a", circle, href=f"#{disc.link}"))
        box = x, y, LETTER * len(disc.label)
        if not any(touch(box, other) for other in labels):
            labels.append(box)
            texts.append(tag("text", disc.label, x=x, y=y + 4, class_="middle over"))
    view = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", *circles, *texts, viewBox=view, role="img", aria_label=about)


def touch(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Return whether two labels, each a middle (x, y) and a width, touch.

    >>> touch((0, 0, 14), (10, 5, 14)), touch((0, 0, 14), (20, 0, 14))
    (True, False)
    """
    near = abs(one[0] - other[0]) < (one[2] + other[2]) / 2 + 2
    return near and abs(one[1] - other[1]) < LINE
