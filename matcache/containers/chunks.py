"""Cut work into chunks for threads.

Rows are independent, so chunks of rows never change a bit. Sums use a fixed number of chunks.
"""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from .cache import MatCache
from .slots import PatternSlot

ROW_CHUNKS = 32  # chunks of rows handed to threads; never changes a bit, rows are independent
CHUNK_WORK = 2**17  # numbers in a chunk that justify waking a second thread
MORE_WORK = 2**19  # those that justify more chunks than threads: a call costs 10 us
SUM_CHUNKS = 64  # chunks of a sum; fixed, so that sums do not depend on the number of threads


def worthwhile(work: int, most: int, threads: int) -> int:
    """Return how many chunks are worthwhile: a power of two, `most` or less.

    work: numbers that are read.
    """
    chunks = most
    while chunks > 1 and work < chunks * (CHUNK_WORK if chunks <= threads else MORE_WORK):
        chunks //= 2
    return chunks


def turned(cache: MatCache, pattern: PatternSlot) -> list[Any]:
    """Return the transposed index. Raises ShapeError if the matrix has none."""
    if pattern.build is not None:
        pattern.build()
    found = pattern.transposed()
    if not cache.reserving and pattern.starts is None:
        raise ShapeError(f"{pattern.label}.T: this sparse matrix has no transposed index.")
    return found
