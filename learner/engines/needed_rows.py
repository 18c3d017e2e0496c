"""Merge tables of which each worker fetches only the rows that its next blocks need.

The rows of such a table are the columns of sparse data: a block reads and changes those that occur
in it. Row r is owned by worker r mod workers. It has the merged row; copies of others may be old.

1. Before a block, a worker asks the owners for its rows: `fetch`.
2. After some blocks, it gives the owners the rows that these have read: `merge`. An owner adds up
   in the order of the replicas. A replica whose blocks did not read a row counts with the merged
   row of before. So the bits are those of a merge of all numbers, as long as they are finite.
3. Where the whole table is read, owners give all workers what has changed: `gather`.

Rows may rest: then they change while no block reads them, in closed form, and each replica has a
clock. At a merge an owner brings all of its rows to these clocks.

Zhao, Canny 2014, "Kylix: A Sparse Allreduce for Commodity Clusters", without adding on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from . import row_loops
from .crew import Crew
from .row_loops import Bounds, Ids
from .sparse_merging import Swap

Arrays = Sequence[NDArray[np.float32]]

PIECE = 2**22
"""Numbers that all workers gather at a time."""


class Runs(NamedTuple):
    """Numbers of rows in parts, one for each worker.

    ids: of all parts, one after the other. bounds: [workers + 1], of the parts.
    """

    ids: Ids
    bounds: Bounds

    @staticmethod
    def by_owner(ids: Ids, workers: int) -> Runs:
        """Deal ascending numbers of rows to their owners."""
        found = Runs(np.empty_like(ids), np.empty(workers + 1, np.int64))
        row_loops.deal(ids, workers, found.bounds, found.ids)
        return found

    @staticmethod
    def of(parts: Sequence[NDArray[Any]]) -> Runs:
        """Copy the parts of workers."""
        bounds = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([part.size for part in parts], out=bounds[1:])
        return Runs(np.concatenate(parts), bounds)

    @staticmethod
    def joined(several: Sequence[Runs]) -> Runs:
        """Join the parts of each worker, in this order."""
        parts = zip(*(runs.split(runs.ids) for runs in several), strict=True)
        return Runs.of([np.concatenate(part) for part in parts])

    def without(self, worker: int) -> Runs:
        """Leave out the part of a worker."""
        parts = self.split(self.ids)
        parts[worker] = parts[worker][:0]
        return Runs.of(parts)

    def split(self, array: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the parts of an array with an item for each number."""
        return [array[a:b] for a, b in pairwise(self.bounds.tolist())]


class Rest(Protocol):
    """Brings copies of rows up to date that rest while their column does not occur."""

    @property
    def now(self) -> float:
        """The clock of this worker, 0 after a merge."""

    def settle(self, ids: Ids, rows: NDArray[np.float32]) -> None:
        """Bring rows up to date that this worker has read. rows: of all tables, side by side."""

    def wake(self, ids: Ids, rows: NDArray[np.float32], now: float) -> None:
        """Bring rows to this time that a worker has not read since the last merge."""


