"""Compare a run with an earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..drawing.markup import Markup, tag
from ..figures import overall
from ..inspection.compare import compare, shortly
from ..inspection.run_record import RunRecord
from .frame import section, table


def against_section(run: RunRecord, other: RunRecord) -> Markup:
    """Return scores and cost of both runs, and the settings that differ."""
    found = compare([run.path, other.path])
    shown = overall(dict.fromkeys(found["scores"], 0.0))
    head = ["", "this run", other.name, "difference"]
    numbers = {name: found["scores"][name] for name in shown} | found["cost"]
    settings = [(name, *map(shortly, values)) for name, values in found["settings"].items()]
    parts = [table(head, differences(numbers))]
    if settings:
        parts.append(tag("div", table(["setting", *head[1:3]], settings), class_="pairs"))
    note = "" if settings else "the settings are equal"
    return section(f"Compared with {other.name}", *parts, note=note)


def differences(numbers: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, ...]]:
    """Yield rows: a name, both values, and by how much the first one is larger.

    >>> list(differences({"rmse": [1.5, 1.0], "rows": [900, 1900], "gflops": [None, 2.0]}))
    [('rmse', '1.5', '1', '+0.5'), ('rows', '900', '1,900', '-1,000'), ('gflops', '-', '2', '')]
    """
    for name, (own, other) in numbers.items():
        known = not any(value is None or isinstance(value, bool) for value in (own, other))
        change = own - other if known else 0
        text = f"{'+' * (change > 0)}{shortly(change)}" if known else ""
        yield name, shortly(own), shortly(other), text
