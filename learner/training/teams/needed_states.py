"""Bring blocks the rows of a state that occur in them, where each worker has its own rows only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import HostBlock
from blocklearn.matcache import MatCache
from blocklearn.models import RowState, TokenState
from blocklearn.models.states.token_state import Terms

from ...engines.crew import Crew
from ...engines.rows import fetched, gathered, split
from ..replicas.replica import Replica

PIECE = 2**24
"""Bytes of rows that a worker gives to all others at a time, at most."""

RANGE = 2**14
"""Rows that are summed up at a time: another number changes the bits."""


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
            for places, rows in fetched(state, some, self._crew):
                state.bring(start + places, rows)


def rows_at_a_time(state: RowState, workers: int) -> int:
    """Return how many rows each of so many workers asks for at a time, at most."""
    return max(1, PIECE // (4 * state.shape[1] * workers))


def sum_up(replicas: Sequence[Replica], crew: Crew, side: int) -> None:
    """Give replicas what blocks of a side read of all rows of the other one: samples and sums.

    All workers call this.
    """
    for number, state in enumerate(_others(replicas[0].model.states, side)):
        sample = gram = None
        if state.wants_sample and not state.whole:
            sample = gathered(state, state.sampled, crew, everywhere=True)
        if state.wants_gram:
            gram = gram_of(state, crew, replicas[0].cache)
        for replica in replicas:
            own = _others(replica.model.states, side)[number]
            if sample is not None:
                own.set_sample(sample)
            if gram is not None:
                own.set_gram(gram)


def sum_tokens(replicas: Sequence[Replica], crew: Crew) -> None:
    """Give replicas the sums over all tokens that the end of a pass reads: see `TokenState.terms`.

    All workers call this.
    """
    for name, state in replicas[0].model.states.items():
        if isinstance(state, TokenState) and state.terms is not None:
            sums = sums_of(state, state.terms, crew)
            for replica in replicas:
                own = replica.model.states[name]
                assert isinstance(own, TokenState)
                own.sums = sums


def sums_of(state: TokenState, terms: Terms, crew: Crew) -> NDArray[np.float64]:
    """Return the sums of `terms` over all tokens, the same bits for any number of workers.

    They are added up in the order of ranges of rows. Each worker has some of them.
    """
    ranges, size, found = state.ranges(), 1 if state.whole else crew.size, None
    while some := list(islice(ranges, size)):
        some += [some[0][:0]] * (size - len(some))
        own = some[crew.rank % size]
        tokens = state.of_rows(own) if state.whole else split(state, some, crew)
        part = terms(state.starts_of(own), tokens.reshape(-1))
        for each in [part] if state.whole else crew.pooled(part):
            found = each.copy() if found is None else found + each
    assert found is not None
    return found


def gram_of(state: RowState, crew: Crew, cache: MatCache) -> NDArray[np.float64]:
    """Return R.T @ R of all rows R of a state, the same bits for any number of workers.

    It is summed in float64, in the order of ranges of `RANGE` rows. Each worker has some of them.

    cache: multiplies, and counts the operations.
    """
    columns, size = state.shape[1], 1 if state.whole else crew.size
    part, found = np.empty((columns, columns), np.float32), np.zeros((columns, columns))
    for start in range(0, state.shape[0], RANGE * size):
        ends = np.minimum(start + RANGE * np.arange(size + 1), state.shape[0])
        if state.whole:
            rows = state.run(*ends)
        else:
            rows = split(state, [np.arange(a, b) for a, b in pairwise(ends)], crew)
        cache.backend.matmul(rows.T, rows, part, True)
        cache.count(2 * rows.size * columns)
        for each in [part] if state.whole else crew.pooled(part):
            found += each.reshape(part.shape)
    return found


def _others(states: Mapping[str, RowState | TokenState], side: int) -> list[RowState]:
    """Return the states of rows of the other side."""
    return [each for each in states.values() if isinstance(each, RowState) and each.side != side]
