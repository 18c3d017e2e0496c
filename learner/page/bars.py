"""Quantities by name: a bar each, as HTML, so that text stays text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .markup import Markup, join, tag


class Bar(NamedTuple):
    """A name, a number that says how long the bar is, and what is written beside it."""

    name: str
    value: float
    text: str = ""


def bars(rows: Sequence[Bar], *, color: int = 1, largest: float | None = None) -> Markup:
    """Bars below each other. largest: the value of a full bar; None: the largest one here."""
    full = largest or max((abs(row.value) for row in rows), default=0.0) or 1.0
    return tag(
        "div",
        *(
            join(
                tag("span", row.name, class_="name", title=row.name),
                tag(
                    "span",
                    tag(
                        "i",
                        class_=f"fill c{color if row.value >= 0 else 2}",
                        style=f"width:{100 * min(abs(row.value) / full, 1):.1f}%",
                    ),
                    class_="track",
                ),
                tag("span", row.text, class_="value"),
            )
            for row in rows
        ),
        class_="bars",
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """A table: the first column to the left, numbers to the right. head: may be empty."""
    return tag(
        "div",
        tag(
            "table",
            *([tag("thead", tag("tr", *(tag("th", cell) for cell in head)))] if head else []),
            tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows)),
        ),
        class_="scroll",
    )
