"""Compiled loops that move rows of tables, in time linear in what they touch.

Numbers of rows ascend: those of several workers, which lie one after the other, for each of them.
Rows of several tables lie side by side, those of one from the column `start` on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.compiling.jit import kernel
from blocklearn.matcache.cpu.inline.vectors import fetch1

Ids = NDArray[np.int32]
Bounds = NDArray[np.int64]
Keys = NDArray[np.int64]
Bits = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Table = NDArray[Any]

_kernel = kernel()

FAR = 16
"""Rows between the one whose bit is asked for and the one whose bit is prefetched."""


@_kernel
def mark(ids: Ids, bits: Bits, new: Ids) -> int:
    """Set the bit of each row; return how many were not set, and fill `new` with these rows.

    bits: one for each row. new: [at least as long as ids].
    """
    found = 0
    for i in range(ids.size):
        fetch1(bits, np.uint64(ids[min(i + FAR, ids.size - 1)]) >> np.uint64(3))
        row = np.uint64(ids[i])
        byte, bit = row >> np.uint64(3), np.uint8(np.uint64(1) << (row & np.uint64(7)))
        new[found] = ids[i]
        found += (bits[byte] & bit) == 0
        bits[byte] |= bit
    return found


@_kernel
def clear(ids: Ids, bits: Bits) -> None:
    """Clear the bits of rows: all that are set."""
    for i in range(ids.size):
        byte = np.uint64(ids[i]) >> np.uint64(3)
        if bits[byte]:  # more reads than writes are under way at once
            bits[byte] = 0


@_kernel
def flag(numbers: Ids, flags: Flags, new: Ids) -> int:
    """Set the flag of each row; return how many were not set, and fill `new` with these rows.

    A row may occur several times. new: [at least as long as numbers].
    """
    found = 0
    for i in range(numbers.size):
        fetch1(flags, np.uint64(numbers[min(i + FAR, numbers.size - 1)]))
        number = np.uint64(numbers[i])
        new[found] = numbers[i]
        found += not flags[number]
        flags[number] = True
    return found


@_kernel
def deal(ids: Ids, workers: int, bounds: Bounds, dealt: Ids, places: Ids) -> None:
    """Order ascending `ids` by owner.

    bounds: [workers + 1], of the part of each in `dealt`. places: of each of `ids` there.
    """
    for worker in range(workers + 1):
        bounds[worker] = 0
    for i in range(ids.size):
        bounds[np.uint32(ids[i]) % np.uint32(workers)] += 1
    place = np.int64(0)
    for worker in range(workers + 1):
        place, bounds[worker] = place + bounds[worker], place
    for i in range(ids.size):
        owner = np.uint32(ids[i]) % np.uint32(workers)
        places[i] = bounds[owner]
        dealt[bounds[owner]] = ids[i]
        bounds[owner] += 1
    for worker in range(workers, 0, -1):
        bounds[worker] = bounds[worker - 1]
    bounds[0] = 0


@_kernel
def label(ids: Ids, bounds: Bounds, numbers: Ids, keys: Keys) -> None:
    """Fill in the numbers of rows among those of their owner, and keys: see `row_sums.merge`.

    ids: what workers ask the owner for. bounds: [workers + 1], of what each does.
    """
    workers = bounds.size - 1
    for worker in range(workers):
        for i in range(bounds[worker], bounds[worker + 1]):
            number = np.uint32(ids[i]) // np.uint32(workers)
            numbers[i] = number
            keys[i] = (np.int64(number) << 32) + worker


@_kernel
def take(table: Table, ids: Ids, start: int, rows: Table, places: Ids) -> None:
    """Copy rows of a table to places of `rows`."""
    column = np.uint64(start)
    if table.shape[1] == 1:  # without the inner loop, more reads from memory are under way at once
        for i in range(ids.size):
            rows[np.uint64(places[i]), column] = table[np.uint64(ids[i]), 0]
        return
    for i in range(ids.size):
        row, place = np.uint64(ids[i]), np.uint64(places[i])
        for c in range(np.uint64(table.shape[1])):
            rows[place, column + c] = table[row, c]


@_kernel
def put(table: Table, ids: Ids, start: int, rows: Table, places: Ids) -> None:
    """Replace rows of a table by those at places of `rows`."""
    column = np.uint64(start)
    if table.shape[1] == 1:
        for i in range(ids.size):
            table[np.uint64(ids[i]), 0] = rows[np.uint64(places[i]), column]
        return
    for i in range(ids.size):
        row, place = np.uint64(ids[i]), np.uint64(places[i])
        for c in range(np.uint64(table.shape[1])):
            table[row, c] = rows[place, column + c]
