"""Give all workers the rows of states that blocks have trained, while the next blocks train.

The states of a side are read as tables by the blocks of the other side. So rows travel in a thread
of their own, from one merge to the next, and only the last ones are waited for. Merges, and what
else workers exchange, come when it has ended: all workers make the same calls in the same order.

Rows that are not shuffled are in order, block after block. They are sent from the tables of states
and arrive in them. Of other rows the numbers travel, too, and they are copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import RowState, TokenState

from ...engines.crew import Crew
from ...engines.errands import Errand
from ...engines.exchange import Room
from .lane import Lane

Ids = NDArray[np.int64]
States = Sequence[RowState | TokenState]

MANY = 2**22
"""Bytes of rows of all workers from which on they are given before the end of a side."""

LARGE = 2**31
"""Bytes of a round of blocks which some libraries of MPI cannot count."""

PIECE = 2**26
"""Bytes of rows that all workers give at a time."""


class Trained:
    """Rows that this worker has trained, and what all workers know of them.

    states: of the side that is trained. blocks: of all workers.
    """

    def __init__(self, states: States, blocks: range) -> None:
        self.states, self.blocks = states, blocks
        self.ids: list[Ids] = []
        self._in_order: list[bool] = []  # of each block: several threads add them

    def add(self, index: int, ids: Ids) -> None:
        """Note the rows of a block. index: which of the pass."""
        begin, end = self.states[0].share.first_rows[index : index + 2]
        self._in_order.append(np.array_equal(ids, np.arange(begin, end)))
        self.ids.append(ids.copy())

    @property
    def count(self) -> int:
        """The own rows."""
        return sum(len(ids) for ids in self.ids)

    @property
    def in_place(self) -> bool:
        """Whether they are whole blocks of rows in order, and the states lie in memory."""
        return all(self._in_order) and all(_in_memory(state) for state in self.states)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row of all states."""
        return sum(state.shape[1] * np.dtype(state.dtype).itemsize for state in self.states)

    @property
    def nbytes(self) -> int:
        """The bytes of rows of all workers."""
        if not self.states:
            return 0
        first = self.states[0].share.first_rows
        return self.row_bytes * int(first[self.blocks.stop] - first[self.blocks.start])


def _in_memory(state: RowState | TokenState) -> bool:
    """Whether a row is in its place in the array of the store, and nothing else notes changes."""
    store, share = state.store, state.share
    round_rows = share.size * int(np.diff(share.first_rows).max(initial=0))
    return (
        isinstance(state, RowState)
        and store.pages is None
        and store.held is None
        and 4 * state.shape[1] * round_rows < LARGE
    )


def _rooms(state: RowState | TokenState, blocks: range) -> Iterator[Room]:
    """Yield the memory of rounds of blocks. In a round each block is of another worker."""
    size, columns = state.share.size, state.shape[1]
    first = state.share.first_rows[blocks.start : blocks.stop + 1]
    lengths, full = np.diff(first), len(blocks) // size
    nbytes = 4 * columns * size * int(lengths[0])  # of a round, if all blocks are alike
    alike = nbytes > 0 and (lengths[: full * size] == lengths[0]).all()
    most = max(1, PIECE // nbytes) if alike else 1  # rounds at a time
    start = 0
    while start < len(blocks):
        rounds = max(1, min(most, full - start // size))
        stop = min(start + rounds * size, len(blocks))
        whole = state.store.array[first[start] : first[stop]].reshape(rounds, -1)
        parts = [slice(0, 0)] * size
        for block in range(start, min(start + size, stop)):
            ends = columns * (first[block : block + 2] - first[start])
            parts[blocks[block] % size] = slice(*ends.tolist())
        yield Room(whole, parts)
        start = stop


class TrainedRows:
    """The rows that this worker has trained, and not given to the others yet."""

    def __init__(self, crew: Crew) -> None:
        self._crew, self._lane = crew, Lane("blocklearn-rows")
        self._errand: Errand[None] | None = None
        self._trained = Trained((), range(0))

    def begin(self, states: States, blocks: range, *, early: bool = True) -> None:
        """Begin to give the rows trained so far; those of `blocks` are next.

        blocks: of all workers, which they train until the next call.
        early: whether nothing else is exchanged until then; otherwise the rows wait for the end.
        """
        if early and self._crew.exchange.any_thread and self._trained.nbytes >= MANY:
            self._errand = self._lane.ask(self._give, self._trained)
            self._trained = Trained((), range(0))
        start = self._trained.blocks.start if self.pending else blocks.start
        self._trained.states, self._trained.blocks = states, range(start, blocks.stop)

    def add(self, index: int, ids: Ids) -> None:
        """Note the rows of a block that was trained. index: which of the pass."""
        self._trained.add(index, ids)

    def wait(self) -> None:
        """Wait until rows have been given. Raises the error that prevented it."""
        errand, self._errand = self._errand, None
        if errand is not None:
            errand.result()

    @property
    def pending(self) -> bool:
        """Whether workers have old rows of others. It is the same on all."""
        return len(self._trained.states) > 0

    def give(self) -> None:
        """Give the rest of the rows; all workers call this."""
        self.wait()
        trained, self._trained = self._trained, Trained((), range(0))
        self._give(trained)

    def _give(self, trained: Trained) -> None:
        counts, in_place = zip(*self._crew.gather([trained.count, trained.in_place]), strict=True)
        if all(in_place):
            self._fill(trained)
        else:
            self._exchange(trained, max(counts))

    def _fill(self, trained: Trained) -> None:
        """Give whole blocks, which lie side by side in the tables of states."""
        for state in trained.states:
            for room in _rooms(state, trained.blocks):
                self._crew.exchange.fill(room)

    def _exchange(self, trained: Trained, most: int) -> None:
        """Give rows anywhere, with their numbers. most: rows of a worker."""
        crew, ids = self._crew, np.concatenate([np.empty(0, np.int64), *trained.ids])
        step = max(1, PIECE // (trained.row_bytes * crew.size))
        for start in range(0, most, step):
            some = ids[start : start + step]
            given = [part.copy() for part in crew.pooled(some)]
            for state in trained.states:
                for rank, rows in enumerate(crew.pooled(state.of_rows(some))):
                    if rank != crew.rank:
                        state.set_rows(given[rank], rows)

    def close(self) -> None:
        """Stop the thread."""
        self._lane.close()
