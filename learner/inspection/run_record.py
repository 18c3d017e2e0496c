"""What is left of a run on disk, for people: its settings, events, plan and scores."""

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
from ..runs.run_folder import MARK, RunFolder
from ..storage import model_folder
from ..storage.persistence import POSITION
from ..training.plan import Plan
from ..watch.events import events_of, scores_of

Tree = Mapping[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """mark: who started it, when, where. settings: the whole configuration. events: of
    `metrics.jsonl`, in order. plan: of memory, None where nobody wrote it down. model: what the
    model that it left says of itself; empty where there is none yet.
    """

    path: Path
    mark: Tree
    settings: Tree
    events: list[dict[str, Any]]
    plan: Plan | None
    model: Tree

    @property
    def name(self) -> str:
        """Of its folder."""
        return self.path.resolve().name

    @property
    def finished(self) -> bool:
        """Whether it has come to its end."""
        return bool(self.events) and self.events[-1]["event"] == "end"

    @property
    def last(self) -> dict[str, Any]:
        """The newest event; empty where there is none yet."""
        return self.events[-1] if self.events else {}

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Events of one kind."""
        return [event for event in self.events if event["event"] == kind]

    @property
    def scores(self) -> dict[str, float]:
        """Of the model that it left, or of the latest evaluation."""
        if self.model:
            found = {k: v for k, v in self.model.items() if k not in POSITION}
            return {k: v for k, v in found.items() if isinstance(v, int | float)}
        scored = [event for event in self.events if event["event"] in ("eval", "end")]
        return scores_of(scored[-1]) if scored else {}

    @property
    def rows_per_s(self) -> float | None:
        """Mean speed of training, all processes together."""
        seconds = self.last.get("seconds")
        return self.last["rows"] / seconds if seconds else None


def read_run(path: Path) -> RunRecord:
    """The run in the folder `path`.

    Raises:
        ModelMissingError: none is there.
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
        Plan.from_json(folder.plan.read_text()) if folder.plan.exists() else None,
        json.loads(saved.read_text()) if saved.exists() else {},
    )
