"""Merge tables of which each worker fetches only the rows that its next blocks need.

The rows of such a table are the columns of sparse data: a block reads and changes those that occur
in it. Row r is owned by worker r mod workers. It has the merged row; copies of others may be old.

1. Before a block, a worker asks the owners for its rows: `fetch`.
2. After some blocks, it gives the owners the rows that these have read: `merge`. An owner adds up
   in the order of the replicas. A replica whose blocks did not read a row counts with the merged
   row of before. So the bits are those of a merge of all numbers, as long as they are finite.
3. Where the whole table is read, owners give all workers what has changed: `gather`.

Zhao, Canny 2014, "Kylix: A Sparse Allreduce for Commodity Clusters", without adding on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.merge import add, put, scale

from .crew import Crew
from .sparse_merging import Swap

Ids = NDArray[np.int32]
Arrays = Sequence[NDArray[np.float32]]

PIECE = 2**22
"""Numbers that all workers gather at a time."""


class NeededRows:
    """What a worker has of tables [rows x any], float32, whose rows have owners.

    - crew: all workers, each with one replica.
    - rows: of each table.
    - swap: `Exchange.exchange`, or one with the same meaning.

    behind: whether copies of other workers' rows may be old. It is the same on all workers.
    All of them make the same calls.
    """

    def __init__(self, crew: Crew, rows: int, swap: Swap) -> None:
        self._crew, self._swap = crew, swap
        self._changed = np.zeros(len(range(crew.rank, rows, crew.size)), np.bool_)  # since `gather`
        self.behind = False
        self._begin()

    def _begin(self) -> None:
        self._read = np.empty(0, np.int32)  # since the last merge, ascending
        self._kept: tuple[Ids, NDArray[Any]] | None = None  # own ones, as they were merged

    def fetch(self, tables: Arrays, ids: Ids) -> None:
        """Bring rows up to date that the next block reads. ids: each once."""
        rank = self._crew.rank
        new = np.setdiff1d(ids, self._read, assume_unique=True)
        self._read = np.union1d(self._read, new)
        wanted = self._by_owner(new)
        self._keep(tables, wanted[rank])
        if not self.behind:
            return
        wanted[rank] = new[:0]
        asked = self._swap(wanted)
        found = self._swap([self._merged(tables, some) for some in asked])
        for some, rows in zip(wanted, found, strict=True):
            _put(tables, some, rows)

    def merge(self, tables: Arrays) -> None:
        """Merge the rows that blocks have read since the last merge, at their owners."""
        read = self._by_owner(self._read)
        ids = [part.copy() for part in self._swap(read)]
        found = self._swap([_taken(tables, some) for some in read])
        union = np.unique(np.concatenate(ids))
        before = self._merged(tables, union)
        total = np.empty(before.size)
        for rank, (some, rows) in enumerate(zip(ids, found, strict=True)):
            part = before.copy()
            part[np.searchsorted(union, some)] = rows.reshape(some.size, before.shape[1])
            (add if rank else put)(part.reshape(-1), total)
        scale(1.0 / len(ids), total)
        _put(tables, union, total.astype(np.float32))
        self._changed[union // self._crew.size] = True
        self._begin()
        self.behind = True

    def gather(self, tables: Arrays) -> None:
        """Give all workers the rows that have changed. After `merge`, before the next `fetch`."""
        size, rank = self._crew.size, self._crew.rank
        own = (np.flatnonzero(self._changed) * size + rank).astype(np.int32)
        step = max(1, PIECE // size // sum(table.shape[1] for table in tables))
        for start in range(0, max(self._crew.gather(own.size)), step):
            some = own[start : start + step]
            ids = [part.copy() for part in self._swap([some] * size)]
            found = self._swap([_taken(tables, some)] * size)
            for rows_of, rows in zip(ids, found, strict=True):
                _put(tables, rows_of, rows)
        self.alike()

    def alike(self) -> None:
        """Note that all workers have the same tables."""
        self._changed[:] = False
        self.behind = False
        self._begin()

    def _by_owner(self, ids: Ids) -> list[Ids]:
        owners = ids % self._crew.size
        return [ids[owners == owner] for owner in range(self._crew.size)]

    def _keep(self, tables: Arrays, own: Ids) -> None:
        """Keep own rows that the next block changes: others may need them as they were merged."""
        rows = _taken(tables, own)
        if self._kept is not None:
            own, rows = np.concatenate([self._kept[0], own]), np.concatenate([self._kept[1], rows])
            order = np.argsort(own)
            own, rows = own[order], rows[order]
        self._kept = own, rows

    def _merged(self, tables: Arrays, ids: Ids) -> NDArray[np.float32]:
        """Return own rows as the last merge has left them, [ids x columns of all tables]."""
        found = _taken(tables, ids)
        if self._kept is not None and self._kept[0].size:
            kept, rows = self._kept
            place = np.minimum(np.searchsorted(kept, ids), kept.size - 1)
            was_read = kept[place] == ids
            found[was_read] = rows[place[was_read]]
        return found


def _taken(tables: Arrays, ids: Ids) -> NDArray[np.float32]:
    """Return copies of rows of all tables, side by side."""
    return np.concatenate([table[ids] for table in tables], axis=1)


def _put(tables: Arrays, ids: Ids, rows: NDArray[np.float32]) -> None:
    """Replace rows of all tables by `rows`, which are side by side."""
    rows, start = rows.reshape(ids.size, sum(table.shape[1] for table in tables)), 0
    for table in tables:
        table[ids] = rows[:, start : start + table.shape[1]]
        start += table.shape[1]
