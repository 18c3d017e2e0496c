"""Writes an Arrow IPC file in batches, each with its place and digest.

pyarrow makes every byte of it except the list of batches at its end. So an interrupted file can be
cut after any batch and continued, which pyarrow's own writer cannot do.
"""

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import xxhash

from ..errors import DataError
from .write_bytes import write_all

HEADER, BUFFERS, BATCHES = 2, 2, 3  # fields of Message, RecordBatch and Footer
BLOCK = struct.Struct("<qi4xq")  # offset, bytes of the description, bytes of the body


def batch_buffers(message: bytes) -> list[tuple[int, int]]:
    """Return `(offset, length)` of every buffer of a batch, from its message's start.

    message: with its prefix; the body may be missing. Buffers come in the order of the schema,
    including those for missing values.
    """
    size = struct.unpack_from("<i", message, 4)[0]
    table = _follow(message, 8)
    batch = _follow(message, _field(message, table, HEADER))
    vector = _follow(message, _field(message, batch, BUFFERS))
    count = struct.unpack_from("<I", message, vector)[0]
    pairs = struct.iter_unpack("<qq", message[vector + 4 : vector + 4 + 16 * count])
    return [(8 + size + offset, length) for offset, length in pairs]


def footer(empty: bytes, batches: Sequence[tuple[int, int, int]]) -> bytes:
    """Return the footer of a file with these batches.

    - empty: the footer of a file of the same schema without batches; the list of batches is
      appended to it.
    - batches: `(offset, bytes of the description, bytes of the body)` each.
    """
    data = bytearray(empty)
    place = _field(data, _follow(data, 0), BATCHES)
    while (len(data) + 4) % 8:
        data.append(0)
    struct.pack_into("<I", data, place, len(data) - place)
    data += struct.pack("<I", len(batches))
    for batch in batches:
        data += BLOCK.pack(*batch)
    return bytes(data)


def _follow(data: bytes | bytearray, at: int) -> int:
    """Return the place that the offset at `at` points to."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes | bytearray, table: int, number: int) -> int:
    """Return the place of field `number` of a table; the field must exist."""
    names = table - int(struct.unpack_from("<i", data, table)[0])
    return table + int(struct.unpack_from("<H", data, names + 4 + 2 * number)[0])


Codec = Literal["raw", "lz4"]
MAGIC = b"ARROW1\0\0"
END = b"\xff\xff\xff\xff\0\0\0\0"  # marks the end of the batches
PAD = 8  # bytes that messages and buffers are padded to


class Batch(NamedTuple):
    """The place of one batch in its file: a description, then the buffers.

    - offset: of the description, from the start of the file.
    - head: bytes of the description.
    - bytes: bytes of description and buffers.
    - xxh3: digest of all these bytes, 16 hexadecimal digits.
    """

    offset: int
    head: int
    bytes: int
    xxh3: str


class ArrowFile:
    """Writes batches of `schema` to the file `path`, and a list of them at the end.

    end: the end of the last batch, to continue an interrupted file; bytes after it are cut off.
    None: replace any existing file. A process that reads the old file keeps it.
    """

    def __init__(self, path: Path, schema: Any, codec: Codec, end: int | None = None) -> None:
        """Open the file."""
        import pyarrow as pa

        self.path, self._schema = path, schema
        self._options = pa.ipc.IpcWriteOptions(compression=None if codec == "raw" else codec)
        self._start = len(schema.serialize())
        if end is None:
            path.unlink(missing_ok=True)
            self._file = path.open("xb", buffering=0)
            self._end = 0
            self._write(MAGIC + schema.serialize().to_pybytes())
        else:
            size = path.stat().st_size
            if size < end:
                raise DataError(
                    f"{path}: {size:,} bytes, but {end:,} were stored; cannot resume writing it. "
                    "Begin again without resuming."
                )
            self._file = path.open("r+b", buffering=0)
            self._file.truncate(end)
            self._file.seek(end)
            self._end = end

    def append(self, batch: Any) -> tuple[Batch, list[tuple[int, int]]]:
        """Write a `pyarrow.RecordBatch`; return its place and that of its buffers.

        A buffer is given by its offset within the batch and its length.
        """
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema, options=self._options) as stream:
            stream.write_batch(batch)
        message = memoryview(sink.getvalue())[self._start : -len(END)]
        head = 8 + int(struct.unpack_from("<i", message, 4)[0])
        buffers = batch_buffers(bytes(message[:head]))
        digest = xxhash.xxh3_64_hexdigest(message)
        found = Batch(self._end, head, len(message), digest)
        self._write(message)
        return found, buffers

    def sync(self) -> None:
        """Wait until all written bytes are on disk."""
        os.fsync(self._file.fileno())

    def finish(self, batches: Iterable[Batch]) -> int:
        """Write the list of all `batches`, sync and close the file; return its bytes."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        pa.ipc.new_file(sink, self._schema).close()
        empty = sink.getvalue().to_pybytes()
        size = struct.unpack_from("<i", empty, len(empty) - 10)[0]
        tail = footer(
            empty[-10 - size : -10], [(b.offset, b.head, b.bytes - b.head) for b in batches]
        )
        self._write(END + tail + struct.pack("<i", len(tail)) + MAGIC[:6])
        self.sync()
        self.close()
        return self._end

    def close(self) -> None:
        """Close the file, finished or not."""
        self._file.close()

    def _write(self, data: bytes | memoryview) -> None:
        write_all(self._file, data)
        self._end += len(data)


def padded(length: Any) -> Any:
    """Round `length`, a number or an array, up to the start of the next buffer."""
    return -(-length // PAD) * PAD
