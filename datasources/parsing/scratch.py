"""Give readers a folder, memory and a progress callback."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..ids import Ids

MEMORY = 1 << 28


def silent(count: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Scratch:
    """The resources of a reader.

    folder: an existing folder for data between two passes over a file (a vocabulary, sorted
        parts). Complete files in it are reused, so it must belong to one reader of one file.
    memory: bytes that the reader's buffers may take, approximately.
    tell: called with the number of bytes of the file, as stored on disk, read since the last call.
    """

    folder: Path
    memory: int = MEMORY
    tell: Callable[[int], None] = silent

    @property
    def chunk_bytes(self) -> int:
        """The bytes of a file to read at a time."""
        return max(1 << 10, self.memory // 32)

    def remember(self, name: str, find: Callable[[], Any]) -> Any:
        """Return the result of `find`, a JSON value.

        Compute it once, keep it in file `name`.
        """
        path = self.folder / name
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        found = find()
        write_whole(path, json.dumps(found))
        return found

    def remember_names(self, name: str, find: Callable[[], Ids]) -> Ids:
        """Return the names that `find` returns, computed once and kept in an Arrow file."""
        path = self.folder / name
        if not path.exists():
            found = find()
            temporary = path.with_name(f"{name}.part")
            with pa.ipc.new_file(str(temporary), pa.schema([("name", pa.large_string())])) as file:
                file.write_table(pa.table({"name": found.arrow}))
            os.replace(temporary, path)
        with pa.ipc.open_file(str(path)) as file:
            return Ids(file.read_all()["name"].combine_chunks())


def write_whole(path: Path, text: str) -> None:
    """Write a text to `path`, completely or not at all."""
    temporary = path.with_name(f"{path.name}.part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
