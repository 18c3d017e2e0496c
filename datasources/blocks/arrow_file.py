"""An Arrow IPC file that is written batch by batch, and of each batch where it lies and its digest.

pyarrow makes every byte of it but the list of batches at its end. So a file whose writing was
interrupted can be cut after any batch and gone on with, which pyarrow's own writer cannot do.
"""

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import xxhash

from ..errors import DataError

HEADER, BUFFERS, BATCHES = 2, 2, 3  # fields of Message, RecordBatch and Footer
BLOCK = struct.Struct("<qi4xq")  # offset, bytes of the description, bytes of the body


def batch_buffers(message: bytes) -> list[tuple[int, int]]:
    """`(offset, length)` of every buffer of a record batch, from the start of its message.

    message: with its prefix; the body may be missing. Buffers come in the order of the schema,
    those for missing values included.
    """
    size = struct.unpack_from("<i", message, 4)[0]
    table = _follow(message, 8)
    batch = _follow(message, _field(message, table, HEADER))
    vector = _follow(message, _field(message, batch, BUFFERS))
    count = struct.unpack_from("<I", message, vector)[0]
    pairs = struct.iter_unpack("<qq", message[vector + 4 : vector + 4 + 16 * count])
    return [(8 + size + offset, length) for offset, length in pairs]


def footer(empty: bytes, batches: Sequence[tuple[int, int, int]]) -> bytes:
    """The footer of a file with these batches: `(offset, bytes of description, of body)` each.

    empty: the footer of a file of the same schema without batches. Its list of batches is put
    behind its end, where there is room.
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
    """Where the offset at `at` points."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes | bytearray, table: int, number: int) -> int:
    """Where field `number` of a table lies; it must be there."""
    names = table - int(struct.unpack_from("<i", data, table)[0])
    return table + int(struct.unpack_from("<H", data, names + 4 + 2 * number)[0])


Codec = Literal["raw", "lz4"]
MAGIC = b"ARROW1\0\0"
END = b"\xff\xff\xff\xff\0\0\0\0"  # of the batches
PAD = 8  # bytes that messages and buffers are padded to


class Batch(NamedTuple):
    """Where one batch lies in its file: its description (`head` bytes), and behind it its buffers.

    xxh3: of all `bytes` of it, 16 hexadecimal digits.
    """

    offset: int
    head: int
    bytes: int
    xxh3: str


class ArrowFile:
    """Writes the batches of `schema` to `path`, and a list of them at the end.

    end: where the last batch ends of a file that is to be gone on with; what is behind it is cut
    off. Without, a file that is there is replaced: who reads it keeps the old one.
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
                    f"{path}: {size:,} bytes, but {end:,} were stored; it cannot be gone on with. "
                    "Begin again without resuming."
                )
            self._file = path.open("r+b", buffering=0)
            self._file.truncate(end)
            self._file.seek(end)
            self._end = end

    def append(self, batch: Any) -> tuple[Batch, list[tuple[int, int]]]:
        """Write a `pyarrow.RecordBatch`: where it lies, and of each of its buffers the offset
        within it and the length.
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
        """Wait until all that was written is on disk."""
        os.fsync(self._file.fileno())

    def finish(self, batches: Iterable[Batch]) -> int:
        """Write the list of all `batches` and close the file, which is on disk then; its bytes."""
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
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:  # a full disk, mostly: say which
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._end += len(data)


def padded(length: Any) -> Any:
    """`length`, a number or an array, rounded up to what the next buffer starts at."""
    return -(-length // PAD) * PAD
