"""Read tables whose rows lie by place by the columns of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .allocated import nameless_array
from .column_places import ColumnPlaces, ColumnsInOrder
from .paging import read_only

MOST, MOST_BYTES = 2**20, 2**26  # rows handled at a time, and bytes of them
Draw = Callable[[NDArray[np.int64]], NDArray[Any]]


@dataclass(frozen=True)
class TableRows:
    """Tables by place, which can be read by column.

    tables: numbers [places x numbers], by name; rows are read as those of NumPy arrays.
    places: of the columns.
    folder: for files of tables by column; None: these are in memory.
    drawn: see `PlacedTables.begins_with`.
    ready: makes rows ready to be read, up to a number of them.
    """

    tables: Mapping[str, Any]
    places: ColumnPlaces | ColumnsInOrder
    folder: Path | None
    drawn: Mapping[str, Draw]
    ready: Callable[[int], None]

    @property
    def lasting(self) -> bool:
        """Whether they can be read when the learner has freed its memory."""
        return self.folder is not None

    @property
    def in_order(self) -> bool:
        """Whether rows are in the order of columns; they may then rest within a pass."""
        return isinstance(self.places, ColumnsInOrder)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each table."""
        return {name: table.shape for name, table in self.tables.items()}

    def parts(self) -> Iterator[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]]:
        """Yield numbers of columns, and their rows of each table, until all that occurred.

        Raises PageError if a page is damaged or lost.
        """
        count = self.places.count  # readers may give places meanwhile
        self.ready(count)
        for rows, columns in self.places.parts(rows_at_once(self.tables.values()), count):
            yield columns, {name: table[rows] for name, table in self.tables.items()}

    def by_column(self, name: str) -> NDArray[Any]:
        """Return a table [columns x numbers], read-only.

        It is mapped from a file that has no name, if there is a folder; the disk space becomes free
        when the array is deleted.

        Raises:
            PageError: a page is damaged or lost.
            OSError: the disk has too little room.
        """
        count = self.places.count  # readers may give places meanwhile
        self.ready(count)
        table, draw = self.tables[name], self.drawn.get(name)
        most = rows_at_once([table])
        found = (
            np.zeros(table.shape, table.dtype)
            if self.folder is None
            else nameless_array(self.folder, table.dtype, table.shape)
        )
        if count < len(table):
            for start in range(0, len(table), most):
                columns = np.arange(start, min(start + most, len(table)))
                first = first_values(table, count, draw, columns)
                if any(first.tobytes()):
                    found[columns] = first
        for rows, columns in self.places.parts(most, count):
            found[columns] = table[rows]
        return read_only(found)


def rows_at_once(tables: Iterable[Any]) -> int:
    """Return how many rows of tables are handled at a time."""
    longest: int = max(array.shape[1] * array.dtype.itemsize for array in tables)
    return max(1, min(MOST, MOST_BYTES // longest))


def first_values(
    table: Any, free: int, draw: Draw | None, columns: NDArray[np.int64]
) -> NDArray[Any]:
    """Return the first values of a table for these columns, [1 or columns x numbers].

    free: a row that no column has got.
    draw: makes them; None: such a row has them.
    """
    return np.asarray(table[free])[None] if draw is None else draw(columns)
