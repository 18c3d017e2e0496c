"""Cut work into chunks for threads; keep the bounds of chunks in containers.

Rows are independent, so chunks of rows never change a bit. Sums use a fixed number of chunks.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..errors import ShapeError
from .cache import MatCache
from .slots import PatternSlot

ROW_CHUNKS = 32  # chunks of rows handed to threads; never changes a bit, rows are independent
CHUNK_WORK = 2**17  # numbers in a chunk that justify waking a second thread
MORE_WORK = 2**19  # those that justify more chunks than threads: a call costs 10 us
SUM_CHUNKS = 64  # chunks of a sum; fixed, so that sums do not depend on the number of threads


def worthwhile(work: int, threads: int) -> int:
    """Return how many chunks are worthwhile: a power of two.

    work: numbers that are read.
    """
    chunks = ROW_CHUNKS
    while chunks > 1 and work < chunks * (CHUNK_WORK if chunks <= threads else MORE_WORK):
        chunks //= 2
    return chunks


def row_bounds(
    cache: MatCache, rows: int, pattern: PatternSlot | None, chunks: int = ROW_CHUNKS
) -> np.ndarray[Any, Any]:
    """Return offsets of up to `chunks` chunks of rows with about equal work.

    chunks: a power of two.
    """
    while chunks > 1 and rows < 8 * chunks:
        chunks //= 2
    if pattern is None:
        return even_bounds(cache, rows, chunks)
    return _balanced(cache, "row bounds", pattern, pattern.offsets()[0], rows, chunks)


def column_bounds(
    cache: MatCache, pattern: PatternSlot, chunks: int = ROW_CHUNKS
) -> np.ndarray[Any, Any]:
    """Return offsets of up to `chunks` chunks of the columns that occur in the block."""
    starts = turned(cache, pattern)[1]
    return _balanced(cache, "column bounds", pattern, starts, pattern.active_count, chunks)


def turned(cache: MatCache, pattern: PatternSlot) -> list[Any]:
    """Return the transposed index. Raises ShapeError if the matrix has none."""
    found = pattern.transposed()
    if pattern.build is not None:
        pattern.build()
    if not cache.reserving and pattern.starts is None:
        raise ShapeError(f"{pattern.label}.T: this sparse matrix has no transposed index.")
    return found


def _balanced(
    cache: MatCache, kind: str, pattern: PatternSlot, offsets: Any, rows: int, chunks: int
) -> np.ndarray[Any, Any]:
    """Return the bounds of `chunks` chunks, from a table for 1, 2, 4, ... chunks.

    All of them are cut from the bounds of the finest division.
    """
    powers = ROW_CHUNKS.bit_length()
    slot = cache.result(
        (kind, pattern.guid), (powers, ROW_CHUNKS + 1), np.int64, f"{kind} of chunks"
    )
    table = slot.data()
    balance = cache.backend.kernels["balance"]
    if cache.reserving:
        cache.backend.expect(balance, offsets, rows, table[-1])
        placeholder: np.ndarray[Any, Any] = table[-1]
        return placeholder
    if slot.computed != pattern.version:
        balance(offsets, rows, table[-1])
        slot.computed = pattern.version
    bounds: np.ndarray[Any, Any] = table[chunks.bit_length() - 1, : chunks + 1]
    if chunks < ROW_CHUNKS:
        bounds[:] = table[-1, _ends(chunks, cache.backend.threads)]
    return bounds


@functools.cache
def _ends(count: int, threads: int) -> list[int]:
    """Return where `count` chunks end, in units of 1 / ROW_CHUNKS of the work.

    With two or more chunks for each thread, the first are the largest and the last is one unit. So
    threads finish at nearly the same time: trapezoid self-scheduling (Tzeng, Ni 1993).

    >>> _ends(4, 4), _ends(8, 2)
    ([0, 8, 16, 24, 32], [0, 7, 13, 18, 23, 26, 29, 31, 32])
    """
    if count < 2 * threads:
        return [ROW_CHUNKS * n // count for n in range(count + 1)]
    first = 2 * ROW_CHUNKS / count - 1
    shrink = (first - 1) / max(count - 1, 1)
    return [round(n * first - shrink * n * (n - 1) / 2) for n in range(count + 1)]


def even_bounds(cache: MatCache, rows: int, chunks: int) -> np.ndarray[Any, Any]:
    """Return offsets of `chunks` equal chunks of `rows` rows, in a container."""
    label = f"bounds of {chunks} chunks"
    slot = cache.result(("bounds", rows, chunks), (1, chunks + 1), np.int64, label)
    if slot.array is not None and slot.computed < 0:
        for chunk in range(chunks + 1):
            slot.array[0, chunk] = rows * chunk // chunks
        slot.computed = slot.version
    bounds: np.ndarray[Any, Any] = slot.data()[0]
    return bounds
