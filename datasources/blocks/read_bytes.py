"""Reads bytes of a local file into existing buffers, and digests them."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import xxhash

from ..errors import DataError
from ..remote import Place
from .lz4_frame import decode_frame

CHUNK = 1 << 19  # bytes; larger chunks leave the second-level cache before they are digested
SETTLED_NS = 50_000_000  # two changes within a tick of the file clock have the same time
Stamp = tuple[int, int, int]


def byte_view(array: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of a C-contiguous array."""
    return array.reshape(-1).view("u1").data


def read_pieces(
    file: int, offset: int, pieces: Sequence[memoryview], digest: xxhash.xxh3_64 | None
) -> bool:
    """Fill `pieces` with bytes of the open `file` from `offset` on; digest them.

    Returns False if the file ends before. Allocates only views; several threads may read one file.
    If the file is cut off meanwhile, that is noticed; a memory-mapped file would end the process.
    """
    for group in [list(pieces)] if digest is None else grouped(pieces):
        rest = group
        while rest:
            count = os.preadv(file, rest, offset)
            if count == 0:
                return False
            offset += count
            rest = behind(rest, count)
        if digest is not None:
            for piece in group:
                digest.update(piece)
    return True


def grouped(pieces: Sequence[memoryview]) -> Iterator[list[memoryview]]:
    """Yield the pieces, cut where needed, in lists of at most `CHUNK` bytes.

    >>> a, b = memoryview(bytes(CHUNK - 1)), memoryview(bytes(3))
    >>> [[len(piece) for piece in group] for group in grouped([a, b])] == [[CHUNK - 1, 1], [2]]
    True
    """
    group: list[memoryview] = []
    room = CHUNK
    for piece in pieces:
        start = 0
        while start < len(piece):
            part = piece[start : start + room]
            group.append(part)
            start, room = start + len(part), room - len(part)
            if room == 0:
                yield group
                group, room = [], CHUNK
    if group:
        yield group


def behind(pieces: Sequence[memoryview], count: int) -> list[memoryview]:
    """Return `pieces` without their first `count` bytes."""
    left = []
    for piece in pieces:
        if count < len(piece):
            left.append(piece[count:])
        count = max(0, count - len(piece))
    return left


def decode_lz4(stored: memoryview, into: memoryview) -> None:
    """Decode a buffer of a compressed batch.

    The buffer is 8 bytes with its length, then an LZ4 frame; or -1, then uncompressed bytes. Raises
    `ValueError` unless it fills `into` exactly.
    """
    length = int.from_bytes(stored[:8], "little", signed=True)
    if length == -1:
        length = len(stored) - 8
        if length == len(into):
            into[:] = stored[8:]
    elif length == len(into):
        decode_frame(stored[8:], into)
    if length != len(into):
        raise ValueError(f"{length} bytes, not {len(into)}")


class LocalFile:
    """A local file that stays open and must have `size` bytes. Threads may share it."""

    def __init__(self, path: Path, size: int) -> None:
        """Open the file. Raises `OSError`, and `DataError` if it has another size."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # opening a pipe must not block
        self._file = os.open(path, flags)
        found = os.fstat(self._file).st_size
        if found != size:
            self.close()
            raise wrong_size(path, found, size)

    def read(
        self, offset: int, pieces: Sequence[memoryview], digest: xxhash.xxh3_64 | None
    ) -> bool:
        """Fill `pieces` with the bytes from `offset` on; see `read_pieces`."""
        return read_pieces(self._file, offset, pieces, digest)

    def stamp(self) -> Stamp | None:
        """Return a stamp that changes whenever the file is written to; None: not known yet."""
        return stamp_of(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def wrong_size(path: Place, found: int, size: int) -> DataError:
    """Return the error for a file with another size than was written."""
    return DataError(
        f"{path}: {found:,} bytes, but {size:,} were written; it was cut off or replaced. "
        "Restore the file, or convert the data again."
    )


def stamp_of(file: int) -> Stamp | None:
    """Return a stamp that changes whenever an open file is written to.

    Returns None if the file changed a moment ago: its times might then hide another change.
    """
    found = os.fstat(file)
    if time.time_ns() - found.st_ctime_ns < SETTLED_NS:
        return None
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size
