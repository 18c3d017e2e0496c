"""Verifies rows to be written and converts them to the dtypes of the files."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from ..arrays.accept import accept_dense, accept_weights, readable
from ..arrays.block_shape import MAX_COLUMNS
from ..arrays.moments import weighted_sums
from ..arrays.validate import GOOD, check_csr, describe_csr
from ..errors import DataError
from .layout import Arrays, Kind
from .manifest import Sums

CSR_PARTS = ("indptr", "indices", "values")


@dataclass(frozen=True)
class Rows:
    """Verified rows.

    columns: the largest index plus 1; of dense rows, d. The arrays by name:

    - Sparse rows: indptr int64 [count+1], from any number on; indices int32 and values float32
      [indptr[-1] or more].
    - Dense rows: dense float32 [count, d].
    - Optional: targets float32 [count, T] and weights float32 [count].
    """

    count: int
    kind: Kind
    columns: int
    arrays: Arrays

    def sums(self, start: int, stop: int) -> Sums:
        """Return the sums of the rows `start` to `stop`."""
        arrays = self.arrays
        if self.kind.dense:
            values = arrays["dense"][start:stop]
        else:
            values = arrays["values"][arrays["indptr"][start] : arrays["indptr"][stop]]
        weights = np.ones(stop - start)
        if self.kind.weighted:
            weights = arrays["weights"][start:stop].astype(np.float64)
        targets = np.empty((stop - start, 0))
        if self.kind.targets:
            targets = arrays["targets"][start:stop]
        return Sums(
            values=float(values.sum(dtype=np.float64)),
            weights=float(weights.sum()),
            targets=weighted_sums(weights, targets).tolist(),
        )


def accept_rows(
    indptr: Any, indices: Any, values: Any, dense: Any, targets: Any, weights: Any,
    *, first: int, columns: int | None,
) -> Rows:  # fmt: skip
    """Verify the arguments of `BlockWriter.append`; first: number of the first row.

    Raises `DataError` with the row.
    """
    for name, part in (("indptr", indptr), ("dense", dense), ("targets", targets)):
        if issparse(part):
            raise DataError(
                f"BlockWriter: {name}={type(part).__name__}: must be an array. A sparse matrix X "
                "is appended in CSR form: X = X.tocsr(); append(X.indptr, X.indices, X.data)."
            )
    if indptr is not None and indices is None and values is None and np.ndim(indptr) == 2:
        raise DataError(
            f"BlockWriter: indptr={type(indptr).__name__} of shape {np.shape(indptr)}: must be the "
            "offsets of CSR rows. A table is appended by name: append(dense=X)."
        )
    sparse = [name for name, part in zip(CSR_PARTS, (indptr, indices, values), strict=True)
              if part is not None]  # fmt: skip
    if bool(sparse) == (dense is not None) or len(sparse) not in (0, 3):
        given = [*sparse, *(["dense"] if dense is not None else [])]
        raise DataError(
            f"BlockWriter: rows given as {given}: must be indptr, indices and values, or dense."
        )
    if dense is not None:
        table = _table("dense", dense, first)
        arrays: Arrays = {"dense": table}
        count, found = table.shape
        if columns is not None and found != columns:
            raise DataError(f"BlockWriter: rows of {found} columns: must have {columns}.")
    else:
        arrays = _csr(indptr, indices, values, first, columns)
        count = len(arrays["indptr"]) - 1
        inside = arrays["indices"][arrays["indptr"][0] : arrays["indptr"][-1]]
        found = int(inside.max()) + 1 if inside.size else 0
    if targets is not None:
        targets = np.asarray(targets)
        arrays["targets"] = _table(
            "targets", targets.reshape(-1, 1) if targets.ndim == 1 else targets, first
        )
    if weights is not None:
        arrays["weights"] = accept_weights(weights, "BlockWriter", first)
    for name in ("targets", "weights"):
        if name in arrays and len(arrays[name]) != count:
            raise DataError(
                f"BlockWriter: {len(arrays[name])} {name} for the {count} rows from row {first} "
                "on: must be one for each row."
            )
    width = arrays["targets"].shape[1] if targets is not None else 0
    kind = Kind(found if dense is not None else 0, width, weights is not None)
    return Rows(count, kind, found, arrays)


def _csr(indptr: Any, indices: Any, values: Any, first: int, columns: int | None) -> Arrays:
    starts = np.ascontiguousarray(indptr, np.int64)
    places, numbers = np.ascontiguousarray(indices), np.ascontiguousarray(values)
    if starts.ndim != 1 or not starts.size or places.ndim != 1 or numbers.ndim != 1:
        raise DataError(
            "BlockWriter: indptr, indices and values must be one-dimensional, and indptr one "
            f"longer than the number of rows; their shapes are {starts.shape}, {places.shape} "
            f"and {numbers.shape}."
        )
    if (places.size and places.dtype.kind not in "iu") or (numbers.size and not _real(numbers)):
        raise DataError(
            "BlockWriter: indices must be integers and values real numbers, not "
            f"{places.dtype} and {numbers.dtype}."
        )
    places = places if places.size else np.empty(0, np.int32)
    numbers = readable(numbers if numbers.size else np.empty(0, np.float32))
    limit = MAX_COLUMNS if columns is None else columns
    fault = check_csr(starts, places, numbers, starts.size - 1, limit)
    if fault[0] != GOOD:
        text = describe_csr(fault, starts, places, numbers, limit, f"row {first + fault[1]}")
        raise DataError(f"BlockWriter: {text}")
    return {
        "indptr": starts,
        "indices": places.astype(np.int32, copy=False),
        "values": numbers.astype(np.float32, copy=False),
    }


def _table(name: str, given: Any, first: int) -> npt.NDArray[np.float32]:
    table = np.asarray(given)
    if table.ndim != 2 or not table.shape[1] or not _real(table):
        raise DataError(
            f"BlockWriter: {name} must be a table of real numbers with one row per row of the "
            f"data; it has the shape {table.shape} and the dtype {table.dtype}."
        )
    table = accept_dense(table, f"BlockWriter: {name}", first)
    return np.ascontiguousarray(table, np.float32)


def _real(numbers: npt.NDArray[Any]) -> bool:
    return numbers.dtype.kind in "biuf"