class NeededRows:
    """What a worker has of tables [rows x any], float32, whose rows have owners.

    - crew: all workers, each with one replica.
    - rows: of each table.
    - swap: `Exchange.exchange`, or one with the same meaning.
    - rest: brings rows up to date that rest while no block reads them; None: they do not change.

    behind: whether copies of other workers' rows may be old. It is the same on all workers.
    All of them make the same calls.
    """

    def __init__(self, crew: Crew, rows: int, swap: Swap, rest: Rest | None = None) -> None:
        self._crew, self._rows, self._swap, self._rest = crew, rows, swap, rest
        self._changed = np.zeros(len(range(crew.rank, rows, crew.size)), np.bool_)  # since `gather`
        self._read = np.zeros(-(-rows // 8), np.uint8)  # bits, since the last merge
        self._wanted: list[Runs] = []  # the rows that each fetch since then was the first to read
        self._asked: list[Runs] = []  # those of all workers that this one owns
        self.behind = False
        self._begin()

    def _begin(self) -> None:
        for wanted in self._wanted:
            row_loops.clear(wanted.ids, self._read)
        self._wanted, self._asked = [], []
        self._kept = np.empty(0, np.int32), np.empty((0, 0), np.float32)  # own ones, as merged

    def fetch(self, tables: Arrays, ids: Ids) -> None:
        """Bring rows up to date that the next block reads. ids: each once, ascending."""
        rank = self._crew.rank
        new = np.empty_like(ids)
        wanted = Runs.by_owner(new[: row_loops.mark(ids, self._read, new)], self._crew.size)
        parts = wanted.split(wanted.ids)
        self._keep(tables, parts[rank])
        asked = Runs.of(self._swap(parts))
        self._wanted.append(wanted)
        self._asked.append(asked)
        if not self.behind:
            return
        asked, wanted = asked.without(rank), wanted.without(rank)
        rows = asked.split(self._merged(tables, asked.ids))
        _put(tables, wanted.ids, np.concatenate(self._swap(rows)))

    def merge(self, tables: Arrays) -> None:
        """Merge the rows that blocks have read since the last merge, at their owners.

        Owners know from `fetch` which rows these are. All workers have fetched, if only no rows.

        Rows that rest change without being read, so all are merged.
        """
        rank, size, rest = self._crew.rank, self._crew.size, self._rest
        read, found = Runs.joined(self._wanted), Runs.joined(self._asked)
        rows, clocks = _taken(tables, read.ids), [0.0] * size
        if rest is not None:
            rest.settle(read.ids, rows)
            clocks = self._crew.gather(rest.now)
        given = np.concatenate(self._swap(read.split(rows))).reshape(-1, _width(tables))
        keys = np.sort((found.ids.astype(np.int64) << 32) + np.arange(found.ids.size))
        arrived = (keys >> 32).astype(np.int32)
        ids = arrived[np.diff(arrived, prepend=-1) > 0]
        if rest is not None:
            ids = np.arange(rank, self._rows, size, dtype=np.int32)
        times, kinds = np.unique(clocks, return_inverse=True)
        work, lacks = np.empty((3, _width(tables))), np.empty(times.size, np.int64)
        step = max(1, PIECE // _width(tables))
        for some in (ids[start : start + step] for start in range(0, ids.size, step)):
            first, last = np.searchsorted(arrived, [some[0], some[-1] + 1])
            before = self._at(times.tolist(), tables, some)
            row_loops.merge(some, keys[first:last], found.bounds, given, kinds, before, lacks, work)
            _put(tables, some, before[0])
        self._changed[ids // size] = True
        self._begin()
        self.behind = True

    def _at(self, times: list[float], tables: Arrays, ids: Ids) -> NDArray[np.float32]:
        """Return what own rows are at these times if no block has read them since the last merge.

        [times x ids x columns of all tables].
        """
        found = np.repeat(self._merged(tables, ids)[None], len(times), axis=0)
        if self._rest is not None:
            for rows, now in zip(found, times, strict=True):
                self._rest.wake(ids, rows, now)
        return found

    def gather(self, tables: Arrays) -> None:
        """Give all workers the rows that have changed. After `merge`, before the next `fetch`."""
        size, rank = self._crew.size, self._crew.rank
        own = (np.flatnonzero(self._changed) * size + rank).astype(np.int32)
        step = max(1, PIECE // size // _width(tables))
        for start in range(0, max(self._crew.gather(own.size)), step):
            some = own[start : start + step]
            ids = np.concatenate(self._crew.pooled(some))
            _put(tables, ids, np.concatenate(self._crew.pooled(_taken(tables, some))))
        self.alike()

    def alike(self) -> None:
        """Note that all workers have the same tables."""
        self._changed[:] = False
        self.behind = False
        self._begin()

    def _keep(self, tables: Arrays, own: Ids) -> None:
        """Keep own rows that the next block changes: others may need them as they were merged."""
        rows, (ids, before) = _taken(tables, own), self._kept
        if not ids.size:
            self._kept = own, rows
            return
        count = ids.size + own.size
        self._kept = np.empty(count, np.int32), np.empty((count, rows.shape[1]), np.float32)
        row_loops.interleave(ids, before, own, rows, *self._kept)

    def _merged(self, tables: Arrays, ids: Ids) -> NDArray[np.float32]:
        """Return own rows as the last merge has left them, [ids x columns of all tables]."""
        rows = _taken(tables, ids)
        row_loops.replace(ids, rows, *self._kept)
        return rows


def _taken(tables: Arrays, ids: Ids) -> NDArray[np.float32]:
    """Return copies of rows of all tables, side by side."""
    rows, start = np.empty((ids.size, _width(tables)), np.float32), 0
    for table in tables:
        row_loops.take(table, ids, start, rows)
        start += table.shape[1]
    return rows


def _put(tables: Arrays, ids: Ids, rows: NDArray[np.float32]) -> None:
    """Replace rows of all tables by `rows`, which are side by side."""
    rows, start = rows.reshape(ids.size, _width(tables)), 0
    for table in tables:
        row_loops.put(table, ids, start, rows)
        start += table.shape[1]


def _width(tables: Arrays) -> int:
    return sum(table.shape[1] for table in tables)
