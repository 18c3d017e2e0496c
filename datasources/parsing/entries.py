"""Parse lines of `row column value`, counted from 1; plain ones by a kernel."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays.compiled import kernel
from ..errors import DataError
from .layout import Place
from .lines import Lines, line_chunks
from .numbers import INTEGER, parse_float32, read_float, read_index, show
from .scratch import Scratch

SPACE, TAB, RETURN, NEWLINE, PERCENT = (ord(c) for c in " \t\r\n%")


class Entries(NamedTuple):
    """Entries of a matrix, from 0: rows int64, columns int32, values float32; [n]."""

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]


class Size(NamedTuple):
    """The size that a file declares.

    valued: whether entries have values; otherwise each is 1.
    """

    rows: int
    columns: int
    entries: int
    valued: bool = True


def parse_entry(line: bytes, size: Size) -> tuple[int, int, float] | None:
    """Parse a line; None if it is empty or a comment.

    Raises `ValueError` for an invalid line.

    >>> parse_entry(b"3 1 -2.5e3", Size(3, 2, 1))
    (2, 0, -2500.0)
    """
    words = line.split()
    if not words or words[0].startswith(b"%"):
        return None
    if len(words) != 2 + size.valued:
        raise ValueError(f"{show(line)}: a line must have {2 + size.valued} numbers")
    found = []
    for what, text, most in [("row", words[0], size.rows), ("column", words[1], size.columns)]:
        if not INTEGER.fullmatch(text):
            raise ValueError(f"{show(text)} is not a {what} number")
        if not 1 <= int(text) <= most:
            raise ValueError(f"{what} {int(text)}: must be 1 to {most}")
        found.append(int(text) - 1)
    return found[0], found[1], parse_float32(words[2]) if size.valued else 1.0


def parse_entries(chunk: Lines, size: Size) -> Entries:
    """Parse all entries of a chunk. Raises `DataError` naming file and line."""
    data = np.frombuffer(chunk.data, np.uint8)
    most = int(np.count_nonzero(data == NEWLINE))
    rows, columns = np.empty(most, np.int64), np.empty(most, np.int32)
    values = np.ones(most, np.float32)
    at, done = 0, 0
    while True:
        at, done = plain_entries(data, at, done, size, rows, columns, values)
        if at == len(data):
            return Entries(rows[:done], columns[:done], values[:done])
        end = chunk.data.index(b"\n", at)
        entry = chunk.parse(at, end, partial(parse_entry, size=size))
        if entry is not None:
            rows[done], columns[done], values[done] = entry
            done += 1
        at = end + 1


def read_entries(path: Path, size: Size, body: Place, scratch: Scratch) -> Iterator[Entries]:
    """Yield all entries from `body` on.

    Raises `DataError` if their number is not as declared.
    """
    count = 0
    for chunk in line_chunks([path], scratch, body):
        entries = parse_entries(chunk, size)
        count += entries.rows.size
        if count > size.entries:
            break
        yield entries
    if count != size.entries:
        found = "more" if count > size.entries else f"only {count:,}"
        raise DataError(
            f"{path}: {size.entries:,} entries declared, but {found} found; is it cut off?"
        )


@kernel
def plain_entries(
    data: npt.NDArray[np.uint8],
    at: int,
    done: int,
    size: Size,
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
) -> tuple[int, int]:
    """Parse lines from `at` on, up to the first line that is not plain.

    A plain line has numbers within `size` that `read_float` reads with certainty, bit for bit as
    Python does. done: number of entries parsed before.

    Returns where parsing stopped, and the number of entries parsed so far.
    """
    end = data.size
    while at < end:
        here = skip_blanks(data, at)
        row, here = read_index(data, here, end)
        here = skip_blanks(data, here)
        column, here = read_index(data, here, end)
        if not (1 <= row <= size.rows and 1 <= column <= size.columns):
            break
        if size.valued:
            start = here
            here = skip_blanks(data, here)
            values[done], after, certain = read_float(data, here, end)
            if not certain or here == start:
                break
            here = after
        here = skip_blanks(data, here)
        if data[here] != NEWLINE:
            break
        rows[done], columns[done] = row - 1, column - 1
        done += 1
        at = here + 1
    return at, done


@kernel
def skip_blanks(data: npt.NDArray[np.uint8], at: int) -> int:
    """Return where the next word begins or the line ends."""
    while data[at] == SPACE or data[at] == TAB or data[at] == RETURN:
        at += 1
    return at
