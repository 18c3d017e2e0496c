"""What a run continues from: taken from the replicas, and given back to them.

It is taken as it is: nothing is computed for it, so that a run that was stopped after any block and
goes on does what it would have done otherwise, bit by bit. Whoever wants to read parameters takes
them from `Team.exact`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..matcache import Mat, ShapeError
from ..models import RowStore
from .hooks import Best, Progress
from .replica import OPTIMIZER
from .team import Team


@dataclass(frozen=True)
class State:
    """What a run continues from: parameters, row state and optimizer state by name, and the
    position, in values that JSON can hold. Of replicas that differ, the Mats of those after the
    first are called `replica.1.NAME` and so on.

    In the middle of a pass parameters may be such as only training can use.
    """

    tensors: dict[str, np.ndarray[Any, Any]]
    position: dict[str, Any]


def take(team: Team, stores: Mapping[str, RowStore], progress: Progress, *, copy: bool) -> State:
    """The state of `team` and of the rows; unless `copy`, its arrays are those that training will
    change.
    """
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    paused = [replica.pause() for replica in team.replicas]
    for number, replica in enumerate(team.replicas[: None if team.apart else 1]):
        for name, mat in replica.mats().items():
            tensors[_name(number, name)] = mat.numpy() if copy else _shown(mat)
    for name, store in stores.items():
        tensors[name] = store.array.copy() if copy else store.array
    pass_, block = progress.position
    position = {
        "pass": pass_,
        "block": block,
        "rows": progress.rows,
        "seconds": progress.seconds,
        "optimizers": paused,
        "best": None if progress.best is None else asdict(progress.best),
    }
    return State(tensors, position)


def give(state: State, team: Team, stores: Mapping[str, RowStore]) -> None:
    """Set `team` and the state of rows to `state`. Raises ShapeError where something lacks, or is
    of other sizes.
    """
    for name in stores:
        if name not in state.tensors:
            raise ShapeError(f"restore: the state has no row state {name!r}.")
    _check_sizes(state, team, stores)
    for name, store in stores.items():
        np.copyto(store.array, state.tensors[name])
    paused = _paused(state.position)
    for number, replica in enumerate(team.replicas):
        for name, mat in replica.mats().items():
            own = _name(number, name)
            own = own if own in state.tensors else name
            if own in state.tensors:
                mat.set(state.tensors[own])
            elif not name.startswith(OPTIMIZER):
                raise ShapeError(f"restore: the state has no parameter {name!r}.")
        replica.resume(paused[number % len(paused)])
        replica.refresh()  # a device has a copy of the state of rows
    team.apart = any(name.startswith(_name(1, "")) for name in state.tensors)


def _check_sizes(state: State, team: Team, stores: Mapping[str, RowStore]) -> None:
    """Raises ShapeError where the data that `team` was made for are not those of `state`."""
    shapes = team.first.shapes
    wanted = {name: store.array.shape for name, store in stores.items()}
    wanted |= {name: mat.shape for name, mat in team.first.mats().items()}
    for name, shape in wanted.items():
        found = state.tensors[name].shape if name in state.tensors else shape
        if found != shape:
            raise ShapeError(
                f"data of {shapes.total_rows:,} rows and {shapes.columns:,} columns, but the model "
                f"is of other data: its {name} has the shape {found}, with these it would have "
                f"{shape}. Rows are samples, columns features: check the orientation."
            )


def set_progress(state: State, progress: Progress) -> None:
    """Let `progress` stand where `state` was taken."""
    position = state.position
    progress.pass_ = int(position.get("pass", 0))
    progress.block = int(position.get("block", 0))
    progress.finite = (progress.pass_, progress.block)
    progress.rows = int(position.get("rows", 0))
    progress.seconds = float(position.get("seconds", 0.0))
    best = position.get("best")
    progress.best = None if best is None else Best(**best)


def _paused(position: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of the optimizer of each replica; positions of version 1, taken after whole passes, have the
    steps of each only, and those of models nothing.
    """
    if "optimizers" in position:
        return list(position["optimizers"])
    steps, phase = position.get("steps", 0), position.get("phase", 0)
    counts = steps if isinstance(steps, list) else [steps]
    return [{"steps": count, "phase": phase} for count in counts]


def _shown(mat: Mat) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = mat.cache.backend.host(mat.slot.data())
    return found


def _name(replica: int, name: str) -> str:
    return name if replica == 0 else f"replica.{replica}.{name}"
