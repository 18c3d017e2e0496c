"""Parse lines of LIBSVM text, in Python or by a kernel for plain lines."""

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays.block_shape import MAX_COLUMNS
from ..arrays.compiled import kernel
from ..parsing.layout import Sparse
from ..parsing.lines import Lines
from ..parsing.numbers import INTEGER, parse_float32, read_float, read_index, show

SPACE, TAB, RETURN, NEWLINE, COLON, COMMA = (ord(c) for c in " \t\r\n:,")
LETTER_Q, LETTER_I, LETTER_D = (ord(c) for c in "qid")


class Line(NamedTuple):
    """A row: its labels, columns (from 0) and values. grouped: whether it has a qid."""

    labels: list[float]
    columns: list[int]
    values: list[float]
    grouped: bool


class Parsed(NamedTuple):
    """The rows of a chunk.

    X: the features.
    labels: float32, those of all rows, one after the other.
    counts: number of labels of each row.
    grouped: whether any row has a qid.
    slow: number of lines that are not plain.
    """

    X: Sparse
    labels: npt.NDArray[np.float32]
    counts: npt.NDArray[np.int64]
    grouped: bool
    slow: int


def parse_line(line: bytes, base: int) -> Line | None:
    """Parse a line, None if it is empty. Indices count from `base`.

    Raises `ValueError` for an invalid line.

    >>> parse_line(b"-1 3:0.5 7:2 # good", base=1)
    Line(labels=[-1.0], columns=[2, 6], values=[0.5, 2.0], grouped=False)
    """
    words = line.partition(b"#")[0].split()
    if not words:
        return None
    labels: list[float] = []
    if b":" not in words[0]:
        labels = [parse_float32(text) for text in words.pop(0).split(b",")]
    grouped = bool(words) and words[0].startswith(b"qid:")
    pairs: dict[int, float] = {}
    for word in words[1:] if grouped else words:
        index, colon, text = word.partition(b":")
        if not colon or not INTEGER.fullmatch(index):
            raise ValueError(f"{show(word)} is not index:value")
        column = int(index) - base
        if column < 0:
            raise ValueError(
                "index 0, but indices count from 1; if these count from 0, say zero_based: true in "
                "a configuration, --zero-based to `learn convert`"
            )
        if column >= MAX_COLUMNS:
            raise ValueError(f"index {int(index)}: must be at most {MAX_COLUMNS}")
        if column in pairs:
            raise ValueError(f"index {int(index)} comes twice")
        pairs[column] = parse_float32(text)
    columns = sorted(pairs)
    return Line(labels, columns, [pairs[column] for column in columns], grouped)


def parse(chunk: Lines, base: int) -> Parsed:
    """Parse all rows of a chunk. Raises `DataError` naming file and line."""
    data = np.frombuffer(chunk.data, np.uint8)
    most = int(np.count_nonzero(data == NEWLINE))
    labels = np.empty(most + int(np.count_nonzero(data == COMMA)), np.float32)
    counts, indptr = np.empty(most, np.int64), np.zeros(most + 1, np.int64)
    nnz = int(np.count_nonzero(data == COLON))
    indices, values = np.empty(nnz, np.int32), np.empty(nnz, np.float32)
    done = np.zeros(4, np.int64)  # rows, labels, non-zeros, qids
    at, slow = 0, 0
    while True:
        at = plain_lines(data, at, base, counts, labels, indptr, indices, values, done)
        if at == len(data):
            break
        end = chunk.data.index(b"\n", at)
        line = chunk.parse(at, end, partial(parse_line, base=base))
        if line is not None:
            row, label, entry, _ = done
            counts[row] = len(line.labels)
            labels[label : label + len(line.labels)] = line.labels
            indices[entry : entry + len(line.columns)] = line.columns
            values[entry : entry + len(line.columns)] = line.values
            done += (1, len(line.labels), len(line.columns), line.grouped)
            indptr[done[0]] = done[2]
        at, slow = end + 1, slow + 1
    rows, found, entries, grouped = done.tolist()
    X = Sparse(indptr[: rows + 1], indices[:entries], values[:entries])
    return Parsed(X, labels[:found], counts[:rows], grouped > 0, slow)


@kernel
def is_blank(byte: int) -> bool:
    """Return whether `byte` ends a word or the line."""
    return byte == SPACE or byte == NEWLINE or byte == TAB or byte == RETURN


@kernel
def plain_lines(
    data: npt.NDArray[np.uint8],
    at: int,
    base: int,
    counts: npt.NDArray[np.int64],
    labels: npt.NDArray[np.float32],
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    done: npt.NDArray[np.int64],
) -> int:
    """Parse lines from `at` on; return where the first one begins that is not plain.

    A plain line has labels, ascending indices, and numbers that `read_float` reads with certainty,
    bit for bit as Python does.

    done: int64 [4], rows, labels, non-zeros and qids parsed so far; updated in place.
    """
    end = data.size
    while at < end:
        row, label, entry, here, last = done[0], done[1], done[2], at, np.int64(-1)
        plain = True
        while not is_blank(data[here]):
            value, here, plain = read_float(data, here, end)
            if not plain:
                break
            if data[here] == COLON and label == done[1]:  # an index: the row has no label
                here = at
                break
            labels[label] = value
            label += 1
            if data[here] != COMMA:
                plain = is_blank(data[here])
                break
            here += 1
            plain = not is_blank(data[here])
        grouped = False
        while plain:
            while data[here] != NEWLINE and is_blank(data[here]):
                here += 1
            if data[here] == NEWLINE:
                break
            if data[here] == LETTER_Q and entry == done[2] and not grouped:
                grouped = data[here + 1] == LETTER_I and data[here + 2] == LETTER_D
                plain = grouped and data[here + 3] == COLON
                while not is_blank(data[here]):
                    here += 1
                continue
            index, here = read_index(data, here, end)
            if index - base <= last or index - base >= MAX_COLUMNS or data[here] != COLON:
                plain = False
                break
            values[entry], here, plain = read_float(data, here + 1, end)
            plain = plain and is_blank(data[here])
            indices[entry] = last = index - base
            entry += 1
        if not plain or (label == done[1] and entry == done[2]):
            break
        counts[row] = label - done[1]
        indptr[row + 1] = entry
        done[0], done[1], done[2] = row + 1, label, entry
        done[3] += grouped
        at = here + 1
    return at
