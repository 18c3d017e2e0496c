"""Reports of benchmarks: a JSON document for programs, tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass
class Row:
    """One system in one setting.

    seconds: as defined by `Report.seconds_of`.
    quality: figures by name.
    memory: peak in bytes; None if it was not measured.
    curve: the same figures at earlier points.
    """

    system: str
    version: str
    settings: dict[str, Any]
    seconds: float
    quality: dict[str, Any]
    memory: int | None = None
    curve: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Ratio:
    """`value` = of / to.

    None: `of` or `to` never got there; `note` says which.
    """

    name: str
    of: str
    to: str
    value: float | None
    note: str = ""


@dataclass
class Report:
    """All findings of one run of a task."""

    task: str
    seconds_of: str
    data: dict[str, Any]
    machine: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # peers that are not installed
    failed: dict[str, str] = field(default_factory=dict)  # peers that stopped, and why
    command: str = field(default_factory=lambda: "scripts/bench " + " ".join(sys.argv[1:]))
    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def write(self, path: Path) -> None:
        """Write the JSON document."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read a document that `write` wrote."""
        found = json.loads(path.read_text())
        found["rows"] = [Row(**row) for row in found["rows"]]
        found["ratios"] = [Ratio(**ratio) for ratio in found["ratios"]]
        return cls(**found)


def reached(
    curve: Sequence[dict[str, Any]], figure: str, goal: float, seconds: float, *, lower: bool
) -> tuple[float | None, str]:
    """Return a peer's `seconds` to `goal` / those of the curve's first point at it or beyond.

    The point as text is returned, too. Nothing is interpolated. None: the curve never got there.

    >>> reached([{"auc": 0.7, "seconds": 2.0}], "auc", 0.6, 5.0, lower=False)
    (2.5, '0.7000 after 2.000 s')
    >>> reached([{"auc": 0.7, "seconds": 2.0}], "auc", 0.8, 5.0, lower=False)
    (None, 'not reached, 0.7000 at best')
    """
    sign = 1 if lower else -1
    known = [point for point in curve if point[figure] is not None]
    digits = ".4f" if abs(goal) < 10 else ".1f"
    for point in known:
        if sign * point[figure] <= sign * goal:
            ratio = seconds / max(point["seconds"], 1e-9)
            return ratio, f"{point[figure]:{digits}} after {point['seconds']:.3f} s"
    best = min((sign * point[figure] for point in known), default=0.0) * sign
    return None, f"not reached, {best:{digits}} at best"


def others(point: dict[str, Any], cores: int) -> int:
    """Return the percentage of the machine that other processes used meanwhile."""
    return round(100 * point["others_cpu_seconds"] / max(cores * point["seconds"], 1e-9))


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return text with aligned columns.

    The first column and columns of text are aligned left, others right.

    >>> print(table(["name", "s", "note"], [["a", 1.5, "yes"], ["long", 12.25, "no"]]))
    name      s  note
    a      1.50  yes
    long  12.25  no
    """
    left = [n == 0 or all(isinstance(row[n], str) for row in rows) for n in range(len(head))]
    lines = [[str(h) for h in head], *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if left[n] else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def shown(cell: Any) -> str:
    """Return a cell as text: numbers with about three digits, None as a dash."""
    if cell is None:
        return "-"
    if not isinstance(cell, float):
        return f"{cell:,}" if isinstance(cell, int) else str(cell)
    if cell == 0 or 1 <= abs(cell) < 100:
        return f"{cell:.2f}"
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"


def mib(bytes_: int | None) -> float | None:
    """Return bytes as MiB."""
    return None if bytes_ is None else bytes_ / 2**20
