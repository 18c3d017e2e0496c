"""Bring blocks the rows of a state that occur in them, where each worker has its own rows only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import HostBlock
from blocklearn.models import RowState, TokenState
from blocklearn.models.row_share import PIECE

from ..engines.crew import Crew
from ..engines.rows import fetched, gathered
from .replica import Replica


class NeededStates:
    """The states that the blocks of a side read by need: see `RowState.near`.

    replica: the only one of a worker. All workers make the same calls.
    """

    def __init__(self, replica: Replica, crew: Crew, side: int) -> None:
        self._crew = crew
        self._states = [each for each in _others(replica.model.states, side) if each.by_need]
        self._shape = replica.intakes[side].shape

    def __bool__(self) -> bool:
        return len(self._states) > 0

    def brought(self, blocks: Iterator[HostBlock], rounds: int) -> Iterator[HostBlock]:
        """Yield each block when its rows are there.

        rounds: blocks of the worker that has the most: all take part in what it fetches.
        """
        for _ in range(rounds):
            block = next(blocks, None)
            ids = np.empty(0, np.int64) if block is None else block.occurring().astype(np.int64)
            for state in self._states:
                self._bring(state, ids)
            if block is not None:
                yield block

    def _bring(self, state: RowState, ids: NDArray[np.int64]) -> None:
        step = rows_at_a_time(state, self._crew.size)
        for start in range(0, min(self._shape.nnz, self._shape.columns), step):
            some = ids[start : start + step]
            state.bring(fetched(state, some, self._crew), start)


def rows_at_a_time(state: RowState, workers: int) -> int:
    """Return how many rows each of so many workers asks for at a time, at most."""
    return max(1, PIECE // (4 * state.shape[1] * workers))


def bring_samples(replica: Replica, crew: Crew, side: int) -> None:
    """Bring all workers the samples of states that blocks of a side read; all call it."""
    for state in _others(replica.model.states, side):
        if state.wants_sample and not state.whole:
            state.set_sample(gathered(state, state.sampled, crew, everywhere=True))


def _others(states: Mapping[str, RowState | TokenState], side: int) -> list[RowState]:
    """Return the states of rows of the other side."""
    return [each for each in states.values() if isinstance(each, RowState) and each.side != side]
