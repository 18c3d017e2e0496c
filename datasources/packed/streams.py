"""Reads the bytes of a file, decompressed as its suffix says."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO, cast

import pyarrow as pa

from ..errors import DataError
from ..remote import Place
from .lz4_block import MAGIC, Lz4BlockFile

PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4")
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, pa.ArrowException)


class Metered(RawIOBase):
    """A file that reports how many bytes are read."""

    def __init__(self, path: Place, tell: Callable[[int], None]) -> None:
        """Open the file at `path`; `tell` gets the byte count of each read."""
        self._file, self._tell = cast(RawIOBase, path.open("rb", buffering=0)), tell

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` from the front; return the number of bytes, 0 at the end."""
        count = self._file.readinto(buffer) or 0
        self._tell(count)
        return count

    def seekable(self) -> bool:
        """Whether the file is seekable."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position and return it."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def close(self) -> None:
        """Close this object and its file."""
        self._file.close()
        super().close()


def kind_of(path: Place) -> str:
    """Return a file's lower-case suffix without the packer's: `.mtx` of `A.MTX.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@contextmanager
def opened(path: Place, tell: Callable[[int], None], offset: int = 0) -> Iterator[BinaryIO]:
    """Open a file as a stream of its decompressed bytes from `offset` on.

    Errors from a damaged or cut-off file become a `DataError`. Errors of the operating system (no
    such file, no permission) are passed on.
    """
    packer = path.suffix.lower()
    with Metered(path, tell) as raw:
        try:
            stream = unpacked(raw, packer)
            if packer in PACKED:
                skip(stream, offset)
            elif offset:  # a pipe can be read from its beginning only
                stream.seek(offset)
            yield stream
        except DAMAGE as error:
            raise DataError(f"{path}: damaged or cut off: {error}") from error
        except OSError as error:
            if error.errno is None:  # not from the operating system
                raise DataError(f"{path}: damaged or cut off: {error}") from error
            raise


def unpacked(raw: RawIOBase, packer: str) -> BinaryIO:
    """Return a stream of the decompressed bytes of `raw`."""
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
    """Read and drop `count` bytes. Raises `EOFError` if the stream ends before."""
    while count > 0:
        piece = stream.read(min(count, 1 << 20))
        if not piece:
            raise EOFError("it ends too early")
        count -= len(piece)


def read_exactly(stream: BinaryIO, count: int, what: str) -> bytes:
    """Read `count` bytes, where `count` is an unchecked claim of the file itself."""
    pieces, missing = [], count
    while missing > 0:
        piece = stream.read(min(missing, 1 << 24))  # a false claim allocates no more than this
        if not piece:
            raise EOFError(f"{what} has {count - missing:,} of {count:,} bytes")
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
