"""Define the interface of file systems, and files that are read by ranges."""

import io
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .errors import RemoteError


@dataclass(frozen=True)
class Status:
    """The status of one file or folder.

    path: as its file system names it.
    size: bytes.
    identity: changes when the file is replaced or changed (its time of change, ETag, ...).
    """

    path: str
    size: int = 0
    identity: str = ""
    folder: bool = False


class Files(Protocol):
    """The part of a file system that reading and writing whole files need.

    Calls may come from several threads.
    """

    @property
    def quick(self) -> bool:
        """Whether `status` takes microseconds, as on a local disk."""

    def name(self, path: str) -> str:
        """Return the file's name for messages: its URL, or its path if it is local."""

    def status(self, path: str) -> Status:
        """Return the status of a file or folder.

        Raises `FileNotFoundError`, `PermissionError`, `RemoteError`.
        """

    def children(self, path: str) -> list[Status]:
        """List a folder, in any order. Raises as `status` does."""

    def open(self, status: Status) -> Any:
        """Open the file for random access, as `pyarrow.parquet.ParquetFile` needs it.

        Its `read_at(nbytes, offset)` may be called by several threads at once.
        """

    def put(self, file: Path, path: str) -> None:
        """Write a local file to `path`, in place of an earlier one; make the folders above it.

        Raises `OSError`; what then is at `path` is not defined, see `writing.put`.
        """

    def remove(self, path: str) -> None:
        """Remove a file, if it exists. Raises `PermissionError`, `RemoteError`."""


def beside(path: str) -> str:
    """Return another name in the folder of `path`, which no other writer takes.

    Names that start with a dot are not found in folders.
    """
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.{uuid.uuid4().hex[:12]}"


class RangeFile(io.RawIOBase):
    """A file of `size` bytes; `fetch(offset, length)` must return `length` bytes.

    >>> file = RangeFile("abc", 3, lambda offset, length: b"xyz"[offset : offset + length])
    >>> file.seek(1), file.read()
    (1, b'yz')

    Raises `RemoteError` if a result is shorter or longer, so that no bytes are lost silently.
    """

    def __init__(self, name: str, size: int, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._name, self._size, self._fetch = name, size, fetch
        self._place = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return where the next `read` starts."""
        return self._place

    def size(self) -> int:
        """Return the bytes in the file."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to `offset` from the start, the current place, or the end."""
        self._place = (
            offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        )
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        """Return the next `size` bytes, fewer only at the end of the file."""
        left = max(0, self._size - self._place)
        length = left if size is None or size < 0 else min(size, left)
        data = self.read_at(length, self._place)
        self._place += length
        return data

    def readinto(self, into: Any) -> int:
        """Fill `into` from the present place on; return the number of bytes."""
        data = self.read(len(into))
        into[: len(data)] = data
        return len(data)

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return `nbytes` bytes from `offset` on; several threads may call it at once."""
        data = self._fetch(offset, nbytes) if nbytes else b""
        if len(data) != nbytes:
            raise RemoteError(
                f"{self._name}: {len(data):,} bytes came instead of the {nbytes:,} from byte "
                f"{offset:,} on; the file or the connection is broken."
            )
        return data
