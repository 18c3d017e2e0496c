"""Tables with a row for each column of the data, in places of their own: what all of them share.

A row belongs to the column that was the next to occur: see `ColumnPlaces`. Training numbers the
columns of its blocks by these places. What leaves the tables, to users, models and checkpoints, is
by column. Tables that training brings up to date as a whole, at the end of a pass, are by column
themselves: see `in_order`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from blocklearn.datasources import HostBlock
from blocklearn.datasources.arrays.compiled import kernel

from .column_places import ColumnPlaces, ColumnsInOrder
from .paging import rows_of_page
from .table_rows import Draw, TableRows, rows_at_once

COLUMNS = "columns-of-rows"
"""The name of the array that has the column of each row of the tables, as 1 + column; 0: none."""


class Placed(Protocol):
    """A table. array: reads and sets rows by their numbers, as a NumPy array does."""

    @property
    def array(self) -> Any:
        """See above."""


class PlacedTables(ABC):
    """The tables of one learner, which all have as many rows. The first one has the longest.

    memory: bytes up to which they stay where the learner's other memory is, all or none.
    setting: the name of what asks for them, for messages.
    in_order: whether rows are in the order of columns; set before the first table.
    group: rows that are a page, if a page has room for one; checkpoints write such groups.
    changed, unsaved: groups that differ from their initial values, and those that have changed
        since the checkpoint `saved` was written, or None.
    lock: held while columns get places.
    begun: the places whose rows have begun.
    """

    setting: str

    def __init__(self, memory: int) -> None:
        """Hold no table yet."""
        self.memory, self.lock, self.in_order = memory, Lock(), False
        self.places: ColumnPlaces | ColumnsInOrder = ColumnsInOrder(0)
        self.drawn: dict[str, Draw] = {}
        self.starts: dict[str, NDArray[Any]] = {}  # first values of a row that is not drawn
        self.group = 1
        self.rows = self.begun = 0
        self.changed = self.unsaved = np.zeros(0, bool)
        self.saved: Any = None  # the logs of their newest checkpoint

    def may_stay(self, nbytes: int) -> bool:
        """Return whether tables of so many bytes stay with the learner's other memory."""
        return 0 < nbytes <= self.memory

    @property
    @abstractmethod
    def tables(self) -> Mapping[str, Placed]:
        """The tables, by name."""

    @abstractmethod
    def new(self, name: str, shape: tuple[int, int], dtype: DTypeLike) -> Any:
        """Make a table of zeros, and return its array for a container."""

    @abstractmethod
    def columns_of_rows(self) -> NDArray[np.uint32]:
        """Make room for the column of each row: zeros [rows x 1]."""

    def begin(self, shape: tuple[int, int], dtype: DTypeLike) -> None:
        """Make ready for the first table, of this shape."""
        self.group, self.rows = rows_of_page(shape[1] * np.dtype(dtype).itemsize), shape[0]
        self.begun = 0
        self.changed = np.zeros(-(-shape[0] // self.group), bool)
        self.unsaved = self.changed.copy()
        self.places = (
            ColumnsInOrder(shape[0]) if self.in_order else ColumnPlaces(self.columns_of_rows())
        )

    def begins_with(self, drawn: Mapping[str, Draw]) -> None:
        """Draw the first values of rows of these tables when a column gets them.

        Other tables have their first values, the same in all rows.

        drawn: from numbers of columns to their rows [columns x numbers], by table.
        """
        self.drawn = dict(drawn)
        self.starts = {name: np.array(table.array[0])[None] for name, table in self.tables.items()}

    # ------------------------------------------------------------- places

    def give(self, columns: NDArray[np.int32], into: NDArray[np.int32]) -> None:
        """Set `into` to the places of `columns`, which may be the same array."""
        known = self.places.find(columns, into, self.begun)
        if known == len(columns):
            return
        with self.lock:
            before = self.places.count
            self.places.give(columns[known:], into[known:])
            if self.places.count > before:
                self.add_rows(before, self.places.count)
            self.begun = self.places.count

    @abstractmethod
    def add_rows(self, first: int, end: int) -> None:
        """Let rows begin whose columns are new. The lock is held, by any thread."""

    @abstractmethod
    def ready(self) -> None:
        """Make rows ready for use whose columns have occurred. No block is at work."""

    def drawn_rows(self, first: int, end: int) -> Iterable[tuple[str, NDArray[Any]]]:
        """Yield tables whose rows are drawn, and the first values of these rows."""
        assert isinstance(self.places, ColumnPlaces)
        columns = self.places.columns[first:end, 0].astype(np.int64) - 1
        return ((name, draw(columns)) for name, draw in self.drawn.items())

    def places_of(self, columns: NDArray[Any]) -> NDArray[np.int32]:
        """Return the places of `columns`, in an array of its own."""
        given = columns.astype(np.int32)
        self.give(given, given)
        return given

    def first(self, name: str, columns: NDArray[np.int64]) -> NDArray[Any]:
        """Return the first values of a table for these columns, [1 or columns x numbers]."""
        return self.drawn[name](columns) if name in self.drawn else self.starts[name]

    @abstractmethod
    def place(self, block: HostBlock) -> None:
        """Replace the columns of a block by their places, ahead of its use."""

    # ------------------------------------------------------------- changes

    @abstractmethod
    def changing(self, rows: NDArray[np.integer[Any]]) -> AbstractContextManager[None]:
        """Change these rows, listed once or more, in a `with` statement."""

    @abstractmethod
    def changing_all(self) -> AbstractContextManager[None]:
        """Change all rows, if they are in order, in a `with` statement."""

    def mark(self, rows: NDArray[np.integer[Any]] | slice) -> None:
        """Note that rows have changed."""
        if isinstance(rows, slice):
            self.changed[rows] = self.unsaved[rows] = True
        else:
            _mark(rows, self.group, self.changed, self.unsaved)

    @abstractmethod
    def renew(self, names: Iterable[str]) -> None:
        """Take tables as they are now: all of their rows have been set."""

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
        for rows, columns in self.places.parts(most, self.places.count):
            wanted = numbers[columns]
            if table[rows].tobytes() != wanted.tobytes():
                with self.changing(rows):
                    table[rows] = wanted

    # ------------------------------------------------------------- reading

    @abstractmethod
    def finite(self, name: str) -> bool:
        """Return whether all numbers of a table are finite, if not every block is checked."""

    @abstractmethod
    def kept(self) -> TableRows:
        """Return the rows of all tables, which training will change."""

    @abstractmethod
    def checked(self, groups: NDArray[np.integer[Any]]) -> AbstractContextManager[None]:
        """Read groups of rows in a `with` statement, in which none begins."""

    def saved_as(self, logs: Any) -> None:
        """Note that a checkpoint has the tables as they are. logs: `PageLogs` of it."""
        self.unsaved[:] = False
        self.saved = logs

    @abstractmethod
    def release(self) -> None:
        """Hold no table any more; arrays that were made stay valid."""


@kernel
def _mark(
    rows: NDArray[np.integer[Any]],
    group: int,
    changed: NDArray[np.bool_],
    unsaved: NDArray[np.bool_],
) -> None:
    """Note that the groups of these rows have changed."""
    for i in range(rows.shape[0]):
        changed[rows[i] // group] = unsaved[rows[i] // group] = True
