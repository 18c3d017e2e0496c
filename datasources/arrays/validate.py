"""Checks CSR matrices, tables and weights, and describes their first fault."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .compiled import kernel

GOOD, OFFSETS, BOUNDS, ORDER, FINITE = range(5)
LARGEST = np.finfo(np.float32).max  # float32, so that float32 numbers are compared as they are


@kernel
def csr_is_good(
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    rows: int,
    columns: int,
) -> bool:
    """Whether a CSR matrix has no fault.

    Flat loops that carry a flag, or int32, become SIMD code.
    """
    limit = min(indices.size, values.size)
    if indptr[0] < 0 or indptr[rows] > limit:
        return False
    for row in range(rows):
        if indptr[row + 1] < indptr[row]:
            return False
    inside = indices[indptr[0] : indptr[rows]]
    numbers = values[indptr[0] : indptr[rows]]
    wrong = False
    for i in range(inside.size):
        wrong |= (inside[i] < 0) | (inside[i] >= columns)
    for i in range(numbers.size):
        wrong |= not (abs(numbers[i]) <= LARGEST)
    # Indices rise strictly within rows if they fail to rise only where a row begins.
    falls, allowed = 0, 0
    for i in range(1, inside.size):
        falls += inside[i] <= inside[i - 1]
    for row in range(rows):
        first = indptr[row]
        if first > indptr[0] and indptr[row + 1] > first:
            allowed += indices[first] <= indices[first - 1]
    return not wrong and falls == allowed


def check_csr(
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    rows: int,
    columns: int,
) -> tuple[int, int, int]:
    """Return the first fault of a CSR matrix: `(code, row, position)`, or `GOOD`.

    - indptr: [rows+1]; must start at or above 0, not fall, and stay inside `indices`.
    - indices: [nnz or more]; must lie in [0, columns) and rise strictly within a row. `ORDER` is
      reported only if nothing else is wrong.
    - values: [nnz or more]; must fit a finite float32.
    """
    if csr_is_good(indptr, indices, values, rows, columns):
        return GOOD, -1, -1
    return first_fault(indptr, indices, values, rows, columns)


@kernel
def first_fault(
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    rows: int,
    columns: int,
) -> tuple[int, int, int]:
    """Find the fault of a matrix that is not good; see `check_csr`."""
    if indptr[0] < 0:
        return OFFSETS, 0, 0
    limit = min(indices.size, values.size)
    code, bad_row, bad_pos = GOOD, -1, -1
    for row in range(rows):
        start, stop = indptr[row], indptr[row + 1]
        if stop < start or stop > limit:
            return OFFSETS, row, start
        last = np.int64(-1)
        for pos in range(start, stop):
            column = np.int64(indices[pos])
            if column < 0 or column >= columns:
                return BOUNDS, row, pos
            if not abs(values[pos]) <= LARGEST:
                return FINITE, row, pos
            if column <= last and code == GOOD:
                code, bad_row, bad_pos = ORDER, row, pos
            last = column
    return code, bad_row, bad_pos


@kernel
def check_dense(values: npt.NDArray[Any], rows: int) -> tuple[int, int]:
    """Return `(row, column)` of the first value that is no finite float32, or -1s."""
    for row in range(rows):
        for column in range(values.shape[1]):
            if not abs(values[row, column]) <= LARGEST:
                return row, column
    return -1, -1


@kernel
def all_fit(numbers: npt.NDArray[Any]) -> bool:
    """Whether all numbers [n] are finite float32; several times as fast as `check_dense`."""
    wrong = False
    for i in range(numbers.size):
        wrong |= not (abs(numbers[i]) <= LARGEST)
    return not wrong


@kernel
def check_weights(weights: npt.NDArray[Any], rows: int) -> int:
    """Return the first of `rows` weights that is not a finite float32 >= 0, or -1."""
    for row in range(rows):
        weight = np.float64(weights[row])
        if not (weight >= 0.0 and weight <= LARGEST):
            return row
    return -1


@kernel
def not_negative(values: npt.NDArray[Any]) -> bool:
    """Whether no value [n] is below 0; NaN counts as such."""
    below = 0
    for i in range(values.size):
        below += not (values[i] >= 0)
    return below == 0


def describe_csr(
    fault: tuple[int, int, int],
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    columns: int,
    row_name: str,
) -> str:
    """Describe a fault that `check_csr` found in the row called `row_name`."""
    code, row, pos = fault
    if code == OFFSETS:
        return (
            f"{row_name} spans the offsets {indptr[row]} to {indptr[row + 1]}, but offsets start "
            f"at 0, never fall and end within the {min(indices.size, values.size)} stored numbers."
        )
    if code == BOUNDS:
        return (
            f"{row_name} has column index {indices[pos]}, but there are {columns} columns "
            f"(0 to {columns - 1})."
        )
    if code == ORDER:
        return (
            f"{row_name} has column index {indices[pos]} twice or after a larger one, but the "
            "indices of a row are unique and ascend; call sum_duplicates() on the matrix first."
        )
    return not_finite(row_name, int(indices[pos]), values[pos])


def not_finite(row_name: str, column: int, value: Any) -> str:
    """Return the sentence for a value that is NaN, infinite or beyond float32."""
    return (
        f"{row_name}, column {column} is {value}, but every value must be a finite float32 "
        f"(at most {LARGEST:.3g} in size); clean or rescale the data."
    )


def bad_weight(row_name: str, weight: Any) -> str:
    """Return the sentence for a weight that `check_weights` found."""
    return (
        f"{row_name} has the weight {weight}, but a weight must be a finite number, 0 or more; 0 "
        "is as if the row were absent."
    )
