"""`learn compare`: settings, scores and cost of runs, side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..configuration.leaves import flat
from ..figures import number, overall
from ..reports.targets import aligned
from .run_record import RunRecord, read_run

Table = dict[str, list[Any]]
"""A value of each run, by the name of the line; None: the run has none."""


def compare(paths: Sequence[Path]) -> dict[str, Any]:
    """Return `runs` (their names), `settings` that differ, final `scores`, and `cost`.

    Raises:
        ModelMissingError: a path has no run.
    """
    runs = [read_run(path) for path in paths]
    settings = lines_of([dict(flat(run.settings)) for run in runs])
    return {
        "runs": [str(path) for path in paths],
        "settings": {
            name: found
            for name, found in settings.items()
            if name != "out" and any(value != found[0] for value in found)
        },
        "scores": lines_of([run.scores for run in runs]),
        "cost": lines_of([cost(run) for run in runs]),
    }


def cost(run: RunRecord) -> dict[str, Any]:
    """Return how far a run has come, and its time and memory."""
    last = run.last
    speeds = [event["gflops"] for event in run.of("end") if event["gflops"] is not None]
    return {
        "finished": run.finished,
        "passes": last.get("pass"),
        "rows": last.get("rows"),
        "training seconds": last.get("seconds"),
        "rows/s": run.rows_per_s,
        "gflops": speeds[-1] if speeds else None,
        "most host bytes": max((event["host_bytes"] for event in run.events), default=None),
        "planned bytes": run.plan.total if run.plan else None,
    }


def lines_of(columns: Sequence[Mapping[str, Any]]) -> Table:
    """Transpose columns, one per run, into a table by line."""
    names = dict.fromkeys(name for column in columns for name in column)
    return {name: [column.get(name) for column in columns] for name in names}


def compare_lines(paths: Sequence[Path], as_json: bool) -> Iterator[str]:
    """Yield one table.

    as_json: yield one JSON object instead, which includes scores of single targets.
    """
    found = compare(paths)
    if as_json:
        yield json.dumps(found, indent=2, ensure_ascii=False)
        return
    shown = overall(dict.fromkeys(found["scores"], 0.0))
    rows = [["", *found["runs"]]]
    for title, table in [
        ("settings that differ", found["settings"]),
        ("scores", {name: found["scores"][name] for name in shown}),
        ("cost", found["cost"]),
    ]:
        rows += [[""] * len(rows[0]), [title, *[""] * len(paths)]]
        rows += [[f"  {name}", *map(shortly, values)] for name, values in table.items()]
    yield from aligned(rows)


def shortly(value: Any) -> str:
    """Return a value as the text of a cell.

    >>> shortly(None), shortly(True), shortly(0.123456), shortly(2_000_000), shortly([1, 2])
    ('-', 'yes', '0.1235', '2,000,000', '[1, 2]')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)
