"""What an unfinished dataset has on disk, so that its writer can go on after an interruption."""

import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from ..errors import DataError
from .block_table import Blocks, NamesFile, first_fault
from .disk import sync_folder
from .layout import Kind
from .manifest import Sums
from .settings import Settings

FILE = "unfinished.jsonl"


class Begun(BaseModel, extra="forbid", strict=True):
    """The first line: settings, and what rows have. ids: none, text or numbers."""

    version: Literal[1] = 1
    settings: Settings
    kind: Kind
    ids: Literal["none", "text", "numbers"]


class Stored(BaseModel, extra="forbid", strict=True):
    """Another line: what was stored since the line before; `sums` and `columns` of all rows.

    position: what the caller said about its input when `position_rows` rows had been appended.
    """

    blocks: Blocks
    sums: Sums
    columns: int
    names: NamesFile
    position: Any = None
    position_rows: int = 0

    @staticmethod
    def nothing(begun: Begun) -> "Stored":
        """What there is at the beginning."""
        return Stored(
            blocks=Blocks(),
            sums=Sums(targets=[0.0] * begun.kind.targets),
            columns=0,
            names=NamesFile(integers=begun.ids == "numbers"),
        )


class Journal:
    """Appends lines to the journal in `folder`."""

    def __init__(self, folder: Path, begun: Begun, *, resumed: bool) -> None:
        """Begin it, or go on with the one that is there."""
        path = folder / FILE
        self._file = path.open("ab" if resumed else "wb", buffering=0)
        if not resumed:
            self._line(begun)
            sync_folder(folder)

    def add(self, stored: Stored) -> None:
        """Write a line; it is on disk then."""
        self._line(stored)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _line(self, entry: BaseModel) -> None:
        self._file.write(json.dumps(entry.model_dump(mode="json")).encode() + b"\n")
        os.fsync(self._file.fileno())


def read_journal(folder: Path) -> tuple[Begun, Stored] | None:
    """How an unfinished dataset was begun, and all that is stored; None if there is none.

    A last line that was not written completely does not count, and is cut off. Raises `DataError`
    where the journal is damaged.
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
            f"{path}: the unfinished dataset cannot be gone on with, its journal is damaged "
            f"({first_fault(error)}); delete it, and begin again without resuming."
        ) from error
    if len(complete) < len(data):
        os.truncate(path, len(complete))
    return begun, stored


def forget_journal(folder: Path) -> None:
    """Delete the journal: the dataset is finished."""
    (folder / FILE).unlink(missing_ok=True)
