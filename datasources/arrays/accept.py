"""Verifies matrices of users and brings them into one of two forms: CSR or table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..errors import DataError
from .validate import (
    GOOD,
    ORDER,
    bad_weight,
    check_csr,
    check_dense,
    check_weights,
    describe_csr,
    not_finite,
)


@dataclass(frozen=True)
class CSR:
    """A verified matrix: indices of a row ascend and are unique, values are finite.

    - indptr: int64 [rows+1].
    - indices: int32 or int64 [nnz or more].
    - values: any real dtype [nnz or more].
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    values: npt.NDArray[Any]
    columns: int


def accept(matrix: Any, name: str = "MatrixSource: X") -> CSR | npt.NDArray[Any]:
    """Return `matrix` as verified CSR, or as a verified 2-d array if it is dense.

    Only what must change is copied. A dense matrix keeps its array. A CSR matrix keeps its indices
    and values; 32-bit offsets are widened. Other sparse kinds become CSR with float32 values. So
    does a CSR matrix with unsorted or repeated indices; values of repeated ones are summed.

    Raises `DataError` unless it is a matrix of finite real numbers. The message starts with `name`
    and gives row and column.
    """
    if sparse.issparse(matrix):
        check_kind(matrix, name)
        return accept_sparse(matrix, name)
    if isinstance(matrix, np.ma.MaskedArray):
        raise DataError(f"{name} is a masked array; fill its gaps first, X.filled(0).")
    if not isinstance(matrix, np.ndarray):
        raise DataError(
            f"{name} is a {type(matrix).__name__}, but must be a NumPy array or a SciPy "
            "sparse matrix; numpy.asarray(X) makes one."
        )
    check_kind(matrix, name)
    return accept_dense(np.asarray(matrix), name)


def check_kind(matrix: Any, name: str) -> None:
    """Raise `DataError` unless `matrix` is two-dimensional, not empty, and real."""
    if matrix.ndim != 2:
        raise DataError(
            f"{name} has the shape {matrix.shape}, but needs two dimensions, rows "
            "(samples) and columns (features); X.reshape(-1, 1) makes one column."
        )
    if 0 in matrix.shape:
        raise DataError(
            f"{name} has the shape {matrix.shape}, but needs at least one row and one column."
        )
    if matrix.dtype.kind not in "biuf":
        raise DataError(
            f"{name} has the dtype {matrix.dtype}, but values must be real numbers; "
            "X.astype('float32') converts what can be converted."
        )


def accept_dense(table: npt.NDArray[Any], name: str, first: int = 0) -> npt.NDArray[Any]:
    """Verify a table; copy it only if kernels cannot read its dtype.

    first: number of the first row in messages.
    """
    table = readable(table)
    row, column = check_dense(table, len(table))
    if row >= 0:
        text = not_finite(f"row {first + row}", column, table[row, column])
        raise DataError(f"{name}: {text}")
    return table


def accept_weights(weights: Any, name: str, first: int = 0) -> npt.NDArray[np.float32]:
    """Return weights as float32 [rows], finite and not negative.

    first: number of the first row in messages, which begin with `name`. Raises `DataError`.
    """
    weights = np.asarray(weights)
    if weights.ndim != 1 or weights.dtype.kind not in "biuf":
        raise DataError(
            f"{name}: weights have the shape {weights.shape} and the dtype {weights.dtype}, but "
            "must be one real number per row."
        )
    bad = check_weights(readable(weights), len(weights))
    if bad >= 0:
        raise DataError(f"{name}: {bad_weight(f'row {first + bad}', weights[bad])}")
    single: npt.NDArray[np.float32] = weights.astype(np.float32)
    return single


def accept_sparse(matrix: Any, name: str) -> CSR:
    """Convert a SciPy matrix to CSR with valid, ascending, unique indices."""
    if matrix.format in ("csc", "bsr"):  # converting out-of-bounds indices would crash
        try:
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise DataError(f"{name} is not a valid {matrix.format} matrix: {error}") from error
    if matrix.format != "csr":
        with np.errstate(over="ignore"):  # the check below names row and column
            matrix = matrix.astype(np.float32).tocsr()  # first float32: sums of bytes would wrap
    indptr = np.ascontiguousarray(matrix.indptr, np.int64)
    indices, values = np.ascontiguousarray(matrix.indices), readable(matrix.data)
    rows, columns = matrix.shape
    fault = check_csr(indptr, indices, values, rows, columns)
    if fault[0] == ORDER:
        with np.errstate(over="ignore"):
            copy = sparse.csr_array(
                (values.astype(np.float32), indices.copy(), indptr.copy()), shape=matrix.shape
            )
            copy.sum_duplicates()
        indptr, indices, values = copy.indptr.astype(np.int64), copy.indices, copy.data
        fault = check_csr(indptr, indices, values, rows, columns)
    if fault[0] != GOOD:
        text = describe_csr(fault, indptr, indices, values, columns, f"row {fault[1]}")
        raise DataError(f"{name}: {text}")
    return CSR(indptr, indices, values, columns)


def readable(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `values` in a dtype that kernels can read.

    Native dtypes of up to 8 bytes stay, except float16; others become float32.
    """
    if values.dtype.isnative and values.dtype.itemsize <= 8 and values.dtype != np.float16:
        return values
    with np.errstate(over="ignore"):  # the caller's check finds them
        return values.astype(np.float32)


def showable(matrix: CSR, most_bytes: int) -> CSR:
    """Return the matrix with int32 indices and float32 values that compiled code can read.

    Parts of such a matrix can serve as arrays of a block without a copy.

    most_bytes: where copies would take more, the matrix is returned as it is.
    """
    end = int(matrix.indptr[-1])
    foreign = [part for part in _shown_as(matrix) if not _can_be_shown(*part)]
    if sum(end * np.dtype(dtype).itemsize for _, dtype in foreign) > most_bytes:
        return matrix
    indices, values = (
        array if _can_be_shown(array, dtype) else array[:end].astype(dtype)
        for array, dtype in _shown_as(matrix)
    )
    return CSR(matrix.indptr, indices, values, matrix.columns)


def can_be_shown(matrix: CSR) -> bool:
    """Whether parts of the matrix can serve as arrays of a block without a copy."""
    return all(_can_be_shown(array, dtype) for array, dtype in _shown_as(matrix))


def _shown_as(matrix: CSR) -> list[tuple[npt.NDArray[Any], Any]]:
    return [(matrix.indices, np.int32), (matrix.values, np.float32)]


def _can_be_shown(array: npt.NDArray[Any], dtype: Any) -> bool:
    """Whether compiled code can read it: it needs the same dtype, writable and aligned."""
    return array.dtype == dtype and array.flags.behaved and array.flags.c_contiguous
