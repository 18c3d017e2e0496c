"""What a checkpoint has of tables in files: logs of the rows that have changed.

    pages-0002-0000.safetensors     groups int64 [n], numbers of groups of rows; of each table the
                                    numbers of these rows, [rows x columns]; and the column of the
                                    data of each row, uint32 [rows x 1], as 1 + column (0: none),
                                    unless row j is that of column j

A log has what changed since the checkpoint before, in files of bounded size. A checkpoint has all
logs from the beginning; those of the checkpoint before are links, which take no further space. All
logs, oldest first, applied to a table's initial values, give the table. Where they have become
twice as long as what they describe, one log of everything takes their place.

Where rows belong to several workers, each writes its own: `pages-0002-0000` is of worker 2. A group
is a row there, groups are int32, and row j is that of column j.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..files.column_places import ColumnPlaces
from ..files.placed_tables import COLUMNS, PlacedTables
from .row_parts import Seal
from .tensor_file import read_tensors, write_tensors

PAGES = "pages"
"""The key of a manifest with the logs."""

NAME = "pages-{:04d}-{:04d}.safetensors"
GROUPS = "groups"
PART = 4096  # groups in a file
TWICE = 2

LoggedRows = tuple[NDArray[np.int32], Mapping[str, NDArray[Any]]]
"""Columns of the data, and their rows of each table, by name."""


@dataclass(frozen=True)
class PageLogs:
    """The logs of a checkpoint.

    folder: that has their files.
    manifest: the part of its manifest: `group` (rows), `shapes` by table, `groups` written, and
        `logs`, arrays by file, oldest first.
    digests: bytes and digest of each file, as manifests list them.
    seal: of the checkpoint that was read; None: it was written.
    """

    folder: Path
    manifest: Mapping[str, Any]
    digests: Mapping[str, Any]
    seal: Seal | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each table."""
        return {name: tuple(shape) for name, shape in self.manifest["shapes"].items()}

    def parts(self) -> Iterator[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]]:
        """Yield columns of the data, and their rows of each table, from the oldest to the newest.

        Digests are not compared: see `check_parts`. Raises ModelFolderError if a file is missing.
        """
        rows = next(iter(self.shapes.values()))[0]
        for file, entries in self.manifest["logs"].items():
            found = read_tensors(self.folder / file, entries, mapped=True, compare=False)
            columns = rows_of(found.pop(GROUPS), self.manifest["group"], rows)
            if COLUMNS in found:  # else rows are numbered as columns are
                columns = found.pop(COLUMNS)[:, 0].astype(np.int64) - 1
            taken = columns >= 0
            yield columns[taken], {name: numbers[taken] for name, numbers in found.items()}


def open_logs(seal: Seal, manifest: Mapping[str, Any]) -> PageLogs | None:
    """Return the logs of a checkpoint with this manifest; None: it has none."""
    if manifest.get(PAGES) is None:
        return None
    return PageLogs(Path(seal.path).parent, manifest[PAGES], manifest["files"], seal)


def rows_of(groups: NDArray[np.int64], group: int, rows: int) -> NDArray[np.int64]:
    """Return the rows of these groups, of a table of so many rows.

    >>> rows_of(np.array([0, 2]), 4, 10).tolist()
    [0, 1, 2, 3, 8, 9]
    """
    found = (groups[:, None] * group + np.arange(group)).ravel()
    return found[found < rows]


def write_logs(folder: Path, tables: PlacedTables, before: PageLogs | None) -> dict[str, Any]:
    """Write the logs of a checkpoint into `folder`; return their part of its manifest.

    before: the logs of the checkpoint that `tables.unsaved` counts from; None: there are none.

    Raises PageError if a page is damaged or lost.
    """
    unsaved, changed = np.flatnonzero(tables.unsaved), np.flatnonzero(tables.changed)
    logs: dict[str, Any] = {}
    written, number = 0, 0
    if before is not None:
        written, number = before.manifest["groups"], before.manifest["number"] + 1
        kept = all((before.folder / file).exists() for file in before.manifest["logs"])
        if kept and written + len(unsaved) <= TWICE * len(changed):
            for file, entries in before.manifest["logs"].items():
                _link(before.folder / file, folder / file)
                logs[file] = entries
        else:
            written, unsaved = 0, changed
    else:
        unsaved = changed
    shapes = {name: list(table.array.shape) for name, table in tables.tables.items()}
    arrays = {name: table.array for name, table in tables.tables.items()}
    if isinstance(tables.places, ColumnPlaces):
        arrays[COLUMNS] = tables.places.columns
    for part, start in enumerate(range(0, len(unsaved), PART)):
        groups, file = unsaved[start : start + PART], NAME.format(number, part)
        rows = rows_of(groups, tables.group, tables.rows)
        with tables.checked(groups):  # readers draw no rows meanwhile
            tensors = {GROUPS: groups, **{name: array[rows] for name, array in arrays.items()}}
        logs[file] = write_tensors(folder / file, tensors)
    return {
        "group": tables.group,
        "shapes": shapes,
        "groups": written + len(unsaved),
        "number": number,
        "logs": logs,
    }


class OwnLogs(NamedTuple):
    """The logs that a worker has written of its own rows.

    logs: arrays by file, as manifests list them. rows: their number.
    """

    logs: dict[str, Any]
    rows: int


def write_own_logs(folder: Path, worker: int, parts: Iterable[LoggedRows]) -> OwnLogs:
    """Write the rows that belong to a worker into `folder`."""
    logs, rows = {}, 0
    for part, (columns, tables) in enumerate(parts):
        file = NAME.format(worker, part)
        logs[file] = write_tensors(folder / file, {GROUPS: columns, **tables})
        rows += len(columns)
    return OwnLogs(logs, rows)


def joined(logs: Iterable[OwnLogs], shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the part of a manifest for the logs of all workers. shapes: of the tables."""
    found = list(logs)
    return {
        "group": 1,
        "shapes": {name: list(shape) for name, shape in shapes.items()},
        "groups": sum([each.rows for each in found]),
        "number": len(found) - 1,
        "logs": {file: entries for each in found for file, entries in each.logs.items()},
    }


def _link(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
