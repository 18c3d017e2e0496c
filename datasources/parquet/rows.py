"""Leave out rows with nulls, and compute sums and names over all rows."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrays.moments import weighted_sums
from ..errors import DataError
from .arrays import Fault, null_rows, texts_of
from .columns import Columns
from .cursor import Cursor, Piece
from .files import Table
from .fill import put_tables, weights_of
from .matching import matching

Nulls = Literal["error", "zero", "drop_row"]


def without_nulls(
    batch: Any, names: Sequence[str], nulls: Nulls
) -> tuple[Any, npt.NDArray[np.int64] | None]:
    """Apply the `nulls` policy.

    Return the batch to use, and which rows are left, None if all.

    names: the columns whose nulls matter. Raises `Fault` for a null if `nulls` is "error".
    """
    if nulls == "zero":
        return batch, None  # nulls are read as 0
    dropped = None
    for name in names:
        found = null_rows(batch.column(name))
        if found is None:
            continue
        if nulls == "error":
            raise Fault(
                int(found.argmax()),
                f"column {name!r} is null; `nulls: zero` reads nulls as 0, `nulls: drop_row` "
                "leaves such rows out.",
            )
        dropped = found if dropped is None else dropped | found
    if dropped is None:
        return batch, None
    left = np.flatnonzero(~dropped)
    return batch.take(pa.array(left)), left


class Usable(NamedTuple):
    """The usable rows of `piece`, in `batch`.

    left: their row numbers, None if all are usable.
    """

    piece: Piece
    batch: Any  # pyarrow.RecordBatch
    left: npt.NDArray[np.int64] | None

    def explain(self, fault: Fault) -> DataError:
        """Return the error for a fault in the batch, with its place in the file."""
        row = fault.row if self.left is None else int(self.left[fault.row])
        return DataError(f"{self.piece.place(row)}: {fault.text}")


class Scan:
    """The rows of `tables` that `columns` (with known sizes, and conditions) and `nulls` select."""

    def __init__(
        self, tables: Sequence[Table], columns: Columns, nulls: Nulls, batch_rows: int
    ) -> None:
        self._tables, self._columns, self._nulls = tables, columns, nulls
        self._batch_rows = batch_rows
        self._names = list(columns.numbers)

    def cursor(self) -> Cursor:
        """Return a cursor over the columns that make up blocks."""
        names = list(dict.fromkeys([*self._names, *self._columns.tested]))
        return Cursor(self._tables, names, self._batch_rows)

    def rows(
        self, cursor: Cursor, start: int, stop: int, names: Sequence[str] | None = None
    ) -> Iterator[Usable]:
        """Yield the rows `start` to `stop`.

        names: the columns whose nulls matter; None: all columns of numbers.
        """
        counting = self._names if names is None else names
        for piece in cursor.pieces(start, stop):
            found = Usable(piece, *matching(piece.table.tests, piece.batch))
            try:
                batch, left = without_nulls(found.batch, counting, self._nulls)
            except Fault as fault:
                raise found.explain(fault) from fault
            if found.left is not None:
                left = found.left if left is None else found.left[left]
            yield Usable(piece, batch, left)

    def label_sums(self, targets: int) -> tuple[float, list[float]]:
        """Return the sum of all row weights, and the weighted sum of each target."""
        columns, weight, sums = self._columns, 0.0, np.zeros(targets)
        roles = [part.column for part in columns.targets]
        roles += [] if columns.weights is None else [columns.weights]
        for found in self._all(roles, roles):
            rows = found.batch.num_rows
            table, weights = np.empty((rows, targets), np.float32), np.ones(rows)
            try:
                put_tables(columns.targets, found.batch, table)
                if columns.weights is not None:
                    weights = weights_of(columns.weights, found.batch).astype(np.float64)
            except Fault as fault:
                raise found.explain(fault) from fault
            weight += float(weights.sum())
            sums += weighted_sums(weights, table)
        return weight, sums.tolist()

    def names(self, column: str) -> Any:
        """Return the names in a column, as an Arrow array of strings."""
        parts = []
        for found in self._all([column], []):
            try:
                names = texts_of(column, found.batch)
            except Fault as fault:
                raise found.explain(fault) from fault
            parts.append(names)
        return pa.chunked_array(parts)

    def _all(self, needed: Sequence[str], counting: Sequence[str]) -> Iterator[Usable]:
        """Yield all rows with the columns `needed`; nulls in `counting` leave rows out."""
        if self._nulls == "drop_row":
            needed, counting = list(dict.fromkeys([*needed, *self._names])), self._names
        needed = list(dict.fromkeys([*(needed or self._names[:1]), *self._columns.tested]))
        cursor = Cursor(self._tables, needed, self._batch_rows)
        try:
            rows = sum(group.rows for table in self._tables for group in table.groups)
            yield from self.rows(cursor, 0, rows, counting)
        finally:
            cursor.close()
