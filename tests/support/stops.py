"""Stopping a run after any block, on disk, and going on: for tests that compare bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import blocklearn as bl
from blocklearn.learner.checkpoints import checkpoint
from blocklearn.learner.checkpoints.checkpoint import Checkpoint, name_of

Make = Callable[..., bl.Learner]
"""Makes a learner; takes hooks."""


class SaveAt(bl.Hook):
    """Writes checkpoints after these blocks, counted over all passes, and looks at the model."""

    def __init__(self, folder: Path, blocks: Iterable[int]) -> None:
        self.folder, self.blocks = folder, set(blocks)
        self.written: list[Path] = []

    def block(self, learner: Any, progress: Any) -> None:
        if progress.pass_ * progress.blocks + progress.block in self.blocks:
            found = Checkpoint(learner.state(copy=False), {}, {}, "")
            self.written.append(checkpoint.write(self.folder, found))
            for name in learner.model.parameters:
                learner.parameter(name)
            learner.evaluate(learner.train)


def outcome(learner: bl.Learner) -> dict[str, Any]:
    """Everything that two runs must have in common, to the last bit."""
    state = learner.state()
    numbers = {k: v for k, v in state.position.items() if k != "seconds"}
    return {name: array.tobytes() for name, array in state.tensors.items()} | numbers


def check_stops(make: Make, folder: Path, blocks: Iterable[int]) -> None:
    """A run that was stopped after any of `blocks`, and one that was watched, must end as one that
    was left alone.
    """
    whole = outcome(make([]).fit())
    saver = SaveAt(folder, blocks)
    watched = make([saver]).fit()
    assert differences(outcome(watched), whole) == [], "looking at it changes a run"
    watched.close()
    assert saver.written, f"none of {sorted(saver.blocks)} is where replicas are merged"
    for path in saver.written:
        learner = make([])
        stopped = checkpoint.read(path)
        assert name_of(stopped.position) == path.name
        learner.restore(stopped.state)
        assert differences(outcome(learner.fit()), whole) == [], path.name
        learner.close()


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
