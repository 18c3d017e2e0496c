"""Define what every format yields: rows in chunks, and their layout."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..arrays.block_shape import MAX_COLUMNS
from ..arrays.hashed_names import HashedWords
from ..arrays.validate import BOUNDS, GOOD, ORDER, check_csr, describe_csr
from ..errors import DataError


class Place(NamedTuple):
    """Where a chunk begins.

    The number of the file; then the byte (after decompression) and line of a text file, or the row
    of another file (with line 0).
    """

    file: int = 0
    offset: int = 0
    line: int = 1


FIRST = Place()
UNKNOWN = "words are left out because no column is theirs"
COUNTED = "; --text COLUMN counts the words of texts"  # hint for tables that are read as numbers


class Sparse(NamedTuple):
    """A CSR matrix of n rows.

    indptr: int64 [n+1], starting at 0.
    indices: int32 [nnz], ascending and unique in each row.
    values: float32 [nnz].
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive rows.

    X: `Sparse`, or a table float32 [n, columns].
    targets: float32 [n, T]; None if the layout has none.
    weights: float32 [n]; None if the layout has none.
    ids: the name of each row; None if the layout has none.
    next: where the chunk after this one begins; None if reading cannot resume there.
    remarks: counts of what the reader changed or left out, by description:
        `{"empty fields are read as 0": 3}`.
    """

    X: Sparse | npt.NDArray[np.float32]
    next: Place | None
    targets: npt.NDArray[np.float32] | None = None
    weights: npt.NDArray[np.float32] | None = None
    ids: Sequence[str] | None = None
    remarks: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.X.indptr.size - 1 if isinstance(self.X, Sparse) else len(self.X)

    def tail(self, first: int) -> "Rows":
        """Return the rows from `first` on, with the same `remarks`."""
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
    """The layout that all rows of a file share.

    columns: number of features.
    dense: whether rows are tables.
    names: of the columns.
    targets: number of columns of the targets.
    target_names: of these.
    weighted: whether rows have weights.
    named: whether rows have names.
    notes: sentences for the user about what the reader chose or left out.
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
    """The columns that data must have because a model was trained on them.

    columns: how many. names: of the columns.
    classes: names of the targets if these are classes, in their order.
    """

    columns: int
    names: Sequence[str] | None = None
    classes: Sequence[str] | None = None


class RowFile(Protocol):
    """One or several files whose rows can be read from the start of any chunk."""

    @property
    def layout(self) -> Layout:
        """The layout that all rows share."""

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on.

        Raises `DataError` naming file and line (or row).
        """


def refuse_hashed(path: Any, names: Sequence[str]) -> None:
    """Raise `DataError` if a model, whose columns have these names, was trained on hashed words."""
    if isinstance(names, HashedWords):
        raise DataError(
            f"{path}: a table of numbers, but the model was trained on hashed words. Give it texts"
            f"{COUNTED}."
        )


def require_targets(path: Any, targets: Sequence[str], names: Sequence[str]) -> None:
    """Raise `DataError` if a target of a model is no column of a table to score it on."""
    for target in targets:
        if target not in names:
            raise DataError(
                f"{path}: no column {target!r}, which is a target of the model. Name the column "
                "so, or give the targets in a file of their own: --targets FILE."
            )


def check_columns(path: Any, columns: int, known: Known | None = None, hint: str = "") -> int:
    """Return `columns` if an int32 can number them and `known` has as many.

    Otherwise raises `DataError`. hint: added to the message if the model has another number.
    """
    if not 1 <= columns <= MAX_COLUMNS:
        raise DataError(f"{path}: {columns} columns: must be 1 to {MAX_COLUMNS}.")
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
    """Verify CSR of any integer and real types; sort and add up duplicates.

    indptr: int64 [n+1], must be valid and start at 0.
    first: number of the first row in messages.

    Raises `DataError`, naming the row, for an index out of bounds or a number that is not a finite
    float32.
    """
    inside = (indices >= 0) & (indices < columns)
    kept = np.where(inside, indices, -1).astype(np.int32)  # the cast would wrap large indices
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


def check_finite(values: npt.NDArray[Any], name: str, row: int = 0) -> npt.NDArray[np.float32]:
    """Return a table [n, T] or a list [n] of numbers as float32.

    row: number of the first row in messages. Raises `DataError` naming the first row with a number
    that is not finite.
    """
    with np.errstate(over="ignore"):
        single: npt.NDArray[np.float32] = np.ascontiguousarray(values, np.float32)
    bad = np.argwhere(~np.isfinite(single))
    if len(bad):
        place = tuple(bad[0])
        column = "" if len(place) == 1 else f", column {place[1]}"
        raise DataError(
            f"{name}: row {row + place[0]}{column} is {values[place]}, but every number must be a "
            "finite float32; clean or rescale the data."
        )
    return single
