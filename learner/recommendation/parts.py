"""Lists for many rows, part by part, and the entries that each part leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import BlockShape, DataSource, EntriesSource, blocks_of_entries
from blocklearn.matcache import ShapeError
from blocklearn.matcache.containers.backend import Backend

from ..errors import ConfigError
from .factors import Factors
from .lists import Ranked
from .top_lists import top_lists

Array = NDArray[Any]
BLOCK_ROWS = 4096  # the most rows whose lists are made at a time


class Blocks(NamedTuple):
    """Row numbers in parts, with the items that each part leaves out.

    Attributes:
        size: the most rows in a part.
        entries: the most left-out entries at a time; parts with more are cut. 0: none.
        parts: row numbers, and a `csr_array` of the left-out items or None.
    """

    size: int
    entries: int
    parts: Iterator[tuple[Array, Any]]


def lists_of(
    factors: Factors,
    rows: Array,
    blocks: Blocks,
    n: int,
    chosen: Array | None,
    opened: Callable[[], Backend],
) -> Iterator[Ranked]:
    """Yield lists for blocks of rows.

    Args:
        factors: the model's factors.
        rows: float32 [r x K], factors of the users.
        blocks: the rows to list for, and what to leave out.
        n: the length of the lists.
        chosen: ascending numbers of the items that may be listed; None: all.
        opened: makes the backend; called for the first block.
    """
    table = factors.items if chosen is None else factors.items[chosen]
    size, entries, parts = blocks
    with top_lists(
        table, n, opened, columns=rows.shape[1], block_rows=size, entries=entries
    ) as lists:
        for numbers, left_out in pieces(parts, size, entries):
            if left_out is not None and chosen is not None:
                left_out = left_out[:, chosen]
                left_out.sort_indices()
            ids, scores = lists.of(rows[numbers], left_out)
            if chosen is not None:
                ids = np.append(chosen, -1).astype(np.int32)[ids]
            yield Ranked(numbers, ids, scores + np.float32(factors.offset))


def pieces(
    parts: Iterator[tuple[Array, Any]], size: int, entries: int
) -> Iterator[tuple[Array, Any]]:
    """Yield the parts, and cut those that leave out more than `entries` entries."""
    for numbers, left_out in parts:
        if left_out is None:
            yield numbers, None
            continue
        for start, end in cuts(left_out.indptr, size, entries):
            yield numbers[start:end], left_out[start:end]


def cuts(indptr: Array, rows: int, entries: int) -> Iterator[tuple[int, int]]:
    """Cut the rows of a sparse matrix into pieces, and yield (first, end) of each.

    A piece has up to `rows` rows and `entries` entries, but at least one row.

    >>> list(cuts(np.array([0, 2, 3, 9, 10, 11]), rows=3, entries=4))
    [(0, 2), (2, 3), (3, 5)]
    """
    start, count = 0, len(indptr) - 1
    ends = np.asarray(indptr, np.int64)  # an end and `entries` may add up to more than an int32
    while start < count:
        fits = int(np.searchsorted(ends, ends[start] + entries, "right")) - 1
        end = min(max(fits, start + 1), start + rows, count)
        yield start, end
        start = end


def entries_for(shape: BlockShape, rows: int) -> int:
    """Return room for the entries of `rows` rows, by a source's fullest block.

    That is no less than that block's entries, so any single row fits.
    """
    return max(1, shape.nnz * max(1, -(-rows // shape.rows)))


def size_of(count: int) -> int:
    """Return how many of `count` rows are done at a time, in about equal parts."""
    return max(1, -(-count // max(1, -(-count // BLOCK_ROWS))))


def parts_of(numbers: Array) -> tuple[list[Array], int]:
    """Return `numbers` in parts of about equal length, and the largest length."""
    size = size_of(numbers.size)
    return [numbers[start : start + size] for start in range(0, numbers.size, size)], size


def run_of(count: int, part: tuple[int, int], what: str = "users") -> tuple[int, int]:
    """Return the first place of part i of `count` ones, and that after its last one.

    part: (i, n). what: their name in messages. Raises ConfigError if there are fewer than parts.
    """
    number, parts = part
    if parts > max(1, count):
        raise ConfigError(
            [
                f"{parts} parts of {count} {what}: each must have one at least. Ask for fewer "
                "parts, or start fewer workers."
            ]
        )
    return count * number // parts, count * (number + 1) // parts


def of_matrix(numbers: Array, matrix: Any) -> Blocks:
    """Return blocks that leave out rows of a `csr_array`; None: nothing is left out."""
    parts, size = parts_of(numbers)
    if matrix is None:
        return Blocks(size, 0, ((part, None) for part in parts))
    counts = np.diff(matrix.indptr)
    entries = max((int(counts[part].sum()) for part in parts), default=0)
    return Blocks(size, max(1, entries), ((part, matrix[part]) for part in parts))


def of_source(
    numbers: Array,
    source: DataSource | None,
    shape: tuple[int, int],
    part: tuple[int, int] = (0, 1),
) -> Blocks:
    """Return blocks that leave out rows of a source.

    They are in the order of `numbers` if the source finds single rows, else in its own order. A
    part is then one of its blocks.

    shape: the expected (users, items).
    part: (i, n): only part i of n.

    Raises:
        ShapeError: the source has another shape.
        ValueError: `source` is None.
    """
    if source is None:
        raise ValueError(
            "recommend: a loaded model does not know what its users have seen. Pass "
            "seen=, their ratings as a matrix, or exclude_seen=False."
        )
    if (source.shape.total_rows, source.shape.columns) != shape:
        raise ShapeError(
            f"seen: a source of {source.shape.total_rows:,} rows and {source.shape.columns:,} "
            f"columns, but there are {shape[0]:,} users and {shape[1]:,} items."
        )
    if isinstance(source, EntriesSource):
        parts, size = parts_of(numbers[slice(*run_of(len(numbers), part))])
        entries = entries_for(source.shape, size)
        return Blocks(size, entries, ((part, source.entries(part)) for part in parts))
    start, stop = run_of(source.blocks, part, "blocks")
    wanted = np.zeros(source.shape.total_rows, np.bool_)
    wanted[numbers] = True

    def read() -> Iterator[tuple[Array, Any]]:
        for ids, matrix in blocks_of_entries(source, start, stop):
            here = np.flatnonzero(wanted[ids])
            if here.size:
                yield ids[here], matrix[here]

    return Blocks(source.shape.rows, entries_for(source.shape, source.shape.rows), read())
