"""The few bytes of Arrow's own descriptions (Flatbuffers) that a block dataset needs.

Written by pyarrow and read here, where each buffer of a batch lies; and the footer of a file, which
pyarrow writes only together with the batches, made from that of an empty file. The tables are those
of Arrow's `Message.fbs` and `File.fbs`. Only what pyarrow has just made is read.
"""

import struct
from collections.abc import Sequence

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
