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
Table = NDArray[Any]

_kernel, _helper = kernel(), helper()  # no contraction: each product is rounded separately

AT_ONCE = 4
"""Workers for each that has read a row, above which sums in any order are tried first."""

LOW = 2**32 - 1
EXACT = 2.0**29  # 53 digits of float64 less 24 of float32


@_kernel
def unite(ids: Ids, old: Ids, new: Ids, union: Ids) -> int:
    """Return how many `ids` are not in `old`, and fill `new` and `union` with these and with all.

    All ascend. new: [at least as long as ids]. union: [at least as long as ids and old].
    """
    found, place = 0, 0
    for i in range(ids.size):
        while place < old.size and old[place] < ids[i]:
            union[place + found] = old[place]
            place += 1
        if place == old.size or old[place] != ids[i]:
            new[found] = ids[i]
            union[place + found] = ids[i]
            found += 1
    for i in range(place, old.size):
        union[i + found] = old[i]
    return found


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
    for i in range(ids.size):
        row = np.uint64(ids[i])
        for c in range(np.uint64(table.shape[1])):
            rows[i, column + c] = table[row, c]


@_kernel
def put(table: Table, ids: Ids, start: int, rows: Table) -> None:
    """Replace rows of a table by `rows`."""
    column = np.uint64(start)
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
    keys: NDArray[np.int64],
    bounds: Bounds,
    rows: Table,
    before: Table,
    work: NDArray[np.float64],
) -> None:
    """Set rows to the means of all workers, as if their float32 were added up in float64 in order.

    A worker that has not read a row counts with the merged row of before.

    - keys: of the `rows` that workers have read: number of the row * 2^32 + place, ascending.
    - bounds: [workers + 1], of the rows of each.
    - before: each row as it was merged before, in the order of their numbers; becomes the means.
    - work: [4 x columns], memory to work in.
    """
    workers, width = bounds.size - 1, np.uint64(rows.shape[1])
    stop, place = 0, -1
    while stop < keys.size:
        first, place = stop, place + 1
        while stop < keys.size and keys[stop] >> 32 == keys[first] >> 32:
            stop += 1
        for c in range(width):
            work[0, c] = before[place, c]
        few = AT_ONCE * (stop - first + 1) < workers
        if not few or not _add_at_once(workers, keys, first, stop, rows, work):
            _add_in_order(bounds, keys, first, stop, rows, work)
        factor = 1.0 / workers
        for c in range(width):
            before[place, c] = factor * work[1, c]


@_helper
def _add_in_order(
    bounds: Bounds,
    keys: NDArray[np.int64],
    first: int,
    stop: int,
    rows: Table,
    work: NDArray[np.float64],
) -> None:
    """Add up a row, worker by worker: work[1], where work[0] counts for those that lack it."""
    width = np.uint64(rows.shape[1])
    for worker in range(bounds.size - 1):
        place = np.uint64(keys[first] & LOW) if first < stop else np.uint64(0)
        read = first < stop and place < np.uint64(bounds[worker + 1])
        if worker == 0:
            for c in range(width):
                work[1, c] = np.float64(rows[place, c]) if read else work[0, c]
        elif read:
            for c in range(width):
                work[1, c] += np.float64(rows[place, c])
        else:
            for c in range(width):
                work[1, c] += work[0, c]
        if read:
            first += 1


@_helper
def _add_at_once(
    workers: int,
    keys: NDArray[np.int64],
    first: int,
    stop: int,
    rows: Table,
    work: NDArray[np.float64],
) -> bool:
    """Add up a row in any order, and return whether all sums are exact: then it is that in order.

    Float32 of which the largest is at most 2^29 / workers times the smallest, if that is not 0, are
    multiples of its last digit, and no sum of them needs more than the 53 digits of float64.
    """
    width = np.uint64(rows.shape[1])
    for c in range(width):
        size = abs(work[0, c])
        work[1, c] = (workers - (stop - first)) * work[0, c]
        work[2, c] = size
        work[3, c] = size if size > 0.0 else np.inf
    for i in range(first, stop):
        place = np.uint64(keys[i] & LOW)
        for c in range(width):
            value = np.float64(rows[place, c])
            size = abs(value)
            work[1, c] += value
            work[2, c] = size if size > work[2, c] else work[2, c]
            size = size if size > 0.0 else np.inf
            work[3, c] = size if size < work[3, c] else work[3, c]
    exact = True
    for c in range(width):
        exact &= workers * work[2, c] <= EXACT * work[3, c]
    return exact
