"""Compiled sums of the rows of several workers, with the bits of sums in order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.compiling.jit import helper, kernel
from blocklearn.matcache.cpu.inline.vectors import fetch
from blocklearn.matcache.cpu.pool import Pool

from . import row_threads
from .crew import bounds
from .row_loops import Bounds, Ids, Keys, Table

_kernel, _helper = kernel(), helper()  # no contraction: each product is rounded separately

AT_ONCE = 4
"""Workers for each that has read a row, above which sums in any order are tried first."""

NARROW = 8
"""Columns below which they are added up one by one: a vector would be mostly empty."""

FAR = 16
"""Rows between the one that is added up and the one that is prefetched."""

LOW = 2**32 - 1
EXACT = 2.0**29  # 53 digits of float64 less 24 of float32


def merge(
    pool: Pool,
    numbers: Ids,
    keys: Keys,
    heads: Bounds,
    rows: Table,
    kinds: Bounds,
    before: Table,
    means: int,
) -> None:
    """Merge rows of all workers, as if their float32 were added up in float64 in order.

    The first columns become means: a worker that has not read a row counts with what the row of
    before is for workers of its kind. The others grow by what they have grown for each worker.

    - pool: whose threads share the rows.
    - numbers: of rows, ascending.
    - keys: of the `rows` that workers have read: number of the row * 2^32 + worker, ascending.
    - heads: [workers], the place of the next of the `rows` of each, which ascend, too.
    - kinds: [workers], from 0.
    - before: [kinds x any x columns], which the numbers count; those of kind 0 are merged.
    - means: how many columns become means.
    """
    parts = row_threads.parts(pool, keys.size, rows.shape[1])
    starts = keys[bounds(keys.size, parts)[1:-1]] >> 32  # numbers of rows
    key_cuts = [0, *np.searchsorted(keys, starts << 32), keys.size]
    cuts = [0, *np.searchsorted(numbers, starts), numbers.size]
    read = [
        np.bincount(keys[key_cuts[i] : key_cuts[i + 1]] & LOW, minlength=kinds.size)
        for i in range(parts)
    ]
    nexts = heads[: kinds.size] + np.cumsum([np.zeros_like(heads[: kinds.size]), *read], axis=0)

    def part(i: int, thread: int) -> None:
        work, lacks = np.empty((3, rows.shape[1])), np.empty(len(before), np.int64)
        some, few = numbers[cuts[i] : cuts[i + 1]], keys[key_cuts[i] : key_cuts[i + 1]]
        _merge(some, Given(few, nexts[i].copy(), rows, kinds, before, lacks, work), means)

    pool.run(part, parts)
    heads[: kinds.size] = nexts[-1]


class Given(NamedTuple):
    """What workers have given of some rows: see `merge`.

    lacks: [kinds], work: [3 x columns], memory to work in.
    """

    keys: Keys
    heads: Bounds
    rows: Table
    kinds: Bounds
    before: Table
    lacks: Bounds
    work: NDArray[np.float64]


@_kernel
def _merge(numbers: Ids, given: Given, means: int) -> None:
    """Do what `merge` does."""
    keys, before, lacks, work = given.keys, given.before, given.lacks, given.work
    width, end = np.uint64(means), np.uint64(given.rows.shape[1])
    workers, own = given.kinds.size, before[0]
    stop, factor = 0, 1.0 / workers
    for i in range(numbers.size):
        if width < NARROW:
            fetch(own, numbers[min(i + FAR, numbers.size - 1)], 0)
        place, first = np.uint64(numbers[i]), stop
        while stop < keys.size and keys[stop] >> 32 == numbers[i]:
            stop += 1
        exact = AT_ONCE * (stop - first + lacks.size) < workers
        if exact:
            _count_lacks(given, first, stop)
        if exact and width < NARROW:  # here, for a call costs as much as these sums
            for c in range(width):
                total, fits = _add_column(given, first, stop, place, c)
                work[0, c] = total
                exact &= fits
        elif exact:
            exact = _add_at_once(given, first, stop, place, width)
        if not exact:
            _add_in_order(given, first, stop, place, width)
        if width < end:
            _add_growth(given, first, stop, place, width)
            for c in range(width, end):
                own[place, c] = work[0, c]
        for key in range(first, stop):
            given.heads[keys[key] & LOW] += 1
        for c in range(width):
            before[0, place, c] = factor * work[0, c]


@_helper
def _count_lacks(given: Given, first: int, stop: int) -> None:
    """Count how many workers of each kind have not read a row."""
    keys, kinds, lacks = given.keys, given.kinds, given.lacks
    if lacks.size == 1:
        lacks[0] = kinds.size - (stop - first)
        return
    for kind in range(lacks.size):
        lacks[kind] = 0
    for worker in range(kinds.size):
        lacks[kinds[worker]] += 1
    for key in range(first, stop):
        lacks[kinds[keys[key] & LOW]] -= 1


@_helper
def _add_in_order(given: Given, first: int, stop: int, place: int, width: int) -> None:
    """Add up `width` columns of a row in work[0], worker by worker."""
    keys, rows, before, work = given.keys, given.rows, given.before, given.work
    for worker in range(given.kinds.size):
        read = first < stop and keys[first] & LOW == worker
        row = np.uint64(given.heads[worker]) if read else np.uint64(0)
        kind = given.kinds[worker]
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
def _add_at_once(given: Given, first: int, stop: int, place: int, width: int) -> bool:
    """Add them up in any order, and return whether all sums are exact: then they are those above.

    All float32 are multiples of the last digit of the smallest that is not 0. If the largest is at
    most 2^29 / workers times this one, no sum of them needs more than the 53 digits of float64.
    """
    lacks, work, workers = given.lacks, given.work, stop - first
    for c in range(width):
        work[0, c] = -0.0
        work[1, c] = 0.0
        work[2, c] = np.inf
    for kind in range(lacks.size):
        workers += lacks[kind]
        for c in range(width):
            value = np.float64(given.before[kind, place, c])
            size = np.abs(value)
            work[0, c] += lacks[kind] * value if lacks[kind] else -0.0
            work[1, c] = size if size > work[1, c] else work[1, c]
            if 0.0 < size < work[2, c]:
                work[2, c] = size
    for key in range(first, stop):
        row = np.uint64(given.heads[given.keys[key] & LOW])
        for c in range(width):
            value = np.float64(given.rows[row, c])
            size = np.abs(value)
            work[0, c] += value
            work[1, c] = size if size > work[1, c] else work[1, c]
            if 0.0 < size < work[2, c]:
                work[2, c] = size
    exact = True
    for c in range(width):
        exact &= workers * work[1, c] <= EXACT * work[2, c]
    return exact


@_helper
def _add_growth(given: Given, first: int, stop: int, place: int, start: int) -> None:
    """Add to the columns of a row, from `start` on, how much they have grown for each worker."""
    before, total = given.before[0, place], given.work[0]
    for c in range(start, np.uint64(before.size)):
        total[c] = before[c]
    for key in range(first, stop):
        row = np.uint64(given.heads[given.keys[key] & LOW])
        for c in range(start, np.uint64(before.size)):
            total[c] += np.float64(given.rows[row, c]) - np.float64(before[c])


@_helper
def _add_column(given: Given, first: int, stop: int, place: int, c: int) -> tuple[float, bool]:
    """Return the sum of one column, and whether it is exact: see `_add_at_once`."""
    total, largest, smallest, workers = -0.0, 0.0, np.inf, stop - first
    for kind in range(given.lacks.size):
        lacks = given.lacks[kind]
        if lacks:
            value = np.float64(given.before[kind, place, c])
            size = np.abs(value)
            workers += lacks
            total += lacks * value
            largest = size if size > largest else largest
            smallest = size if 0.0 < size < smallest else smallest
    for key in range(first, stop):
        value = np.float64(given.rows[np.uint64(given.heads[given.keys[key] & LOW]), c])
        size = np.abs(value)
        total += value
        largest = size if size > largest else largest
        smallest = size if 0.0 < size < smallest else smallest
    return total, workers * largest <= EXACT * smallest
