"""Sort the columns of rows by key: keys with their columns, and merges of sorted pieces.

A row is cut into pieces, so that several threads have work in one row. A packed key has its column
in its lower half: no two are equal, and the order is the same however a row is cut.
"""

# Numba infers the types.
# mypy: allow-untyped-defs

from typing import Any

import numpy as np

from ..compiling.jit import kernel

_kernel = kernel()

COLUMN = np.uint64(0xFFFFFFFF)  # of a packed key, its column


@_kernel
def pack_keys(chunk, thread, bounds, pieces, source, out):
    """Set out[i, j] to a number whose order is that of source[i, j], then of j.

    bounds: of chunks of pieces. pieces: of a row. source: uint32, the bits of float32. The lower
    half of out [uint64] is j.
    """
    sign, columns = np.uint64(0x80000000), out.shape[1]
    for part in range(bounds[chunk], bounds[chunk + 1]):
        i, piece = part // pieces, part % pieces
        for j in range(columns * piece // pieces, columns * (piece + 1) // pieces):
            x = np.uint64(source[i, j])
            if x == sign:  # -0
                x = np.uint64(0)
            key = x ^ (np.uint64(0xFFFFFFFF) if x & sign else sign)
            if x & np.uint64(0x7FFFFFFF) > np.uint64(0x7F800000):  # NaN
                key = np.uint64(0xFFFFFFFF)
            out[i, j] = (key << np.uint64(32)) | np.uint64(j)


@_kernel
def merge_runs(chunk, thread, bounds, pieces, width, last, source, out):
    """Merge sorted runs of `width` pieces two by two; the last time, leave columns of the keys.

    Each piece of the output is written by itself. Where its numbers begin in both runs is found by
    bisection (merge path: Odeh, Green, Mwassi, Shmueli, Birk 2012).
    """
    columns, mask = out.shape[1], COLUMN if last else np.uint64(0xFFFFFFFFFFFFFFFF)
    for part in range(bounds[chunk], bounds[chunk + 1]):
        row, piece = part // pieces, part % pieces
        first = piece - piece % (2 * width)
        start = columns * first // pieces
        middle = columns * min(first + width, pieces) // pieces
        end = columns * min(first + 2 * width, pieces) // pieces
        given, found = source[row], out[row]
        k, stop = columns * piece // pieces, columns * (piece + 1) // pieces
        low, high = max(start, k - (end - middle)), min(middle, k)
        while low < high:  # of the numbers before k, `low - start` are of the left run
            at = (low + high) // 2
            if given[at] < given[middle + k - 1 - at]:
                low = at + 1
            else:
                high = at
        i, j = low, middle + k - low
        while k < stop and i < middle and j < end:
            left, right = given[i], given[j]
            less = left < right
            found[k] = (left if less else right) & mask
            i, j, k = i + less, j + (not less), k + 1
        if i == middle:
            i = j
        while k < stop:
            found[k] = given[i] & mask
            i, k = i + 1, k + 1


KERNELS: dict[str, Any] = {"merge_runs": merge_runs, "pack_keys": pack_keys}
