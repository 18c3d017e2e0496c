"""Tables whose rows workers of any engine fetch as they need them, and NumPy alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import product
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.errands import Aside, at_once
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.engines.needed_rows import NeededRows
from blocklearn.learner.engines.nested import Nested
from blocklearn.matcache.cpu.pool import Pool

Tables = list[NDArray[Any]]


class Case(NamedTuple):
    """Blocks that change the rows that occur in them.

    - rows, widths: of the tables.
    - share: of the rows that a block reads.
    - rounds: blocks of a worker from one merge to the next; only some workers have the last one.
    - gathered: after which merges all workers get all rows, as where a hook reads the tables.
    """

    rows: int
    widths: Sequence[int]
    share: float = 0.1
    rounds: int = 1
    merges: int = 4
    gathered: Sequence[int] = ()
    seed: int = 0

    def before(self) -> Tables:
        """Draw the tables that all workers start from."""
        rng = np.random.default_rng(self.seed)
        return [rng.normal(size=(self.rows, width)).astype(np.float32) for width in self.widths]

    def blocks(self, rank: int, merge: int) -> Iterator[NDArray[np.int32]]:
        """Yield the rows that the blocks of a worker read before a merge."""
        for block in range(self.rounds if rank % 2 == 0 else self.rounds - 1):
            rng = np.random.default_rng([self.seed, rank, merge, block])
            yield np.flatnonzero(rng.random(self.rows) < self.share).astype(np.int32)


def trained(tables: Tables, ids: NDArray[np.int32], rank: int) -> bytes:
    """Change the rows of a block, each by what it was; return what it was."""
    seen = [table[ids].tobytes() for table in tables]
    for table in tables:
        table[ids] = np.sin(3 * table[ids] + np.float32(rank))
    return b"".join(seen)


CASES = [
    Case(rows, widths, share, rounds, gathered=gathered)
    for (rows, widths), (share, rounds, gathered) in product(
        [(1, [1]), (2, [3, 1]), (200, [1, 1]), (57, [5])],
        [(0.1, 1, []), (0.5, 3, [1]), (1.0, 2, [0, 1]), (0.0, 2, [2])],
    )
]


class Sheet:
    """Places given in the order of first use, and lost with all that rows have: see `Scratch`."""

    def __init__(self, first: Tables) -> None:
        self.tables, self._first = [np.full_like(table, np.nan) for table in first], first
        self._places: dict[int, int] = {}
        self._thread = get_ident()

    @property
    def placed(self) -> NDArray[np.int32]:
        """See `Scratch`."""
        return np.array([*self._places], np.int32)

    def places_of(self, columns: NDArray[np.int32]) -> NDArray[np.int32]:
        """See `Scratch`."""
        found = [self._places.setdefault(i, len(self._places)) for i in columns.tolist()]
        return np.array(found, np.int32)

    def changing(self, rows: NDArray[np.int32]) -> AbstractContextManager[None]:
        """See `Scratch`: each row once, by the thread that trains."""
        assert get_ident() == self._thread and len(np.unique(rows)) == len(rows)
        return nullcontext()

    def begin_anew(self) -> None:
        """See `Scratch`."""
        self._places = {}
        for table in self.tables:
            table[:] = np.nan

    def complete(self) -> None:
        """See `Scratch`."""

    def first_rows(self, columns: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `Scratch`."""
        return np.hstack([table[columns] for table in self._first])

    def given(self, tables: Tables) -> None:
        """Set all rows, in an order of their own, as a checkpoint does."""
        at = self.places_of(np.arange(len(tables[0]))[::-1])
        for table, numbers in zip(self.tables, tables, strict=True):
            table[at] = numbers[::-1]

    def whole(self) -> bytes:
        """Return all rows, by their numbers."""
        columns = np.arange(len(self._first[0]), dtype=np.int32)
        without = np.setdiff1d(columns, self.placed)
        for table, first in zip(self.tables, self._first, strict=True):
            table[self.places_of(without)] = first[without]
        return b"".join(table[self.places_of(columns)].tobytes() for table in self.tables)


