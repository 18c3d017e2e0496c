"""What every format gives: rows in chunks, and what is known of all of them beforehand."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..arrays.validate import BOUNDS, GOOD, ORDER, check_csr, describe_csr
from ..block import MAX_COLUMNS
from ..errors import DataError


class Place(NamedTuple):
    """Where a chunk begins: number of the file, then the byte and the line in it (text, after
    decompression) or the row (everything else; line is 0).
    """

    file: int = 0
    offset: int = 0
    line: int = 1


FIRST = Place()
UNKNOWN = "words are left out because no column is theirs"
COUNTED = "; --text COLUMN counts the words of texts"  # of tables that are read as numbers


class Sparse(NamedTuple):
    """CSR: indptr int64 [n+1] from 0; indices int32 and values float32 [nnz], ascending and unique
    in a row.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive rows.

    X: sparse, or a table float32 [n, columns]. targets: float32 [n, T]; weights: float32 [n];
    ids: the name of each row; each None where the layout has none. next: where the chunk after
    this one begins, None if that is no place to begin at. remarks: how often something was done
    that a user should know, by what it was: `{"empty fields are read as 0": 3}`.
    """

    X: Sparse | npt.NDArray[np.float32]
    next: Place | None
    targets: npt.NDArray[np.float32] | None = None
    weights: npt.NDArray[np.float32] | None = None
    ids: Sequence[str] | None = None
    remarks: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of rows."""
        return self.X.indptr.size - 1 if isinstance(self.X, Sparse) else len(self.X)

    def tail(self, first: int) -> "Rows":
        """The rows from `first` on; `remarks` stay."""
        if not first:
            return self
        X: Sparse | npt.NDArray[np.float32]
        if isinstance(self.X, Sparse):
            indptr, indices, values = self.X
            left = indptr[min(first, len(self)) :]
            X = Sparse(left - left[0], indices[left[0] :], values[left[0] :])
        else:
            X = self.X[first:]
        return replace(
            self,
            X=X,
            targets=None if self.targets is None else self.targets[first:],
            weights=None if self.weights is None else self.weights[first:],
            ids=None if self.ids is None else self.ids[first:],
        )


@dataclass(frozen=True)
class Layout:
    """What all rows of a file have in common.

    columns: features. dense: rows are tables. names: of the columns. targets: columns of the
    targets; target_names: theirs. weighted: rows have weights; named: they have names. notes:
    what the reader had to choose, or leave out, in sentences for the user.
    """

    columns: int
    dense: bool = False
    names: Sequence[str] | None = None
    targets: int = 0
    target_names: Sequence[str] | None = None
    weighted: bool = False
    named: bool = False
    notes: Sequence[str] = ()


class Known(NamedTuple):
    """The columns that data must have because a model was trained on them, and their names.

    classes: names of the targets where these are classes, in their order.
    """

    columns: int
    names: Sequence[str] | None = None
    classes: Sequence[str] | None = None


class RowFile(Protocol):
    """A file, or several, whose rows can be read from any place that a chunk began at."""

    @property
    def layout(self) -> Layout:
        """What the rows have in common."""

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """All rows from `start` on. Raises `DataError` naming file and line (or row)."""


def check_columns(path: Any, columns: int, known: Known | None = None, hint: str = "") -> int:
    """`columns` if an int32 can number them and they are as many as is `known`; hint: what may be
    wrong where they are not.
    """
    if not 1 <= columns <= MAX_COLUMNS:
        raise DataError(f"{path}: {columns} columns, but there are 1 to {MAX_COLUMNS}.")
    if known is not None and columns != known.columns:
        raise DataError(f"{path}: {columns} columns, but the model has {known.columns}{hint}.")
    return columns


def checked_csr(
    name: str,
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    columns: int,
    first: int = 0,
) -> Sparse:
    """CSR of any integers and real numbers, verified, with indices that ascend and are unique.

    indptr: valid, from 0. Values at one place are added. Raises `DataError` naming the row, counted
    from `first`, of an index that is out of bounds or of a number that is no finite float32.
    """
    inside = (indices >= 0) & (indices < columns)
    kept = np.where(inside, indices, -1).astype(np.int32)  # an index outside would be cut otherwise
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    rows = indptr.size - 1
    fault = check_csr(indptr, kept, single, rows, columns)
    if fault[0] == ORDER:
        matrix = sparse.csr_array((single, kept, indptr), shape=(rows, columns))
        with np.errstate(over="ignore"):
            matrix.sum_duplicates()
        indptr, single = matrix.indptr.astype(np.int64), matrix.data
        kept = matrix.indices.astype(np.int32)
        values = single
        fault = check_csr(indptr, kept, single, rows, columns)
    if fault[0] != GOOD:
        row = f"row {first + fault[1]}"
        shown = indices if fault[0] == BOUNDS else kept
        raise DataError(f"{name}: {describe_csr(fault, indptr, shown, values, columns, row)}")
    return Sparse(indptr, kept, single)


def check_finite(
    values: npt.NDArray[Any], name: str, row: int = 0, columns: Sequence[str] | None = None
) -> npt.NDArray[np.float32]:
    """A table [n, T] or a list [n] of numbers as float32. Raises `DataError` naming the first row,
    counted from `row`, with a number that is not finite there.
    """
    with np.errstate(over="ignore"):
        single: npt.NDArray[np.float32] = np.ascontiguousarray(values, np.float32)
    bad = np.argwhere(~np.isfinite(single))
    if len(bad):
        place = tuple(bad[0])
        column = "" if len(place) == 1 else f", column {place[1]}"
        if columns is not None and len(place) > 1:
            column = f", column {columns[place[1]]!r}"
        raise DataError(
            f"{name}: row {row + place[0]}{column} is {values[place]}, but every number must be a "
            "finite float32; clean or rescale the data."
        )
    return single
