"""Rows that blocks have read go to their owners, piece by piece: one travels while one is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .crew import Crew
from .dealt import Dealt, split
from .errands import Aside, Errand, one_ahead
from .row_loops import Ids, Keys
from .row_places import Arrays, LaidRows, width
from .sparse_merging import Swap

PIECE, MESSAGE = 2**22, 2**16
"""Numbers of a piece that a worker gets, about, and those of each worker: beginning to send fewer
takes a network as long as sending them."""


def piece_of(workers: int) -> int:
    """Return the numbers of a piece that a worker gets, about."""
    return max(PIECE, MESSAGE * workers)


Clock = NDArray[np.float64]


class Rest(Protocol):
    """Brings copies of rows up to date that rest while their column does not occur."""

    @property
    def now(self) -> Clock:
        """The clock of this worker."""

    def settle(self, at: Ids, rows: NDArray[np.float32]) -> None:
        """Bring rows up to date that this worker has read.

        at: their places in the tables. rows: of all tables, side by side.
        """

    def wake(self, ids: Ids, rows: NDArray[np.float32], now: Clock) -> None:
        """Bring rows to this clock that a worker has not read since the last merge."""


class KeptRows:
    """Memory for rows that travel: kept, because the system clears new memory before its use."""

    def __init__(self) -> None:
        self._numbers = np.empty(0, np.float32)

    def rows(self, count: int, columns: int) -> NDArray[np.float32]:
        """Return memory for so many rows. It has any numbers, and lasts until the next call."""
        size = count * columns
        if self._numbers.size < size:
            self._numbers = np.empty(0, np.float32)  # freed before more is taken
            self._numbers = np.empty(size + size // 8, np.float32)
        return self._numbers[:size].reshape(count, columns)


class Piece(NamedTuple):
    """What blocks of all workers have read of a range of own rows.

    - first, end: the range. keys: see `row_sums.merge`.
    - rows: of all tables, side by side, by worker. They last while the next piece travels.
    """

    first: int
    end: int
    keys: Keys
    rows: NDArray[np.float32]


class GivenRows:
    """Gives rows of tables to their owners: see `NeededRows`, which has the same arguments.

    count: of rows that a worker owns, at most.
    memory: of two pieces, what is sent and what arrives.
    """

    def __init__(
        self,
        crew: Crew,
        count: int,
        swap: Swap,
        aside: Aside,
        laid: LaidRows,
        rest: Rest | None,
        memory: Sequence[tuple[KeptRows, KeptRows]],
    ) -> None:
        self._crew, self._count, self._swap, self._aside = crew, count, swap, aside
        self._laid, self._rest, self._memory = laid, rest, memory

    def ranges(self, found: Sequence[Sequence[int]]) -> list[int]:
        """Return where the ranges of own rows begin, and the end: they are those of all workers.

        found: the `cuts` of all workers. The one that gets the most rows decides.
        """
        return [0, *max(found, key=len), self._count]

    def cuts(self, keys: Keys, columns: int) -> list[int]:
        """Return where to cut own rows, so that this worker gets about a piece for each range.

        keys: of the rows that it gets, ascending.
        """
        step = max(1, piece_of(self._crew.size) // columns)
        found: list[int] = np.unique(keys[step::step] >> 32).tolist()
        return found

    def pieces(
        self, tables: Arrays, read: Ids, keys: Keys, ranges: Sequence[int]
    ) -> AbstractContextManager[Iterator[Piece]]:
        """Yield what this worker gets of each range, while that of the next one travels.

        read, keys: of the rows that this worker gives and gets, ascending.
        """
        return closing(one_ahead(self._begun(tables, read, keys, ranges)))

    def _begun(
        self, tables: Arrays, read: Ids, keys: Keys, ranges: Sequence[int]
    ) -> Iterator[Errand[Piece]]:
        n, columns = self._crew.size, width(tables)
        for number, (first, end) in enumerate(pairwise(ranges)):
            sent, got = self._memory[number % 2]
            low, high = np.searchsorted(read, [first * n, end * n])
            parts = self._taken(tables, read[low:high], sent)
            low, high = np.searchsorted(keys, [first << 32, end << 32])
            piece = Piece(first, end, keys[low:high], got.rows(high - low, columns))
            yield self._aside(self._travelled, parts, piece)

    def _taken(self, tables: Arrays, read: Ids, kept: KeptRows) -> list[NDArray[np.float32]]:
        """Return copies of rows, up to date, by owner. kept: their memory."""
        dealt = Dealt.to(self._crew.size, read)
        rows = kept.rows(read.size, width(tables))
        at = self._laid.at(read)
        self._laid.take(tables, at, rows, dealt.places)
        if self._rest is not None:
            by_owner = np.empty_like(at)
            by_owner[dealt.places] = at
            self._rest.settle(by_owner, rows)
        return split(rows, dealt.bounds)

    def _travelled(self, parts: Sequence[NDArray[np.float32]], piece: Piece) -> Piece:
        self._swap(parts, piece.rows.reshape(-1))
        return piece
