"""Keep the best model of a run, by the score that is watched."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..settings.evaluation import Evaluation
from ..settings.progress import Progress
from .live_model import LiveModel
from .state import State


class BestModel:
    """Keeps a copy of the best state so far, if `evaluation` says so."""

    def __init__(self, live: LiveModel, progress: Progress, evaluation: Evaluation) -> None:
        """live: the model. progress: names the best scores."""
        self._live, self._progress, self._metric = live, progress, evaluation.metric
        self._wanted = evaluation.keeps_best
        self._room: State | None = None
        self.rows: dict[str, np.ndarray[Any, Any]] = {}  # of this worker, if another one leads
        self._kept: tuple[State, dict[str, float]] | None = None  # the state, and its scores

    def begin(self) -> None:
        """Allocate the memory for a copy, and take one if the present state is the best."""
        if self._wanted:
            self._room = self._live.copy_into(None)
            self.keep()

    def keep(self) -> None:
        """Copy the present state, if it is the best so far."""
        best, position = self._progress.best, self._progress.position
        if self._room is None or best is None:
            return
        if best.position == position and best.metric == self._metric:
            self._live.ready().gather()
            with self._live.crew.ordered("keep"):
                pass  # the others call `keep_rows`
            self._kept = self._live.copy_into(self._room), dict(self._progress.scores)

    def keep_rows(self) -> None:
        """Copy this worker's rows, because the present state is the best so far."""
        for name, rows in self._live.own_rows().items():
            np.copyto(self.rows.setdefault(name, np.empty_like(rows)), rows)

    def put_back(self) -> None:
        """Continue with the best state, if one was kept, and free the memory."""
        if self._kept is not None:
            state, self._progress.scores = self._kept
            self._live.restore(state)
        self._room = self._kept = None

    def start_from(self, best: tuple[State, dict[str, float]] | None) -> None:
        """Take the best state of the run so far, with its scores; None: there is none."""
        self._kept = best
