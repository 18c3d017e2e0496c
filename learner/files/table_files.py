"""Tables that may be larger than memory: parameters and optimizer state, in files.

Each file is mapped into memory. The operating system reads the pages that are used, writes back
those that have changed, and keeps as many as memory holds. The files are of one run: the next one
begins with its checkpoint.

A row of a file belongs to the column of the data that was the next to occur: see `ColumnPlaces`.
Training numbers the columns of its blocks by these places. What leaves the files, to users, models
and checkpoints, is by column. Tables that training brings up to date as a whole, at the end of a
pass, are by column themselves: see `in_order`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from blocklearn.datasources import HostBlock

from .allocated import nameless_array
from .column_places import ColumnPlaces, ColumnsInOrder
from .paging import PageCount, PagedArray, fetch_rows, read_only, rows_of_page
from .row_folder import RowFolder

NAME = "{}-tables"
"""The name of the folder of tables of a run or a learner of this name."""

COLUMNS = "columns-of-rows"
"""The name of the file that has the column of each row of the tables, as 1 + column; 0: none."""

MOST, MOST_BYTES = 2**20, 2**26  # rows handled at a time, and bytes of them
Draw = Callable[[NDArray[np.int64]], NDArray[Any]]


class TableFiles:
    """Files for the tables of one learner, in one or several folders in turn.

    It holds the folders from the first table to `release`. All tables have as many rows. The first
    one has the longest; `group` of them are a page, if a page has room for one.
    """

    def __init__(self, folders: Sequence[Path], name: str = "learner", owner: str = "") -> None:
        """Name the folders, without touching the disks. For `name` and `owner` see `RowFolder`."""
        setting = "table_folder"
        self.folders = [
            RowFolder(folder, NAME.format(name), owner, setting=setting) for folder in folders
        ]
        self.tables: dict[str, PagedArray] = {}
        self.in_order = False  # whether rows are in the order of columns; set before the first
        self.places: ColumnPlaces | ColumnsInOrder = ColumnsInOrder(0)
        self.drawn: dict[str, Draw] = {}
        self._placing = threading.Lock()  # a row is drawn before another thread can ask for it
        self.asked = PageCount()  # pages that blocks have asked for
        self.group = 1  # rows of which at least one has changed, or none
        self.rows = 0  # of each table
        self.changed = np.zeros(0, bool)  # groups that differ from their initial values
        self.unsaved = np.zeros(0, bool)  # groups that have changed since `saved`
        self.saved: Any = None  # the logs of their newest checkpoint; None: there is none

    def check(self, tables: Mapping[str, int]) -> None:
        """Check that `new` would work for these tables, and change nothing.

        tables: bytes of each, by the name of its file, in the order of `new`.

        Raises RunFolderError and OSError, as `RowFolder.check` does.
        """
        shares: list[dict[str, int]] = [{} for _ in self.folders]
        for number, (file, nbytes) in enumerate(tables.items()):
            shares[number % len(shares)][file] = nbytes
        for folder, share in zip(self.folders, shares, strict=True):
            folder.check(share)

    def new(self, name: str, shape: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
        """Make the file of a table of zeros, on the next disk, and map it into memory.

        Zeros take disk space, but are not written.

        Raises:
            RunFolderError: another run holds the folder, or a file of this name exists.
            OSError: the disk has too little room.
        """
        folder = self.folders[len(self.tables) % len(self.folders)]
        folder.take()
        array = folder.new(name, *shape, dtype)
        if not self.tables:
            self.group = rows_of_page(array)
            self.rows = shape[0]
            self.changed = np.zeros(-(-shape[0] // self.group), bool)
            self.unsaved = self.changed.copy()
            self.places = (
                ColumnsInOrder(shape[0])
                if self.in_order
                else ColumnPlaces(folder.new(COLUMNS, shape[0], 1, np.uint32))
            )
        self.tables[name] = PagedArray(array)
        return self.tables[name].array

    def begins_with(self, drawn: Mapping[str, Draw]) -> None:
        """Draw the first values of rows of these tables when a column gets them; others are zeros.

        drawn: from numbers of columns to their rows [columns x numbers], by table.
        """
        self.drawn = dict(drawn)

    def give(self, columns: NDArray[np.int32], into: NDArray[np.int32]) -> None:
        """Set `into` to the places of `columns`, which may be the same array."""
        with self._placing:
            places, before = self.places, self.places.count
            places.give(columns, into)
            if not self.drawn or isinstance(places, ColumnsInOrder):
                return
            for start in range(before, places.count, MOST):
                end = min(start + MOST, places.count)
                new = places.columns[start:end, 0].astype(np.int64) - 1
                for name, draw in self.drawn.items():
                    self.tables[name].array[start:end] = draw(new)

    def places_of(self, columns: NDArray[Any]) -> NDArray[np.int32]:
        """Return the places of `columns`, in an array of its own."""
        given = columns.astype(np.int32)
        self.give(given, given)
        return given

    def first(self, name: str, columns: NDArray[np.int64]) -> NDArray[Any]:
        """Return the first values of a table for these columns, [1 or columns x numbers]."""
        return first_values(self.tables[name].array, self.places, self.drawn.get(name), columns)

    def place(self, block: HostBlock) -> None:
        """Replace the columns of a block by their places, and ask for these rows of all tables."""
        if not self.in_order:
            block.renumber(self.give)
        asked = fetch_rows(list(self.tables.values()), block.indices[: block.nnz])
        with self._placing:
            self.asked = self.asked.plus(asked)

    def note(self, rows: NDArray[np.integer[Any]]) -> None:
        """Note that these rows of the tables have changed."""
        groups = rows // self.group
        self.changed[groups] = self.unsaved[groups] = True

    def note_all(self) -> None:
        """Note that all rows of the tables have changed."""
        self.changed[:] = self.unsaved[:] = True

    @contextmanager
    def read_whole(self) -> Iterator[None]:
        """Expect tables to be read from end to end, in a `with` statement."""
        for table in self.tables.values():
            table.expect_all()
        try:
            yield
        finally:
            for table in self.tables.values():
                table.expect_some()

    def room_like(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return room for a copy of a table, in a file without a name on the disk of the first.

        Raises OSError if the disk has too little room.
        """
        return nameless_array(self.folders[0].path.parent, array.dtype, array.shape)

    def saved_as(self, logs: Any) -> None:
        """Note that a checkpoint has the tables as they are. logs: `PageLogs` of it."""
        self.unsaved[:] = False
        self.saved = logs

    def set(self, columns: NDArray[Any], numbers: Mapping[str, NDArray[Any]]) -> None:
        """Set rows of tables. columns: of the data, one for each row of `numbers`."""
        rows = self.places_of(columns)
        for name, given in numbers.items():
            self.tables[name].array[rows] = given
        self.note(rows)

    def restore(self, name: str, numbers: NDArray[Any]) -> None:
        """Set a table to these numbers [columns x numbers]; rows that have them are not written."""
        table = self.tables[name].array
        most = rows_at_once([table])
        if self.places.count < self.rows:
            for start in range(0, self.rows, most):
                part = np.ascontiguousarray(numbers[start : start + most])
                first = self.first(name, np.arange(start, start + len(part)))
                differ = part.view(np.uint8) != np.ascontiguousarray(first).view(np.uint8)
                self.places_of(np.flatnonzero(differ.any(axis=1)) + start)
        for rows, columns in self.places.parts(most):
            wanted = numbers[columns]
            if table[rows].tobytes() != wanted.tobytes():
                table[rows] = wanted
                self.note(rows)

    def kept(self) -> TableRows:
        """Return the rows of all tables, which training will change."""
        arrays = {name: table.array for name, table in self.tables.items()}
        return TableRows(arrays, self.places, self.folders[0].path.parent, self.drawn)

    def release(self) -> None:
        """Remove the files; arrays mapped from them stay valid."""
        self.tables.clear()
        self.saved = None
        for folder in self.folders:
            folder.release()

    def __enter__(self) -> Self:
        """Hold the folders."""
        for folder in self.folders:
            folder.take()
        return self

    def __exit__(self, *_: object) -> None:
        """Release the folders."""
        self.release()


