"""Kernels of exact sums, which are equal in any order: see `operations/exact.py`.

(t + c) - c rounds t to the grid of c; nothing here may be reassociated or fused.
"""

# Numba infers the types.
# mypy: allow-untyped-defs

import numpy as np

from ..compiling.jit import kernel

FEW = 2  # columns of a table that are read one after another

_exact = kernel()


@_exact
def add_exact_product(
    chunk, thread, bounds, active, starts, t_rows, t_pos, values, table, weights, grid, largest,
    total,
):  # fmt: skip
    """Add an exact product to the total, for a chunk of the columns that occur.

    values: float32 [nnz].
    table: float32 [rows x k].
    weights: [rows x 1], or [0 x 1] if all are 1.
    total: total[c, j] grows by the sum over the non-zeros (i, c) of value * table[i, j] *
    weights[i].
    largest: largest[chunk, j] is the largest absolute value of these terms.

    In float64, products of float32 numbers are exact.
    """
    k = table.shape[1]
    weighted = weights.shape[0] > 0
    for j in range(k):
        largest[chunk, j] = 0.0
    if k <= FEW:  # a column at a time: its sum and its largest term stay in registers
        for j in range(k):
            top, step = 0.0, grid[0, j]
            for a in range(bounds[chunk], bounds[chunk + 1]):
                c = np.uintp(active[a])
                found = total[c, j]
                for e in range(starts[a], starts[a + 1]):
                    i = np.uintp(t_rows[e])
                    w = np.float64(weights[i, 0]) if weighted else 1.0
                    term = np.float64(values[t_pos[e]]) * np.float64(table[i, j]) * w
                    size = abs(term)
                    top = size if size > top else top
                    found += (term + step) - step
                total[c, j] = found
            largest[chunk, j] = top
        return
    for a in range(bounds[chunk], bounds[chunk + 1]):
        c = np.uintp(active[a])
        for e in range(starts[a], starts[a + 1]):
            i = np.uintp(t_rows[e])
            x = np.float64(values[t_pos[e]])
            w = np.float64(weights[i, 0]) if weighted else 1.0
            for j in range(k):
                term = x * np.float64(table[i, j]) * w
                size = abs(term)
                largest[chunk, j] = size if size > largest[chunk, j] else largest[chunk, j]
                total[c, j] += (term + grid[0, j]) - grid[0, j]


@_exact
def add_exact_columns(table, weights, grid, largest, total):
    """Add exact column sums to the total.

    table: [rows x k].
    weights: [rows x 1], or [0 x 1] if all are 1.
    total: total[0, j] grows by the sum over the rows of table[:, j] * weights.
    largest: largest[0, j] is the largest absolute value of these terms.
    """
    weighted = weights.shape[0] > 0
    for j in range(table.shape[1]):
        largest[0, j] = 0.0
    for i in range(table.shape[0]):
        w = np.float64(weights[i, 0]) if weighted else 1.0
        for j in range(table.shape[1]):
            term = np.float64(table[i, j]) * w
            size = abs(term)
            largest[0, j] = size if size > largest[0, j] else largest[0, j]
            total[0, j] += (term + grid[0, j]) - grid[0, j]


@_exact
def keep_largest(parts, largest):
    """Keep maxima: largest[0, j] = the largest of itself and parts[:, j]."""
    for part in range(parts.shape[0]):
        for j in range(parts.shape[1]):
            if parts[part, j] > largest[0, j]:
                largest[0, j] = parts[part, j]
