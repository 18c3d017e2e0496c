"""Turn a trained state to new data, to train it further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from blocklearn.datasources import Ids

from ..replicas.names import OPTIMIZER
from ..settings.progress import Progress
from .state import State


def further(
    state: State, row_states: Mapping[str, int], rows: int, names: bool, *, anew: bool = False
) -> State:
    """Return `state` at the end of its passes, for training on other rows.

    row_states: sides of the states of rows, by name; rows: rows of the new data.
    names: whether the new rows have other names. States of other rows begin afresh.
    anew: whether the optimizer begins anew, as one does that keeps numbers for each row.

    Raises:
        ValueError: the state is in the middle of a pass, or lacks the position of an optimizer.
    """
    if not {"optimizers", "steps"} & state.position.keys():
        raise ValueError(
            "Learner: the model folder is of an earlier version and does not say how far its "
            "optimizer was: it cannot be trained further. Train a new model on all data."
        )
    if state.position.get("block"):
        raise ValueError(
            "Learner: the state is in the middle of a pass: must be at the end of one to turn to "
            "other data. Train this pass to its end with fit()."
        )
    fresh = {
        name
        for name, side in row_states.items()
        if side == 0 and name in state.tensors and (names or len(state.tensors[name]) != rows)
    }
    if anew:
        fresh |= {name for name in state.tensors if name.startswith(OPTIMIZER)}
    tensors = {name: array for name, array in state.tensors.items() if name not in fresh}
    return replace(state, tensors=tensors, position={**state.position, "best": None}, fresh=fresh)


def other_names(known: Sequence[str] | None, found: Sequence[str] | None) -> bool:
    """Return whether both are known, and differ."""
    return known is not None and found is not None and Ids(known) != Ids(found)


def rows_before(progress: Progress) -> int:
    """Return the number of rows of the data trained on so far."""
    return progress.rows // max(1, progress.pass_)