def by_scratch(case: Case, own: Exchange, aside: Aside = at_once) -> list[bytes]:
    """Do what `by_workers` does, with tables that forget their rows at each merge.

    They begin with rows that were given, or with first values. Another thread asks for rows, which
    changes no table.
    """
    sheet = Sheet(case.before())
    if case.rounds > 1:
        sheet = Sheet([np.zeros_like(table) for table in case.before()])
        sheet.given(case.before())
    crew, found = Crew(own), []
    rows = NeededRows(crew, case.rows, own.exchange, scratch=sheet, aside=aside)
    for merge in range(case.merges):
        rows.begin(sheet.tables)
        blocks = [*case.blocks(own.rank, merge)]
        for ids in blocks:
            with ThreadPoolExecutor(1) as other:
                before = [table.copy() for table in sheet.tables]
                came = other.submit(rows.ask, sheet.tables, ids).result()
                assert all(map(partial(np.array_equal, equal_nan=True), before, sheet.tables))
            rows.arrive(sheet.tables, came)
            at, seen = sheet.places_of(ids), []
            for table in sheet.tables:
                seen.append(table[at].tobytes())
                table[at] = np.sin(3 * table[at] + np.float32(own.rank))
            found.append(b"".join(seen))
        for _ in range(case.rounds - len(blocks)):
            rows.fetch(sheet.tables, np.empty(0, np.int32))
        rows.merge(sheet.tables)
        if merge in case.gathered:
            rows.gather(sheet.tables)
            found.append(sheet.whole())
    rows.gather(sheet.tables)
    return [*found, sheet.whole()]


def by_workers(
    case: Case,
    own: Exchange,
    degrees: Sequence[int] = (),
    pool: Pool | None = None,
    aside: Aside = at_once,
) -> list[bytes]:
    """Return what the blocks of this worker have read, and the tables at the end."""
    swap = Nested(own, degrees).exchange if degrees else own.exchange
    tables = case.before()
    rows = NeededRows(Crew(own), case.rows, swap, aside=aside, pool=pool)
    found = []
    for merge in range(case.merges):
        blocks = [*case.blocks(own.rank, merge)]
        for ids in blocks:
            rows.fetch(tables, ids)
            found.append(trained(tables, ids, own.rank))
        for _ in range(case.rounds - len(blocks)):
            rows.fetch(tables, np.empty(0, np.int32))
        rows.merge(tables)
        assert rows.behind
        if merge in case.gathered:
            rows.gather(tables)
            assert not rows.behind
            found.append(b"".join(table.tobytes() for table in tables))
    rows.gather(tables)
    return [*found, b"".join(table.tobytes() for table in tables)]


def by_numpy(case: Case, workers: int) -> list[list[bytes]]:
    """Return the same of all workers, each of which has whole tables: means are in float64."""
    tables, found = case.before(), [list[bytes]() for _ in range(workers)]
    for merge in range(case.merges):
        replicas = [[table.copy() for table in tables] for _ in range(workers)]
        for rank, own in enumerate(replicas):
            found[rank] += [trained(own, ids, rank) for ids in case.blocks(rank, merge)]
        for i, table in enumerate(tables):
            total = np.zeros(table.shape)
            for own in replicas:
                total += own[i]
            table[:] = total * (1.0 / workers)
        if merge in case.gathered:
            for seen in found:
                seen.append(b"".join(table.tobytes() for table in tables))
    return [[*seen, b"".join(table.tobytes() for table in tables)] for seen in found]


def check(found: Sequence[list[list[bytes]]], cases: Sequence[Case]) -> None:
    """Compare what each worker has of each case with NumPy. found: by rank."""
    for number, case in enumerate(cases):
        for rank, expected in enumerate(by_numpy(case, len(found))):
            assert found[rank][number] == expected, f"worker {rank}: {case}"
