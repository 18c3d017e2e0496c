"""Tables that may be larger than memory: parameters and optimizer state, in files.

Each file is mapped into memory. The operating system reads the pages that are used, writes back
those that have changed, and keeps as many as memory holds. The files are of one run: the next one
begins with its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .paging import PAGE, PagedArray
from .row_folder import RowFolder

NAME = "{}-tables"
"""The name of the folder of tables of a run or a learner of this name."""

MOST = 256  # groups of rows handled at a time


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
            self.group = max(1, PAGE // (array.nbytes // shape[0]))
            self.rows = shape[0]
            self.changed = np.zeros(-(-shape[0] // self.group), bool)
            self.unsaved = self.changed.copy()
        self.tables[name] = PagedArray(array)
        return self.tables[name].array

    def fetch(self, rows: NDArray[np.integer[Any]]) -> None:
        """Ask for these rows of all tables, in any order, without waiting for them."""
        groups = np.unique(rows // self.group)
        for table in self.tables.values():
            table.fetch(groups, self.group)

    def note(self, rows: NDArray[np.integer[Any]]) -> None:
        """Note that these rows of the tables have changed."""
        groups = rows // self.group
        self.changed[groups] = self.unsaved[groups] = True

    def saved_as(self, logs: Any) -> None:
        """Note that a checkpoint has the tables as they are. logs: `PageLogs` of it."""
        self.unsaved[:] = False
        self.saved = logs

    def restore(self, name: str, numbers: NDArray[Any]) -> None:
        """Set a table to these numbers [rows x columns]; parts that have them are not written."""
        table = self.tables[name].array
        for start in range(0, len(table), MOST * self.group):
            rows = slice(start, start + MOST * self.group)
            if table[rows].tobytes() != numbers[rows].tobytes():
                table[rows] = numbers[rows]
                self.note(np.arange(*rows.indices(len(table))))

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


def table_files_of(
    given: Path | str | Sequence[Path | str] | TableFiles | None,
) -> TableFiles | None:
    """Return the files of tables in the given folder or folders; None for None."""
    if given is None or isinstance(given, TableFiles):
        return given
    listed = [given] if isinstance(given, Path | str) else given
    return TableFiles([Path(folder) for folder in listed])
