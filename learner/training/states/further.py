"""Turn a trained state to new data, to train it further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blocklearn.datasources import DataSource, Ids, row_names

from ..replicas.names import OPTIMIZER
from ..replicas.parts import Parts
from .state import State


def further(state: State, parts: Parts, names: Sequence[str] | None, source: DataSource) -> State:
    """Return `state` at the end of its passes, for training `parts` on the rows of `source`.

    States of other rows begin afresh, and so does an optimizer that keeps numbers for each row.

    names: of the rows so far; None: unknown.

    Raises:
        ValueError: the state is in the middle of a pass, or lacks the position of an optimizer.
    """
    if not {"optimizers", "steps"} & state.position.keys():
        raise ValueError(
            "Learner: the model folder is of an earlier version and lacks the optimizer's number "
            "of steps, so the model cannot be trained further. Train a new model on all data."
        )
    if state.position.get("block"):
        raise ValueError(
            "Learner: the state is in the middle of a pass: must be at its end before training on "
            "other data. Finish the pass with fit()."
        )
    other, rows = _differ(names, row_names(source)), source.shape.total_rows
    fresh = {
        name
        for name, side in parts.model.row_states.items()
        if side == 0 and name in state.tensors and (other or len(state.tensors[name]) != rows)
    }
    if parts.optimizer is not None and parts.optimizer.keeps_rows:
        fresh |= {name for name in state.tensors if name.startswith(OPTIMIZER)}
    tensors = {name: array for name, array in state.tensors.items() if name not in fresh}
    return replace(state, tensors=tensors, position={**state.position, "best": None}, fresh=fresh)


def _differ(known: Sequence[str] | None, found: Sequence[str] | None) -> bool:
    """Return whether both are known, and differ."""
    return known is not None and found is not None and Ids(known) != Ids(found)


def passes_of(state: State) -> int:
    """Return the number of complete passes."""
    return int(state.position.get("pass", 0))


def rows_before(state: State) -> int:
    """Return the number of rows of the data trained on so far."""
    return int(state.position.get("rows", 0)) // max(1, passes_of(state))
