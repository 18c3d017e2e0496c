"""The sizes of what workers merge, from those of the data and of the model."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from blocklearn.datasources import BlockShape
from blocklearn.matcache import Mat

from ...engines.cost import Sizes
from ...engines.lines import LINE
from ..replicas.replica import Replica


def sizes_of(replica: Replica, workers: int, blocks: int) -> Sizes:
    """Return the sizes of a merge. blocks: of each worker since the last one.

    Where the rows of a table are the columns of sparse data, a worker changes at most as many rows
    as its blocks have non-zeros.
    """
    tables = [mat for rule, mat in replica.learned.merged() if rule != "same"]
    shape = replica.intakes[0].shape
    touched, union = [touched_lines(tables, shape, blocks * several) for several in (1, workers)]
    lines = sum(lines_of(mat) for mat in tables)
    nbytes = sum(prod(mat.shape) * mat.dtype.itemsize for mat in tables)
    return Sizes(workers, lines, nbytes // max(1, lines), touched, union)


def touched_lines(tables: Sequence[Mat], shape: BlockShape, blocks: int) -> int:
    """Return in how many lines so many blocks change what is merged, at most."""
    found = 0
    for mat in tables:
        by_column = not shape.dense and mat.shape[0] == shape.columns
        each = -(-mat.shape[-1] // LINE)
        found += min(lines_of(mat), shape.nnz * blocks * each if by_column else lines_of(mat))
    return found


def lines_of(mat: Mat) -> int:
    """Return the number of lines of a table."""
    return -(-prod(mat.shape) // LINE)
