"""Sums over all rows of a table whose rows several workers own, with the bits of one process.

One process cuts the rows into chunks, adds up each chunk in float64, row after row, and then the
sums of chunks: see `operations/dense.py`. Here a worker adds up every n-th chunk. For that it gets
the rows of the chunk from their owners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.containers.chunks import SUM_CHUNKS
from blocklearn.matcache.cpu.compiling.jit import kernel
from blocklearn.matcache.operations.dense import COLSUM_ROWS

from .crew import Crew, bounds
from .row_loops import Table
from .sparse_merging import Swap

Rows = NDArray[np.float32]


def column_sums(
    crew: Crew, swap: Swap, own: Rows, rows: int, terms: Callable[[Rows], Rows]
) -> Rows:
    """Return the column sums of `terms` of all rows, float32 [1 x columns]; all workers call it.

    own: the rows of this worker: row r of all is row r // workers of worker r mod workers.
    rows: of all workers.
    terms: makes what is added up of copies of rows.
    """
    workers = crew.size
    cuts = bounds(rows, max(1, min(SUM_CHUNKS, rows // COLSUM_ROWS)))
    chunks = len(cuts) - 1
    sums = np.zeros((-(-chunks // workers), own.shape[1]))
    for number, start in enumerate(range(0, chunks, workers)):
        ends = [_before(cut, crew.rank, workers) for cut in cuts[start : start + workers + 1]]
        given = [np.ascontiguousarray(own[first:end]) for first, end in pairwise(ends)]
        found = swap(given + [own[:0]] * (workers - len(given)))
        if (chunk := start + crew.rank) < chunks:
            add_rows(terms(_in_order(found, cuts[chunk], cuts[chunk + 1])), sums[number])
    total = np.zeros(own.shape[1])
    parts = [part.reshape(sums.shape) for part in crew.pooled(sums)]
    for chunk in range(chunks):
        total += parts[chunk % workers][chunk // workers]
    return total.astype(np.float32)[None]


def _before(row: int, rank: int, workers: int) -> int:
    """Return how many rows before this one a worker owns."""
    return (row - rank + workers - 1) // workers


def _in_order(found: Sequence[Rows], first: int, end: int) -> Rows:
    """Return the rows of a range, of which each worker has sent its own."""
    workers = len(found)
    columns = sum(part.size for part in found) // (end - first)
    rows = np.empty((end - first, columns), np.float32)
    for worker, part in enumerate(found):
        rows[(worker - first) % workers :: workers] = part.reshape(-1, columns)
    return rows


@kernel()
def add_rows(rows: Table, sums: Table) -> None:
    """Add rows to sums of float64, one after another."""
    for i in range(rows.shape[0]):
        for c in range(np.uint64(rows.shape[1])):
            sums[c] += np.float64(rows[i, c])
