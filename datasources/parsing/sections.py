"""Read CSR from three sections of a file (offsets, indices, values) side by side."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..packed.streams import read_exactly
from .layout import Sparse, checked_csr

CHUNK_ROWS = 1 << 14
CHUNK_NUMBERS = 1 << 20


class Section(NamedTuple):
    """`size` numbers of one dtype in a stream, starting at its current position."""

    stream: BinaryIO
    dtype: np.dtype[Any]
    size: int
    name: str

    def read(self, count: int) -> npt.NDArray[Any]:
        """Return the next `count` numbers. Raises `EOFError` if fewer are left."""
        data = read_exactly(self.stream, count * self.dtype.itemsize, self.name)
        return np.frombuffer(data, self.dtype)

    def skip(self, count: int) -> None:
        """Skip the next `count` numbers."""
        for done in range(0, count, CHUNK_NUMBERS):
            self.read(min(CHUNK_NUMBERS, count - done))


@dataclass(frozen=True)
class Csr:
    """A matrix in sections of a file.

    name: of the file, in messages.
    indptr: rows + 1 integers.
    indices: None if each row has the columns 0, 1, 2, ...
    """

    name: str
    columns: int
    indptr: Section
    indices: Section | None
    values: Section

    def read(self, start: int) -> Iterator[tuple[int, Sparse]]:
        """Yield rows from `start` on in chunks, each with the number of the row after it.

        Indices are sorted, and values at one place are added. Raises `DataError`, naming the row,
        for invalid rows, and `EOFError` if a section is too short.
        """
        rows = self.indptr.size - 1
        self.indptr.skip(start)
        last = int(self.indptr.read(1)[0])
        if start == 0 and last != 0:
            raise DataError(f"{self.name}: offsets start at {last}, but must start at 0.")
        for section in (self.indices, self.values):
            if section is not None:
                section.skip(last)
        for first in range(start, rows, CHUNK_ROWS):
            ends = self.indptr.read(min(CHUNK_ROWS, rows - first)).astype(np.int64)
            offsets = np.concatenate([[last], ends])
            self._check_offsets(offsets, first)
            last = int(ends[-1])
            cut = 0
            while cut < ends.size:  # each chunk has at least one row
                limit = offsets[cut] + CHUNK_NUMBERS
                stop = max(cut + 1, int(np.searchsorted(offsets, limit, side="right")) - 1)
                yield first + stop, self._chunk(offsets[cut : stop + 1], first + cut)
                cut = stop
        if last != self.values.size:
            raise DataError(
                f"{self.name}: offsets end at {last}, but there are {self.values.size} numbers."
            )

    def _check_offsets(self, offsets: npt.NDArray[np.int64], first: int) -> None:
        wrong = np.flatnonzero((np.diff(offsets) < 0) | (offsets[1:] > self.values.size))
        if wrong.size:
            row = int(wrong[0])
            raise DataError(
                f"{self.name}: row {first + row} spans the offsets {offsets[row]} to "
                f"{offsets[row + 1]}, but offsets must never fall and must end within the "
                f"{self.values.size} stored numbers."
            )

    def _chunk(self, offsets: npt.NDArray[np.int64], first: int) -> Sparse:
        indptr = offsets - offsets[0]
        count = int(indptr[-1])
        values = self.values.read(count)
        if self.indices is not None:
            indices = self.indices.read(count)
        else:
            indices = np.arange(count) - np.repeat(indptr[:-1], np.diff(indptr))
        return checked_csr(self.name, indptr, indices, values, self.columns, first)
