"""Give each column of the data a row in tables: by its first occurrence, or by its number.

Columns that occur often occur early. So the rows of a table that blocks need again and again lie
side by side, in few pages, however the columns were numbered before (by a hash, for example).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.arrays.compiled import kernel
from blocklearn.datasources.arrays.hashing import GOLDEN

FIRST = 2**12  # slots of a new table of hashes
HALF, LOW = np.uint64(32), np.uint64(2**32 - 1)  # of a slot


class ColumnPlaces:
    """Gives each column a place when it is first asked for: 0, 1, 2, ...

    columns: uint32 [places x 1], all 0: becomes 1 + the column of each place.
    count: the places that are taken.

    It needs 16 to 32 bytes for each column that has occurred. Several threads may use it at once:
    one number has a column and its place, so it is read whole while another thread gives places.

    >>> places, found = ColumnPlaces(np.zeros((9, 1), np.uint32)), np.empty(3, np.int32)
    >>> places.give(np.array([7, 2, 7], np.int32), found)
    >>> found.tolist(), places.columns[:, 0].tolist()
    ([0, 1, 0], [8, 3, 0, 0, 0, 0, 0, 0, 0])
    """

    def __init__(self, columns: NDArray[np.uint32]) -> None:
        self.columns, self.count = columns, 0
        self._slots = np.zeros(FIRST, np.uint64)  # 0, or: 1 + column, times 2^32, and its place
        self._lock = threading.Lock()

    def give(self, columns: NDArray[np.int32], into: NDArray[np.int32]) -> None:
        """Set `into` to the places of `columns`, which may be the same array."""
        begin = 0
        with self._lock:
            while True:
                begin, self.count = _give(
                    columns, into, begin, self._slots, self.columns, self.count
                )
                if begin == len(columns):
                    return
                slots = np.zeros(2 * len(self._slots), np.uint64)
                _fill(slots, self.columns, self.count)
                self._slots = slots

    def find(self, columns: NDArray[np.int32], into: NDArray[np.int32], most: int) -> int:
        """Set `into` to places below `most`; return how many columns have one before the first not.

        It does not wait for other threads.
        """
        return _find(columns, into, self._slots, most)

    def columns_of(self, places: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the columns of places that are taken."""
        found: NDArray[np.int32] = (self.columns[places, 0] - np.uint32(1)).astype(np.int32)
        return found

    def of(self, columns: NDArray[Any]) -> NDArray[np.int32]:
        """Return the places of `columns`, in an array of its own."""
        given = columns.astype(np.int32)
        self.give(given, given)
        return given

    def clear(self) -> None:
        """Take all places away: the next column gets place 0."""
        with self._lock:
            self.columns[: self.count] = 0
            self._slots, self.count = np.zeros(FIRST, np.uint64), 0

    def parts(self, most: int, count: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the first `count` places, and their columns, by ascending column.

        most: places at a time, if columns are spread evenly.
        """
        taken = self.columns[:count, 0]
        width = -(-len(self.columns) // max(1, -(-count // most)))
        for first in range(0, len(self.columns) if count else 0, width):
            places = np.flatnonzero((taken > first) & (taken <= first + width))
            places = places[np.argsort(taken[places])]
            yield places, taken[places].astype(np.int64) - 1


class ColumnsInOrder:
    """Gives column j the place j, as `ColumnPlaces` would if columns occurred in order.

    For tables that are also read and written whole: these then have the order of memory.
    """

    def __init__(self, columns: int) -> None:
        self.count = columns

    def give(self, columns: NDArray[np.int32], into: NDArray[np.int32]) -> None:
        """Set `into` to `columns`, which may be the same array."""
        into[:] = columns

    def columns_of(self, places: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return `places`."""
        return places

    def find(self, columns: NDArray[np.int32], into: NDArray[np.int32], most: int) -> int:
        """Set `into` to `columns`; see `ColumnPlaces`."""
        into[:] = columns
        return len(columns)

    def parts(self, most: int, count: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the first `count` places, and their columns, `most` at a time."""
        for start in range(0, count, most):
            found = np.arange(start, min(start + most, count))
            yield found, found


@kernel
def _give(
    columns: NDArray[np.int32],
    into: NDArray[np.int32],
    begin: int,
    slots: NDArray[np.uint64],
    of: NDArray[np.uint32],
    count: int,
) -> tuple[int, int]:
    """Give places to columns from `begin` on; return where it stopped, and the number of places.

    It stops before a new column where half of the slots are taken.
    """
    for i in range(begin, columns.shape[0]):
        wanted = np.uint64(columns[i] + 1)
        at = _slot(wanted, slots)
        if slots[at] == 0:
            if 2 * count >= slots.shape[0]:
                return i, count
            of[count, 0] = wanted
            slots[at] = wanted << HALF | np.uint64(count)
            count += 1
        into[i] = slots[at] & LOW
    return columns.shape[0], count


@kernel
def _find(
    columns: NDArray[np.int32], into: NDArray[np.int32], slots: NDArray[np.uint64], most: int
) -> int:
    """See `ColumnPlaces.find`."""
    for i in range(columns.shape[0]):
        wanted = np.uint64(columns[i] + 1)
        found = slots[_slot(wanted, slots)]  # a free slot may just have been given to another
        if found >> HALF != wanted or np.int64(found & LOW) >= most:
            return i
        into[i] = found & LOW
    return len(columns)


@kernel
def _fill(slots: NDArray[np.uint64], of: NDArray[np.uint32], count: int) -> None:
    """Enter the places that are taken into new slots."""
    for place in range(count):
        wanted = np.uint64(of[place, 0])
        slots[_slot(wanted, slots)] = wanted << HALF | np.uint64(place)


@kernel
def _slot(wanted: np.uint64, slots: NDArray[np.uint64]) -> Any:
    """Return the slot of 1 + a column, or the free one for it (linear probing, Knuth 6.4)."""
    last = np.uint64(slots.shape[0] - 1)
    at = ((wanted * GOLDEN) >> HALF) & last
    while slots[at] != 0 and slots[at] >> HALF != wanted:
        at = (at + np.uint64(1)) & last
    return at
