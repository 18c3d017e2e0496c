"""Quality against time, from the reports of tasks that measure both; and who is ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .report import Report, Row

OURS = "blocklearn"


@dataclass(frozen=True)
class Chart:
    """The points (seconds, quality) of every system, by time.

    lower: whether less is better.
    """

    title: str
    quality: str
    lower: bool
    systems: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, row: Row, name: str) -> None:
        """Add the points of a row for the figure `name`; nothing if its curve has none."""
        points = [(p["seconds"], p[name]) for p in row.curve if p.get(name) is not None]
        if points:
            self.systems[row.system] = sorted(points)

    def best(self, points: Iterable[tuple[float, float]]) -> tuple[float, float] | None:
        """Return the first point of the best quality.

        >>> Chart("", "error", lower=True).best([(1.0, 5.0), (2.0, 4.0), (3.0, 4.0)])
        (2.0, 4.0)
        """
        return min(points, key=lambda p: (p[1] if self.lower else -p[1], p[0]), default=None)

    def reached(self, system: str, quality: float) -> float | None:
        """Return the seconds of the first point at this quality or beyond; not interpolated."""
        sign = 1 if self.lower else -1
        found = (s for s, q in self.systems[system] if sign * q <= sign * quality)
        return next(found, None)

    def until(self, system: str, seconds: float) -> float | None:
        """Return a system's best quality within so many seconds; None: no point yet."""
        found = self.best(p for p in self.systems[system] if p[0] <= seconds)
        return None if found is None else found[1]

    @property
    def ours(self) -> list[str]:
        """Return the names of this package's systems."""
        return [name for name in self.systems if name.split()[0] == OURS]

    @property
    def peers(self) -> list[str]:
        """Return the names of the other systems."""
        return [name for name in self.systems if name.split()[0] != OURS]


@dataclass(frozen=True)
class Pair:
    """A peer at its best, `quality` after `seconds`, and one of ours.

    Ours has its seconds to that quality (None: never), and its quality after those seconds (None:
    no point yet).
    """

    peer: str
    quality: float
    seconds: float
    ours: str
    ours_seconds: float | None
    ours_quality: float | None

    @property
    def ratio(self) -> float | None:
        """Return how many times faster ours is; below 1 it is slower."""
        return None if self.ours_seconds is None else self.seconds / max(self.ours_seconds, 1e-9)


def pairs(chart: Chart) -> Iterator[Pair]:
    """Yield every peer with each of ours."""
    for peer in chart.peers:
        best = chart.best(chart.systems[peer])
        assert best is not None
        seconds, quality = best
        for own in chart.ours:
            found = chart.reached(own, quality), chart.until(own, seconds)
            yield Pair(peer, quality, seconds, own, *found)


def behind(chart: Chart) -> list[str]:
    """Return the peers whose best quality none of ours reaches as soon."""
    ahead = {pair.peer for pair in pairs(chart) if (pair.ratio or 0.0) >= 1}
    return [peer for peer in chart.peers if chart.ours and peer not in ahead]


def charts(report: Report) -> list[Chart]:
    """Return the charts of a report; none for tasks that measure speed alone."""
    return {"lda": lda, "glm": glm, "als": als}.get(report.task, lambda report: [])(report)


def lda(report: Report) -> list[Chart]:
    """Return the chart of held-out perplexity."""
    chart = Chart("held-out perplexity", "perplexity", lower=True)
    for row in report.rows:
        chart.add(row, "perplexity")
    return [chart]


def glm(report: Report) -> list[Chart]:
    """Return charts of the AUC: over all targets, and over those that every system ran."""
    every = Chart("held-out AUC", "AUC", lower=False)
    some = Chart("held-out AUC of the targets that all were run on", "AUC", lower=False)
    for row in report.rows:
        if row.system == OURS or row.system.split()[0] != OURS:  # no run on fewer targets
            every.add(row, "auc")
            some.add(row, "sample_auc")
    return [every] if every.systems.keys() == some.systems.keys() else [every, some]


def als(report: Report) -> list[Chart]:
    """Return a chart for each rank and loss."""
    found: dict[tuple[int, str], Chart] = {}
    for row in report.rows:
        rank, loss = row.settings["rank"], row.settings["loss"]
        name = "held-out RMSE" if loss == "explicit" else "objective"
        quality = name.removeprefix("held-out ")
        chart = found.setdefault((rank, loss), Chart(f"{name}, rank {rank}", quality, lower=True))
        chart.add(row, "error")
    return list(found.values())
