"""Multiply sparse rows in memory with tables of float64: X W, and X' R without a transposed X."""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import kernel

FEW = 12  # columns of W; more of them are read a row at a time


@kernel("contract", "nsz")
def multiply_rows(begin, end, starts, columns, values, W, out):
    """Compute out[i - begin] = sum of x W[c] over the entries (c, x) of row i, begin <= i < end.

    starts, columns, values: a matrix [n x columns], CSR of float32 or float64.
    W: float64 [columns x k]. out: float64 [at least end - begin x k].
    """
    k = W.shape[1]
    fours = k - k % 4
    for i in range(begin, end):
        row = np.uintp(i - begin)
        first, last = np.uintp(starts[i]), np.uintp(starts[i + 1])
        if k == 1:
            total = 0.0
            for e in range(first, last):
                total += values[e] * W[np.uintp(columns[e]), 0]
            out[row, 0] = total
        elif k <= FEW:  # sums stay in registers
            for j in range(0, fours, 4):
                p = q = r = s = 0.0
                for e in range(first, last):
                    x, c = np.float64(values[e]), np.uintp(columns[e])
                    p += x * W[c, j]
                    q += x * W[c, j + 1]
                    r += x * W[c, j + 2]
                    s += x * W[c, j + 3]
                out[row, j], out[row, j + 1], out[row, j + 2], out[row, j + 3] = p, q, r, s
            if k & 2:
                p = q = 0.0
                for e in range(first, last):
                    x, c = np.float64(values[e]), np.uintp(columns[e])
                    p += x * W[c, fours]
                    q += x * W[c, fours + 1]
                out[row, fours], out[row, fours + 1] = p, q
            if k & 1:
                total = 0.0
                for e in range(first, last):
                    total += values[e] * W[np.uintp(columns[e]), k - 1]
                out[row, k - 1] = total
        else:
            for j in range(k):
                out[row, j] = 0.0
            for e in range(first, last):
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
