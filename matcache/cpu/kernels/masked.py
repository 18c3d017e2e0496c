"""Products of two sparse matrices at the entries of a third.

Each row of the first is spread into a dense row of zeros, and taken back afterwards. Then an entry
is a sum over a list of the second, without comparisons. (Merging both lists guesses every branch
wrong; it took three times as long.)
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from typing import Any, NamedTuple

import numpy as np

from ..compiling.jit import kernel
from .places import place_of

MUCH = 16  # times as long: then entries are looked up one by one
_kernel = kernel("contract", "nsz", "reassoc")


class Rows(NamedTuple):
    """The rows of a sparse matrix."""

    starts: Any
    columns: Any
    values: Any


class Lists(NamedTuple):
    """The rows of a sparse matrix, or its columns by the transposed index.

    by_column: whether they are columns.
    active: the columns that occur, ascending, `counts[1]` of them.
    starts: offsets of the lists in `ids`, which ascend in each.
    places: of columns, where their values are in `values`.
    """

    by_column: Any
    active: Any
    counts: Any
    starts: Any
    ids: Any
    places: Any
    values: Any


@_kernel
def masked_product(chunk, thread, bounds, indptr, indices, A, B, rows, out):
    """Set out[e] = row i of A times list j of B, for the entries e = (i, j) of a mask.

    indptr, indices: of the mask; a chunk has some of its rows.
    A, B: `Rows` and `Lists`.
    rows: zeros [threads x columns of A], where a thread spreads a row of A.
    """
    row = rows[thread]
    for i in range(bounds[chunk], bounds[chunk + 1]):
        if indptr[i] == indptr[i + 1]:
            continue
        first, last = A.starts[i], A.starts[i + 1]
        for x in range(first, last):
            row[A.columns[x]] = A.values[x]
        for e in range(indptr[i], indptr[i + 1]):
            j = np.int64(indices[e])
            if B.by_column:
                column = j
                j = place_of(B.active, 0, B.counts[1], column)
                if j == B.counts[1] or B.active[j] != column:
                    out[e] = 0
                    continue
            y, stop = B.starts[j], B.starts[j + 1]
            total = 0.0
            if stop - y > MUCH * (last - first):
                for x in range(first, last):
                    y = place_of(B.ids, y, stop, A.columns[x])
                    if y < stop and B.ids[y] == A.columns[x]:
                        place = B.places[y] if B.by_column else y
                        total += np.float64(A.values[x]) * np.float64(B.values[place])
            elif B.by_column:
                for y in range(B.starts[j], stop):
                    b = B.values[np.uintp(B.places[y])]
                    total += np.float64(row[np.uintp(B.ids[y])]) * np.float64(b)
            else:
                for y in range(B.starts[j], stop):
                    total += np.float64(row[np.uintp(B.ids[y])]) * np.float64(B.values[np.uintp(y)])
            out[e] = total
        for x in range(first, last):
            row[A.columns[x]] = 0
