"""Reads the LZ4Block framing of lz4-java's LZ4BlockOutputStream, used by BIDMat.

A file is a sequence of blocks; a block of length 0 ends it. Each block has a header of 21 bytes:

- the bytes `LZ4Block`;
- a token: high nibble 1: stored, 2: LZ4; low nibble: log2 of the largest block, less 10;
- compressed length, original length and checksum, each a little-endian int32. The checksum is the
  lowest 28 bits of the XXH32 of the original bytes with seed 0x9747b28c.

This is not the LZ4 frame format that the command `lz4` writes.
"""

import struct
from io import RawIOBase
from typing import Any, BinaryIO

import pyarrow as pa
import xxhash

MAGIC = b"LZ4Block"
HEADER = struct.Struct("<8sBiii")
SEED = 0x9747B28C
STORED, PACKED = 0x10, 0x20
LARGEST = 1 << 25  # bytes of a block in lz4-java


class Lz4BlockFile(RawIOBase):
    """Decompresses a stream in this framing. Raises `EOFError` if it is damaged."""

    def __init__(self, stream: BinaryIO) -> None:
        """Read from `stream`, which is at its beginning."""
        self._stream, self._codec = stream, pa.Codec("lz4_raw")
        self._block, self._used, self._number, self._ended = b"", 0, 0, False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` from the front; return the number of bytes, 0 at the end."""
        if self._used == len(self._block) and not self._ended:
            self._block, self._used = self._next(), 0
        piece = self._block[self._used : self._used + len(buffer)]
        buffer[: len(piece)] = piece
        self._used += len(piece)
        return len(piece)

    def _next(self) -> bytes:
        name, self._number = f"LZ4 block {self._number}", self._number + 1
        header = self._stream.read(HEADER.size)
        if len(header) < HEADER.size:
            raise EOFError(f"{name} is missing, and the blocks before it are not the end")
        magic, token, packed, original, check = HEADER.unpack(header)
        method, largest = token & 0xF0, 1 << (10 + (token & 0x0F))
        sound = magic == MAGIC and method in (STORED, PACKED) and 0 <= original <= largest
        sound = sound and (0 < packed <= LARGEST + (1 << 18)) == (original > 0) and packed >= 0
        if not sound or (method == STORED and packed != original):
            raise EOFError(f"{name} has no valid header")
        if original == 0:
            if self._stream.read(1):
                raise EOFError(f"there are bytes after the last one, {name}")
            self._ended = True
            return b""
        data = self._stream.read(packed)
        if len(data) < packed:
            raise EOFError(f"{name} has {len(data)} of {packed} bytes")
        if method == PACKED:
            data = self._codec.decompress(data, original, asbytes=True)
        if xxhash.xxh32_intdigest(data, SEED) & 0x0FFFFFFF != check:
            raise EOFError(f"the checksum of {name} does not match")
        return data
