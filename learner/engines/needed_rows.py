"""Merge tables of which each worker fetches only the rows that its next blocks need.

The rows of such a table are the columns of sparse data: a block reads and changes those that occur
in it. Row r is owned by worker r mod workers. It holds the merged row, apart from the tables in
which its blocks train: these have copies, which may be old.

1. Before a block, a worker asks the owners for its rows: `fetch`.
2. After some blocks, it gives the owners the rows that these have read: `merge`. An owner adds up
   in the order of the replicas. A replica whose blocks did not read a row counts with the merged
   row of before. So the bits are those of a merge of all numbers, as long as they are finite.
3. Where the whole table is read, owners give all workers what has changed: `gather`.

Tables may be larger than memory. Then they are a `Scratch`: it has the rows of the blocks between
two merges, side by side, and owners keep all others.

Rows may rest: then they change while no block reads them, in closed form, and each replica has a
clock. At a merge an owner brings all of its rows to these clocks. Sums over all rows follow from
the rows of owners, in the order in which one process adds them up: see `whole_sums.py`.

Rows of a block lie far apart in a table. So a worker reads and writes them in ascending order, and
an owner has its own side by side.

Zhao, Canny 2014, "Kylix: A Sparse Allreduce for Commodity Clusters", without adding on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.pool import Pool

from . import row_loops, row_sums
from .crew import Crew
from .dealt import Dealt, bounds_of, split
from .errands import Aside, at_once
from .given_rows import Clock, GivenRows, KeptRows, Rest
from .owned_rows import OwnedRows, OwnPart
from .row_loops import Ids, Keys
from .row_places import Arrays, LaidRows, Scratch, width
from .sparse_merging import Swap
from .whole_sums import column_sums

PIECE = 2**22
"""Numbers that all workers gather at a time."""


class Came(NamedTuple):
    """Merged rows that owners have sent.

    at: their places in the tables. places: of each of them in `rows`.
    """

    at: Ids
    rows: NDArray[np.float32]
    places: Ids


class NeededRows:
    """What a worker has of tables [rows x any], float32, whose rows have owners.

    - crew: all workers, each with one replica.
    - rows: of each table.
    - swap: `Exchange.exchange`, or one with the same meaning.
    - rest: brings rows up to date that rest while no block reads them; None: they do not change.
    - scratch: the tables have rows only between two merges; None: row r is always in place r.
    - means: how many of the numbers of a row, those of all tables side by side, a merge sets to
      their mean; it adds up by how much the others have grown. None: all.
    - aside: begins exchanges of a merge, so that a piece is added up while the next one travels.
    - pool: whose threads share what `arrive` and `merge` do, but not `ask`: a block may train then.

    behind: whether rows of the tables may be old. It is the same on all workers.
    All of them make the same calls.
    """

    def __init__(
        self,
        crew: Crew,
        rows: int,
        swap: Swap,
        rest: Rest | None = None,
        scratch: Scratch | None = None,
        *,
        means: int | None = None,
        aside: Aside = at_once,
        pool: Pool | None = None,
    ) -> None:
        self._means = means
        self._crew, self._swap, self._rest = crew, swap, rest
        self._scratch, self._pool = scratch, pool or Pool(1)
        self._laid = LaidRows(scratch, self._pool)
        self.owned, self._count = OwnedRows(crew, rows, LaidRows(scratch), scratch), rows
        self._read = np.zeros(-(-rows // 8), np.uint8)  # bits, since the last merge
        self._wanted: list[Ids] = []  # the rows that each fetch since then was the first to read
        self._asked: list[Keys] = []  # own rows that workers have fetched since then
        memory = [(KeptRows(), KeptRows()) for _ in range(2)]
        self._sent, self._got = memory[0]
        each = -(-rows // crew.size)
        self._given = GivenRows(crew, each, swap, aside, self._laid, rest, memory)
        self.behind = scratch is not None and rest is not None  # owners draw all rows

    def begin(self, tables: Arrays) -> None:
        """Make ready for the blocks until the next merge: scratch forgets all rows.

        Owners keep theirs. If none is held, the scratch has all that differ from first values.
        """
        if self._scratch is None:
            return
        self.owned.hold_placed(tables)
        self._scratch.begin_anew()
        self.behind = True

    def keep(self, tables: Arrays, parts: Iterable[OwnPart]) -> None:
        """Hold own rows of a state, which are up to date; other workers hold theirs.

        parts: those which differ from their first values.
        """
        self.owned.set(tables, parts)
        if self._rest is not None:
            for numbers in self.owned.hold_others(tables):
                rows = self.owned.rows[numbers]
                self._rest.wake(self.owned.ids_of(numbers), rows, self._rest.now)
                self.owned.rows[numbers] = rows
        self.behind = True

    def column_sums(
        self,
        tables: Arrays,
        columns: slice,
        terms: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    ) -> NDArray[np.float32]:
        """Return sums [1 x columns] over all rows, as merged; all workers call it.

        columns: of a table, where rows of all lie side by side.
        terms: makes what is added up of copies of its rows.
        """
        self.owned.hold_all(tables)
        own = self.owned.rows[:, columns]
        return column_sums(self._crew, self._swap, own, self._count, terms)

    def fetch(self, tables: Arrays, ids: Ids) -> None:
        """Bring rows up to date that the next block reads. ids: each once, ascending."""
        self.arrive(tables, self.ask(tables, ids))

    def ask(self, tables: Arrays, ids: Ids) -> Came | None:
        """Return rows that the next block reads, which `arrive` before it; None: they are there.

        It changes no table, so a block may train meanwhile. The rows last until the next exchange.
        """
        new = np.empty_like(ids)
        wanted = Dealt.to(self._crew.size, new[: row_loops.mark(ids, self._read, new)])
        asked = self._swap(split(wanted.by_owner, wanted.bounds))
        of_workers = bounds_of([part.size for part in asked])
        numbers = self._note(np.concatenate(asked), of_workers)
        self.owned.hold(tables, numbers)
        self._wanted.append(wanted.ids)
        if not self.behind:
            return None
        columns = width(tables)
        sent = self._sent.rows(numbers.size, columns)
        self.owned.rows.take(numbers, axis=0, out=sent, mode="clip")  # "raise" copies them twice
        rows = self._got.rows(wanted.ids.size, columns)
        self._swap(split(sent, of_workers), rows.reshape(-1))
        return Came(self._laid.at(wanted.ids), rows, wanted.places)

    def arrive(self, tables: Arrays, came: Came | None) -> None:
        """Put rows into the tables for which a worker has asked."""
        if came is not None:
            self._laid.put(tables, *came)

    def _note(self, asked: Ids, of_workers: NDArray[np.int64]) -> Ids:
        """Note which workers have fetched own rows; return the numbers of these, from 0."""
        numbers, keys = np.empty_like(asked), np.empty(asked.size, np.int64)
        row_loops.label(asked, of_workers, numbers, keys)
        self._asked.append(keys)
        return numbers

    def merge(self, tables: Arrays) -> Ids:
        """Merge the rows that blocks have read since the last merge, at their owners; return them.

        Owners know from `fetch` which rows these are. All workers have fetched, if only no rows.

        Rows that rest change without being read, so all are merged. A piece of the rows is added up
        while the next one travels.
        """
        read, keys = np.sort(np.concatenate(self._wanted)), np.sort(np.concatenate(self._asked))
        now = [] if self._rest is None else self._rest.now.tolist()
        found = self._crew.gather([now, self._given.cuts(keys, width(tables))])
        clocks, cuts = zip(*found, strict=True)
        times, kinds = np.unique(np.array(clocks), axis=0, return_inverse=True)
        kinds, ranges = kinds.reshape(-1), self._given.ranges(cuts)
        means = width(tables) if self._means is None else self._means
        with self._given.pieces(tables, read, keys, ranges) as pieces:
            for first, end, own, rows in pieces:
                heads = bounds_of(np.bincount(own & row_sums.LOW, minlength=kinds.size))
                for changing in self._changing(tables, own, times, first, end):
                    numbers, some, before = changing
                    row_sums.merge(self._pool, numbers, some, heads, rows, kinds, before, means)
        self._forget([read])
        self.behind = True
        return read

    def _changing(
        self, tables: Arrays, keys: Keys, times: Clock, first: int, end: int
    ) -> Iterator[tuple[Ids, Keys, NDArray[np.float32]]]:
        """Yield own rows that a merge changes, some at a time: see `row_sums.merge`.

        They are numbers, keys, and what rows are at these times if no block has read them.

        first, end: the range of own rows.
        """
        if self._rest is None or not times.size:  # nothing changes that no block has read
            numbers = (keys >> 32).astype(np.int32)
            yield numbers[np.diff(numbers, prepend=-1) > 0], keys, self.owned.rows[None]
            return
        step = max(1, PIECE // width(tables) // len(times))
        end = min(end, self.owned.count)
        for start in range(first, end, step):
            numbers = np.arange(min(step, end - start), dtype=np.int32)
            self.owned.hold(tables, numbers + np.int32(start))
            ids = self.owned.ids_of(numbers + np.int32(start))
            rows = self.owned.rows[start : start + len(numbers)]
            found = rows[None] if len(times) == 1 else np.repeat(rows[None], len(times), axis=0)
            for some, now in zip(found, times, strict=True):
                self._rest.wake(ids, some, now)
            low, high = np.searchsorted(keys, [start << 32, (start + len(numbers)) << 32])
            yield numbers, keys[low:high] - (start << 32), found
            if len(times) > 1:
                rows[:] = found[0]

    def gather(self, tables: Arrays) -> None:
        """Give all workers the rows that have changed. After `merge`, before the next `fetch`.

        Scratch gets all that differ from their first values, owner by owner in ascending order.
        Where rows rest, it gets all in the order of their numbers.
        """
        if self._scratch is not None:
            self._scratch.begin_anew()
            if self._rest is not None:
                self.owned.hold_all(tables)
        held = self.owned.held
        step = max(1, PIECE // self._crew.size // width(tables))
        for start in range(0, max(self._crew.gather(held.size)), step):
            some = held[start : start + step]
            ids = np.concatenate(self._crew.pooled(self.owned.ids_of(some)))
            rows = np.concatenate(self._crew.pooled(self.owned.rows[some]))
            given = np.argsort(ids).astype(np.int32)
            self._laid.put(tables, self._laid.at(ids[given]), rows, given)
        if self._scratch is not None:
            self._scratch.complete()
            self.owned.free()
        self.alike()

    def alike(self) -> None:
        """Note that all workers have the same tables."""
        self._forget(self._wanted)
        self.owned.forget()
        self.behind = False

    def _forget(self, read: Sequence[Ids]) -> None:
        """Begin anew to note who has fetched which rows. read: all that this worker has."""
        for ids in read:
            row_loops.clear(ids, self._read)
        self._wanted, self._asked = [], []
