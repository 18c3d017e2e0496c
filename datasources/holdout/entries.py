"""Reads the stored entries of chosen rows as a sparse matrix."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..block import HostBlock
from ..reader import Reader
from ..source import DataSource


@runtime_checkable
class EntriesSource(Protocol):
    """A source that finds the entries of single rows without reading the others."""

    def entries(self, rows: npt.NDArray[np.int64]) -> Any:
        """Return the stored entries of the rows with these numbers.

        The result is a SciPy `csr_array` float32 [rows, columns], indices ascending.
        """


def entries_of(source: DataSource, rows: npt.NDArray[np.int64]) -> Any:
    """Return the stored entries of the rows with these distinct numbers.

    See `EntriesSource`. Of any other source, all blocks are read once.
    """
    if isinstance(source, EntriesSource):
        return source.entries(rows)
    place = np.full(source.shape.total_rows, -1, np.int64)
    place[rows] = np.arange(rows.size)
    found, order = [], []
    for ids, matrix in blocks_of_entries(source):
        wanted = np.flatnonzero(place[ids] >= 0)
        found.append(matrix[wanted])
        order.append(place[ids[wanted]])
    return sparse.vstack(found, format="csr")[np.argsort(np.concatenate(order))]


def blocks_of_entries(
    source: DataSource, start: int = 0, stop: int | None = None
) -> Iterator[tuple[npt.NDArray[np.int64], Any]]:
    """Yield the numbers of the rows of each block, with their stored entries.

    start, stop: the first block, and that before which to stop; None: after the last.
    """
    with Reader(source) as reader:
        for block in reader.blocks(0, start, stop=stop):
            yield block.row_ids[: block.rows].copy(), matrix_of(block)


def matrix_of(block: HostBlock) -> Any:
    """Copy the true rows of a block to a SciPy `csr_array`."""
    if block.shape.dense:
        return sparse.csr_array(block.dense[: block.rows])
    values, indices = block.values[: block.nnz].copy(), block.indices[: block.nnz].copy()
    parts = (values, indices, block.indptr[: block.rows + 1].copy())
    return sparse.csr_array(parts, shape=(block.rows, block.shape.columns))
