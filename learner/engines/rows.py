"""Exchange the states of rows that workers have changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import RowState, TokenState

from .crew import Crew


class ChangedRows:
    """The rows whose states this worker has changed since the last exchange.

    A row belongs to one block, and so to one worker. Each worker holds the states of all rows.
    """

    def __init__(self) -> None:
        """Note nothing yet."""
        self._rows: dict[int, list[NDArray[np.int64]]] = defaultdict(list)  # by side

    def note(self, side: int, rows: NDArray[np.int64]) -> None:
        """Note rows of a side. Several threads may do so at once."""
        self._rows[side].append(rows.copy())

    def give(self, states: Mapping[str, RowState | TokenState], crew: Crew) -> None:
        """Give the states of these rows to the other workers, and take theirs."""
        changed = {side: np.concatenate(rows) for side, rows in self._rows.items()}
        self._rows.clear()
        if crew.size == 1 or not states:
            return
        for side in sorted({state.side for state in states.values()}):
            own = changed.get(side, np.empty(0, np.int64))
            ids = [part.copy() for part in crew.pooled(own)]
            for state in states.values():
                if state.side != side:
                    continue
                for rank, numbers in enumerate(crew.pooled(state.of_rows(own))):
                    if rank != crew.rank:
                        state.set_rows(ids[rank], numbers)
