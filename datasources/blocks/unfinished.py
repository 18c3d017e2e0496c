"""A dataset whose rows are being written, and its journal for resuming."""

import json
import os
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from blocklearn.durable import sync_folder

from ..errors import DataError
from .block_table import Blocks, NamesFile, first_fault
from .layout import Kind
from .manifest import Part, Sums
from .names import RowIds, kind_of
from .part_writer import PartWriter
from .rows import Rows
from .settings import Settings
from .write_bytes import write_all

FILE = "unfinished.jsonl"


class Begun(BaseModel, extra="forbid", strict=True):
    """The first line of the journal: settings, kind of rows, kind of ids."""

    version: Literal[1] = 1
    settings: Settings
    kind: Kind
    ids: Literal["none", "text", "numbers"]


class Stored(BaseModel, extra="forbid", strict=True):
    """A later line of the journal: the blocks and names stored since the line before.

    - sums, columns: of all rows so far.
    - position: the caller's position in its input after `position_rows` rows.
    """

    blocks: Blocks
    sums: Sums
    columns: int
    names: NamesFile
    position: Any = None
    position_rows: int = 0

    @staticmethod
    def nothing(begun: Begun) -> "Stored":
        """Return the state before any row is stored."""
        return Stored(
            blocks=Blocks(),
            sums=Sums(targets=[0.0] * begun.kind.targets),
            columns=0,
            names=NamesFile(integers=begun.ids == "numbers"),
        )


class Journal:
    """Appends lines to the journal in `folder`."""

    def __init__(self, folder: Path, begun: Begun, *, resumed: bool) -> None:
        """Begin a journal, or continue the existing one."""
        path = folder / FILE
        self._file = path.open("ab" if resumed else "wb", buffering=0)
        if not resumed:
            self._line(begun)
            sync_folder(folder)

    def add(self, stored: Stored) -> None:
        """Write a line and wait until it is on disk."""
        self._line(stored)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _line(self, entry: BaseModel) -> None:
        write_all(self._file, json.dumps(entry.model_dump(mode="json")).encode() + b"\n")
        os.fsync(self._file.fileno())


def read_journal(folder: Path) -> tuple[Begun, Stored] | None:
    """Read the journal of an unfinished dataset; None if it does not exist.

    An incomplete last line is cut off. Raises `DataError` if the journal is damaged.
    """
    path = folder / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    complete = data[: data.rfind(b"\n") + 1]
    lines = complete.splitlines()
    if not lines:
        return None
    try:
        begun = Begun.model_validate_json(lines[0])
        stored = Stored.nothing(begun)
        for line in lines[1:]:
            entry = Stored.model_validate_json(line)
            stored.blocks.extend(entry.blocks)
            stored.names.lengths.extend(entry.names.lengths)
            stored.names.batches.extend(entry.names.batches)
            stored.sums, stored.columns = entry.sums, entry.columns
            stored.position, stored.position_rows = entry.position, entry.position_rows
    except ValidationError as error:
        raise DataError(
            f"{path}: cannot resume the unfinished dataset: its journal is damaged "
            f"({first_fault(error)}). Delete it, and begin again without resuming."
        ) from error
    if len(complete) < len(data):
        os.truncate(path, len(complete))
    return begun, stored


def forget_journal(folder: Path) -> None:
    """Delete the journal: the dataset is finished."""
    (folder / FILE).unlink(missing_ok=True)


COMMIT_BYTES = 1 << 26  # an interruption loses at most these bytes and one block


class Unfinished:
    """The files of rows, ids and journal in `folders`, continued after `stored`.

    - resumed: whether the journal exists already.
    - columns: the largest index so far, plus 1.
    - position: see `BlockWriter.position`.
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
        """The number of rows added, and stored by an earlier writer."""
        return self._part.rows

    def add(self, rows: Rows, ids: Any, position: Any) -> None:
        """Add one or more verified rows; ids: their ids as an Arrow array, or None."""
        given, known = (rows.kind, kind_of(ids)), (self.begun.kind, self.begun.ids)
        if given != known:
            raise DataError(
                f"BlockWriter: rows from row {self.rows} on have {given[0]}, ids: {given[1]}, but "
                f"those before have {known[0]}, ids: {known[1]}; all rows must have the same."
            )
        self._part.append(rows)
        self._ids.add(ids, self._part.stored)
        self.columns = max(self.columns, rows.columns)
        if position is not None:
            self._next.append((position, self.rows))
        if self._part.uncommitted >= COMMIT_BYTES:
            self.commit()

    def commit(self) -> None:
        """Make stored rows durable, so that they survive an interruption."""
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
        """Store waiting rows and complete all files except the journal, synced to disk."""
        self._part.flush()
        self.commit()
        return self._part.finish(columns), self._ids.finish()

    def close(self) -> None:
        """Close all files."""
        self._files.close()
