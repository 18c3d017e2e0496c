"""Order rows by length, longest first, and split off those for a block of threads, or a team."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.chunks import turned
from ..containers.patterns import values_container
from ..containers.slots import PatternSlot
from ..emit.cuda_header import TEAM
from .arrays import DeviceArray
from .kernels import order_source

LEAST, MOST = 128, 1024  # entries from which a row may be shared, and always is
LONG_BLOCKS = 2  # blocks of threads for each processor, for long rows
SHARED = 1 << 20  # entries of a pattern from which a team shares its longest rows
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


def has_teams(pattern: PatternSlot, *, by_column: bool) -> bool:
    """Return whether teams of blocks work on the longest rows, in launches of their own.

    Columns have few entries in a block of rows. In a small block even a long row takes little time.
    """
    return pattern.capacity >= SHARED and not by_column


def team_blocks(processors: int) -> int:
    """Return the blocks of threads of such a launch."""
    return TEAM * max(1, LONG_BLOCKS * processors // TEAM)


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
    split = cache.result((*key, "split"), (1, 2), np.int64, "numbers of long rows")
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
        teams = has_teams(pattern, by_column=by_column)
        shared = TEAM * most if teams else pattern.capacity  # no row is longer
        backend.launch_blocks(rows_of, PARTS, *call, most, shared, split.array, order.array)
        order.computed = pattern.version
    return [order.array, split.array]
