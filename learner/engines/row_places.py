"""Where rows of tables lie, if not in the order of their numbers: in scratch, between merges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.pool import Pool

from . import row_loops, row_threads
from .crew import bounds
from .row_loops import Ids

Arrays = Sequence[NDArray[np.float32]]
Loop = Callable[[NDArray[np.float32], Ids, int, NDArray[np.float32], Ids], Any]


class Scratch(Protocol):
    """Places in which rows lie only until the next merge: what they have is lost then.

    group: rows that are a page. See `TableFiles`.
    """

    group: int

    def places_of(self, columns: Ids) -> Ids:
        """Return the places of these rows. Any thread may ask."""

    def changing(self, rows: Ids) -> AbstractContextManager[None]:
        """Change the rows in these places in a `with` statement, in the thread that trains."""

    def checked(self, groups: Ids) -> AbstractContextManager[None]:
        """Compare these pages, and read them in a `with` statement."""

    @property
    def placed(self) -> Ids:
        """The columns that have places."""

    def begin_anew(self) -> None:
        """Take all places away."""

    def complete(self) -> None:
        """Note that all rows have places that differ from their first values."""

    def first_rows(self, columns: Ids) -> NDArray[np.float32]:
        """Return the first values of these rows, of all tables, side by side."""


class LaidRows:
    """Moves rows between tables and an array in which those of all tables lie side by side.

    - scratch: places of the rows in the tables; None: row r is in place r.
    - pool: whose threads share the rows; None: one thread does all.
    """

    def __init__(self, scratch: Scratch | None, pool: Pool | None = None) -> None:
        self._places, self._pool = scratch, pool or Pool(1)

    def at(self, ids: Ids) -> Ids:
        """Return the places of rows in the tables."""
        return ids if self._places is None else self._places.places_of(ids)

    def take(self, tables: Arrays, at: Ids, rows: NDArray[np.float32], to: Ids) -> None:
        """Copy the rows of all tables in the places `at` to those in `to` of `rows`."""
        self._share(row_loops.take, tables, at, rows, to)

    def take_whole(self, tables: Arrays, at: Ids, rows: NDArray[np.float32], to: Ids) -> None:
        """Do what `take` does, of pages that are as they were written."""
        places = self._places
        with nullcontext() if places is None else places.checked(np.unique(at // places.group)):
            self.take(tables, at, rows, to)

    def put(self, tables: Arrays, at: Ids, rows: NDArray[np.float32], given: Ids) -> None:
        """Replace the rows of all tables in the places `at` by those in `given` of `rows`."""
        rows = rows.reshape(at.size, width(tables))
        with nullcontext() if self._places is None else self._places.changing(at):
            self._share(row_loops.put, tables, at, rows, given)

    def _share(
        self, loop: Loop, tables: Arrays, at: Ids, rows: NDArray[np.float32], places: Ids
    ) -> None:
        """Run a loop over rows of all tables, in parts."""
        cuts = bounds(at.size, row_threads.parts(self._pool, at.size, width(tables)))

        def part(number: int, thread: int) -> None:
            some = slice(cuts[number], cuts[number + 1])
            for table, start in _beside(tables):
                loop(table, at[some], start, rows, places[some])

        self._pool.run(part, len(cuts) - 1)


def _beside(tables: Arrays) -> Iterator[tuple[NDArray[np.float32], int]]:
    """Yield each table, and the first of its columns where rows lie side by side."""
    start = 0
    for table in tables:
        yield table, start
        start += table.shape[1]


def width(tables: Arrays) -> int:
    """Return the numbers of a row of all tables."""
    return sum(table.shape[1] for table in tables)
