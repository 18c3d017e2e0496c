"""What every place that holds files offers, and files that are read by ranges."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import RemoteError


@dataclass(frozen=True)
class Status:
    """One file or folder.

    path: as its file system names it. size: bytes. identity: another one when the file has been
    replaced or changed (its time of change, ETag, ...).
    """

    path: str
    size: int = 0
    identity: str = ""
    folder: bool = False


class Files(Protocol):
    """A file system, as much of it as reading needs. Calls may come from several threads."""

    @property
    def quick(self) -> bool:
        """Whether `status` costs microseconds, as it does on a local disk."""

    def name(self, path: str) -> str:
        """What people call the file: its URL, or its path where it is local."""

    def status(self, path: str) -> Status:
        """Of a file or folder. Raises `FileNotFoundError`, `PermissionError`, `RemoteError`."""

    def children(self, path: str) -> list[Status]:
        """What a folder holds, in any order. Raises as `status` does."""

    def open(self, status: Status) -> Any:
        """The file for reading at any place: a file that `pyarrow.parquet.ParquetFile` takes."""


class RangeFile(io.RawIOBase):
    """A file of `size` bytes that `fetch(offset, length)` reads; what it returns is that long.

    >>> file = RangeFile("abc", 3, lambda offset, length: b"xyz"[offset : offset + length])
    >>> file.seek(1), file.read()
    (1, b'yz')

    Raises `RemoteError` where it is shorter or longer: bytes are never missing in silence.
    """

    def __init__(self, name: str, size: int, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._name, self._size, self._fetch = name, size, fetch
        self._place = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Where the next `read` starts."""
        return self._place

    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to `offset` from the start, from here, or from the end."""
        self._place = (
            offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        )
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        """`size` bytes from here on, fewer only at the end of the file."""
        left = max(0, self._size - self._place)
        length = left if size is None or size < 0 else min(size, left)
        data = self._fetch(self._place, length) if length else b""
        if len(data) != length:
            raise RemoteError(
                f"{self._name}: {len(data):,} bytes came instead of the {length:,} from byte "
                f"{self._place:,} on; the file or the connection is broken."
            )
        self._place += length
        return data
