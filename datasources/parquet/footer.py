"""Read the footer of a Parquet file without pyarrow.

pyarrow 26.0 ends the process when it is asked about a damaged footer: an exception crosses Cython
code that does not expect any. Opening and reading such files raises ordinary errors. A footer is a
struct of Thrift's compact protocol: https://parquet.apache.org/docs/file-format/metadata.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays.compiled import general_kernel, kernel
from ..errors import DataError

MAGIC = b"PAR1"
TAIL = 1 << 16  # bytes of the first read
DEEPEST = 32  # nesting of structs and lists, at most
# Numbers kept for each column of a row group, -1 where the footer has none: physical type, values
# (elements of lists, plus one for each empty or null list), bytes, nulls, and the places and sizes
# in the footer of the largest and the smallest value.
KIND, VALUES, NBYTES, NULLS, MAX_AT, MAX_SIZE, MIN_AT, MIN_SIZE = range(8)
NOTED = 8
BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


def read_footer(file: Any, size: int) -> bytes:
    """Return the footer of a file of `size` bytes.

    Raises `DataError` without the file's name.
    """
    start = max(0, size - TAIL)
    file.seek(start)
    tail = file.read(size - start)
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != MAGIC:
        raise DataError(
            f"not a whole Parquet file: its {size:,} bytes end with {tail[-4:]!r}, not {MAGIC!r}, "
            "so it was cut off. Write or copy it again."
        )
    if length > size - 12:
        raise DataError(
            f"not a whole Parquet file: its last bytes announce a footer of {length:,} bytes, but "
            f"the file has {size:,}. Write or copy it again."
        )
    if length + 8 > len(tail):
        file.seek(size - 8 - length)
        tail = file.read(length + 8)
    return bytes(tail[-8 - length : -8])


def numbers_in(footer: bytes, groups: int, leaves: int) -> tuple[Any, Any]:
    """Parse a footer.

    Returns:
        The rows of each row group, int64 [groups].
        The numbers of each column, int64 [groups, leaves, NOTED]; see `NOTED`.

    Raises `DataError` without the file's name.
    """
    rows = np.full(groups, -1, np.int64)
    noted = np.full((groups, leaves, NOTED), -1, np.int64)
    found = walk(np.frombuffer(footer, np.uint8), rows, noted)
    if found != groups or (rows < 0).any() or (noted[:, :, :NULLS] < 0).any():
        raise DataError("its footer is damaged: it does not describe every row group.")
    return rows, noted


def check_total(rows: npt.NDArray[np.int64], total: int) -> None:
    """Refuse row groups that do not have the rows of the file together.

    Raises `DataError` without the file's name.
    """
    together = sum(rows.tolist())
    if together != total:
        raise DataError(
            f"its footer is damaged: its row groups have {together:,} rows together, but the file "
            f"has {total:,}."
        )


def largest_in(footer: bytes, noted: npt.NDArray[np.int64]) -> int | None:
    """Return the largest value of a column of integers, None if unknown."""
    at, size = int(noted[MAX_AT]), int(noted[MAX_SIZE])
    if int(noted[KIND]) not in (1, 2) or size not in (4, 8):
        return None
    number = int.from_bytes(footer[at : at + size], "little", signed=True)
    return number if number >= 0 else None  # large unsigned numbers look negative


@kernel
def note_number(
    ids: npt.NDArray[np.int64],
    number: int,
    group: int,
    leaf: int,
    rows: npt.NDArray[np.int64],
    noted: npt.NDArray[np.int64],
) -> None:
    """Keep a number of a row group, or of a column of one, if it is asked for.

    ids: the present field of each open struct. (4, 1, 3, 5) is field 5 (num_values) of field 3
    (meta_data) of an element of field 1 (columns) of an element of field 4 (row_groups).
    """
    levels = ids.size
    if levels == 2 and ids[1] == 3:
        rows[group] = number
    elif levels >= 4 and ids[1] == 1 and ids[2] == 3:
        if levels == 4 and ids[3] == 1:
            noted[group, leaf, KIND] = number
        elif levels == 4 and ids[3] == 5:
            noted[group, leaf, VALUES] = number
        elif levels == 4 and ids[3] == 6:
            noted[group, leaf, NBYTES] = number
        elif levels == 5 and ids[3] == 12 and ids[4] == 3:
            noted[group, leaf, NULLS] = number


@kernel
def note_place(
    ids: npt.NDArray[np.int64],
    at: int,
    size: int,
    group: int,
    leaf: int,
    noted: npt.NDArray[np.int64],
) -> None:
    """Keep the place of the largest or the smallest value of a column. ids: see `note_number`."""
    if ids.size == 5 and ids[1] == 1 and ids[2] == 3 and ids[3] == 12:
        if ids[4] == 5:
            noted[group, leaf, MAX_AT], noted[group, leaf, MAX_SIZE] = at, size
        elif ids[4] == 6:
            noted[group, leaf, MIN_AT], noted[group, leaf, MIN_SIZE] = at, size


@general_kernel
def walk(
    data: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64], noted: npt.NDArray[np.int64]
) -> int:
    """Parse a footer into `rows` and `noted`.

    Return its number of row groups, -1 if damaged. A stack holds the open structs and lists.
    `lefts` counts the remaining elements of a list. `ids` has the present field of each open
    struct: see `note_number`.
    """
    kinds = np.zeros(DEEPEST, np.int64)  # STRUCT, or for a list minus the type of its elements
    lefts = np.zeros(DEEPEST, np.int64)
    ids = np.zeros(DEEPEST, np.int64)
    at, depth, levels = 0, 0, 1  # place in data; depth of the stack; structs on the stack
    kinds[0] = STRUCT
    group, leaf = -1, -1
    while depth >= 0:
        if at >= data.size:
            return -1
        if kinds[depth] == STRUCT:
            head = np.int64(data[at])
            at += 1
            kind, step = head & 15, head >> 4
            if kind == 0:
                depth -= 1
                levels -= 1
                continue
            if step == 0:
                field, at = varint(data, at)
                ids[levels - 1] = (field >> 1) ^ -(field & 1)
            else:
                ids[levels - 1] += step
            if kind == BOOL_TRUE or kind == BOOL_FALSE:
                continue
        else:
            if lefts[depth] == 0:
                depth -= 1
                continue
            lefts[depth] -= 1
            kind = -kinds[depth]
        if at < 0 or at > data.size:
            return -1
        inside = levels >= 2 and ids[0] == 4
        if kind == BYTE or kind == BOOL_TRUE or kind == BOOL_FALSE:
            at += 1
        elif kind == I16 or kind == I32 or kind == I64:
            number, at = varint(data, at)
            if at < 0:
                return -1
            signed = ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1)
            if inside:
                note_number(ids[:levels], signed, group, leaf, rows, noted)
        elif kind == DOUBLE:
            at += 8
        elif kind == BINARY:
            length, at = varint(data, at)
            if at < 0 or length < 0 or length > data.size - at:
                return -1
            if inside:
                note_place(ids[:levels], at, length, group, leaf, noted)
            at += length
        elif kind == LIST or kind == SET:
            if depth + 1 == DEEPEST or at >= data.size:
                return -1
            head = np.int64(data[at])
            at += 1
            count = int(head >> 4)
            if count == 15:
                count, at = varint(data, at)
            if at < 0 or count < 0 or count > data.size or head & 15 == 0:
                return -1
            depth += 1
            kinds[depth], lefts[depth] = -(head & 15), count
        elif kind == STRUCT:
            if depth + 1 == DEEPEST:
                return -1
            if levels == 1 and ids[0] == 4:
                group, leaf = group + 1, -1
                if group >= rows.size:
                    return -1
            elif inside and levels == 2 and ids[1] == 1:
                leaf += 1
                if leaf >= noted.shape[1]:
                    return -1
            depth += 1
            kinds[depth], ids[levels] = STRUCT, 0
            levels += 1
        else:
            return -1  # maps and invalid types: footers have neither
    return group + 1


@kernel
def varint(data: npt.NDArray[np.uint8], at: int) -> tuple[int, int]:
    """Return the variable-length number at `at`, and its end, -1 if cut off."""
    number, shift = np.int64(0), 0
    while at < data.size and shift < 64:
        byte = np.int64(data[at])
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return int(number), at
        shift += 7
    return int(number), -1
