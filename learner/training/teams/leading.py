"""What the worker that leads does alone, while the others carry out its orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ...engines.crew import Crew
from ..settings.progress import Best, Progress
from .team import Team


class Leading:
    """Evaluations, hooks and files: the leader does them, and tells the others what it decided.

    orders: what other workers do when the leader orders it; see `Crew.lead`.
    """

    def __init__(
        self, crew: Crew, progress: Progress, orders: Mapping[str, Callable[[], Any]]
    ) -> None:
        self._crew, self._progress, self._orders = crew, progress, orders

    def __call__(self, work: Callable[[], Any]) -> None:
        """Call `work` on the leader; then all workers have its decisions in their `Progress`."""
        crew, progress = self._crew, self._progress
        crew.lead(work, self._orders)
        if crew.size == 1:
            return
        best = None if progress.best is None else asdict(progress.best)
        told = crew.told([bool(progress.stop), progress.scores, best] if crew.leads else None)
        progress.stop, progress.scores, best = told
        progress.best = None if best is None else Best(**best)


def stand_by(team: Team) -> None:
    """Take part while the leader makes parameters exact."""
    with team.exact():
        pass
