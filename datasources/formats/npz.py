"""Read matrices of `scipy.sparse.save_npz`: CSR directly, others after grouping."""

import errno
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from ..errors import DataError
from ..packed.streams import Metered, read_exactly
from ..parsing.entries import Entries
from ..parsing.layout import (
    FIRST,
    Known,
    Layout,
    Place,
    RowFile,
    Rows,
    Sparse,
    check_columns,
    check_finite,
)
from ..parsing.npy_header import read_header
from ..parsing.scratch import Scratch
from ..parsing.sections import CHUNK_NUMBERS, Csr, Section
from .grouping import Grouped, group
from .names import names_beside

CUT_OFF = (zipfile.BadZipFile, zlib.error, EOFError)
DAMAGE = (
    *CUT_OFF, struct.error, KeyError, ValueError, TypeError, OverflowError, SyntaxError,
    NotImplementedError, RuntimeError,
)  # fmt: skip
SMALL = 64


@dataclass(frozen=True)
class NpzArchive:
    """A .npz file. tell: called with the bytes read. Methods raise `DataError`."""

    path: Path
    tell: Callable[[int], None]

    @contextmanager
    def sections(self, *names: str) -> Iterator[list[Section]]:
        """Open arrays [n], to be read side by side."""
        with ExitStack() as stack:
            with self._damage(DAMAGE):
                found = [self._section(stack, name) for name in names]
            with self._damage(CUT_OFF):
                yield found

    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns, at least one of each."""
        with self.sections("shape") as (section,), self._damage(DAMAGE):
            if section.size != 2 or section.dtype.kind not in "iu":
                raise ValueError("its shape is not two integers")
            rows, columns = section.read(2).tolist()
            if rows < 1 or columns < 1:
                raise ValueError(f"{rows} rows and {columns} columns: must be at least one of each")
            return rows, columns

    def text(self, name: str) -> str:
        """Return a short text stored as an array of its own."""
        with ExitStack() as stack, self._damage(DAMAGE):
            stream = self._open(stack, name)
            head = read_header(stream, "SU")
            if head.shape != () or head.dtype.itemsize > SMALL:
                raise ValueError(f"its {name} is not a short text")
            data = read_exactly(stream, head.dtype.itemsize, name)
            word = np.frombuffer(data, head.dtype)[0]
            return word.decode() if isinstance(word, bytes) else str(word)

    def _section(self, stack: ExitStack, name: str) -> Section:
        stream = self._open(stack, name)
        head = read_header(stream)
        if len(head.shape) != 1:
            raise ValueError(f"its array {name} has the shape {head.shape}")
        return Section(stream, head.dtype, head.shape[0], name)

    def _open(self, stack: ExitStack, name: str) -> BinaryIO:
        raw = stack.enter_context(BufferedReader(Metered(self.path, self.tell), 1 << 18))
        archive = stack.enter_context(zipfile.ZipFile(cast(BinaryIO, raw)))
        return cast(BinaryIO, stack.enter_context(archive.open(f"{name}.npy")))

    @contextmanager
    def _damage(self, kinds: tuple[type[Exception], ...]) -> Iterator[None]:
        caught: tuple[type[Exception], ...] = (*kinds, OSError)
        try:
            yield
        except DataError:
            raise
        except caught as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise  # from the operating system; EINVAL: damage led to an invalid position
            raise DataError(
                f"{self.path}: not a sparse matrix that scipy.sparse.save_npz wrote, or damaged: "
                f"{error}"
            ) from error


def scipy_npz(paths: Sequence[Path], scratch: Scratch, known: Known | None = None) -> RowFile:
    """Read the rows of a .npz file in the format csr, csc or coo.

    Values at one place are added. Names of columns come from `vocab.txt` beside the file, if it
    exists. Raises `DataError`.
    """
    if len(paths) > 1:
        raise DataError(f"{paths[1]}: an .npz file is a whole matrix; convert each by itself.")
    path, archive = paths[0], NpzArchive(paths[0], scratch.tell)
    kind, (rows, columns) = archive.text("format"), archive.shape()
    check_columns(path, columns, known)
    layout = Layout(columns, names=known.names if known else names_beside(path, columns))
    if kind == "csr":
        return CsrRows(archive, rows, layout)
    if kind == "csc":
        found = csc_entries(archive, rows, columns)
    elif kind == "coo":
        found = coo_entries(archive, rows, columns)
    else:
        raise DataError(f"{path}: a {kind} matrix; save it as csr: save_npz(file, X.tocsr()).")
    return Grouped(str(path), layout, group(str(path), found, rows, scratch), scratch)


@dataclass(frozen=True)
class CsrRows:
    """A CSR matrix in an archive."""

    archive: NpzArchive
    rows: int
    layout: Layout

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        for done, X in read_csr(self.archive, self.rows, self.layout.columns, start.offset):
            yield Rows(X, Place(0, done, 0))


def read_csr(
    archive: NpzArchive, rows: int, columns: int, start: int = 0
) -> Iterator[tuple[int, Sparse]]:
    """Yield CSR rows from `start` on, each chunk with the number of the row after it."""
    with archive.sections("indptr", "indices", "data") as (indptr, indices, values):
        if indptr.size != rows + 1 or indices.size != values.size:
            raise DataError(
                f"{archive.path}: {rows} rows with {indptr.size} offsets, {indices.size} indices "
                f"and {values.size} values; must have {rows + 1} offsets, and as many indices as "
                "values."
            )
        if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
            raise DataError(f"{archive.path}: offsets and indices must be integers.")
        yield from Csr(str(archive.path), columns, indptr, indices, values).read(start)


def csc_entries(archive: NpzArchive, rows: int, columns: int) -> Iterator[Entries]:
    """Yield all entries of a matrix that is stored by columns."""
    for done, X in read_csr(archive, columns, rows):
        count = X.indptr.size - 1
        numbers = np.arange(done - count, done, dtype=np.int32)
        yield Entries(X.indices.astype(np.int64), np.repeat(numbers, np.diff(X.indptr)), X.values)


def coo_entries(archive: NpzArchive, rows: int, columns: int) -> Iterator[Entries]:
    """Yield all entries of a matrix that is stored as a list of entries."""
    name = str(archive.path)
    with archive.sections("row", "col", "data") as (row, column, value):
        if not row.size == column.size == value.size:
            raise DataError(
                f"{name}: {row.size} row numbers, {column.size} column numbers and {value.size} "
                "values: must be as many of each."
            )
        for first in range(0, row.size, CHUNK_NUMBERS):
            count = min(CHUNK_NUMBERS, row.size - first)
            found = [section.read(count) for section in (row, column, value)]
            for what, numbers, most in [("row", found[0], rows), ("column", found[1], columns)]:
                if numbers.dtype.kind not in "iu":
                    raise DataError(f"{name}: {what} numbers must be integers.")
                wrong = np.flatnonzero((numbers < 0) | (numbers >= most))
                if wrong.size:
                    raise DataError(
                        f"{name}: entry {first + wrong[0]}: {what} {numbers[wrong[0]]} must be 0 "
                        f"to {most - 1}."
                    )
            values = check_finite(found[2], f"{name}: entries", first)
            yield Entries(found[0].astype(np.int64), found[1].astype(np.int32), values)
