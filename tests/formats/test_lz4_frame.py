"""LZ4 frames: what Arrow packs is unpacked to the same bytes, and damage is an error."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from blocklearn.datasources.blocks.lz4_frame import decode_frame

GUARD = 64  # bytes behind the room, which must stay as they are


def decoded(frame: bytes, size: int) -> bytes:
    """The contents; a write beyond them fails."""
    room = np.full(size + GUARD, 171, np.uint8)
    try:
        decode_frame(memoryview(frame), room[:size].data)
    finally:
        assert (room[size:] == 171).all()
    return room[:size].tobytes()


def contents() -> list[bytes]:
    """Of all kinds: empty, short, repeated at every distance, of more than a block, noise."""
    rng = np.random.default_rng(0)
    found = [b"", b"a", bytes(12), bytes(300_000), rng.bytes(200_000)]
    found += [rng.bytes(distance) * (1 + 700 // distance) for distance in range(1, 70)]
    found += [rng.integers(0, n, 70_000).astype(np.int32).tobytes() for n in (2, 5, 40, 3000)]
    found += [np.sort(rng.zipf(1.3, 40_000) % 9000).astype(np.int32).tobytes()]
    return found + [rng.integers(0, 3, n).astype(np.uint8).tobytes() for n in range(1, 200)]


def test_what_arrow_packs_is_unpacked() -> None:
    codec = pa.Codec("lz4")
    for data in contents():
        assert decoded(codec.compress(data, asbytes=True), len(data)) == data


def header(flags: int, more: bytes = b"") -> bytes:
    described = bytes([flags, 0x40]) + more
    return struct.pack("<I", 0x184D2204) + described + sum_of(described)[1:2]


def sum_of(data: bytes) -> bytes:
    return struct.pack("<I", xxhash.xxh32_intdigest(data))


def stored(data: bytes) -> bytes:
    return struct.pack("<I", 1 << 31 | len(data)) + data


END = bytes(4)


def test_checksums_of_other_writers_are_compared() -> None:
    data, size = b"blocks of rows", struct.pack("<Q", 14)
    frame = header(0b01011100, size) + stored(data) + sum_of(data) + END + sum_of(data)
    assert decoded(frame, 14) == data
    for place in (len(frame) - 1, len(frame) - 10):  # of the contents, of the block
        damaged = bytearray(frame)
        damaged[place] ^= 1
        with pytest.raises(ValueError, match="checksum"):
            decoded(bytes(damaged), 14)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"", "not begin with an LZ4 frame"),
        (header(0x60)[:6], "not begin with an LZ4 frame"),
        (b"x" + header(0x60)[1:] + END, "not begin with an LZ4 frame"),
        (header(0x61, bytes(4)) + END, "flags"),  # a dictionary
        (header(0xA0) + END, "flags"),  # another version
        (header(0x60)[:-1] + b"?" + END, "header"),
        (header(0x60), "cut off"),
        (header(0x60) + stored(b"abcd")[:-1], "cut off"),
        (header(0x60) + stored(b"abcd"), "cut off"),
        (header(0x60) + stored(b"abcde") + END, "more than 4 bytes"),
        (header(0x60) + stored(b"abc") + END, "holds 3 bytes in 18 compressed ones: must be 4"),
        (header(0x60) + stored(b"abcd") + END + b"?", "compressed ones"),
        (header(0x60) + struct.pack("<I", 3) + b"\x10a\x00" + END, "damaged"),  # no distance
        (header(0x60) + struct.pack("<I", 4) + b"\x10a\x00\x00" + END, "damaged"),  # distance 0
        (header(0x60) + struct.pack("<I", 4) + b"\x10a\x02\x00" + END, "damaged"),  # before it
        (header(0x60) + struct.pack("<I", 3) + b"\xf0\xff\xff" + END, "damaged"),  # no length
    ],
)
def test_damage_is_named(frame: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decoded(frame, 4)


def test_mutated_frames_give_an_error_or_bytes_and_nothing_is_written_beyond() -> None:
    rng = np.random.default_rng(3)
    data = np.sort(rng.zipf(1.3, 900) % 900).astype(np.int32).tobytes()
    frame, refused = pa.Codec("lz4").compress(data, asbytes=True), 0
    for _ in range(3000):
        mutated = bytearray(frame)
        for place in rng.integers(7, len(frame), rng.integers(1, 4)):
            mutated[place] = rng.integers(0, 256)
        try:
            decoded(bytes(mutated), len(data))
        except ValueError:
            refused += 1
    assert refused > 1000
