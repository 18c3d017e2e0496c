"""Rows by length: the longest first, and those that a whole block of threads shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.chunks import turned
from ..containers.slots import PatternSlot
from ..operations.rowwise import values_container
from .arrays import DeviceArray
from .kernels import order_source

LONGEST = 1024  # entries of a row that one group of lanes takes
SCRATCH = 256 * 256  # counts of a class and a thread


def active_count(pattern: PatternSlot) -> int:
    """The address of the number of columns that occur."""
    counts: DeviceArray = pattern.counts
    return counts.address + 8


def length_order(cache: MatCache, pattern: PatternSlot, *, by_column: bool) -> list[Any]:
    """order int32 and split int64, see `rowwise_source`: of the rows, or of the columns that occur.

    Once for each block. While memory is being planned there are no numbers: None.
    """
    backend, key = cache.backend, ("cuda", "order", pattern.guid, by_column)
    if by_column and pattern.capacity < pattern.columns:
        order = values_container(cache, key, pattern, np.int32, "order of columns")
    else:
        rows = pattern.columns if by_column else pattern.rows
        order = cache.result(key, (1, rows), np.int32, "order of rows")
    split = cache.result((*key, "split"), (1, 1), np.int64, "number of long rows")
    scratch = cache.result(("cuda", "order"), (1, SCRATCH), np.int32, "counts of lengths")
    text = backend.text(("length_order",), order_source, "length_order")
    if cache.reserving:
        return []
    if order.computed != pattern.version:
        count: Any = 0
        offsets = pattern.indptr
        if by_column:
            count, offsets = active_count(pattern), turned(cache, pattern)[1]
        call = [count, pattern.rows, offsets, LONGEST, order.array, split.array, scratch.array]
        backend.launch_blocks(text, 1, *call)
        order.computed = pattern.version
    return [order.array, split.array]
