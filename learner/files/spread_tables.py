"""Tables that may be larger than a device: their first rows lie there, the others on the host.

Kernels read and write rows on the host in place, across the bus. Columns that occur often occur
early, so their rows lie on the device: see `PlacedTables`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from blocklearn.datasources import HostBlock
from blocklearn.matcache import Mat
from blocklearn.matcache.containers.backend import Spread

from .placed_tables import PlacedTables
from .table_rows import TableRows, rows_at_once


@dataclass(frozen=True)
class SpreadTable:
    """One of them, [rows x numbers], of which rows are read and set as those of a NumPy array.

    on_device: the array that kernels read.
    """

    spread: Spread
    on_device: Any
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @property
    def array(self) -> SpreadTable:
        """The table itself: see `Placed`."""
        return self

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def __getitem__(self, rows: int | NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return a row, or the rows of these numbers."""
        wanted = np.atleast_1d(np.asarray(rows, np.int64))
        found = self.spread.read(self.on_device, wanted)
        return found if np.ndim(rows) else found[0]

    def __setitem__(self, rows: NDArray[np.integer[Any]], numbers: NDArray[Any]) -> None:
        """Set the rows of these numbers, each once."""
        self.spread.write(self.on_device, np.asarray(rows, np.int64), numbers)


class SpreadTables(PlacedTables):
    """The tables of one learner on one device. memory: bytes of the device that they may take."""

    setting = "tables.device"

    def __init__(self, memory: int) -> None:
        """Hold no table yet."""
        super().__init__(memory)
        self._tables: dict[str, SpreadTable] = {}
        self._spread: Spread | None = None
        self._near = 0
        self._drawn = 0  # rows that have their first values

    @property
    def tables(self) -> Mapping[str, SpreadTable]:
        """The tables, by name."""
        return self._tables

    def may_stay(self, nbytes: int) -> bool:
        """Return whether tables of so many bytes fit into the device's `memory`."""
        return nbytes <= self.memory

    def near(self, tables: Mapping[str, Mat]) -> int:
        """Return how many rows of each of these tables lie on the device."""
        rows = next(iter(tables.values())).shape[0]
        return min(rows, self.memory * rows // _bytes_of(tables))

    def far_bytes(self, tables: Mapping[str, Mat]) -> int:
        """Return the bytes of these tables that lie on the host."""
        rows = next(iter(tables.values())).shape[0]
        return (rows - self.near(tables)) * (_bytes_of(tables) // rows)

    def lie_on(self, spread: Spread, tables: Mapping[str, Mat]) -> None:
        """Make ready for `new` with these tables."""
        self.release()
        self._spread, self._near = spread, self.near(tables)

    def new(self, name: str, shape: tuple[int, int], dtype: DTypeLike) -> Any:
        """Make a table of zeros, and return its array for a container.

        Raises MemoryPlanError if the device has too little memory.
        """
        assert self._spread is not None
        if not self._tables:
            self.begin(shape, dtype)
        array = self._spread.new(shape, dtype, self._near)
        self._tables[name] = SpreadTable(self._spread, array, shape, np.dtype(dtype))
        return array

    def columns_of_rows(self) -> NDArray[np.uint32]:
        """Make room in memory, which is taken as columns occur."""
        return np.zeros((self.rows, 1), np.uint32)

    def add_rows(self, first: int, end: int) -> None:
        """Leave drawing to the thread that uses the device: see `ready`."""

    def ready(self) -> None:
        """Draw the first values of rows whose columns have occurred."""
        self._begin(self.places.count)

    def _begin(self, end: int) -> None:
        """Draw the first values of rows before `end`, unless it was done."""
        if not self.drawn:
            return
        most = rows_at_once(self._tables.values())
        while self._drawn < end:
            start, self._drawn = self._drawn, min(self._drawn + most, end)
            for name, numbers in self.drawn_rows(start, self._drawn):
                self._tables[name][np.arange(start, self._drawn)] = numbers

    def place(self, block: HostBlock) -> None:
        """Replace the columns of a block by their places."""
        if not self.in_order:
            block.renumber(self.give)

    @contextmanager
    def changing(self, rows: NDArray[np.integer[Any]]) -> Iterator[None]:
        """Change these rows, listed once or more, in a `with` statement."""
        self.ready()
        yield
        self.mark(rows)

    @contextmanager
    def changing_all(self) -> Iterator[None]:
        """Change all rows, if they are in order, in a `with` statement."""
        yield
        if self.in_order:
            self.mark(slice(None))

    def renew(self, names: Iterable[str]) -> None:
        """Do nothing: there are no digests."""

    @contextmanager
    def checked(self, groups: NDArray[np.integer[Any]]) -> Iterator[None]:
        """Read groups of rows in a `with` statement, in which none begins."""
        with self.lock:
            self.ready()
            yield

    def finite(self, name: str) -> bool:
        """Return whether all numbers of a table are finite."""
        table = self._tables[name]
        return table.spread.finite(table.on_device)

    def kept(self) -> TableRows:
        """Return the rows of all tables, which training will change."""
        return TableRows(dict(self._tables), self.places, None, self.drawn, self._begin)

    def release(self) -> None:
        """Hold no table any more."""
        self._tables.clear()
        self._drawn, self.saved = 0, None


def _bytes_of(tables: Mapping[str, Mat]) -> int:
    return sum(mat.slot.nbytes for mat in tables.values())
