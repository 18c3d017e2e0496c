"""What a run continues from: taken from the replicas, and given back to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..matcache import ShapeError
from ..models import RowStore
from .hooks import Progress
from .replica import OPTIMIZER
from .team import Team


@dataclass(frozen=True)
class State:
    """What a run continues from: parameters, row state and optimizer state by name, and the
    position. Of replicas that differ, those after the first are called `replica.1.NAME` and so on.
    """

    tensors: dict[str, np.ndarray[Any, Any]]
    position: dict[str, Any]


def take(team: Team, stores: Mapping[str, RowStore], progress: Progress, *, copy: bool) -> State:
    """The state of `team` and of the rows, which is not copied unless `copy`."""
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for number, replica in enumerate(team.replicas[: None if team.apart else 1]):
        replica.settle()
        for name, mat in replica.mats().items():
            tensors[_name(number, name)] = mat.numpy()
    for name, store in stores.items():
        tensors[name] = store.array.copy() if copy else store.array
    optimizers = [replica.optimizer for replica in team.replicas]
    steps = [0 if optimizer is None else optimizer.steps for optimizer in optimizers]
    position = {
        "pass": progress.pass_ + progress.closed,
        "block": 0 if progress.closed else progress.block,
        "rows": progress.rows,
        "seconds": progress.seconds,
        "steps": steps if len(steps) > 1 else steps[0],
        "phase": 0 if optimizers[0] is None else optimizers[0].phase,
    }
    return State(tensors, position)


def give(state: State, team: Team, stores: Mapping[str, RowStore]) -> None:
    """Set `team` and the state of rows to `state`. Raises ShapeError where something lacks."""
    for name, store in stores.items():
        if name not in state.tensors:
            raise ShapeError(f"restore: the state has no row state {name!r}.")
        np.copyto(store.array, state.tensors[name])
    counts = state.position.get("steps", 0)
    for number, replica in enumerate(team.replicas):
        for name, mat in replica.mats().items():
            own = _name(number, name)
            own = own if own in state.tensors else name
            if own in state.tensors:
                mat.set(state.tensors[own])
            elif not name.startswith(OPTIMIZER):
                raise ShapeError(f"restore: the state has no parameter {name!r}.")
        steps = counts[number % len(counts)] if isinstance(counts, list) else counts
        replica.resume(int(steps), int(state.position.get("phase", 0)))
    team.apart = any(name.startswith(_name(1, "")) for name in state.tensors)


def _name(replica: int, name: str) -> str:
    return name if replica == 0 else f"replica.{replica}.{name}"
