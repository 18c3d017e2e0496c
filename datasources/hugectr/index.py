"""Find where the blocks of a data set begin, and their sizes, by reading it once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash

from ..arrays.compiled import kernel
from ..errors import DataError
from .parts import Part
from .records import COUNT, FINITE, KEY, LENGTH, MORE, SUM, Bytes, Layout, measure

CHUNK = 1 << 22  # bytes that are read at once, or one record if it is larger

FAULTS = {
    MORE: "is cut off, or its keys are of another size (input_key_type)",
    LENGTH: "has parts that do not fill its length; are its keys of another size (input_key_type)?",
    COUNT: "has an impossible number of keys; are keys of another size (input_key_type), or is the "
    "file damaged?",
    SUM: "does not match its check sum; the file is damaged",
    KEY: "has a key without a column in slot {place}; it must be less than the size of its slot "
    "(slot_size_array, vocabulary_size), or hashed (hash_bits)",
    FINITE: "has {number} that is not finite",
}


@dataclass(frozen=True)
class Index:
    """The places and sizes of all blocks.

    parts: the files.
    rows: number of records in all files.
    files, offsets: int64 [blocks + 1], the part and the byte in it where each block begins; the
        last entry is the end of the last block.
    nnz: features of a block, at most, approximately.
    nbytes: bytes of a block, at most.
    fingerprint: XXH3 of all records.
    """

    parts: list[Part]
    rows: int
    files: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    nnz: int
    nbytes: int
    fingerprint: str


def make_index(parts: list[Part], layout: Layout, block_rows: int) -> Index:
    """Read and measure all records. Raises `DataError` naming file and record."""
    digest = xxhash.xxh3_64(repr(layout).encode())
    marks, buffer = [(0, parts[0].start)], np.empty(CHUNK, np.uint8)
    rows, nnz, nbytes = 0, 0, 0  # rows of all blocks; sizes of the present block:
    keys, size = 0, 0
    for number, part in enumerate(parts):
        done, at = 0, part.start
        while done < part.records:
            chunk = buffer[: part.size - at]
            part.read(at, chunk)
            begin = used = 0
            fault = 0
            while done < part.records and not fault:
                room = min(part.records - done, block_rows - rows % block_rows)
                count, used, found, fault = measure_some(chunk, used, chunk.size, layout, room)
                done, rows, keys = done + count, rows + count, keys + found
                size += used - begin
                begin = used
                nnz, nbytes = max(nnz, keys + layout.dense * block_rows), max(nbytes, size)
                if count and rows % block_rows == 0:
                    marks.append((number, at + used))
                    keys = size = 0
            digest.update(chunk[:used].data)
            at += used
            if fault and (fault != MORE or at - used + chunk.size == part.size):
                raise record_fault(part, done, fault)
            if fault and not used:
                buffer = np.empty(2 * buffer.size, np.uint8)
        if at != part.size:
            raise DataError(
                f"{part.path}: {part.size - at:,} bytes follow its {part.records:,} records; the "
                "number in the header or the size of keys (input_key_type) is wrong."
            )
    if not rows:
        raise DataError(f"{parts[0].path}: the file has no records.")
    if rows % block_rows:
        marks.append((len(parts) - 1, parts[-1].size))
    files, offsets = np.array(marks, np.int64).T
    return Index(parts, rows, files, offsets, max(nnz, 1), nbytes, digest.hexdigest())


def record_fault(
    part: Part, record: int, fault: int, place: int = 0, number: str = ""
) -> DataError:
    """Return the error for record `record` of a file."""
    text = FAULTS[fault].format(place=place, number=number)
    return DataError(f"{part.path}: record {record} (counted from 0) {text}.")


@kernel
def measure_some(
    data: Bytes, at: int, stop: int, layout: Layout, most: int
) -> tuple[int, int, int, int]:
    """Measure up to `most` records from `at` on.

    Returns the number of records, the end of the last one, the number of their keys, and the fault
    of the record that follows, or 0.
    """
    count, keys = 0, 0
    while count < most:
        end, found = measure(data, at, stop, layout)
        if end < 0:
            return count, at, keys, end
        count, at, keys = count + 1, end, keys + found
    return count, at, keys, 0
