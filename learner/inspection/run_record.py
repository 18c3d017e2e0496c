"""Read a run from disk for reports: its settings, events, plan and scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blocklearn.datasources.secrets import hidden, hidden_leaves
from blocklearn.durable import current

from ..configuration.yaml_tree import parse_file
from ..errors import ModelMissingError
from ..results.persistence import POSITION, STEPS
from ..runs.run_folder import MARK, RunFolder
from ..storage import model_folder
from ..storage.schemas import ModelMetrics, PlanFile, TriedFile, read_json
from ..training.plans.plan import Plan
from ..watch.events import events_of, scores_of

Tree = Mapping[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """A run as it is on disk.

    mark: who started it, when and where.
    settings: the whole configuration.
    events: lines of `metrics.jsonl`, in order.
    plan: the memory plan; None if the run has not written one.
    tried: the settings that were tried before training; empty if all were given.
    model: the manifest of the run's model; empty before there is one.
    """

    path: Path
    mark: Tree
    settings: Tree
    events: list[dict[str, Any]]
    plan: Plan | None
    tried: Tree
    model: Tree

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.path.resolve().name

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return bool(self.events) and self.events[-1]["event"] == "end"

    @property
    def last(self) -> dict[str, Any]:
        """The newest event; empty before the first one."""
        return self.events[-1] if self.events else {}

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return [event for event in self.events if event["event"] == kind]

    @property
    def scores(self) -> dict[str, float]:
        """The scores of the run's model, or of the latest evaluation."""
        if self.model:
            found = {k: v for k, v in self.model.items() if k not in (*POSITION, *STEPS)}
            return {k: v for k, v in found.items() if isinstance(v, int | float)}
        scored = [event for event in self.events if event["event"] in ("eval", "end")]
        return scores_of(scored[-1]) if scored else {}

    @property
    def rows_per_s(self) -> float | None:
        """Mean speed of training over all processes of the run."""
        seconds = self.last.get("seconds")
        return self.last["rows"] / seconds if seconds else None


def read_run(path: Path) -> RunRecord:
    """Read the run in the folder `path`.

    Raises:
        ModelMissingError: the folder has no run.
        ModelFolderError: a file of the run is damaged; the message names file, line and field.
    """
    folder = RunFolder(path)
    if not folder.exists:
        raise ModelMissingError(f"{path}: no run here (no {MARK})")
    mark = folder.mark()
    saved = current(path) / model_folder.METRICS
    return RunRecord(
        path,
        mark | {"command": [hidden(argument) for argument in mark["command"]]},
        hidden_leaves(parse_file(folder.config).plain()) if folder.config.exists() else {},
        events_of(folder.metrics) if folder.metrics.exists() else [],
        _plan(folder.plan) if folder.plan.exists() else None,
        read_json(TriedFile, folder.tried) if folder.tried.exists() else {},
        read_json(ModelMetrics, saved) if saved.exists() else {},
    )


def _plan(file: Path) -> Plan:
    """Read the memory plan in `file`; fields that a later version wrote are left out."""
    return Plan.from_json(json.dumps(read_json(PlanFile, file)))
