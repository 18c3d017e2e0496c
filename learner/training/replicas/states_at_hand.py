"""Which states of rows a method of a model may read: those that the block has."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from blocklearn.models.states.stored_rows import StoredRows

OTHER_SIDE = (
    "must not be read here: the rows of the block are those of the other side. Read {0}.table, "
    "which has all rows."
)
NEW_PREDICTED = (
    "must not be read in predict(): its rows are new, and have no state. Compute what they need "
    "from block.X in scratch matrices, as NMF does (models/nmf/model.py). Learner.row_state({0!r}) "
    "returns the state of the training rows."
)
NEW_SCORED = (
    "must not be read in score() while scores_new_rows is True: new rows have no state. Compute "
    "what they need from block.X in scratch matrices, or leave scores_new_rows out."
)
"""Why a method has no rows of a state, with braces for its name."""


@contextmanager
def without_rows(states: Collection[StoredRows], side: int | None, why: str) -> Iterator[None]:
    """Refuse rows of states that the block does not have, within the `with` statement.

    side: of these states; None: both.
    why: the message, with braces for the state's name.
    """
    refused = [state for state in states if side in (None, state.side)]
    for state in refused:
        state.unknown = why.format(state.name)
    try:
        yield
    finally:
        for state in refused:
            state.unknown = ""
