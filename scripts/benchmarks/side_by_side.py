"""One report of all benchmarks: speed, quality and memory of each system; where we lose."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .blocks import Block, Code, Heading, Plot, Points, Table, Words
from .curves import OURS, Chart, behind, charts, pairs
from .report import Report, Row, mib

INSTALL = ".venv/bin/pip install --editable '.[bench]'"


@dataclass
class Part:
    """A benchmark on some data: the task's `arguments`, its report, and that as text."""

    name: str
    task: str
    arguments: list[str]
    report: Report | None = None
    text: str = ""
    failed: str = ""  # why there is no report
    seconds: float | None = None  # total, preparations and scoring included


@dataclass
class Collection:
    """All parts.

    limits: of the machine.
    unused: folders without a benchmark.
    """

    command: str
    date: str
    machine: dict[str, Any]
    limits: dict[str, float]
    parts: list[Part] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


def blocks(found: Collection) -> Iterator[Block]:
    """Yield the whole report."""
    yield Heading(1, "Side by side")
    yield Words(f"{found.date}, made by `{found.command}`. Every system runs alone, one after the "
                "other; seconds are of training, from data in memory; a quality counts as reached "
                "at the first checkpoint there or beyond, nothing is interpolated.")  # fmt: skip
    yield Heading(2, "The machine")
    yield Table(["", "measured or told"], list(machine(found)), sentences=True)
    yield from summary(found)
    for part in found.parts:
        yield from section(part)


def machine(found: Collection) -> Iterator[tuple[str, str]]:
    """Yield the machine and its measured limits."""
    facts, limits = found.machine, found.limits
    yield "processor", f"{facts['cpu']}, {facts['cores']} cores used"
    yield "memory", f"{facts['memory_bytes'] / 2**30:.1f} GiB"
    yield "system", f"{facts['system']}, Python {facts['python']}, NumPy {facts['numpy']}"
    yield "load before", " ".join(map(str, facts["load_before"]))
    yield "copy bandwidth, one thread (read + write)", f"{limits['copy_gb_per_s']} GB/s"
    yield "FMA peak, float32, one thread", f"{limits['fma_gflops']} gflops"
    yield f"FMA peak, {facts['cores']} threads", f"{limits['fma_gflops_all']} gflops"
    yield "SGEMM, one thread", f"{limits['sgemm_gflops']} gflops"


def summary(found: Collection) -> Iterator[Block]:
    """Yield one line per peer and chart, peers ahead of us, and missing peers."""
    rows: list[list[Any]] = []
    losses: list[str] = []
    for part in found.parts:
        for chart in charts(part.report) if part.report else []:
            rows += list(best_of(part.name, chart))
            losses += [f"{part.name}, {chart.title}: {peer}" for peer in behind(chart)]
    yield Heading(2, "In short")
    if rows:
        head = ["benchmark", "peer", "its best", "after s", "ours there after s", "times faster",
                "ours after the same time", "by"]  # fmt: skip
        yield Table(head, rows)
        yield Words("The fastest of our systems to each peer's best; all of them are below.")
    if losses:
        yield Words("Where we lose (no system of ours reaches the peer's best as soon, or at all); "
                    "docs/performance.md says why:")  # fmt: skip
        yield Points(losses)
    elif rows:
        yield Words("No peer is ahead in time to its best quality.")
    yield from absent(found)


def best_of(name: str, chart: Chart) -> Iterator[list[Any]]:
    """Yield, for each peer, our line that reaches its quality first, or else comes nearest."""
    for peer in chart.peers:
        own = [pair for pair in pairs(chart) if pair.peer == peer]
        if own:
            sign = 1 if chart.lower else -1
            near = min(own, key=lambda p: (p.ours_seconds is None, p.ours_seconds or 0.0,
                                           sign * (p.ours_quality or sign * 1e30)))  # fmt: skip
            yield [
                f"{name}, {chart.title}", peer, digits(near.quality), near.seconds,
                near.ours_seconds, near.ratio, digits(near.ours_quality), near.ours,
            ]  # fmt: skip


def absent(found: Collection) -> Iterator[Block]:
    """Yield peers that could not run or stopped, and data without a benchmark."""
    lines = []
    missing = sorted({peer for part in found.parts if part.report for peer in part.report.missing})
    if missing:
        lines.append(f"not installed: {', '.join(missing)} (`{INSTALL}`)")
    for part in found.parts:
        if part.failed:
            lines.append(f"{part.name} did not run to its end: {last_line(part.failed)}")
        for system, why in part.report.failed.items() if part.report else []:
            lines.append(f"{part.name}: {system} stopped: {last_line(why)}")
    if found.unused:
        lines.append(f"no benchmark is for the data in: {', '.join(found.unused)}")
    if lines:
        yield Heading(2, "What is missing")
        yield Points(lines)


def last_line(text: str) -> str:
    """Return the last line that is not blank.

    >>> last_line("Traceback\\nOSError: gone\\n")
    'OSError: gone'
    """
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no message")


def section(part: Part) -> Iterator[Block]:
    """Yield one benchmark: plots, tables of pairs, systems, settings, and its own text."""
    yield Heading(2, part.name)
    report = part.report
    if report is None:
        yield Words(f"Did not run to its end: {last_line(part.failed)}")
        return
    yield Words(facts(part, report))
    for n, chart in enumerate(charts(report)):
        yield Heading(3, chart.title)
        yield Plot(f"{part.name}-{n}", chart)
        found = [
            [pair.peer, digits(pair.quality), pair.seconds, pair.ours, pair.ours_seconds,
             pair.ratio, digits(pair.ours_quality)]
            for pair in pairs(chart)
        ]  # fmt: skip
        if found:
            head = ["peer", f"its best {chart.quality}", "after s", "ours", "there after s",
                    "times faster", f"{chart.quality} of ours after the same time"]  # fmt: skip
            yield Table(head, found)
    yield Heading(3, "Systems and settings")
    yield Table(["system", "version", "seconds", "peak MiB"], list(systems(report.rows)))
    told = [[row.system, settings(row)] for row in report.rows]
    yield Table(["system", "settings"], told, sentences=True)
    yield Heading(3, "As the task prints it")
    yield Code(part.text)


def facts(part: Part, report: Report) -> str:
    """Return the command, its data and its time."""
    data = report.data
    size = f"{data['documents']:,} x {data['words']:,}, {data['nnz']:,} non-zeros"
    took = "" if part.seconds is None else f"; {part.seconds:.0f} s in all"
    return (
        f"`scripts/bench {' '.join([part.task, *part.arguments])}`{took}. "
        f"Data: {data['name']}, {size}. Seconds: {report.seconds_of}."
    )


def systems(rows: Iterable[Row]) -> Iterator[list[Any]]:
    """Yield every row with its version, time and memory."""
    for row in rows:
        package = f"{OURS} {row.version}" if row.system.split()[0] == OURS else row.version
        yield [row.system, package, row.seconds, mib(row.memory)]


def settings(row: Row) -> str:
    """Return names and values in one line.

    >>> settings(Row("a", "1", {"rank": 3, "solver": "cg"}, 0.0, {}))
    'rank 3, solver cg'
    """
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in row.settings.items()
    )


def digits(quality: float | None) -> str | None:
    """Return a quality with the digits in which systems differ.

    >>> digits(1277.83), digits(0.43472), digits(None)
    ('1,278', '0.4347', None)
    """
    if quality is None:
        return None
    return f"{quality:.4f}" if abs(quality) < 10 else f"{quality:,.0f}"
