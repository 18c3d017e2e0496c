"""Verifies and counts batches of rows from an iterator, and cuts them into parts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.types as kinds
import xxhash

from ..arrays.accept import CSR, accept
from ..arrays.block_shape import BlockShape
from ..arrays.hashing import hash_matrix
from ..errors import DataError
from .labels import Labels

Masked = np.ma.MaskedArray[Any, Any]


def categories(column: Any, name: str) -> Any:
    """Convert an Arrow column of text or whole numbers for `hash_features`: all become text.

    So a category is the same in a CSV file, which has text alone, and in a Parquet file.

    column: an Arrow array or chunked array. Returns an object array of str and None. Raises
    `DataError` for another type; its message starts with `name`.
    """
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if kinds.is_boolean(kind):
        column = compute.if_else(column, str(True), str(False))
    elif kinds.is_integer(kind):
        column = column.cast(pa.string())
    elif not (kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_null(kind)):
        raise DataError(
            f"{name} is of type {kind}, but a category must be text or a whole number; a number "
            "with a fraction is a feature as it is (`numeric`)."
        )
    try:
        return np.array(column.to_pylist(), object)
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: text that is not UTF-8: {error}") from error


def numbers(column: Any, name: str) -> Masked:
    """Return an Arrow column of numbers as a masked float64 array.

    column: an Arrow array or chunked array. Raises `DataError` for another type; its message starts
    with `name`.
    """
    kind = column.type
    if kinds.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind)):
        raise DataError(
            f"{name} is of type {kind}, but must be numbers; name columns of text in `categorical`."
        )
    return masked(column.cast(pa.float64(), safe=False), 0.0)


def masked(column: Any, filler: Any) -> Masked:
    """Return an Arrow column of numbers as a masked array with `filler` in the gaps."""
    empty = column.is_null().to_numpy(zero_copy_only=False)
    return np.ma.MaskedArray(column.fill_null(filler).to_numpy(zero_copy_only=False), empty)


END = object()  # no iterator yields it


@dataclass(frozen=True)
class Batch:
    """A verified batch of rows from an iterator."""

    X: Any
    rows: int
    labels: Labels

    def shape(self, block_rows: int, nnz: int, total_rows: int) -> BlockShape:
        """Return the shape of blocks that are made of such batches."""
        sparse = isinstance(self.X, CSR)
        return BlockShape(
            rows=block_rows,
            columns=self.X.columns if isinstance(self.X, CSR) else self.X.shape[1],
            nnz=nnz if sparse else 0,
            total_rows=total_rows,
            dense=not sparse,
            targets=self.labels.columns,
            weighted=self.labels.weights is not None,
        )


class Stream:
    """The state of one pass: the current batch and position."""

    def __init__(self, items: Iterable[Any], pass_: int) -> None:
        """Start before the first batch of `items`."""
        self.pass_, self.row = pass_, 0  # row: rows of the pass that were taken
        self._items, self._number = iter(items), -1  # _number: of the current batch
        self._batch: Batch | None = None
        self._used = 0  # rows of the current batch that were taken

    def take(self, rows: int, shape: BlockShape) -> Iterator[tuple[Batch, int, int]]:
        """Yield the next `rows` rows as parts of batches: `(batch, first row, end)`."""
        while rows > 0:
            batch = self._present()
            if batch is None:
                raise DataError(
                    f"IterableSource: pass {self.pass_} has {self.row} rows, but "
                    f"{shape.total_rows} were announced; every pass must have the same number."
                )
            same = batch.shape(shape.rows, shape.nnz, shape.total_rows)
            if same != shape:
                raise DataError(f"{self._name()} makes blocks of {same}, but must match {shape}.")
            start, stop = self._used, min(batch.rows, self._used + rows)
            self._used, self.row, rows = stop, self.row + stop - start, rows - stop + start
            yield batch, start, stop

    def skip(self, rows: int, shape: BlockShape) -> None:
        """Skip the next `rows` rows."""
        for _ in self.take(rows, shape):
            pass

    def whole(self) -> Iterator[Batch]:
        """Yield all remaining batches."""
        while (batch := self._present()) is not None:
            self._used = batch.rows
            yield batch

    def check_end(self, shape: BlockShape) -> None:
        """Raise `DataError` if any rows remain."""
        if self._present() is not None:
            raise DataError(
                f"IterableSource: pass {self.pass_} has more than the {shape.total_rows} rows that "
                "were announced; every pass must have the same number."
            )

    def _present(self) -> Batch | None:
        """Return the batch with the next row; None at the end."""
        while self._batch is None or self._used == self._batch.rows:
            item = next(self._items, END)
            if item is END:
                return None
            self._number, self._used = self._number + 1, 0
            try:
                self._batch = as_batch(item)
            except DataError as error:
                raise DataError(f"{self._name()}: {error}") from error
        return self._batch

    def _name(self) -> str:
        return f"IterableSource: batch {self._number} of pass {self.pass_}"


def as_batch(item: Any) -> Batch | None:
    """Verify X, (X, Y) or (X, Y, weights); return None if it has no rows."""
    X, targets, weights = (*item, None, None)[:3] if isinstance(item, tuple) else (item, None, None)
    if isinstance(item, tuple) and not 1 <= len(item) <= 3:
        raise DataError(f"a tuple of {len(item)}: must be (X, Y) or (X, Y, weights).")
    if isinstance(X, pa.RecordBatch | pa.Table):
        X = arrow_table(X)
    if hasattr(X, "shape") and len(X.shape) == 2 and X.shape[0] == 0:
        return None
    matrix = accept(X, "X")
    return Batch(matrix, int(X.shape[0]), Labels(int(X.shape[0]), targets, weights, None))


def arrow_table(table: Any) -> Any:
    """Convert an Arrow table of numbers without gaps to an array [rows, columns]."""
    columns = []
    for name in table.schema.names:
        column = numbers(table.column(name), f"column {name!r}")
        if np.ma.is_masked(column):
            raise DataError(f"column {name!r} has missing values; fill them first.")
        columns.append(column.data)
    return np.column_stack(columns) if columns else np.empty((table.num_rows, 0))


def count_batches(batches: Iterable[Any], block_rows: int) -> tuple[BlockShape, str]:
    """Return block shape and fingerprint of all batches of pass 0."""
    digest, rows = xxhash.xxh3_64(), 0
    nnz, carried, first = 1, 0.0, None  # carried: non-zeros of the block that is not full yet
    for batch in Stream(batches, 0).whole():
        first = batch if first is None else first
        if isinstance(batch.X, CSR):
            block = np.arange(rows, rows + batch.rows) // block_rows
            sums = np.bincount(block - block[0], np.diff(batch.X.indptr))
            if rows % block_rows:
                sums[0] += carried
            nnz, carried = max(nnz, int(sums.max())), float(sums[-1])
        rows += batch.rows
        hash_matrix(digest, batch.X)
        batch.labels.hash(digest)
    if first is None:
        raise DataError("IterableSource: pass 0 has no rows.")
    return first.shape(block_rows, nnz, rows), digest.hexdigest()
