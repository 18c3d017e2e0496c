"""The rows of tables that a worker owns, as merged: apart from the tables in which blocks train."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from . import row_loops
from .crew import Crew
from .row_loops import Ids
from .row_places import Arrays, LaidRows, Scratch, width

PIECE = 2**22
"""Numbers of own rows that are handled at a time."""

OwnPart = tuple[Ids, NDArray[np.float32]]
"""Own rows: which, and those of all tables, side by side."""


class OwnedRows:
    """The own rows of a worker: row r of all is number r // workers of worker r mod workers.

    - crew: all workers.
    - rows: of each table.
    - laid: reads the tables.
    - scratch: has rows between two merges only; None: the tables have all rows.

    count: of own rows.
    rows: those that are held, of all tables, side by side. Memory is taken as they are held.
    """

    def __init__(self, crew: Crew, rows: int, laid: LaidRows, scratch: Scratch | None) -> None:
        self._crew, self._laid, self._scratch = crew, laid, scratch
        self.count = len(range(crew.rank, rows, crew.size))
        self.rows = np.empty((0, 0), np.float32)
        self._held = np.zeros(self.count, np.bool_)

    def ids_of(self, numbers: Ids) -> Ids:
        """Return which rows own rows are."""
        return numbers * np.int32(self._crew.size) + np.int32(self._crew.rank)

    @property
    def held(self) -> Ids:
        """The numbers of the rows that are held; the tables have the others."""
        return np.flatnonzero(self._held).astype(np.int32)

    def hold(self, tables: Arrays, numbers: Ids) -> None:
        """Copy own rows from the tables, unless they are held: a block may change these next."""
        self._make_room(tables)
        new = np.empty_like(numbers)
        new = new[: row_loops.flag(numbers, self._held, new)]
        ids = self.ids_of(new)
        if self._scratch is None:
            self._laid.take(tables, self._laid.at(ids), self.rows, new)
        else:
            self.rows[new] = self._scratch.first_rows(ids)

    def hold_placed(self, tables: Arrays) -> None:
        """Copy own rows from scratch, which then has all that differ from their first values.

        If some are held, they are all of these already.
        """
        if self._scratch is None or self._held.any():
            return
        at, numbers = self._placed(self._scratch)
        self._make_room(tables)
        self._laid.take(tables, at, self.rows, numbers)
        self._held[numbers] = True

    def set(self, tables: Arrays, parts: Iterable[OwnPart]) -> None:
        """Hold these rows; later ones replace earlier."""
        self._make_room(tables)
        for ids, rows in parts:
            numbers = ids // np.int32(self._crew.size)
            self.rows[numbers], self._held[numbers] = rows, True

    def hold_all(self, tables: Arrays) -> None:
        """Hold all own rows: those of scratch, and of others the first values."""
        self.hold_placed(tables)
        for _ in self.hold_others(tables):
            pass

    def hold_others(self, tables: Arrays) -> Iterator[Ids]:
        """Hold the first values of rows that are not held, and yield their numbers, some each."""
        step = max(1, PIECE // width(tables))
        for start in range(0, self.count, step):
            found = np.flatnonzero(~self._held[start : start + step]).astype(np.int32)
            if found.size:
                self.hold(tables, found + np.int32(start))
                yield found + np.int32(start)

    def parts(self, tables: Arrays) -> Iterator[OwnPart]:
        """Yield own rows, some at a time: of scratch all that differ from their first values."""
        numbers = np.arange(self.count, dtype=np.int32)
        if self._scratch is not None:
            numbers = self.held if self._held.any() else self._placed(self._scratch)[1]
        step = max(1, PIECE // width(tables))
        for start in range(0, numbers.size, step):
            some = numbers[start : start + step]
            ids, held = self.ids_of(some), self._held[some]
            rows = np.empty((some.size, width(tables)), np.float32)
            if held.any():
                rows[held] = self.rows[some[held]]
            others = np.flatnonzero(~held).astype(np.int32)
            self._laid.take_whole(tables, self._laid.at(ids[others]), rows, others)
            yield ids, rows

    def _placed(self, scratch: Scratch) -> tuple[Ids, Ids]:
        """Return the places of own rows in scratch, and their numbers."""
        columns = scratch.placed
        at = np.flatnonzero(columns % self._crew.size == self._crew.rank).astype(np.int32)
        return at, columns[at] // np.int32(self._crew.size)

    def _make_room(self, tables: Arrays) -> None:
        if not self.rows.size:
            self.rows = np.empty((self.count, width(tables)), np.float32)

    def forget(self) -> None:
        """Hold none: the tables have all rows."""
        self._held[:] = False

    def free(self) -> None:
        """Hold none, and free the memory."""
        self.forget()
        self.rows = np.empty((0, 0), np.float32)
