"""Quality against time, out of the reports of tasks that have both; and who is ahead of whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .report import Report, Row

OURS = "blocklearn"


@dataclass(frozen=True)
class Chart:
    """Of every system the points (seconds, quality), by time. lower: whether less is better."""

    title: str
    quality: str
    lower: bool
    systems: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, row: Row, name: str) -> None:
        """The points of a row, of the figure `name` in its curve; nothing if it has none."""
        points = [(p["seconds"], p[name]) for p in row.curve if p.get(name) is not None]
        if points:
            self.systems[row.system] = sorted(points)

    def best(self, points: Iterable[tuple[float, float]]) -> tuple[float, float] | None:
        """The first of the points of the best quality.

        >>> Chart("", "error", lower=True).best([(1.0, 5.0), (2.0, 4.0), (3.0, 4.0)])
        (2.0, 4.0)
        """
        return min(points, key=lambda p: (p[1] if self.lower else -p[1], p[0]), default=None)

    def reached(self, system: str, quality: float) -> float | None:
        """The seconds of the first point at this quality or beyond: nothing is interpolated."""
        sign = 1 if self.lower else -1
        found = (s for s, q in self.systems[system] if sign * q <= sign * quality)
        return next(found, None)

    def until(self, system: str, seconds: float) -> float | None:
        """The best quality that a system has shown after so many seconds; None: nothing yet."""
        found = self.best(p for p in self.systems[system] if p[0] <= seconds)
        return None if found is None else found[1]

    @property
    def ours(self) -> list[str]:
        """Names of the systems of this package."""
        return [name for name in self.systems if name.split()[0] == OURS]

    @property
    def peers(self) -> list[str]:
        """Names of the others."""
        return [name for name in self.systems if name.split()[0] != OURS]


@dataclass(frozen=True)
class Pair:
    """A peer at its best, `quality` after `seconds`; and ours: seconds to that quality, and the
    quality after those seconds. None: never, or nothing yet.
    """

    peer: str
    quality: float
    seconds: float
    ours: str
    ours_seconds: float | None
    ours_quality: float | None

    @property
    def ratio(self) -> float | None:
        """How many times faster ours is; below 1 it is slower."""
        return None if self.ours_seconds is None else self.seconds / max(self.ours_seconds, 1e-9)


def pairs(chart: Chart) -> Iterator[Pair]:
    """Every peer with each of ours."""
    for peer in chart.peers:
        best = chart.best(chart.systems[peer])
        assert best is not None
        seconds, quality = best
        for own in chart.ours:
            found = chart.reached(own, quality), chart.until(own, seconds)
            yield Pair(peer, quality, seconds, own, *found)


def behind(chart: Chart) -> list[str]:
    """Peers whose best quality none of ours reaches as soon."""
    ahead = {pair.peer for pair in pairs(chart) if (pair.ratio or 0.0) >= 1}
    return [peer for peer in chart.peers if chart.ours and peer not in ahead]


def charts(report: Report) -> list[Chart]:
    """The charts of a report; none of a task that measures speed alone."""
    return {"lda": lda, "glm": glm, "als": als}.get(report.task, lambda report: [])(report)


def lda(report: Report) -> list[Chart]:
    """Held-out perplexity."""
    chart = Chart("held-out perplexity", "perplexity", lower=True)
    for row in report.rows:
        chart.add(row, "perplexity")
    return [chart]


def glm(report: Report) -> list[Chart]:
    """AUC over all targets; and over some, if there is a system that was run on those alone."""
    every = Chart("held-out AUC", "AUC", lower=False)
    some = Chart("held-out AUC of the targets that all were run on", "AUC", lower=False)
    for row in report.rows:
        if row.system == OURS or row.system.split()[0] != OURS:  # no run on fewer targets
            every.add(row, "auc")
            some.add(row, "sample_auc")
    return [every] if every.systems.keys() == some.systems.keys() else [every, some]


def als(report: Report) -> list[Chart]:
    """A chart for each rank and loss."""
    found: dict[tuple[int, str], Chart] = {}
    for row in report.rows:
        rank, loss = row.settings["rank"], row.settings["loss"]
        name = "held-out RMSE" if loss == "explicit" else "objective"
        quality = name.removeprefix("held-out ")
        chart = found.setdefault((rank, loss), Chart(f"{name}, rank {rank}", quality, lower=True))
        chart.add(row, "error")
    return [chart for chart in found.values() if chart.systems]
