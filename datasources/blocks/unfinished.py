"""A dataset whose rows are being written, and what of them would outlast an interruption."""

from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..errors import DataError
from .block_table import NamesFile
from .journal import Begun, Journal, Stored
from .manifest import Part
from .part_writer import PartWriter
from .row_ids import RowIds, kind_of
from .rows import Rows

COMMIT_BYTES = 1 << 26  # an interruption costs at most as much as this, and one block


class Unfinished:
    """The files of the rows, their ids and the journal in `folders`, gone on with behind what is
    `stored`; resumed: whether there is a journal already.

    columns: the largest index so far, plus 1. position: see `BlockWriter.position`.
    """

    def __init__(
        self, folders: Sequence[Path], begun: Begun, stored: Stored, *, resumed: bool
    ) -> None:
        """Open the files."""
        settings = begun.settings
        self.begun, self.columns = begun, stored.columns
        self.position: tuple[Any, int] = (stored.position, stored.position_rows)
        self._next: deque[tuple[Any, int]] = deque()
        with ExitStack() as files:
            self._part = PartWriter(
                folders, "rows", begun.kind, settings.block_rows, settings.codec,
                stored.blocks, stored.sums,
            )  # fmt: skip
            files.callback(self._part.close)
            self._ids = RowIds(folders[0], begun.ids, stored.names)
            files.callback(self._ids.close)
            self._journal = Journal(folders[0], begun, resumed=resumed)
            files.callback(self._journal.close)
            self._files = files.pop_all()

    @property
    def rows(self) -> int:
        """Rows that were added, and those that an earlier writer stored."""
        return self._part.rows

    def add(self, rows: Rows, ids: Any, position: Any) -> None:
        """Take verified rows, one or more, with their ids, an Arrow array or None."""
        given, known = (rows.kind, kind_of(ids)), (self.begun.kind, self.begun.ids)
        if given != known:
            raise DataError(
                f"BlockWriter: rows from row {self.rows} on have {given[0]}, ids: {given[1]}, but "
                f"those before have {known[0]}, ids: {known[1]}; all rows have the same."
            )
        self._part.append(rows)
        self._ids.add(ids, self._part.stored)
        self.columns = max(self.columns, rows.columns)
        if position is not None:
            self._next.append((position, self.rows))
        if self._part.uncommitted >= COMMIT_BYTES:
            self.commit()

    def commit(self) -> None:
        """Make what is stored outlast an interruption."""
        while self._next and self._next[0][1] <= self._part.stored:
            self.position = self._next.popleft()
        names = self._ids.commit(self._part.stored)
        self._journal.add(
            Stored(
                blocks=self._part.commit(),
                sums=self._part.sums,
                columns=self.columns,
                names=names,
                position=self.position[0],
                position_rows=self.position[1],
            )
        )

    def finish(self, columns: int) -> tuple[Part, NamesFile | None]:
        """Store what waits and complete all files but the journal, which are on disk then."""
        self._part.flush()
        self.commit()
        return self._part.finish(columns), self._ids.finish()

    def close(self) -> None:
        """Close all files."""
        self._files.close()
