"""Multiply sparse rows in memory with tables of float64: X W, and X' R without a transposed X."""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import kernel


@kernel("contract", "nsz")
def multiply_rows(begin, end, starts, columns, values, W, out):
    """Compute out[i - begin] = sum of x W[c] over the entries (c, x) of row i, begin <= i < end.

    starts, columns, values: a matrix [n x columns], CSR of float32 or float64.
    W: float64 [columns x k]. out: float64 [at least end - begin x k].
    """
    k = W.shape[1]
    for i in range(begin, end):
        row = np.uintp(i - begin)
        if k == 1:
            total = 0.0
            for e in range(np.uintp(starts[i]), np.uintp(starts[i + 1])):
                total += values[e] * W[np.uintp(columns[e]), 0]
            out[row, 0] = total
        else:
            for j in range(k):
                out[row, j] = 0.0
            for e in range(np.uintp(starts[i]), np.uintp(starts[i + 1])):
                x, c = np.float64(values[e]), np.uintp(columns[e])
                for j in range(k):
                    out[row, j] += x * W[c, j]


@kernel("contract", "nsz")
def add_turned_rows(begin, end, starts, columns, values, R, sums):
    """Add x R[i - begin] to sums[c] for each entry (c, x) of row i, begin <= i < end.

    starts, columns, values: as in `multiply_rows`.
    R: float64 [at least end - begin x k]. sums: float64 [columns x k].
    """
    k = R.shape[1]
    for i in range(begin, end):
        row = np.uintp(i - begin)
        if k == 1:
            residual = R[row, 0]
            for e in range(np.uintp(starts[i]), np.uintp(starts[i + 1])):
                sums[np.uintp(columns[e]), 0] += values[e] * residual
        else:
            for e in range(np.uintp(starts[i]), np.uintp(starts[i + 1])):
                x, c = np.float64(values[e]), np.uintp(columns[e])
                for j in range(k):
                    sums[c, j] += x * R[row, j]
