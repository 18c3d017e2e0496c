"""Makes the transposed index of a sparse block, of only the features that occur.

With many columns, a least-significant-digit radix sort orders the non-zeros by column. Its cost
grows with the non-zeros of the block, not with the number of columns. With few columns, one
counting sort over all columns is faster. Both are stable, so the rows of a feature ascend.

Differs from SciPy's `csr_tocsc`:

1. No array is longer than the non-zeros.
2. It stores positions instead of copies of the values, which may still change.
3. The caller owns all memory.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiling.jit import kernel

_kernel = kernel()

DIGIT_BITS = 11  # 2048 counters of 8 bytes: half of the first-level data cache

COUNT_LIMIT = 1  # columns per non-zero of a full block up to which counting is faster


def count_columns(columns: int, capacity: int) -> bool:
    """Whether `transpose_by_counting` is used for blocks of `capacity` non-zeros."""
    return columns <= COUNT_LIMIT * capacity


def plan_digits(columns: int) -> tuple[int, int]:
    """Return `(passes, bits per pass)` that sort all numbers below `columns`."""
    bits = max(1, (columns - 1).bit_length())
    passes = -(-bits // DIGIT_BITS)
    return passes, -(-bits // passes)


@_kernel
def _counts_to_starts(count: npt.NDArray[np.int64]) -> None:
    """Turn counts into exclusive prefix sums, in place."""
    total = np.int64(0)
    for digit in range(count.size):
        here = count[digit]
        count[digit] = total
        total += here


@_kernel
def _sort_csr(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    rows: int,
    count: npt.NDArray[np.int64],
    keys: npt.NDArray[np.int32],
    t_rows: npt.NDArray[np.int32],
    t_pos: npt.NDArray[Any],
) -> None:
    """Do the first pass, by the lowest digit, straight from the CSR arrays."""
    mask = count.size - 1
    count[:] = 0
    for pos in range(indptr[0], indptr[rows]):
        count[indices[pos] & mask] += 1
    _counts_to_starts(count)
    for row in range(rows):
        for pos in range(indptr[row], indptr[row + 1]):
            digit = indices[pos] & mask
            target = count[digit]
            count[digit] = target + 1
            keys[target], t_rows[target], t_pos[target] = indices[pos], row, pos


@_kernel
def _sort_digit(
    nnz: int,
    shift: int,
    count: npt.NDArray[np.int64],
    from_keys: npt.NDArray[np.int32],
    from_rows: npt.NDArray[np.int32],
    from_pos: npt.NDArray[Any],
    keys: npt.NDArray[np.int32],
    t_rows: npt.NDArray[np.int32],
    t_pos: npt.NDArray[Any],
) -> None:
    """Do a later pass, by the digit that starts at bit `shift`."""
    mask = count.size - 1
    count[:] = 0
    for i in range(nnz):
        count[(from_keys[i] >> shift) & mask] += 1
    _counts_to_starts(count)
    for i in range(nnz):
        digit = (from_keys[i] >> shift) & mask
        target = count[digit]
        count[digit] = target + 1
        keys[target], t_rows[target], t_pos[target] = from_keys[i], from_rows[i], from_pos[i]


@_kernel
def transpose_csr(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    rows: int,
    passes: int,
    count: npt.NDArray[np.int64],
    spare_keys: npt.NDArray[np.int32],
    spare_rows: npt.NDArray[np.int32],
    spare_pos: npt.NDArray[Any],
    keys: npt.NDArray[np.int32],
    t_rows: npt.NDArray[np.int32],
    t_pos: npt.NDArray[Any],
    active: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
) -> int:
    """Fill `t_rows`, `t_pos`, `active`, `starts`; return how many features occur.

    - indptr: [rows+1], from 0.
    - indices, keys, t_rows, t_pos: [nnz].
    - count: [2**bits], with `passes, bits` from `plan_digits`.
    - spare_keys, spare_rows, spare_pos: [nnz]; not used if `passes` is 1.
    - active: [features that occur].
    - starts: [features that occur + 1].
    """
    bits = 0
    while (1 << bits) < count.size:
        bits += 1
    nnz = indptr[rows]
    # The passes alternate between two sets of arrays; the last one must end in t_rows, t_pos.
    if passes % 2 == 1:
        _sort_csr(indptr, indices, rows, count, keys, t_rows, t_pos)
    else:
        _sort_csr(indptr, indices, rows, count, spare_keys, spare_rows, spare_pos)
    for done in range(1, passes):
        if (passes - done) % 2 == 1:
            _sort_digit(
                nnz, done * bits, count,
                spare_keys, spare_rows, spare_pos, keys, t_rows, t_pos,
            )  # fmt: skip
        else:
            _sort_digit(
                nnz, done * bits, count,
                keys, t_rows, t_pos, spare_keys, spare_rows, spare_pos,
            )  # fmt: skip
    n_active = 0
    for i in range(nnz):
        if i == 0 or keys[i] != keys[i - 1]:
            active[n_active], starts[n_active] = keys[i], i
            n_active += 1
    starts[n_active] = nnz
    return n_active


@_kernel
def transpose_by_counting(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    rows: int,
    count: npt.NDArray[Any],
    t_rows: npt.NDArray[np.int32],
    t_pos: npt.NDArray[Any],
    active: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
) -> int:
    """Do as `transpose_csr` in O(nnz + columns); count: [columns], dtype of `t_pos`."""
    count[:] = 0
    for pos in range(indptr[0], indptr[rows]):
        count[indices[pos]] += 1
    n_active, filled = 0, np.int64(0)
    for column in range(count.size):
        here = count[column]
        count[column] = filled
        if here > 0:
            active[n_active], starts[n_active] = column, filled
            n_active += 1
            filled += here
    starts[n_active] = filled
    for row in range(rows):
        for pos in range(indptr[row], indptr[row + 1]):
            target = count[indices[pos]]
            count[indices[pos]] = target + 1
            t_rows[target], t_pos[target] = row, pos
    return n_active
