"""Say what a learner is: its model, its data, how far it is, and its scores."""

from __future__ import annotations

from typing import Any

from blocklearn.card import card
from blocklearn.datasources import DataSource
from blocklearn.fields import Fields

from ..figures import counted, size
from ..training.settings.progress import Progress
from .history import History
from .progress import scores


def short(made: Fields) -> str:
    """Return a model or optimizer with the fields that are set, `LDA(topics=20)`."""
    chosen = [
        f"{name}={getattr(made, name)!r}"
        for name in type(made).model_fields
        if name in made.model_fields_set and name != "kind"
    ]
    return f"{type(made).__name__}({', '.join(chosen)})"


def rows_of(source: DataSource | None) -> str:
    """Return the size of data, `1,900 rows x 500 columns, sparse, 2 blocks`; a dash for none."""
    if source is None:
        return "-"
    shape = source.shape
    targets = f", {counted(shape.targets, 'target')}" if shape.targets else ""
    kind = "dense" if shape.dense else "sparse"
    return f"{shape.total_rows:,} rows x {shape.columns:,} columns, {kind}{targets}, " + (
        counted(source.blocks, "block")
    )


def state_of(progress: Progress, *, trained: bool) -> str:
    """Return how far training is, `3 of 9 passes`, or `not trained yet`."""
    if not trained:
        return "not trained yet"
    passes, blocks = progress.position
    within = f" and {blocks} of {counted(progress.blocks, 'block')}" if blocks else ""
    return f"{passes} of {counted(max(passes, progress.passes), 'pass', 'passes')}{within}"


def learner_text(learner: Any, *, trained: bool) -> str:
    """Return a learner as one line of text."""
    parts = [short(learner.model), rows_of(learner.train) if learner.train else ""]
    parts += [state_of(learner.progress, trained=trained), scores(learner.progress)]
    return f"Learner({', '.join(part for part in parts if part not in ('', '-'))})"


def learner_html(learner: Any, history: History, *, trained: bool) -> str:
    """Return a learner as HTML for notebooks."""
    progress, optimizer = learner.progress, learner.optimizer
    facts = {
        "model": short(learner.model),
        "optimizer": "-" if optimizer is None else short(optimizer),
        "train": rows_of(learner.train),
        "eval": rows_of(learner.eval),
        "state": state_of(progress, trained=trained),
        "scores": scores(progress),
        "speed": f"{progress.rows_per_s:,.0f} rows/s" if progress.rows_per_s else "-",
        "memory": size(progress.cache_bytes) if progress.cache_bytes else "-",
        "devices": ", ".join(learner.execution.devices),
    }
    return card("Learner", facts, history.chart())