@dataclass(frozen=True)
class TableRows:
    """Tables by place, which can be read by column; also when their files have been released.

    tables: numbers [places x numbers], by name.
    places: of the columns.
    folder: for files of tables by column.
    drawn: see `TableFiles.begins_with`.
    """

    tables: Mapping[str, NDArray[Any]]
    places: ColumnPlaces | ColumnsInOrder
    folder: Path
    drawn: Mapping[str, Draw]

    @property
    def in_order(self) -> bool:
        """Whether rows are in the order of columns; they may then rest within a pass."""
        return isinstance(self.places, ColumnsInOrder)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each table."""
        return {name: table.shape for name, table in self.tables.items()}

    def parts(self) -> Iterator[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]]:
        """Yield numbers of columns, and their rows of each table, until all that occurred."""
        for rows, columns in self.places.parts(rows_at_once(self.tables.values())):
            yield columns, {name: table[rows] for name, table in self.tables.items()}

    def by_column(self, name: str) -> NDArray[Any]:
        """Return a table [columns x numbers], read-only, mapped from a file that has no name.

        The disk space becomes free when the array is deleted. Raises OSError if the disk has too
        little room.
        """
        table, draw = self.tables[name], self.drawn.get(name)
        most = rows_at_once([table])
        found = nameless_array(self.folder, table.dtype, table.shape)
        if self.places.count < len(table):
            for start in range(0, len(table), most):
                columns = np.arange(start, min(start + most, len(table)))
                first = first_values(table, self.places, draw, columns)
                if any(first.tobytes()):
                    found[columns] = first
        for rows, columns in self.places.parts(most):
            found[columns] = table[rows]
        return read_only(found)


def rows_at_once(tables: Iterable[NDArray[Any]]) -> int:
    """Return how many rows of tables are handled at a time."""
    longest: int = max(array[0].nbytes for array in tables)
    return max(1, min(MOST, MOST_BYTES // longest))


def first_values(
    table: NDArray[Any],
    places: ColumnPlaces | ColumnsInOrder,
    draw: Draw | None,
    columns: NDArray[np.int64],
) -> NDArray[Any]:
    """Return the first values of a table for these columns, [1 or columns x numbers].

    draw: makes them; None: a row that no column has got has them.
    """
    return table[places.count][None] if draw is None else draw(columns)


def table_files_of(
    given: Path | str | Sequence[Path | str] | TableFiles | None,
) -> TableFiles | None:
    """Return the files of tables in the given folder or folders; None for None."""
    if given is None or isinstance(given, TableFiles):
        return given
    listed = [given] if isinstance(given, Path | str) else given
    return TableFiles([Path(folder) for folder in listed])
