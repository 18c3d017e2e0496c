"""Bounds of chunks, in containers: where the chunks of an operation begin.

A container of bounds holds the number of chunks and then their offsets, `[n, b0, b1, ... bn]`.
Offsets after the last repeat it. Kernels fill them, so a recorded update needs no Python for it.
Rows are independent, so chunks of rows never change a bit.
"""

# Numba infers the types of kernels.
# mypy: allow-untyped-defs

from __future__ import annotations

from functools import cache as remembered
from typing import Any, NamedTuple

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import ROW_CHUNKS, turned, worthwhile
from ...containers.slots import PatternSlot
from ..compiling.jit import helper, kernel

Bounds = np.ndarray[Any, Any]
ACTIVE = -1  # as a number of rows: the columns that occur in the block

_kernel = kernel()
_worthwhile = helper()(worthwhile)


class Work(NamedTuple):
    """The numbers that an operation on a sparse block reads.

    entry: for each non-zero.
    row: for each row, or each column that occurs.
    fixed: for any block.
    """

    entry: int = 0
    row: int = 0
    fixed: int = 0


@_kernel
def balance(offsets, counts, rows, bounds):
    """Cut rows into chunks of about equal work (non-zeros plus rows): fills `bounds`.

    offsets: of the entries of rows, or of active columns.
    counts: the block's numbers of non-zeros and of active columns.
    rows: ACTIVE: as many as there are active columns.
    """
    if rows < 0:
        rows = counts[1]
    chunks = bounds.size - 1
    work = offsets[rows] - offsets[0] + rows
    row = 0
    for chunk in range(chunks):
        bounds[chunk] = row
        goal = work * (chunk + 1) // chunks
        while row < rows and offsets[row] - offsets[0] + row < goal:
            row += 1
    bounds[chunks] = rows


@_kernel
def join_chunks(fine, counts, rows, most, threads, entry, row, fixed, ends, bounds):
    """Join chunks of `fine` to as many as are worthwhile, a power of two: fills `bounds`.

    counts, rows: see `balance`.
    most: most chunks, which are taken if all numbers of `Work` are 0.
    entry, row, fixed: see `Work`.
    ends: [powers x chunks], where 1, 2, 4, ... chunks end in `fine`.
    """
    n = counts[1] if rows < 0 else rows
    chunks, power = most, 0
    if entry + row + fixed > 0:
        chunks = _worthwhile(counts[0] * entry + n * row + fixed, most, threads)
    while 1 << power < chunks:
        power += 1
    bounds[0] = chunks
    for chunk in range(bounds.size - 1):
        bounds[chunk + 1] = fine[ends[power, min(chunk, chunks)]]


def row_bounds(
    cache: MatCache, rows: int, pattern: PatternSlot | None, work: Work | None = None,
    most: int = ROW_CHUNKS,
) -> Bounds:  # fmt: skip
    """Return bounds of chunks of rows with about equal work.

    work: None: as many chunks as the rows allow.
    most: most chunks, a power of two; there are ROW_CHUNKS at most.
    """
    most = min(most, ROW_CHUNKS)
    while most > 1 and rows < 8 * most:
        most //= 2
    if pattern is None:
        if work is not None:
            most = worthwhile(rows * work.row + work.fixed, most, cache.backend.threads)
        return even_bounds(cache, rows, most)
    return _balanced(cache, "row bounds", pattern, pattern.offsets()[0], rows, most, work)


def column_bounds(cache: MatCache, pattern: PatternSlot, work: Work | None = None) -> Bounds:
    """Return bounds of chunks of the columns that occur in the block."""
    starts = turned(cache, pattern)[1]
    return _balanced(cache, "column bounds", pattern, starts, ACTIVE, ROW_CHUNKS, work)


def _balanced(
    cache: MatCache,
    kind: str,
    pattern: PatternSlot,
    offsets: Any,
    rows: int,
    most: int,
    work: Work | None,
) -> Bounds:
    backend, key, label = cache.backend, (kind, pattern.guid), f"{kind} of chunks"
    fine = cache.result(key, (1, ROW_CHUNKS + 1), np.int64, f"{kind} of the finest chunks")
    numbers = Work() if work is None else work
    bounds = cache.result((*key, most, numbers), (1, ROW_CHUNKS + 2), np.int64, label)
    cut = (offsets, pattern.numbers(), rows, fine.data()[0])
    ways = (rows, most, backend.threads, *numbers, ends(backend.threads))
    join = (fine.data()[0], pattern.numbers(), *ways, bounds.data()[0])
    steps: list[tuple[Any, Any, tuple[Any, ...]]]
    steps = [(fine, balance, cut), (bounds, join_chunks, join)]
    for slot, run, call in steps:
        if cache.reserving:
            backend.expect(run, *call)
        elif cache.fills(slot, pattern):
            backend.call(run, *call)
    found: Bounds = bounds.data()[0]
    return found


def even_bounds(cache: MatCache, rows: int, chunks: int) -> Bounds:
    """Return bounds of `chunks` equal chunks of `rows` rows."""
    label = f"bounds of {chunks} chunks"
    slot = cache.result(("bounds", rows, chunks), (1, chunks + 2), np.int64, label)
    if slot.array is not None and slot.computed < 0:
        slot.array[0, 0] = chunks
        for chunk in range(chunks + 1):
            slot.array[0, chunk + 1] = rows * chunk // chunks
        slot.computed = slot.version
    found: Bounds = slot.data()[0]
    return found


@remembered
def ends(threads: int) -> Bounds:
    """Return where 1, 2, 4, ... chunks end, in units of 1 / ROW_CHUNKS of the work.

    With two or more chunks for each thread, the first are the largest and the last is one unit. So
    threads finish at nearly the same time: trapezoid self-scheduling (Tzeng, Ni 1993).

    >>> ends(4)[2, :5].tolist(), ends(2)[3, :9].tolist()
    ([0, 8, 16, 24, 32], [0, 7, 13, 18, 23, 26, 29, 31, 32])
    """
    table = np.zeros((ROW_CHUNKS.bit_length(), ROW_CHUNKS + 1), np.int64)
    for power, row in enumerate(table):
        count = 1 << power
        first = 2 * ROW_CHUNKS / count - 1
        shrink = (first - 1) / max(count - 1, 1)
        for n in range(count + 1):
            if count < 2 * threads:
                row[n] = ROW_CHUNKS * n // count
            else:
                row[n] = round(n * first - shrink * n * (n - 1) / 2)
    return table


KERNELS: dict[str, Any] = {"balance": balance, "join_chunks": join_chunks}
