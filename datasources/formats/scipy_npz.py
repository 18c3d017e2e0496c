"""Sparse matrices that `scipy.sparse.save_npz` wrote: CSR as it is, CSC and COO after grouping."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DataError
from .entries import Entries
from .grouping import Grouped, group
from .names import names_beside
from .npz_archive import NpzArchive
from .rows import FIRST, Known, Layout, Place, RowFile, Rows, Sparse, check_columns, check_finite
from .scratch import Scratch
from .sections import CHUNK_NUMBERS, Csr


def scipy_npz(paths: Sequence[Path], scratch: Scratch, known: Known | None = None) -> RowFile:
    """Rows of a .npz file of the format csr, csc or coo. Values at one place are added. Names of
    the columns are those of `vocab.txt` beside it, if there is one. Raises `DataError`.
    """
    if len(paths) > 1:
        raise DataError(f"{paths[1]}: an .npz file is a whole matrix; convert one by one.")
    path, archive = paths[0], NpzArchive(paths[0], scratch.tell)
    kind, (rows, columns) = archive.text("format"), archive.shape()
    check_columns(path, columns, known)
    layout = Layout(columns, names=known.names if known else names_beside(path, columns, scratch))
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
        """All rows from `start` on."""
        for done, X in read_csr(self.archive, self.rows, self.layout.columns, start.offset):
            yield Rows(X, Place(0, done, 0))


def read_csr(
    archive: NpzArchive, rows: int, columns: int, start: int = 0
) -> Iterator[tuple[int, Sparse]]:
    """Rows of a compressed matrix from `start` on, each chunk with the number of the row after."""
    with archive.sections("indptr", "indices", "data") as (indptr, indices, values):
        if indptr.size != rows + 1 or indices.size != values.size:
            raise DataError(
                f"{archive.path}: {rows} rows with {indptr.size} offsets, {indices.size} indices "
                f"and {values.size} values, but these must be {rows + 1}, and as many of the other "
                "two."
            )
        if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
            raise DataError(f"{archive.path}: offsets and indices must be integers.")
        yield from Csr(str(archive.path), columns, indptr, indices, values).read(start)


def csc_entries(archive: NpzArchive, rows: int, columns: int) -> Iterator[Entries]:
    """All entries of a matrix that is stored by columns."""
    for done, X in read_csr(archive, columns, rows):
        count = X.indptr.size - 1
        numbers = np.arange(done - count, done, dtype=np.int32)
        yield Entries(X.indices.astype(np.int64), np.repeat(numbers, np.diff(X.indptr)), X.values)


def coo_entries(archive: NpzArchive, rows: int, columns: int) -> Iterator[Entries]:
    """All entries of a list of entries."""
    name = str(archive.path)
    with archive.sections("row", "col", "data") as (row, column, value):
        if not row.size == column.size == value.size:
            raise DataError(f"{name}: {row.size} rows, {column.size} columns, {value.size} values.")
        for first in range(0, row.size, CHUNK_NUMBERS):
            count = min(CHUNK_NUMBERS, row.size - first)
            found = [section.read(count) for section in (row, column, value)]
            for what, numbers, most in [("row", found[0], rows), ("column", found[1], columns)]:
                if numbers.dtype.kind not in "iu":
                    raise DataError(f"{name}: {what} numbers must be integers.")
                wrong = np.flatnonzero((numbers < 0) | (numbers >= most))
                if wrong.size:
                    raise DataError(
                        f"{name}: entry {first + wrong[0]} is in {what} {numbers[wrong[0]]}, but "
                        f"there are {most} (0 to {most - 1})."
                    )
            values = check_finite(found[2], f"{name}: entries", first)
            yield Entries(found[0].astype(np.int64), found[1].astype(np.int32), values)
