"""Compiled loops over rows of tables, in time linear in what they touch.

Numbers of rows ascend: those of several workers, which lie one after the other, for each of them.
Rows of several tables lie side by side, those of one from the column `start` on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.jit import helper, kernel

Ids = NDArray[np.int32]
Bounds = NDArray[np.int64]
Bits = NDArray[np.uint8]
Table = NDArray[Any]

_kernel, _helper = kernel(), helper()  # no contraction: each product is rounded separately

AT_ONCE = 4
"""Workers for each that has read a row, above which sums in any order are tried first."""

LOW = 2**32 - 1
EXACT = 2.0**29  # 53 digits of float64 less 24 of float32


@_kernel
def mark(ids: Ids, bits: Bits, new: Ids) -> int:
    """Set the bit of each row; return how many were not set, and fill `new` with these rows.

    bits: one for each row. new: [at least as long as ids].
    """
    found = 0
    for i in range(ids.size):
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
        bits[np.uint64(ids[i]) >> np.uint64(3)] = 0


@_kernel
def deal(ids: Ids, workers: int, bounds: Bounds, dealt: Ids) -> None:
    """Order ascending `ids` by owner. bounds: [workers + 1], of the part of each in `dealt`."""
    for worker in range(workers + 1):
        bounds[worker] = 0
    for i in range(ids.size):
        bounds[np.uint64(ids[i]) % np.uint64(workers)] += 1
    place = np.int64(0)
    for worker in range(workers + 1):
        place, bounds[worker] = place + bounds[worker], place
    for i in range(ids.size):
        owner = np.uint64(ids[i]) % np.uint64(workers)
        dealt[bounds[owner]] = ids[i]
        bounds[owner] += 1
    for worker in range(workers, 0, -1):
        bounds[worker] = bounds[worker - 1]
    bounds[0] = 0


@_kernel
def take(table: Table, ids: Ids, start: int, rows: Table) -> None:
    """Copy rows of a table into `rows`."""
    column = np.uint64(start)
    if table.shape[1] == 1:  # without the inner loop, more reads from memory are under way at once
        for i in range(ids.size):
            rows[i, column] = table[np.uint64(ids[i]), 0]
        return
    for i in range(ids.size):
        row = np.uint64(ids[i])
        for c in range(np.uint64(table.shape[1])):
            rows[i, column + c] = table[row, c]


@_kernel
def put(table: Table, ids: Ids, start: int, rows: Table) -> None:
    """Replace rows of a table by `rows`."""
    column = np.uint64(start)
    if table.shape[1] == 1:
        for i in range(ids.size):
            table[np.uint64(ids[i]), 0] = rows[i, column]
        return
    for i in range(ids.size):
        row = np.uint64(ids[i])
        for c in range(np.uint64(table.shape[1])):
            table[row, c] = rows[i, column + c]


@_kernel
def replace(ids: Ids, rows: Table, old: Ids, before: Table) -> None:
    """Replace those of `rows` that are in `old` by what they were. Parts of `ids` may follow."""
    place = 0
    for i in range(ids.size):
        if i > 0 and ids[i] < ids[i - 1]:
            place = 0
        while place < old.size and old[place] < ids[i]:
            place += 1
        if place < old.size and old[place] == ids[i]:
            for c in range(np.uint64(rows.shape[1])):
                rows[i, c] = before[place, c]


@_kernel
def interleave(ids: Ids, rows: Table, more: Ids, fresh: Table, into: Ids, result: Table) -> None:
    """Order two sets of rows by their numbers, none of which is in both."""
    a, b = 0, 0
    for i in range(into.size):
        if b == more.size or (a < ids.size and ids[a] < more[b]):
            into[i] = ids[a]
            for c in range(np.uint64(rows.shape[1])):
                result[i, c] = rows[a, c]
            a += 1
        else:
            into[i] = more[b]
            for c in range(np.uint64(rows.shape[1])):
                result[i, c] = fresh[b, c]
            b += 1


@_kernel
def merge(
    ids: Ids,
    keys: NDArray[np.int64],
    bounds: Bounds,
    rows: Table,
    kinds: NDArray[np.int64],
    before: Table,
    lacks: NDArray[np.int64],
    work: NDArray[np.float64],
) -> None:
    """Set rows to the means of all workers, as if their float32 were added up in float64 in order.

    A worker that has not read a row counts with what the row of before is for workers of its kind.

    - ids: of rows, ascending.
    - keys: of the `rows` that workers have read: number of the row * 2^32 + place, ascending.
    - bounds: [workers + 1], of the rows of each.
    - kinds: [workers], from 0.
    - before: [kinds x ids x columns]; those of kind 0 become the means.
    - lacks: [kinds], work: [3 x columns], memory to work in.
    """
    workers, width = kinds.size, np.uint64(rows.shape[1])
    stop, factor = 0, 1.0 / workers
    for place in range(ids.size):
        first = stop
        while stop < keys.size and keys[stop] >> 32 == ids[place]:
            stop += 1
        few = AT_ONCE * (stop - first + lacks.size) < workers
        if few:
            _count_lacks(keys, first, stop, bounds, kinds, lacks)
        if not few or not _add_at_once(keys, first, stop, rows, before, place, lacks, work):
            _add_in_order(keys, first, stop, bounds, rows, kinds, before, place, work)
        for c in range(width):
            before[0, place, c] = factor * work[0, c]


@_helper
def _count_lacks(
    keys: NDArray[np.int64],
    first: int,
    stop: int,
    bounds: Bounds,
    kinds: NDArray[np.int64],
    lacks: NDArray[np.int64],
) -> None:
    """Count how many workers of each kind have not read a row."""
    if lacks.size == 1:
        lacks[0] = kinds.size - (stop - first)
        return
    for kind in range(lacks.size):
        lacks[kind] = 0
    for worker in range(kinds.size):
        if first < stop and (keys[first] & LOW) < bounds[worker + 1]:
            first += 1
        else:
            lacks[kinds[worker]] += 1


@_helper
def _add_in_order(
    keys: NDArray[np.int64],
    first: int,
    stop: int,
    bounds: Bounds,
    rows: Table,
    kinds: NDArray[np.int64],
    before: Table,
    place: int,
    work: NDArray[np.float64],
) -> None:
    """Add up a row in work[0], worker by worker."""
    width = np.uint64(rows.shape[1])
    for worker in range(kinds.size):
        read = first < stop and (keys[first] & LOW) < bounds[worker + 1]
        row = np.uint64(keys[first] & LOW) if read else np.uint64(0)
        kind = kinds[worker]
        if worker == 0:
            for c in range(width):
                work[0, c] = np.float64(rows[row, c]) if read else before[kind, place, c]
        elif read:
            for c in range(width):
                work[0, c] += np.float64(rows[row, c])
        else:
            for c in range(width):
                work[0, c] += np.float64(before[kind, place, c])
        first += read


@_helper
def _add_at_once(
    keys: NDArray[np.int64],
    first: int,
    stop: int,
    rows: Table,
    before: Table,
    place: int,
    lacks: NDArray[np.int64],
    work: NDArray[np.float64],
) -> bool:
    """Add up a row in any order, and return whether all sums are exact: then it is that in order.

    All float32 are multiples of the last digit of the smallest that is not 0. If the largest is at
    most 2^29 / workers times this one, no sum of them needs more than the 53 digits of float64.
    """
    width, workers = np.uint64(rows.shape[1]), stop - first
    for c in range(width):
        work[0, c] = -0.0
        work[1, c] = 0.0
        work[2, c] = np.inf
    for kind in range(lacks.size):
        workers += lacks[kind]
        for c in range(width):
            value = np.float64(before[kind, place, c])
            size = np.abs(value)
            work[0, c] += lacks[kind] * value if lacks[kind] else -0.0
            work[1, c] = size if size > work[1, c] else work[1, c]
            if 0.0 < size < work[2, c]:
                work[2, c] = size
    for i in range(first, stop):
        row = np.uint64(keys[i] & LOW)
        for c in range(width):
            value = np.float64(rows[row, c])
            size = np.abs(value)
            work[0, c] += value
            work[1, c] = size if size > work[1, c] else work[1, c]
            if 0.0 < size < work[2, c]:
                work[2, c] = size
    exact = True
    for c in range(width):
        exact &= workers * work[1, c] <= EXACT * work[2, c]
    return exact
