"""Train systems in turns, in processor time, and compare the seconds to the same quality."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .report import Ratio, Report, Row, table

OURS = "blocklearn"
Name = TypeVar("Name")


class System(NamedTuple):
    """A way to train.

    train: returns what `in_turns` scores.
    times: factor of its seconds, where it trains a part of what it is asked for.
    """

    name: str
    version: str
    settings: dict[str, Any]
    train: Callable[[], Any]
    times: float = 1.0


def in_turns(
    report: Report,
    systems: Iterable[System],
    rounds: int,
    figure: str,
    score: Callable[[Any], float],
) -> None:
    """Train every system in each round; add the median of its seconds and scores to a report."""
    systems = list(systems)
    found: list[list[tuple[float, float]]] = [[] for _ in systems]
    for _ in range(rounds):
        for system, results in zip(systems, found, strict=True):
            begun = time.process_time()
            trained = system.train()
            seconds = (time.process_time() - begun) * system.times
            results.append((seconds, score(trained)))
    for system, results in zip(systems, found, strict=True):
        seconds, quality = np.median(results, axis=0).tolist()
        row = Row(system.name, system.version, system.settings, seconds, {figure: quality})
        report.rows.append(row)


def seconds_of(call: Callable[[], Any], repeats: int = 1) -> float:
    """Return the seconds of a call, by the clock, the mean of so many."""
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats


def times_in_turns(
    timed: Mapping[Name, Callable[[], float]], rounds: int
) -> dict[Name, list[float]]:
    """Return what each function returns in each round; every other round reverses the order."""
    times: dict[Name, list[float]] = {name: [] for name in timed}
    for turn in range(rounds):
        for name in list(timed)[:: 1 if turn % 2 else -1]:
            times[name].append(timed[name]())
    return times


def ratios(rows: list[Row], figure: str, digits: int) -> Iterator[Ratio]:
    """Yield, for each setting of a peer, its seconds / ours to its score: larger is better.

    digits: of scores that count as equal.
    """
    mine = [row for row in rows if row.system == OURS]
    for peer in (row for row in rows if row.system != OURS):
        wanted = round(peer.quality[figure], digits)
        there = [row for row in mine if round(row.quality[figure], digits) >= wanted]
        best = min(there, key=lambda row: row.seconds) if there else None
        value = None if best is None else round(peer.seconds / best.seconds, 2)
        note = f"ours: {told(best)}" if best else "ours: never"
        yield Ratio(f"seconds to {wanted}", f"{peer.system}, {told(peer)}", OURS, value, note)


def told(row: Row) -> str:
    """Return the settings of a system."""
    return ", ".join(f"{name} {value}" for name, value in row.settings.items()) or "defaults"


def show(report: Report, figure: str, digits: int) -> str:
    """Return a table of all systems, and the ratios.

    digits: significant ones, of scores.
    """
    lines = [
        [row.system, told(row), f"{row.quality[figure]:.{digits}g}", row.seconds]
        for row in report.rows
    ]
    notes = [f"{ratio.name}, {ratio.of}: {ratio.value} ({ratio.note})" for ratio in report.ratios]
    return "\n".join([table(["", "settings", figure.replace("_", " "), "seconds"], lines), *notes])
