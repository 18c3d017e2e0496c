"""Read documents from a column of Parquet files, local or remote."""

import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..parquet import Dense
from ..parquet.arrays import Fault, null_rows, texts_of
from ..parquet.columns import Columns
from ..parquet.cursor import LEAST_ROWS, Cursor, Piece
from ..parquet.files import open_tables
from ..parquet.fill import put_tables
from ..parquet.source import parquet_files
from ..parsing.layout import FIRST, Place
from ..parsing.scratch import Scratch
from .documents import Document


class ParquetTexts:
    """Reads a document per row of files, folders, patterns or URLs.

    text: the column with the texts.
    targets: columns with numbers.
    ids: the column with the names, text or integers; None: a document is named after its row,
        counted from 0 in its file.

    A place is the number of a row, counted through all files.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        scratch: Scratch,
        *,
        text: str,
        targets: Sequence[str] = (),
        ids: str | None = None,
    ) -> None:
        """Read the footers.

        Raises `DataError` for a missing column or an unsuitable type.
        """
        self.name, self.targets = str(paths[0]), targets
        self._scratch, self._text, self._ids = scratch, text, ids
        named = Columns((), tuple(map(Dense, targets)), None, ids, (text,))
        self._tables = open_tables(parquet_files(paths), named)
        self._columns = named.sized(self._tables[0].widths, {})
        wide = [part.column for part in self._columns.targets if part.width != 1]
        if wide:
            raise DataError(f"{self.name}: column {wide[0]!r} has lists; targets must be numbers.")

    def chunks(self, start: Place = FIRST) -> Iterator[tuple[Place, Iterator[Document]]]:
        """Yield the documents; see `Documents`."""
        names = list(dict.fromkeys(self._columns.names))
        cursor = Cursor(self._tables, names, LEAST_ROWS)
        row, rows = start.offset, sum(g.rows for table in self._tables for g in table.groups)
        try:
            for piece in cursor.pieces(row, rows):
                row += piece.batch.num_rows
                self._tell(piece)
                try:
                    documents = self._documents(piece)
                except Fault as fault:
                    raise DataError(f"{piece.place(fault.row)}: {fault.text}") from fault
                yield Place(0, row, 0), iter(documents)
        finally:
            cursor.close()

    def _documents(self, piece: Piece) -> list[Document]:
        batch = piece.batch
        targets = np.empty((batch.num_rows, len(self.targets)), np.float32)
        for name in self.targets:
            missing = null_rows(batch.column(name))
            if missing is not None:
                raise Fault(int(missing.argmax()), f"the target {name!r} is null.")
        put_tables(self._columns.targets, batch, targets)
        texts = texts_of(self._text, batch).to_pylist()
        if self._ids is not None:
            names = texts_of(self._ids, batch).to_pylist()
        else:
            file = posixpath.basename(piece.table.status.path)
            first = piece.group.first + piece.row
            names = [f"{file}:{first + row}" for row in range(batch.num_rows)]
        return list(map(Document, names, texts, targets.tolist()))

    def _tell(self, piece: Piece) -> None:
        """Report progress: the bytes of a file, in proportion to the rows of a piece."""
        size = piece.table.status.size
        rows = sum(group.rows for group in piece.table.groups)
        first = piece.group.first + piece.row
        after = first + piece.batch.num_rows
        self._scratch.tell(size * after // rows - size * first // rows)
