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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from blocklearn.datasources import HostBlock

from .allocated import nameless_array
from .column_places import ColumnPlaces, ColumnsInOrder
from .live_pages import LivePages
from .lost_pages import Watched
from .paging import PageCount, PagedArray, fetch_rows, rows_of_page
from .row_folder import RowFolder
from .stripes import Stripes, one_file, part_of, shares, striped_array
from .table_rows import Draw, TableRows, first_values, rows_at_once

NAME = "{}-tables"
"""The name of the folder of tables of a run or a learner of this name."""

COLUMNS = "columns-of-rows"
"""The name of the file that has the column of each row of the tables, as 1 + column; 0: none."""


class TableFiles:
    """Files for the tables of one learner, whose pages are spread over one or several folders.

    It holds the folders from the first table to `release`. All tables have as many rows. The first
    one has the longest; `group` of them are a page, if a page has room for one.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        name: str = "learner",
        owner: str = "",
        *,
        memory: int = 0,
    ) -> None:
        """Name the folders, without touching the disks. For `name` and `owner` see `RowFolder`.

        memory: bytes up to which the tables of a learner stay in memory, all or none.
        """
        setting, self.memory = "table_folder", memory
        self.folders = [
            RowFolder(folder, NAME.format(name), owner, setting=setting) for folder in folders
        ]
        self.tables: dict[str, PagedArray] = {}
        self.in_order = False  # whether rows are in the order of columns; set before the first
        self.places: ColumnPlaces | ColumnsInOrder = ColumnsInOrder(0)
        self.drawn: dict[str, Draw] = {}
        self.live = LivePages()  # its lock: a row is drawn before another thread can ask for it
        self.asked = PageCount()  # pages that blocks have asked for
        self.group = 1  # rows of which at least one has changed, or none
        self.rows = 0  # of each table
        self.changed = np.zeros(0, bool)  # groups that differ from their initial values
        self.unsaved = np.zeros(0, bool)  # groups that have changed since `saved`
        self.saved: Any = None  # the logs of their newest checkpoint; None: there is none

    def check(self, tables: Mapping[str, int]) -> None:
        """Check that `new` would work for these tables, and change nothing.

        tables: bytes of each, by the name of its file.

        Raises RunFolderError and OSError, as `RowFolder.check` does.
        """
        for number, folder in enumerate(self.folders):
            own = {file: shares(nbytes, len(self.folders)) for file, nbytes in tables.items()}
            folder.check({file: found[number] for file, found in own.items() if found[number]})

    def new(self, name: str, shape: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
        """Make the files of a table of zeros, one on each disk, and map them into memory.

        Zeros take disk space, but are not written.

        Raises:
            RunFolderError: another run holds the folder, or a file of this name exists.
            OSError: the disk has too little room.
        """
        if not self.tables:
            self.group = rows_of_page(shape[1] * np.dtype(dtype).itemsize)
            self.rows = shape[0]
            self.changed = np.zeros(-(-shape[0] // self.group), bool)
            self.unsaved = self.changed.copy()
            self.places = ColumnsInOrder(shape[0])
            if not self.in_order:
                columns = self._new(COLUMNS, (shape[0], 1), np.uint32)
                self.places = ColumnPlaces(columns.array)
        self.tables[name] = self._new(name, shape, dtype)
        return self.tables[name].array

    def _new(self, name: str, shape: tuple[int, int], dtype: DTypeLike) -> PagedArray:
        nbytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
        files = []
        for folder, share in zip(self.folders, shares(nbytes, len(self.folders)), strict=True):
            folder.take()
            if share:
                files.append(folder.new_file(name, dtype, share))
        place = Stripes(files, part_of(nbytes, len(self.folders)))
        table = PagedArray(striped_array(place, dtype, shape))
        self.live.add(name, table, self.group, place, trained=name != COLUMNS)
        return table

    def begins_with(self, drawn: Mapping[str, Draw]) -> None:
        """Draw the first values of rows of these tables when a column gets them; others are zeros.

        drawn: from numbers of columns to their rows [columns x numbers], by table.
        """
        self.drawn = dict(drawn)

    def give(self, columns: NDArray[np.int32], into: NDArray[np.int32]) -> None:
        """Set `into` to the places of `columns`, which may be the same array."""
        with self.live.lock:
            places, before = self.places, self.places.count
            places.give(columns, into)
            if isinstance(places, ColumnsInOrder):
                return
            most = rows_at_once(table.array for table in self.tables.values())
            for start in range(before, places.count, most):
                end = min(start + most, places.count)
                new = places.columns[start:end, 0].astype(np.int64) - 1
                for name, draw in self.drawn.items():
                    self.tables[name].array[start:end] = draw(new)
                self.live.begins(start, end, (COLUMNS, *self.drawn))

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
        with self.live.lock:
            self.asked = self.asked.plus(asked)

    @contextmanager
    def changing(self, rows: NDArray[np.integer[Any]]) -> Iterator[None]:
        """Change these rows of the tables, listed once or more, in a `with` statement.

        Raises PageError if a page is lost.
        """
        once = self.live.leave(rows)
        yield
        self.live.arrive(once)
        groups = once // self.group
        self.changed[groups] = self.unsaved[groups] = True

    @contextmanager
    def changing_all(self) -> Iterator[None]:
        """Change all rows, if they are in order, in a `with` statement.

        Raises PageError if a page is damaged or lost.
        """
        if not self.in_order:
            yield
            return
        with self.refreshed():
            yield
        self.changed[:] = self.unsaved[:] = True

    @contextmanager
    def refreshed(self) -> Iterator[None]:
        """Bring rows up to date that training brings up to date itself, in a `with` statement.

        So no checkpoint needs their new numbers. Raises PageError if a page is damaged or lost.
        """
        with self.read_whole():
            self.check_pages()
            yield
            self.renew(self.tables)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Change all rows, and set them back, in a `with` statement.

        Raises PageError if a page is damaged or lost.
        """
        with self.read_whole():
            self.check_pages()
            self.live.settled = True
            try:
                yield
            finally:
                self.live.settled = False
            self.live.check_lost()

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

    def check_pages(self) -> None:
        """Raise PageError if a page with rows of columns is damaged or lost."""
        self.live.check_rows(self.places.count)

    def renew(self, names: Iterable[str]) -> None:
        """Take tables as they are now: all of their rows have been set."""
        for name in names:
            self.live.renew(name)

    def room_like(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return room for a copy of a table, in a file without a name on the disk of the first.

        Raises OSError if the disk has too little room.
        """
        folder = self.folders[0].path.parent
        room = nameless_array(folder, array.dtype, array.shape)
        self.live.watch(Watched(room, one_file(folder)))
        return room

    def saved_as(self, logs: Any) -> None:
        """Note that a checkpoint has the tables as they are. logs: `PageLogs` of it."""
        self.unsaved[:] = False
        self.saved = logs

    def set(self, columns: NDArray[Any], numbers: Mapping[str, NDArray[Any]]) -> None:
        """Set rows of tables. columns: of the data, one for each row of `numbers`."""
        rows = self.places_of(columns)
        with self.changing(rows):
            for name, given in numbers.items():
                self.tables[name].array[rows] = given

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
                with self.changing(rows):
                    table[rows] = wanted

    def kept(self) -> TableRows:
        """Return the rows of all tables, which training will change."""
        arrays = {name: table.array for name, table in self.tables.items()}
        return TableRows(arrays, self.places, self.folders[0].path.parent, self.drawn, self.live)

    def release(self) -> None:
        """Remove the files; arrays mapped from them stay valid."""
        self.tables.clear()
        self.live, self.saved = LivePages(), None
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


def table_files_of(
    given: Path | str | Sequence[Path | str] | TableFiles | None,
) -> TableFiles | None:
    """Return the files of tables in the given folder or folders; None for None."""
    if given is None or isinstance(given, TableFiles):
        return given
    listed = [given] if isinstance(given, Path | str) else given
    return TableFiles([Path(folder) for folder in listed])
