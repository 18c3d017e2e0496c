"""What a reader may use besides its file: a folder, memory, and somebody who wants to hear."""

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
    """Hear of progress and say nothing."""


@dataclass(frozen=True)
class Scratch:
    """What a reader may use.

    folder: exists; for what is set down between two passes over a file (a vocabulary, sorted
    parts). What is complete in it is used again, so it belongs to one reader of one file. memory:
    bytes that a reader's buffers may take, about. tell: hears how many more bytes of the file, as
    it lies on disk, have been read.
    """

    folder: Path
    memory: int = MEMORY
    tell: Callable[[int], None] = silent

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a file to read at a time."""
        return max(1 << 10, self.memory // 32)

    def remember(self, name: str, find: Callable[[], Any]) -> Any:
        """What `find` returns, a value of JSON; found once, then kept in the file `name`."""
        path = self.folder / name
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        found = find()
        write_whole(path, json.dumps(found))
        return found

    def remember_names(self, name: str, find: Callable[[], Ids]) -> Ids:
        """The same for names, in an Arrow file."""
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
    """Put a text at `path`, completely or not at all."""
    temporary = path.with_name(f"{path.name}.part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
