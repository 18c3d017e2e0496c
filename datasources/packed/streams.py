"""Bytes of a file, decompressed by the end of its name."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from ..errors import DataError
from .lz4_block import MAGIC, Lz4BlockFile

PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4")
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, pa.ArrowException)


class Metered(RawIOBase):
    """A file that tells how much of it was read."""

    def __init__(self, path: Path, tell: Callable[[int], None]) -> None:
        """Open the file at `path`."""
        self._file, self._tell = path.open("rb", buffering=0), tell

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Bytes that were there, 0 at the end."""
        count = self._file.readinto(buffer) or 0
        self._tell(count)
        return count

    def seekable(self) -> bool:
        """As its file."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        """As in files."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """As in files."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file, too."""
        self._file.close()
        super().close()


def kind_of(path: Path) -> str:
    """The end of a file's name in small letters, without that of a packer: `.mtx` of `A.MTX.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@contextmanager
def opened(path: Path, tell: Callable[[int], None], offset: int = 0) -> Iterator[BinaryIO]:
    """The decompressed bytes of a file from `offset` on.

    What a damaged or cut-off file does inside becomes a `DataError`; errors of the operating system
    (no such file, no permission) stay what they are.
    """
    packer = path.suffix.lower()
    with Metered(path, tell) as raw:
        try:
            stream = unpacked(raw, packer)
            if packer in PACKED:
                skip(stream, offset)
            else:
                stream.seek(offset)
            yield stream
        except DAMAGE as error:
            raise DataError(f"{path}: damaged or cut off: {error}") from error
        except OSError as error:
            if error.errno is None:  # not from the operating system
                raise DataError(f"{path}: damaged or cut off: {error}") from error
            raise


def unpacked(raw: RawIOBase, packer: str) -> BinaryIO:
    """A stream of what is packed in `raw`."""
    buffered = BufferedReader(raw, 1 << 18)
    stream: Any = buffered
    if packer == ".gz":
        stream = gzip.GzipFile(fileobj=buffered)
    elif packer == ".bz2":
        stream = bz2.BZ2File(buffered)
    elif packer == ".xz":
        stream = lzma.LZMAFile(buffered)
    elif packer == ".zst":
        stream = pa.CompressedInputStream(pa.PythonFile(buffered, "r"), "zstd")
    elif packer == ".lz4" and buffered.peek(len(MAGIC)).startswith(MAGIC):
        stream = BufferedReader(Lz4BlockFile(cast(BinaryIO, buffered)), 1 << 18)
    elif packer == ".lz4":
        stream = pa.CompressedInputStream(pa.PythonFile(buffered, "r"), "lz4")
    return cast(BinaryIO, stream)


def skip(stream: BinaryIO, count: int) -> None:
    """Read `count` bytes and forget them. Raises `EOFError` if there are not so many."""
    while count > 0:
        piece = stream.read(min(count, 1 << 20))
        if not piece:
            raise EOFError("it ends too early")
        count -= len(piece)


def read_exactly(stream: BinaryIO, count: int, what: str) -> bytes:
    """`count` bytes, `count` being what a file that was not checked yet claims to have."""
    pieces, missing = [], count
    while missing > 0:
        piece = stream.read(min(missing, 1 << 24))  # a false claim allocates no more than this
        if not piece:
            raise EOFError(f"{what} has {count - missing:,} of {count:,} bytes")
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
