"""Products of two sparse matrices at the entries of a third.

Each row of the first is spread into a dense row of zeros, and taken back afterwards. Then an entry
is a sum over a list of the second, without comparisons. (Merging both lists guesses every branch
wrong; it took three times as long.)
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from .jit import kernel

MUCH = 16  # times as long: then entries are looked up one by one
_kernel = kernel("contract", "nsz", "reassoc")


@_kernel
def masked_product(
    chunk, thread, bounds, indptr, indices, a_starts, a_columns, a_values,
    by_column, active, counts, b_starts, b_ids, b_places, b_values, rows, out,
):  # fmt: skip
    """Set out[e] = row i of A times list j of B, for the entries e = (i, j) of a mask.

    indptr, indices: of the mask; a chunk has some of its rows.
    a_starts, a_columns, a_values: A, by row.
    by_column: whether lists are columns of B, by its transposed index; otherwise its rows.
    active: the columns that occur, ascending, `counts[1]` of them.
    b_starts: offsets of the lists in `b_ids`, which ascend in each.
    b_places: of columns, where their values are in `b_values`.
    rows: zeros [threads x columns of A], where a thread spreads a row of A.
    """
    row = rows[thread]
    for i in range(bounds[chunk], bounds[chunk + 1]):
        if indptr[i] == indptr[i + 1]:
            continue
        first, last = a_starts[i], a_starts[i + 1]
        for x in range(first, last):
            row[a_columns[x]] = a_values[x]
        for e in range(indptr[i], indptr[i + 1]):
            j = np.int64(indices[e])
            if by_column:
                column = j
                j = place_of(active, 0, counts[1], column)
                if j == counts[1] or active[j] != column:
                    out[e] = 0
                    continue
            y, stop = b_starts[j], b_starts[j + 1]
            total = 0.0
            if stop - y > MUCH * (last - first):
                for x in range(first, last):
                    y = place_of(b_ids, y, stop, a_columns[x])
                    if y < stop and b_ids[y] == a_columns[x]:
                        place = b_places[y] if by_column else y
                        total += np.float64(a_values[x]) * np.float64(b_values[place])
            elif by_column:
                for y in range(b_starts[j], stop):
                    b = b_values[np.uintp(b_places[y])]
                    total += np.float64(row[np.uintp(b_ids[y])]) * np.float64(b)
            else:
                for y in range(b_starts[j], stop):
                    total += np.float64(row[np.uintp(b_ids[y])]) * np.float64(b_values[np.uintp(y)])
            out[e] = total
        for x in range(first, last):
            row[a_columns[x]] = 0


@_kernel
def place_of(numbers, first, last, wanted):
    """Return the first place in numbers[first:last], ascending, of one that is not smaller."""
    while first < last:
        middle = (first + last) >> 1
        if numbers[middle] < wanted:
            first = middle + 1
        else:
            last = middle
    return first
