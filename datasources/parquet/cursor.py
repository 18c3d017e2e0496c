"""Read the rows of many Parquet files batch by batch, starting at any row."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DataError
from ..remote import RemoteError
from .files import BROKEN, RowGroup, Table

LEAST_ROWS = 256  # rows of a decoded batch, at least


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of one row group.

    row: number of the first one within the group.
    """

    batch: Any  # pyarrow.RecordBatch
    table: Table
    group: RowGroup
    row: int

    def place(self, row: int) -> str:
        """Return the place of row `row` of the batch, for messages."""
        within = self.row + row
        return (
            f"{self.table.name}: row group {self.group.number}, row {within} "
            f"(row {self.group.first + within} of the file)"
        )


class Cursor:
    """Reads the columns `names` of all rows of `tables`, one row group at a time.

    Rows are numbered through all files. Continuing where the last read ended costs nothing. A jump
    elsewhere decodes the row group up to that row.
    """

    def __init__(self, tables: Sequence[Table], names: Sequence[str], batch_rows: int) -> None:
        self._tables, self._names = tables, list(names)
        self._groups = [group for table in tables for group in table.groups]
        self._first = np.concatenate([[0], np.cumsum([group.rows for group in self._groups])])
        self._batch_rows = max(batch_rows, LEAST_ROWS)
        self._stream: Iterator[Piece] = iter(())
        self._rest: Piece | None = None
        self._row = -1  # the next row of the stream
        self._open: tuple[int, Any] | None = None  # number of the open file, and the file

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield the rows `start` to `stop`, in pieces.

        Raises `DataError`, naming file and row group, for rows that cannot be decoded and for a
        file that was replaced. Raises `RemoteError` if the file cannot be reached.
        """
        if start != self._row:
            self._stream, self._rest, self._row = self._read(start), None, start
        try:
            while self._row < stop:
                piece = self._rest or next(self._stream)
                rows = min(piece.batch.num_rows, stop - self._row)
                self._row += rows
                self._rest = None
                if rows < piece.batch.num_rows:
                    rest = piece.batch.slice(rows)
                    self._rest = Piece(rest, piece.table, piece.group, piece.row + rows)
                yield Piece(piece.batch.slice(0, rows), piece.table, piece.group, piece.row)
        except GeneratorExit:  # the caller stopped early; others may have read since, so keep state
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Forget the position and close the open file."""
        self._stream, self._rest, self._row = iter(()), None, -1
        self._close_file()

    def _read(self, start: int) -> Iterator[Piece]:
        """Yield all rows from `start` on."""
        first = int(np.searchsorted(self._first, start, side="right")) - 1
        skip = start - int(self._first[first])
        for group in self._groups[first:]:
            if group.rows:
                yield from self._read_group(group, skip)
            skip = 0

    def _read_group(self, group: RowGroup, skip: int) -> Iterator[Piece]:
        table, seen = self._tables[group.file], 0
        with self._explained(table, group, 0):
            file = self._file(group.file)
            batches = file.iter_batches(self._batch_rows, [group.number], self._names)
        while seen < group.rows:
            with self._explained(table, group, seen):
                batch = next(batches, None)
            rows = 0 if batch is None else batch.num_rows
            if batch is None or rows == 0 or seen + rows > group.rows:
                raise DataError(
                    f"{table.name}: row group {group.number}: its footer promises {group.rows} "
                    f"rows, but it has {seen + rows}; the file is damaged."
                )
            seen += rows
            if table.files.quick or seen == group.rows:
                table.check()
            if seen > skip:
                new = min(rows, seen - skip)
                yield Piece(batch.slice(rows - new), table, group, seen - new)

    def _file(self, number: int) -> Any:
        """Return file `number`, open."""
        if self._open is None or self._open[0] != number:
            self._close_file()
            self._open = number, self._tables[number].open()
        return self._open[1]

    def _close_file(self) -> None:
        """Close the open file, if there is one."""
        if self._open is not None:
            file, self._open = self._open[1], None
            file.close()

    @contextmanager
    def _explained(self, table: Table, group: RowGroup, row: int) -> Iterator[None]:
        """Add file, row group and row to the decoder's errors.

        row: the first row being read.
        """
        try:
            yield
        except (DataError, RemoteError):
            raise
        except BROKEN as error:
            table.check()  # a replaced file is the better explanation
            raise DataError(
                f"{table.name}: row group {group.number} cannot be read from row {row} on: {error}"
            ) from error
