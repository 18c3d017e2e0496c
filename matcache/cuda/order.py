"""Order rows by length, longest first, and split off those for a whole block."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.chunks import turned
from ..containers.slots import PatternSlot
from ..operations.rowwise import values_container
from .arrays import DeviceArray
from .kernels import order_source

LEAST, MOST = 128, 1024  # entries from which a row may be shared, and always is
LONG_BLOCKS = 2  # blocks of threads for each processor, for long rows
WARPS = 16  # of a processor that work at a time
PARTS = 64  # parts of the rows with separate counts; as in `order.cu`
CLASSES = 256  # of lengths; as in `order.cu`


def active_count(pattern: PatternSlot) -> int:
    """Return the address of the number of columns that occur."""
    counts: DeviceArray = pattern.counts
    return counts.address + 8


def longest(pattern: PatternSlot, processors: int) -> int:
    """Return the most entries of a row for one group of lanes.

    A row with more than a warp's share of a full block would be what all others wait for.
    """
    return min(MOST, max(LEAST, pattern.capacity // (processors * WARPS)))


def apart(pattern: PatternSlot, processors: int) -> int:
    """Return the most blocks of threads that have long rows, beside those that have short ones."""
    return max(1, min(LONG_BLOCKS * processors, pattern.capacity // longest(pattern, processors)))


def length_order(cache: MatCache, pattern: PatternSlot, *, by_column: bool) -> list[Any]:
    """Return order int32 and split int64 of the rows, see `rowwise_source`.

    by_column: of the columns that occur, not of the rows.

    They are made once for each block. While memory is being planned the list is empty.
    """
    backend, key = cache.backend, ("cuda", "order", pattern.guid, by_column)
    if by_column and pattern.capacity < pattern.columns:
        order = values_container(cache, key, pattern, np.int32, "order of columns")
    else:
        rows = pattern.columns if by_column else pattern.rows
        order = cache.result(key, (1, rows), np.int32, "order of rows")
    split = cache.result((*key, "split"), (1, 1), np.int64, "number of long rows")
    found = cache.result(("cuda", "order"), (1, CLASSES * PARTS), np.int32, "counts of lengths")
    names = ("order_count", "order_rows")
    counts, rows_of = (backend.text((name,), order_source, name) for name in names)
    if cache.reserving:
        return []
    if order.computed != pattern.version:
        count: Any = 0
        offsets = pattern.indptr
        if by_column:
            count, offsets = active_count(pattern), turned(cache, pattern)[1]
        call = [count, pattern.rows, offsets, found.array]
        backend.launch_blocks(counts, PARTS, *call)
        most = longest(pattern, backend.processors)
        backend.launch_blocks(rows_of, PARTS, *call, most, split.array, order.array)
        order.computed = pattern.version
    return [order.array, split.array]
