"""The product of a sparse matrix with itself, X.T @ X: one half, and its mirror image."""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from typing import Any

from ..compiling.jit import kernel

_kernel = kernel("contract", "nsz")


@_kernel
def lower_gram(
    chunk, thread, bounds, indptr, indices, values, active, starts, t_rows, t_pos, out
):  # fmt: skip
    """Set out[c, :c + 1] = sum over the rows r with column c of value * row r, up to column c.

    bounds: of chunks of the active columns. out: [columns x columns].

    Rows of absent columns are zeroed by the chunk that reaches them.
    """
    first, last = bounds[chunk], bounds[chunk + 1]
    begin = 0 if first == 0 else active[first - 1] + 1
    for a in range(first, last):
        c = active[a]
        for row in range(begin, c + 1):
            out[row, : row + 1] = 0
        begin = c + 1
        for e in range(starts[a], starts[a + 1]):
            r, x = t_rows[e], values[t_pos[e]]
            for q in range(indptr[r], indptr[r + 1]):
                if indices[q] > c:
                    break
                out[c, indices[q]] += x * values[q]
    if last == bounds[bounds.size - 1] and (chunk == 0 or first < last):
        for row in range(begin, out.shape[0]):
            out[row, : row + 1] = 0


@_kernel
def mirror(chunk, thread, bounds, out):
    """Set out[j, i] = out[i, j] for j < i."""
    for i in range(bounds[chunk], bounds[chunk + 1]):
        for j in range(i):
            out[j, i] = out[i, j]


KERNELS: dict[str, Any] = {"lower_gram": lower_gram, "mirror": mirror}
