"""Find the nearest of several centres of each row, from their products."""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import kernel


@kernel("nsz")
def number_nearest(products, half, out):
    """Set out[i] to the first j for which products[i, j] - half[j] is largest.

    products: float32 [rows x k], x.c of each row and centre. half: float32 [k], |c|^2 / 2.
    out: int32 [rows].
    """
    k = products.shape[1]
    for i in range(products.shape[0]):
        best, place = products[i, 0] - half[0], np.int32(0)
        for j in range(1, k):
            score = products[i, j] - half[j]
            if score > best:
                best, place = score, np.int32(j)
        out[i] = place
