"""Give all workers the rows of states that blocks have trained, while the next blocks train.

The states of a side are read as tables by the blocks of the other side. So rows travel in a thread
of their own, from one merge to the next, and only the last ones are waited for. Merges, and what
else workers exchange, come when it has ended: all workers make the same calls in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import RowState, TokenState

from ...engines.crew import Crew
from .lane import Errand, Lane

Ids = NDArray[np.int64]
States = Sequence[RowState | TokenState]

MANY = 2**22
"""Bytes of rows of all workers from which on they are given before the end of a side."""

PIECE = 2**26
"""Bytes of rows that all workers give at a time."""


class TrainedRows:
    """The rows that this worker has trained, and not given to the others yet."""

    def __init__(self, crew: Crew) -> None:
        self._crew, self._lane = crew, Lane("blocklearn-rows")
        self._errand: Errand[None] | None = None
        self._states: States = ()  # of the side that is trained, the same on all workers
        self._ids: list[Ids] = []
        self._most = 0  # rows of all workers, at most

    def begin(self, states: States, most: int, *, early: bool = True) -> None:
        """Begin to give the rows trained so far; new ones will be of these states.

        most: rows of all workers until the next call, at most.
        early: whether nothing else is exchanged until then; otherwise the rows wait for the end.
        """
        if (
            early
            and self._crew.exchange.any_thread
            and self._most * _row_bytes(self._states) >= MANY
        ):
            self._errand = self._lane.ask(self._give, self._states, self._taken())
        self._states, self._most = states, self._most + most

    def add(self, ids: Ids) -> None:
        """Note the rows of a block that was trained."""
        self._ids.append(ids.copy())

    def wait(self) -> None:
        """Wait until rows have been given. Raises the error that prevented it."""
        errand, self._errand = self._errand, None
        if errand is not None:
            errand.result()

    @property
    def pending(self) -> bool:
        """Whether workers have old rows of others. It is the same on all."""
        return len(self._states) > 0

    def give(self) -> None:
        """Give the rest of the rows; all workers call this."""
        self.wait()
        states, self._states = self._states, ()
        self._give(states, self._taken())

    def _taken(self) -> Ids:
        ids, self._ids, self._most = self._ids, [], 0
        return np.concatenate([np.empty(0, np.int64), *ids])

    def _give(self, states: States, ids: Ids) -> None:
        crew = self._crew
        step = max(1, PIECE // (_row_bytes(states) * crew.size))
        for start in range(0, max(crew.gather(len(ids))), step):
            some = ids[start : start + step]
            given = [part.copy() for part in crew.pooled(some)]
            for state in states:
                for rank, rows in enumerate(crew.pooled(state.of_rows(some))):
                    if rank != crew.rank:
                        state.set_rows(given[rank], rows)

    def close(self) -> None:
        """Stop the thread."""
        self._lane.close()


def _row_bytes(states: States) -> int:
    return max(1, sum(state.shape[1] * np.dtype(state.dtype).itemsize for state in states))
