"""Copies rows of a matrix into a block."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .compiled import kernel


@kernel
def count_up(start: int, into: npt.NDArray[np.int64]) -> None:
    """Fill `into` [n] with start, start + 1, ..."""
    for i in range(into.size):
        into[i] = start + i


@kernel
def count_entries(ids: npt.NDArray[np.int64], indptr: npt.NDArray[np.int64]) -> int:
    """Return the stored entries of the rows `ids` of a CSR matrix."""
    found = 0
    for i in range(ids.size):
        found += indptr[ids[i] + 1] - indptr[ids[i]]
    return found


@kernel
def gather_csr(
    ids: npt.NDArray[np.int64],
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    to_indptr: npt.NDArray[np.int64],
    to_indices: npt.NDArray[np.int32],
    to_values: npt.NDArray[np.float32],
) -> int:
    """Copy rows `ids` [r] of a CSR matrix; return -1, or the first i that misfits.

    to_indptr: [r+1], filled from 0; to_indices and to_values: [capacity], filled from 0.
    """
    capacity = to_indices.size
    to_indptr[0] = 0
    filled = np.int64(0)
    for i in range(ids.size):
        start, stop = indptr[ids[i]], indptr[ids[i] + 1]
        end = filled + (stop - start)
        if start < 0 or stop < start or stop > indices.size or end > capacity:
            return i
        from_indices, here = indices[start:stop], to_indices[filled:end]
        from_values, there = values[start:stop], to_values[filled:end]
        for j in range(here.size):  # slices from 0, so that the compiler vectorises both copies
            here[j], there[j] = from_indices[j], from_values[j]
        filled = end
        to_indptr[i + 1] = filled
    return -1


@kernel
def gather_dense(
    ids: npt.NDArray[np.int64],
    values: npt.NDArray[Any],
    to_values: npt.NDArray[np.float32],
) -> None:
    """Copy the rows `ids` [r] of a table to `to_values` [r or more, d]."""
    for i in range(ids.size):
        from_row, to_row = values[ids[i]], to_values[i]
        for column in range(from_row.size):  # not an index of the table, which would not vectorise
            to_row[column] = from_row[column]


@kernel
def expand_csr(
    ids: npt.NDArray[np.int64],
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    to_values: npt.NDArray[np.float32],
) -> int:
    """Write rows `ids` [r] of a CSR matrix as a table to `to_values` [r or more, d].

    Returns -1, or the first i whose row is out of bounds. Costs O(r * d + nnz).
    """
    for i in range(ids.size):
        to_row = to_values[i]
        to_row[:] = 0.0
        start, stop = indptr[ids[i]], indptr[ids[i] + 1]
        if start < 0 or stop > indices.size:
            return i
        for pos in range(start, stop):
            column = indices[pos]
            if column < 0 or column >= to_row.size:
                return i
            to_row[column] = values[pos]
    return -1
