"""Hand-written CPU kernels; generators print the others.

All run one chunk: `kernel(chunk, thread, bounds, ...)`. Each sum has a fixed order.
"""

# Numba infers the types.
# mypy: allow-untyped-defs

import math
from typing import Any

import numpy as np

from ..algebra.gemm import product
from ..compiling.access import place1, put1
from ..compiling.jit import helper, kernel
from ..inline.random import random_bits
from . import bounds, gram, index, keys, selection
from .exact import add_exact_columns, add_exact_product, keep_largest
from .masked import masked_product
from .places import gather, scatter
from .top import top_products

_kernel = kernel("contract", "reassoc", "nsz", "arcp")
_ordered = kernel("contract", "nsz")

MOST_TOKENS = 2.0**62  # of an entry: an int64 holds them


@helper("contract", "reassoc", "nsz", "arcp", inline=True)
def _sum_column(a, starts, t_rows, t_pos, values, table, out, place):
    """Compute out[place] = sum over the entries (r, c) of value * table[r], c being column a."""
    k = table.shape[1]
    for j in range(k):
        out[place, j] = 0
    p = starts[a]
    q = starts[a + 1]
    full = p + (q - p) // 4 * 4
    for e in range(p, full, 4):
        r0, r1 = np.uintp(t_rows[e]), np.uintp(t_rows[e + 1])
        r2, r3 = np.uintp(t_rows[e + 2]), np.uintp(t_rows[e + 3])
        x0, x1 = values[t_pos[e]], values[t_pos[e + 1]]
        x2, x3 = values[t_pos[e + 2]], values[t_pos[e + 3]]
        for j in range(k):
            out[place, j] += (
                x0 * table[r0, j] + x1 * table[r1, j] + x2 * table[r2, j] + x3 * table[r3, j]
            )
    for e in range(full, q):
        r0 = np.uintp(t_rows[e])
        x0 = values[t_pos[e]]
        for j in range(k):
            out[place, j] += x0 * table[r0, j]


@_kernel
def transposed_product(chunk, thread, bounds, active, starts, t_rows, t_pos, values, table, out):
    """Compute out[c] = sum over the non-zeros (r, c) of value * table[r].

    values: [nnz].
    table: [rows x k].
    out: [columns x k].

    Rows of absent columns are zeroed by the chunk that reaches them: out is written exactly once.
    """
    k = table.shape[1]
    first, last = bounds[chunk], bounds[chunk + 1]
    # columns between the previous active one and this one are empty
    begin = 0 if first == 0 else active[first - 1] + 1
    for a in range(first, last):
        column = np.uintp(active[a])
        for c in range(begin, column):
            for j in range(k):
                out[c, j] = 0
        begin = column + 1
        _sum_column(a, starts, t_rows, t_pos, values, table, out, column)
    if last == bounds[bounds.size - 1] and (chunk == 0 or first < last):
        for c in range(begin, out.shape[0]):
            for j in range(k):
                out[c, j] = 0


@_kernel
def add_transposed_product(
    chunk, thread, bounds, active, starts, t_rows, t_pos, values, table, scale, sums, out
):
    """Compute out[c] += scale * sum over the non-zeros (r, c) of value * table[r].

    Rows of absent columns are neither read nor written.

    scale: [1 x 1].
    sums: [threads x at least k], scratch.
    out: [columns x k].
    """
    for a in range(bounds[chunk], bounds[chunk + 1]):
        column = np.uintp(active[a])
        _sum_column(a, starts, t_rows, t_pos, values, table, sums, thread)
        for j in range(table.shape[1]):
            out[column, j] += scale[0, 0] * sums[thread, j]


@_ordered
def transposed_column(chunk, thread, bounds, active, starts, t_rows, t_pos, values, table, out):
    """Compute the same as `transposed_product` for a table of one column: [rows x 1].

    A column adds up its entries one after another, to the bits of `scattered_column`.
    """
    first, last = bounds[chunk], bounds[chunk + 1]
    begin = 0 if first == 0 else active[first - 1] + 1
    for a in range(first, last):
        column = active[a]
        for c in range(begin, column + 1):
            out[c, 0] = 0
        begin = column + 1
        for e in range(starts[a], starts[a + 1]):
            out[column, 0] += values[np.uintp(t_pos[e])] * table[np.uintp(t_rows[e]), 0]
    if last == bounds[bounds.size - 1] and (chunk == 0 or first < last):
        for c in range(begin, out.shape[0]):
            out[c, 0] = 0


@_ordered
def add_transposed_column(
    chunk, thread, bounds, active, starts, t_rows, t_pos, values, table, scale, sums, out
):
    """Compute the same as `add_transposed_product` for a table of one column: [rows x 1].

    A column adds up its entries one after another.
    """
    for a in range(bounds[chunk], bounds[chunk + 1]):
        sums[thread, 0] = 0
        for e in range(starts[a], starts[a + 1]):
            sums[thread, 0] += values[np.uintp(t_pos[e])] * table[np.uintp(t_rows[e]), 0]
        out[active[a], 0] += scale[0, 0] * sums[thread, 0]


