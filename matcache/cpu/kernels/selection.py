"""Rows and columns of a sparse matrix, by position.

Columns are found by lists: `first[c]` is the first place, plus one, at which column c is chosen,
and `after` leads from a place to the next one of the same column. Places ascend in each list.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import kernel
from .sort_row import sort_by_index

_kernel = kernel()


@_kernel
def place_rows(at, indptr, starts, counts):
    """Set the starts of the chosen rows; counts: see `filled_pattern`."""
    counts[2] = 0
    starts[0] = 0
    for i in range(at.size):
        r, length = at[i], np.int64(0)
        if 0 <= r < indptr.size - 1:
            length = indptr[r + 1] - indptr[r]
        else:
            counts[2] = i + 1
        starts[i + 1] = starts[i] + length
    counts[0] = starts[at.size]


@_kernel
def copy_rows(chunk, thread, bounds, at, indptr, columns, values, starts, to_columns, to_values):
    """Copy the chosen rows."""
    for i in range(bounds[chunk], bounds[chunk + 1]):
        e = indptr[at[i]]
        for to in range(starts[i], starts[i + 1]):
            to_columns[to], to_values[to] = columns[e], values[e]
            e += 1


@_kernel
def link_columns(at, first, after, counts):
    """Make the lists; counts: see `filled_pattern`. first: zeros."""
    counts[2] = 0
    for p in range(at.size - 1, -1, -1):
        c = at[p]
        after[p] = 0
        if 0 <= c < first.size:
            after[p], first[c] = first[c], p + 1
        else:
            counts[2] = p + 1


@_kernel
def count_columns(chunk, thread, bounds, first, after, indptr, columns, starts):
    """Set starts[i + 1] to the chosen entries of row i."""
    for i in range(bounds[chunk], bounds[chunk + 1]):
        length = 0
        for e in range(indptr[i], indptr[i + 1]):
            p = first[columns[e]]
            while p > 0:
                length += 1
                p = after[p - 1]
        starts[i + 1] = length


@_kernel
def add_lengths(starts, counts):
    """Turn lengths into offsets."""
    starts[0] = 0
    for i in range(1, starts.size):
        starts[i] += starts[i - 1]
    counts[0] = starts[starts.size - 1]


@_kernel
def copy_columns(
    chunk, thread, bounds, first, after, indptr, columns, values, starts, to_columns, to_values
):
    """Copy the chosen entries of rows, in the order of their new columns."""
    for i in range(bounds[chunk], bounds[chunk + 1]):
        to, falls = starts[i], False
        for e in range(indptr[i], indptr[i + 1]):
            p = first[columns[e]]
            while p > 0:
                to_columns[to], to_values[to] = p - 1, values[e]
                falls |= to > starts[i] and to_columns[to - 1] > p - 1
                to += 1
                p = after[p - 1]
        if falls:
            sort_by_index(to_columns[starts[i] : to], to_values[starts[i] : to])


@_kernel
def unlink_columns(at, first):
    """Set `first` to zeros again."""
    for p in range(at.size):
        if 0 <= at[p] < first.size:
            first[at[p]] = 0


KERNELS = {
    "place_rows": place_rows,
    "copy_rows": copy_rows,
    "link_columns": link_columns,
    "count_columns": count_columns,
    "add_lengths": add_lengths,
    "copy_columns": copy_columns,
    "unlink_columns": unlink_columns,
}
