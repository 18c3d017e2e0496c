"""Sum the entries of sparse rows in memory by column."""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import kernel


@kernel()
def sum_columns(starts, columns, values, shares, sums):
    """Add shares[i] x and shares[i] x^2 of each entry x of row i to sums[column].

    starts, columns, values: a matrix [n x columns], CSR of float32 or float64.
    shares: float64 [n]. sums: float64 [columns x 2].
    """
    for i in range(starts.shape[0] - 1):
        share = shares[i]
        for e in range(np.uintp(starts[i]), np.uintp(starts[i + 1])):
            c, x = np.uintp(columns[e]), np.float64(values[e])
            # both are read before either is written: in turn they take half as long again
            first, second = sums[c, 0] + share * x, sums[c, 1] + share * x * x
            sums[c, 0], sums[c, 1] = first, second
