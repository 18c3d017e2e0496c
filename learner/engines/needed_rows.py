"""Merge tables of which each worker fetches only the rows that its next blocks need.

The rows of such a table are the columns of sparse data: a block reads and changes those that occur
in it. Row r is owned by worker r mod workers. It holds the merged row, apart from the tables in
which its blocks train: these have copies, which may be old.

1. Before a block, a worker asks the owners for its rows: `fetch`.
2. After some blocks, it gives the owners the rows that these have read: `merge`. An owner adds up
   in the order of the replicas. A replica whose blocks did not read a row counts with the merged
   row of before. So the bits are those of a merge of all numbers, as long as they are finite.
3. Where the whole table is read, owners give all workers what has changed: `gather`.

Rows may rest: then they change while no block reads them, in closed form, and each replica has a
clock. At a merge an owner brings all of its rows to these clocks.

Rows of a block lie far apart in a table. So a worker reads and writes them in ascending order, and
an owner has its own side by side. Tables in files have rows in places of their own: see `Places`.

Zhao, Canny 2014, "Kylix: A Sparse Allreduce for Commodity Clusters", without adding on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from . import row_loops, row_sums
from .crew import Crew
from .row_loops import Bounds, Ids, Keys
from .sparse_merging import Swap

Arrays = Sequence[NDArray[np.float32]]

PIECE = 2**22
"""Numbers that all workers gather at a time."""


class Dealt(NamedTuple):
    """Numbers of rows, ascending, and by owner.

    ids: ascending. by_owner: those of one owner after the other. places: of each of ids there.
    bounds: [workers + 1], of the owners.
    """

    ids: Ids
    by_owner: Ids
    places: Ids
    bounds: Bounds

    @staticmethod
    def to(workers: int, ids: Ids) -> Dealt:
        """Deal ascending numbers of rows to their owners."""
        bounds = np.empty(workers + 1, np.int64)
        found = Dealt(ids, np.empty_like(ids), np.empty_like(ids), bounds)
        row_loops.deal(ids, workers, bounds, found.by_owner, found.places)
        return found


class Rest(Protocol):
    """Brings copies of rows up to date that rest while their column does not occur."""

    @property
    def now(self) -> float:
        """The clock of this worker, 0 after a merge."""

    def settle(self, ids: Ids, rows: NDArray[np.float32]) -> None:
        """Bring rows up to date that this worker has read. rows: of all tables, side by side."""

    def wake(self, ids: Ids, rows: NDArray[np.float32], now: float) -> None:
        """Bring rows to this time that a worker has not read since the last merge."""


class Places(Protocol):
    """Where rows of tables lie, if not in the order of their numbers; see `PlacedTables`."""

    def places_of(self, columns: Ids) -> Ids:
        """Return the places of these rows. Any thread may ask."""

    def changing(self, rows: Ids) -> AbstractContextManager[None]:
        """Change the rows in these places in a `with` statement, in the thread that trains."""


class Came(NamedTuple):
    """Merged rows that owners have sent. ids: their numbers. places: of each of them in `rows`."""

    ids: Ids
    rows: NDArray[np.float32]
    places: Ids


class NeededRows:
    """What a worker has of tables [rows x any], float32, whose rows have owners.

    - crew: all workers, each with one replica.
    - rows: of each table.
    - swap: `Exchange.exchange`, or one with the same meaning.
    - rest: brings rows up to date that rest while no block reads them; None: they do not change.
    - places: of the rows in the tables; None: row r is in place r.

    behind: whether rows of the tables may be old. It is the same on all workers.
    All of them make the same calls.
    """

    def __init__(
        self,
        crew: Crew,
        rows: int,
        swap: Swap,
        rest: Rest | None = None,
        places: Places | None = None,
    ) -> None:
        self._crew, self._swap, self._rest, self._places = crew, swap, rest, places
        self._count = len(range(crew.rank, rows, crew.size))  # of own rows
        self._own = np.empty((0, 0), np.float32)  # own rows of all tables, side by side
        self._held = np.zeros(self._count, np.bool_)  # which are there; else in the tables
        self._read = np.zeros(-(-rows // 8), np.uint8)  # bits, since the last merge
        self._wanted: list[Ids] = []  # the rows that each fetch since then was the first to read
        self._asked: list[Keys] = []  # own rows that workers have fetched since then
        self._counts = np.zeros(crew.size, np.int64)  # of these, by worker
        self.behind = False

    def fetch(self, tables: Arrays, ids: Ids) -> None:
        """Bring rows up to date that the next block reads. ids: each once, ascending."""
        self.arrive(tables, self.ask(tables, ids))

    def ask(self, tables: Arrays, ids: Ids) -> Came | None:
        """Return rows that the next block reads, which `arrive` before it; None: they are there.

        It changes no table, so a block may train meanwhile.
        """
        new = np.empty_like(ids)
        wanted = Dealt.to(self._crew.size, new[: row_loops.mark(ids, self._read, new)])
        asked = self._swap(_split(wanted.by_owner, wanted.bounds))
        bounds = _bounds([part.size for part in asked])
        numbers = self._note(np.concatenate(asked), bounds)
        self._hold(tables, numbers)
        self._wanted.append(wanted.ids)
        if not self.behind:
            return None
        rows = self._swap(_split(self._own.take(numbers, axis=0), bounds))
        return Came(wanted.ids, np.concatenate(rows), wanted.places)

    def arrive(self, tables: Arrays, came: Came | None) -> None:
        """Put rows into the tables for which a worker has asked."""
        if came is not None:
            self._put(tables, *came)

    def _note(self, asked: Ids, bounds: Bounds) -> Ids:
        """Note which workers have fetched own rows; return the numbers of these, from 0."""
        numbers, keys = np.empty_like(asked), np.empty(asked.size, np.int64)
        row_loops.label(asked, bounds, numbers, keys)
        self._asked.append(keys)
        self._counts += np.diff(bounds)
        return numbers

    def _ids_of(self, numbers: Ids) -> Ids:
        """Return which rows own rows are."""
        return numbers * np.int32(self._crew.size) + np.int32(self._crew.rank)

    def _hold(self, tables: Arrays, numbers: Ids) -> None:
        """Copy own rows from the tables, unless they are held: a block may change these next."""
        if not self._own.size:
            self._own = np.empty((self._count, _width(tables)), np.float32)
        new = np.empty_like(numbers)
        new = new[: row_loops.flag(numbers, self._held, new)]
        self._take(tables, self._ids_of(new), self._own, new)

    def merge(self, tables: Arrays) -> Ids:
        """Merge the rows that blocks have read since the last merge, at their owners; return them.

        Owners know from `fetch` which rows these are. All workers have fetched, if only no rows.

        Rows that rest change without being read, so all are merged.
        """
        read, clocks = np.sort(np.concatenate(self._wanted)), [0.0] * self._crew.size
        dealt = Dealt.to(self._crew.size, read)
        rows = np.empty((read.size, _width(tables)), np.float32)
        self._take(tables, read, rows, dealt.places)
        if self._rest is not None:
            self._rest.settle(dealt.by_owner, rows)
            clocks = self._crew.gather(self._rest.now)
        given = np.concatenate(self._swap(_split(rows, dealt.bounds))).reshape(-1, rows.shape[1])
        keys, heads = np.sort(np.concatenate(self._asked)), _bounds(self._counts)
        times, kinds = np.unique(clocks, return_inverse=True)
        work, lacks = np.empty((3, rows.shape[1])), np.empty(times.size, np.int64)
        for numbers, some, before in self._changing(tables, keys, times.tolist()):
            row_sums.merge(numbers, some, heads, given, kinds, before, lacks, work)
        self._forget([read])
        self.behind = True
        return read

    def _changing(
        self, tables: Arrays, keys: Keys, times: list[float]
    ) -> Iterator[tuple[Ids, Keys, NDArray[np.float32]]]:
        """Yield own rows that a merge changes, some at a time: see `row_sums.merge`.

        They are numbers, keys, and what rows are at these times if no block has read them.
        """
        if self._rest is None:
            numbers = (keys >> 32).astype(np.int32)
            yield numbers[np.diff(numbers, prepend=-1) > 0], keys, self._own[None]
            return
        step = max(1, PIECE // _width(tables))
        for start in range(0, self._count, step):
            numbers = np.arange(min(step, self._count - start), dtype=np.int32)
            self._hold(tables, numbers + np.int32(start))
            ids, rows = self._ids_of(numbers + np.int32(start)), self._own[start : start + step]
            found = rows[None] if len(times) == 1 else np.repeat(rows[None], len(times), axis=0)
            for some, now in zip(found, times, strict=True):
                self._rest.wake(ids, some, now)
            first, last = np.searchsorted(keys, [start << 32, (start + step) << 32])
            yield numbers, keys[first:last] - (start << 32), found
            if len(times) > 1:
                rows[:] = found[0]

    def gather(self, tables: Arrays) -> None:
        """Give all workers the rows that have changed. After `merge`, before the next `fetch`."""
        held = np.flatnonzero(self._held).astype(np.int32)
        step = max(1, PIECE // self._crew.size // _width(tables))
        for start in range(0, max(self._crew.gather(held.size)), step):
            some = held[start : start + step]
            ids = np.concatenate(self._crew.pooled(self._ids_of(some)))
            rows = np.concatenate(self._crew.pooled(self._own[some]))
            self._put(tables, ids, rows, np.arange(ids.size, dtype=np.int32))
        self.alike()

    def alike(self) -> None:
        """Note that all workers have the same tables."""
        self._forget(self._wanted)
        self._held[:] = False
        self.behind = False

    def _forget(self, read: Sequence[Ids]) -> None:
        """Begin anew to note who has fetched which rows. read: all that this worker has."""
        for ids in read:
            row_loops.clear(ids, self._read)
        self._wanted, self._asked = [], []
        self._counts[:] = 0

    def _take(self, tables: Arrays, ids: Ids, rows: NDArray[np.float32], places: Ids) -> None:
        """Copy rows of all tables to places of `rows`, side by side."""
        at = ids if self._places is None else self._places.places_of(ids)
        for table, start in _beside(tables):
            row_loops.take(table, at, start, rows, places)

    def _put(self, tables: Arrays, ids: Ids, rows: NDArray[np.float32], places: Ids) -> None:
        """Replace rows of all tables by those at places of `rows`, which are side by side."""
        rows = rows.reshape(ids.size, _width(tables))
        at = ids if self._places is None else self._places.places_of(ids)
        with nullcontext() if self._places is None else self._places.changing(at):
            for table, start in _beside(tables):
                row_loops.put(table, at, start, rows, places)


def _beside(tables: Arrays) -> Iterator[tuple[NDArray[np.float32], int]]:
    """Yield each table, and the first of its columns where rows lie side by side."""
    start = 0
    for table in tables:
        yield table, start
        start += table.shape[1]


def _width(tables: Arrays) -> int:
    return sum(table.shape[1] for table in tables)


def _bounds(counts: Sequence[int] | Bounds) -> Bounds:
    """Return where parts of so many items begin, and the end."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _split(array: NDArray[Any], bounds: Bounds) -> list[NDArray[Any]]:
    """Return the parts of an array."""
    return [array[a:b] for a, b in pairwise(bounds.tolist())]
