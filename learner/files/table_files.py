"""Tables that may be larger than memory: parameters and optimizer state, in files.

Each file is mapped into memory. The operating system reads the pages that are used, writes back
those that have changed, and keeps as many as memory holds. The files are of one run: the next one
begins with its checkpoint.

Which row is that of a column: see `PlacedTables`.

Longer than 300 lines: rows of one process and of several workers are in the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from blocklearn.datasources import HostBlock

from .allocated import nameless_array
from .column_places import ColumnPlaces
from .live_pages import LivePages
from .lost_pages import Watched
from .paging import PageCount, PagedArray, fetch_rows
from .placed_tables import COLUMNS, PlacedTables
from .row_folder import OTHER_FOLDER, RowFolder
from .stripes import Stripes, one_file, part_of, shares, striped_array
from .table_rows import TableRows, rows_at_once

NAME = "{}-tables"
"""The name of the folder of tables of a run or a learner of this name."""


class TableFiles(PlacedTables):
    """Files for the tables of one learner, whose pages are spread over one or several folders.

    It holds the folders from the first table to `release`.

    shared: whether rows belong to several workers: then the files have rows of some blocks, or all.
    sent: names of the tables whose rows these workers exchange.
    """

    setting = "table_folder"

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
        super().__init__(memory)
        name, remedy = NAME.format(name), OTHER_FOLDER.format(self.setting)
        self.folders = [RowFolder(folder, name, owner, remedy=remedy) for folder in folders]
        self._tables: dict[str, PagedArray] = {}
        self.live = LivePages(self.lock)  # a row is drawn before another thread can ask for it
        self.asked = PageCount()  # pages that blocks have asked for
        self.shared = False
        self.sent: Sequence[str] = ()
        self._drawing = True  # whether rows are drawn when they begin

    @property
    def parents(self) -> list[Path]:
        """The folders that have those of the learner."""
        return [folder.path.parent for folder in self.folders]

    @property
    def tables(self) -> Mapping[str, PagedArray]:
        """The tables, by name."""
        return self._tables

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
        if not self._tables:
            self.begin(shape, dtype)
        self._tables[name] = self._new(name, shape, dtype)
        return self._tables[name].array

    def columns_of_rows(self) -> NDArray[np.uint32]:
        """Make a file for them."""
        return self._new(COLUMNS, (self.rows, 1), np.uint32).array

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

    def add_rows(self, first: int, end: int) -> None:
        """Draw the first values of new rows."""
        most = rows_at_once(table.array for table in self._tables.values())
        for start in range(first, end, most):
            stop = min(start + most, end)
            for name, numbers in self.drawn_rows(start, stop) if self._drawing else ():
                self._tables[name].array[start:stop] = numbers
            self.live.begins(start, stop, (COLUMNS, *(self.drawn if self._drawing else ())))

    def ready(self) -> None:
        """Do nothing: rows are drawn when they begin."""

    # ------------------------------------------------------------- rows that workers fetch

    @property
    def placed(self) -> NDArray[np.int32]:
        """The columns that have places."""
        return self.places.columns_of(np.arange(self.places.count, dtype=np.int32))

    def begin_anew(self) -> None:
        """Take all places away, as in new files; what rows had is lost. No block is at work.

        Rows that begin next are not drawn, until tables are `complete`: all of them will be set.

        Raises PageError if a page with rows of columns is damaged or lost.
        """
        assert isinstance(self.places, ColumnPlaces)
        self.check_pages()
        with self.lock:
            count, self.begun, self._drawing = self.places.count, 0, False
            self.places.clear()
            self.live.begin_anew()
            for name, table in self._tables.items():
                table.array[:count] = self.starts[name]
            for name in (COLUMNS, *self._tables):
                self.live.renew(name, count)
        self.changed[:] = self.unsaved[:] = False
        self.saved = None

    def first_rows(self, columns: NDArray[np.int32]) -> NDArray[Any]:
        """Return the first values of these rows, of all tables that are `sent`, side by side."""
        ids = columns.astype(np.int64)
        found = [self.first(name, ids) for name in self.sent]
        return np.hstack([np.broadcast_to(rows, (len(ids), rows.shape[1])) for rows in found])

    def complete(self) -> None:
        """Note that all rows have places that differ from their first values."""
        self._drawing = True

    # ------------------------------------------------------------- changes

    def place(self, block: HostBlock) -> None:
        """Replace the columns of a block by their places, and ask for these rows of all tables."""
        if not self.in_order:
            block.renumber(self.give)
        asked = fetch_rows(list(self._tables.values()), block.indices[: block.nnz])
        with self.lock:
            self.asked = self.asked.plus(asked)

    @contextmanager
    def changing(self, rows: NDArray[np.integer[Any]]) -> Iterator[None]:
        """Change these rows of the tables, listed once or more, in a `with` statement.

        Raises PageError if a page is lost.
        """
        once = self.live.leave(rows)
        yield
        self.live.arrive(once)
        self.mark(once)

    @contextmanager
    def changing_all(self) -> Iterator[None]:
        """Change all rows, if they are in order, in a `with` statement.

        Raises PageError if a page is damaged or lost.
        """
        if not self.in_order:
            yield
            return
        with self.changing_whole():
            yield

    @contextmanager
    def changing_whole(self) -> Iterator[None]:
        """Change all rows, which all have places, in a `with` statement.

        Raises PageError if a page is damaged or lost.
        """
        with self.refreshed():
            yield
        self.mark(slice(None))

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
        for table in self._tables.values():
            table.expect_all()
        try:
            yield
        finally:
            for table in self._tables.values():
                table.expect_some()

    def check_pages(self) -> None:
        """Raise PageError if a page with rows of columns is damaged or lost."""
        self.live.check_rows(self.places.count)

    def checked(self, groups: NDArray[np.integer[Any]]) -> AbstractContextManager[None]:
        """Compare groups of rows that are read in a `with` statement, in which none begins.

        Raises PageError if a page is damaged or lost.
        """
        return self.live.checked(groups)

    def renew(self, names: Iterable[str]) -> None:
        """Take tables as they are now: all of their rows have been set."""
        for name in names:
            self.live.renew(name)

    def room_like(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return room for a copy of a table, in a file without a name on the disk of the first.

        Raises OSError if the disk has too little room.
        """
        folder = self.parents[0]
        room = nameless_array(folder, array.dtype, array.shape)
        self.live.watch(Watched(room, one_file(folder)))
        return room

    def finite(self, name: str) -> bool:
        """Return True: every block is checked."""
        return True

    def kept(self) -> TableRows:
        """Return the rows of all tables, which training will change."""
        arrays = {name: table.array for name, table in self.tables.items()}
        folder = self.parents[0]
        return TableRows(arrays, self.places, folder, self.drawn, self.live.check_rows)

    def release(self) -> None:
        """Remove the files; arrays mapped from them stay valid."""
        self._tables.clear()
        self.live, self.saved = LivePages(self.lock), None
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
    given: Path | str | Sequence[Path | str] | TableFiles | None, name: str = "learner"
) -> TableFiles | None:
    """Return the files of tables in the given folder or folders; None for None.

    name: see `RowFolder`.
    """
    if given is None or isinstance(given, TableFiles):
        return given
    listed = [given] if isinstance(given, Path | str) else given
    return TableFiles([Path(folder) for folder in listed], name)
