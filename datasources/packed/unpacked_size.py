"""Reads the unpacked size of a packed file from its headers.

gzip: RFC 1952; Zstandard: RFC 8878; xz: its file format 1.2; LZ4: its frame format 1.6; .npz: zip.
"""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

DEFLATE_MOST, LZ4_MOST, ZSTD_MOST = 1032, 255, 2**16  # bytes that one byte can stand for


def unpacked_bytes(path: Path) -> int:
    """Return a lower bound of the unpacked bytes of the file at `path`.

    The result is at least the size on disk. Of a file of several parts, perhaps only one is
    counted. A file without a size in its headers, or visibly damaged, counts as it is.
    """
    packed = path.stat().st_size
    said = SAID.get(path.suffix.lower())
    if said is None:
        return packed
    try:
        with path.open("rb") as file:
            return max(packed, said(file, packed))
    except (OSError, ValueError, IndexError, NotImplementedError, zipfile.BadZipFile):
        return packed


def _gzip(file: BinaryIO, packed: int) -> int:
    """Return the size in the last 4 bytes (last member, mod 2^32); 0 if impossible."""
    file.seek(-4, os.SEEK_END)
    size = int.from_bytes(file.read(4), "little")
    return size if size <= DEFLATE_MOST * packed else 0


def _zstd(file: BinaryIO, packed: int) -> int:
    """Return the size in the header of the first frame; 0 if missing or impossible."""
    head = file.read(18)
    if head[:4] != b"\x28\xb5\x2f\xfd":
        return 0
    descriptor = head[4]
    flag, single = descriptor >> 6, descriptor >> 5 & 1
    length = (single, 2, 4, 8)[flag]
    start = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(head[start : start + length], "little")
    size += 256 * (length == 2)
    return size if size <= ZSTD_MOST * packed else 0


def _lz4(file: BinaryIO, packed: int) -> int:
    """Return the size in the header of the first frame; 0 if missing or impossible."""
    head = file.read(14)
    told = head[:4] == b"\x04\x22\x4d\x18" and head[4] & 8
    size = int.from_bytes(head[6:14], "little") if told else 0
    return size if size <= LZ4_MOST * packed else 0


def _xz(file: BinaryIO, packed: int) -> int:
    """Return the size of all blocks of the last stream, from the index at its end."""
    file.seek(-12, os.SEEK_END)
    footer = file.read(12)
    if footer[10:] != b"YZ":
        return 0
    length = 4 * (int.from_bytes(footer[4:8], "little") + 1)
    file.seek(-12 - length, os.SEEK_END)
    whole = file.read(length)
    if crc32(whole[:-4]) != int.from_bytes(whole[-4:], "little"):
        return 0
    index = memoryview(whole)[1:]
    blocks, index = _number(index)
    total = 0
    for _ in range(blocks):
        _, index = _number(index)
        size, index = _number(index)
        total += size
    return total


def _number(data: memoryview) -> tuple[int, memoryview]:
    """Return an xz number (seven bits a byte, least first) and the bytes after it."""
    value = 0
    for place in range(9):
        value |= (data[place] & 127) << 7 * place
        if data[place] < 128:
            break
    return value, data[place + 1 :]


def _zip(file: BinaryIO, packed: int) -> int:
    """Return the size of all files in the archive, from its directory."""
    with zipfile.ZipFile(file) as archive:
        return sum(member.file_size for member in archive.infolist())


SAID: dict[str, Callable[[BinaryIO, int], int]] = {
    ".gz": _gzip,
    ".zst": _zstd,
    ".lz4": _lz4,
    ".xz": _xz,
    ".npz": _zip,
}
"""Readers of the unpacked size, by suffix."""
