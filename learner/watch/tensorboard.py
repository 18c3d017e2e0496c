"""Write scalars for TensorBoard without its library: one message type is enough.

An event file is a sequence of records (TFRecord: length, CRC, data, CRC). Their data are protocol
buffers of the type `Event` (tensorflow/core/util/event.proto), with only the fields below.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blocklearn.durable import make_folder, naming

from .scalars import scalars_of

# Numbers of fields with their wire types, as in protocol buffers.
WALL_TIME, STEP, FILE_VERSION, SUMMARY, SESSION_LOG = b"\x09", b"\x10", b"\x1a", b"\x2a", b"\x3a"
VALUE = b"\x0a"  # of Summary
TAG, SIMPLE_VALUE = b"\x0a", b"\x15"  # of Value
STARTED = b"\x08\x01"  # of SessionLog: voids later steps of earlier files


class TensorBoard:
    """A sink that writes scalars to a new event file in `folder`; steps are rows."""

    def __init__(self, folder: Path) -> None:
        """Choose the file's name; the first event creates the file."""
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        self.file = folder / name

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Append the scalars of an event."""
        step = int(event["rows"])
        if event["event"] == "start":
            make_folder(self.file.parent)
            self._append(FILE_VERSION + sized(b"brain.Event:2"))
            self._append(STEP + varint(step) + SESSION_LOG + sized(STARTED))
        scalars = scalars_of(event)
        if scalars:
            values = (
                VALUE + sized(TAG + sized(tag.encode()) + SIMPLE_VALUE + float32(value))
                for tag, value in scalars.items()
            )
            self._append(STEP + varint(step) + SUMMARY + sized(b"".join(values)))

    def _append(self, message: bytes) -> None:
        with naming(self.file), self.file.open("ab") as file:
            file.write(record(WALL_TIME + struct.pack("<d", time.time()) + message))


def record(data: bytes) -> bytes:
    """Return `data` as a TFRecord."""
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def masked(data: bytes) -> bytes:
    """Return the CRC-32C rotated and shifted as in TFRecords, so that it is no CRC of a CRC."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """Return the checksum of RFC 3720 (Castagnoli).

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_OF_BYTE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _crc_of_byte(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


CRC_OF_BYTE = tuple(map(_crc_of_byte, range(256)))


def float32(value: float) -> bytes:
    """Return a number as four bytes; infinity if it is too large."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def sized(data: bytes) -> bytes:
    """Return `data` after its length."""
    return varint(len(data)) + data


def varint(number: int) -> bytes:
    """Return a number of 0 or more in groups of seven bits.

    >>> varint(300).hex()
    'ac02'
    """
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