@_ordered
def scattered_column(indptr, indices, values, table, out):
    """Compute the same row by row, without the transposed index, on one thread."""
    sums = out.reshape(-1)
    for c in range(sums.size):
        sums[c] = 0
    for i in range(table.shape[0]):
        x = table[i, 0]
        for e in range(indptr[i], indptr[i + 1]):
            c = place1(indices, e)
            put1(sums, c, sums[c] + values[np.uintp(e)] * x)


@_kernel
def copy(source, target):
    """Copy bytes."""
    for i in range(source.size):
        target[i] = source[i]


@_ordered
def add_partials(partials, out):
    """Add partial sums in order: out[j] = sum of partials[:, j]."""
    for j in range(out.shape[1]):
        total = 0.0
        for chunk in range(partials.shape[0]):
            total += partials[chunk, j]
        out[0, j] = total


@_ordered
def max_partials(partials, out):
    """Keep the largest: out[j] = largest of partials[:, j]; NaN wins."""
    for j in range(out.shape[1]):
        most = -np.inf
        for chunk in range(partials.shape[0]):
            x = partials[chunk, j]
            most = x if (x > most) or (x != x) else most
        out[0, j] = most


@_kernel
def number_columns(chunk, thread, bounds, starts, t_pos, out):
    """Set out [nnz] to the place of each entry's column among the columns that occur."""
    for place in range(bounds[chunk], bounds[chunk + 1]):
        for e in range(starts[place], starts[place + 1]):
            out[t_pos[e]] = place


@_kernel
def round_table(chunk, thread, bounds, source, out):
    """Round float32 to bfloat16, as bits; ties to even, NaN to one NaN."""
    for e in range(bounds[chunk], bounds[chunk + 1]):
        x = np.uint64(source[e])
        nan = (x & np.uint64(0x7FFFFFFF)) > np.uint64(0x7F800000)
        near = x + np.uint64(0x7FFF) + ((x >> np.uint64(16)) & np.uint64(1))
        out[e] = np.uint64(0x7FC00000) if nan else near & np.uint64(0xFFFF0000)


@helper("contract", "reassoc", "nsz", "arcp")
def tokens_of(value):
    """Return how many tokens an entry counts as."""
    return int(math.ceil(min(value, MOST_TOKENS)))


@helper("contract", "reassoc", "nsz", "arcp")
def drawn_tokens(count):
    """Return how many of `count` tokens are dealt by drawing; the rest is even."""
    return count if count <= 64 else 64 + count % 2


@_kernel
def split_tokens(chunk, thread, bounds, indptr, values, row_ids, key, seen, scored):
    """Deal each row's tokens to `seen` (half, rounded up) and `scored`.

    Selection sampling (Knuth, TAOCP 2, 3.4.2 S): token t of n is taken with probability (still
    needed) / (still to come). An entry of weight x counts as ceil(x) tokens of equal weight. If
    there are more than 64, all but 64 or 65 are dealt in equal halves without drawing.
    """
    for i in range(bounds[chunk], bounds[chunk + 1]):
        left = 0
        for j in range(indptr[i], indptr[i + 1]):
            left += drawn_tokens(tokens_of(values[j]))
        need = (left + 1) // 2
        token = 0
        for j in range(indptr[i], indptr[i + 1]):
            count = tokens_of(values[j])
            drawn = drawn_tokens(count)
            taken = (count - drawn) // 2
            for _ in range(drawn):
                draw = (np.float64(random_bits(key, row_ids[i, 0], token, 0)) + 0.5) * 2.0**-32
                if draw * left < need:
                    taken += 1
                    need -= 1
                left -= 1
                token += 1
            seen[j] = values[j] * taken / max(count, 1)
            scored[j] = values[j] - seen[j]


KERNELS: dict[str, Any] = {
    **bounds.KERNELS,
    **gram.KERNELS,
    **keys.KERNELS,
    **selection.KERNELS,
    "add_exact_columns": add_exact_columns,
    "add_exact_product": add_exact_product,
    "index_by_counting": index.index_by_counting,
    "index_by_sorting": index.index_by_sorting,
    "keep_largest": keep_largest,
    "add_transposed_column": add_transposed_column,
    "add_transposed_product": add_transposed_product,
    "scattered_column": scattered_column,
    "transposed_column": transposed_column,
    "transposed_product": transposed_product,
    "add_partials": add_partials,
    "copy": copy,
    "gather": gather,
    "masked_product": masked_product,
    "max_partials": max_partials,
    "number_columns": number_columns,
    "product": product,
    "scatter": scatter,
    "round_table": round_table,
    "split_tokens": split_tokens,
    "top_products": top_products,
}
