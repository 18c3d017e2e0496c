"""Read BIDMat's matrices, plain or packed (`.lz4`, `.gz`); see its HMat.scala.

A file is little-endian. It begins with four int32: type, rows, columns, non-zeros. A sparse matrix
then has columns + 1 int32 offsets, int32 row numbers and the values. A dense one has its values,
column by column. The type is 100 * (1 dense, 2 sparse, 3 sparse without row numbers) + 10 *
(0 int8, 1 int32, 2 int64, 3 float32, 4 float64) + (1 if indices are int32). BIDMat's samples are
columns, so each column becomes a row.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..packed.streams import PACKED, opened, read_exactly
from ..parsing.layout import FIRST, Known, Layout, Place, Rows, Sparse, check_columns, check_finite
from ..parsing.scratch import Scratch, silent
from ..parsing.sections import CHUNK_NUMBERS, Csr, Section
from .names import names_beside

HEAD = struct.Struct("<4i")
TYPES = {0: "<i1", 1: "<i4", 2: "<i8", 3: "<f4", 4: "<f8"}
DENSE, SPARSE, DENSE_COLUMNS = 1, 2, 3
STRINGS = 302


class Head(NamedTuple):
    """The head of a file; rows are BIDMat's columns."""

    kind: int
    dtype: np.dtype[Any]
    rows: int
    columns: int
    nnz: int

    @property
    def nbytes(self) -> int:
        """The bytes of the whole file."""
        if self.kind == DENSE:
            return HEAD.size + self.rows * self.columns * self.dtype.itemsize
        numbers = self.rows + 1 + (self.nnz if self.kind == SPARSE else 0)
        return HEAD.size + 4 * numbers + self.nnz * self.dtype.itemsize

    def __str__(self) -> str:
        """Return kind and size, in BIDMat's terms."""
        kind = "dense" if self.kind == DENSE else "sparse"
        return f"{kind} BIDMat matrix of {self.columns:,} rows and {self.rows:,} columns"


class BidmatFile:
    """Reads the columns of BIDMat matrices as rows, one file after the other.

    All files must have the same number of BIDMat rows, and be all sparse or all dense. Names of
    columns come from `vocab.txt` beside the first file, if it exists. Raises `DataError`.
    """

    def __init__(self, paths: Sequence[Path], scratch: Scratch, known: Known | None = None) -> None:
        """Read the heads of all files."""
        self._paths, self._scratch = paths, scratch
        heads = [read_head(path) for path in paths]
        for path, head in zip(paths, heads, strict=True):
            if (head.columns, head.kind == DENSE) != (heads[0].columns, heads[0].kind == DENSE):
                raise DataError(
                    f"{path}: a {head}, but {paths[0]} is a {heads[0]}: all files must have as "
                    "many columns, and all be dense or all sparse."
                )
        columns = check_columns(paths[0], heads[0].columns, known)
        names = names_beside(paths[0], columns) if known is None else known.names
        self.layout = Layout(columns, dense=heads[0].kind == DENSE, names=names)

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        for number in range(start.file, len(self._paths)):
            path, row = self._paths[number], start.offset if number == start.file else 0
            head = read_head(path)
            read = read_dense if head.kind == DENSE else read_sparse
            for done, X in read(path, head, row, self._scratch):
                yield Rows(X, Place(number, done, 0))


def read_head(path: Path) -> Head:
    """Read the first four numbers.

    Raises `DataError` unless they describe a matrix of numbers.
    """
    with opened(path, silent) as stream:
        kind, columns, rows, nnz = HEAD.unpack(read_exactly(stream, HEAD.size, "the header"))
    if kind == STRINGS:
        raise DataError(f"{path}: a BIDMat matrix of strings; must be a matrix of numbers.")
    form, rest = divmod(kind, 100)
    sparse = form in (SPARSE, DENSE_COLUMNS)
    if form not in (DENSE, SPARSE, DENSE_COLUMNS) or rest % 10 != sparse or rest // 10 not in TYPES:
        raise DataError(
            f"{path}: begins with {kind}, which is not the type of a BIDMat number matrix (130 is "
            "FMat, 231 SMat, 201 SBMat, 110 IMat)."
        )
    if rows < 1 or columns < 1 or nnz < 0:
        raise DataError(
            f"{path}: a BIDMat matrix of {columns} rows, {rows} columns and {nnz} non-zeros: must "
            "have at least one row and one column."
        )
    head = Head(form, np.dtype(TYPES[rest // 10]), rows, columns, nnz)
    size = path.stat().st_size
    if path.suffix.lower() not in PACKED and size != head.nbytes:
        raise DataError(
            f"{path}: {size:,} bytes, but a {head} has {head.nbytes:,}: cut off, or not BIDMat's."
        )
    return head


def read_dense(
    path: Path, head: Head, start: int, scratch: Scratch
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Yield rows from `start` on, each chunk with the number of the row after it."""
    width = head.columns * head.dtype.itemsize
    with opened(path, scratch.tell, HEAD.size + start * width) as stream:
        values = Section(stream, head.dtype, (head.rows - start) * head.columns, "the values")
        step = max(1, CHUNK_NUMBERS // head.columns)
        for first in range(start, head.rows, step):
            count = min(step, head.rows - first)
            table = values.read(count * head.columns).reshape(count, head.columns)
            yield first + count, check_finite(table, str(path), first)
        check_end(path, stream)


def read_sparse(
    path: Path, head: Head, start: int, scratch: Scratch
) -> Iterator[tuple[int, Sparse]]:
    """Yield rows of a sparse matrix; see `read_dense`."""
    indices_at = HEAD.size + 4 * (head.rows + 1)
    values_at = indices_at + (4 * head.nnz if head.kind == SPARSE else 0)
    with (
        opened(path, silent, HEAD.size) as first,
        opened(path, silent, indices_at) as second,
        opened(path, scratch.tell, values_at) as third,
    ):
        indptr = Section(first, np.dtype("<i4"), head.rows + 1, "offsets")
        indices = Section(second, np.dtype("<i4"), head.nnz, "row numbers")
        values = Section(third, head.dtype, head.nnz, "values")
        stored = indices if head.kind == SPARSE else None
        yield from Csr(str(path), head.columns, indptr, stored, values).read(start)
        check_end(path, third)


def check_end(path: Path, stream: BinaryIO) -> None:
    """Raise `DataError` if bytes follow the matrix."""
    if stream.read(1):
        raise DataError(f"{path}: longer than its header says.")
