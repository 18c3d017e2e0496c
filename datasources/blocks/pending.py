"""Rows that wait until there are enough of them for a block."""

import numpy as np

from ..errors import DataError
from .layout import MOST_NNZ, Arrays, Kind
from .manifest import Sums
from .rows import Rows


class Pending:
    """Room for one block of at most `block_rows` rows; that for non-zeros grows, up to `most_nnz`.

    full: whether the block is complete.
    """

    def __init__(self, kind: Kind, block_rows: int, most_nnz: int = MOST_NNZ) -> None:
        """Empty."""
        self.kind, self._most, self._most_nnz = kind, block_rows, most_nnz
        self._arrays: Arrays = {
            name: np.empty(size, dtype) for name, (size, dtype) in kind.parts(block_rows, 0).items()
        }
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self.rows, self.nnz, self.full = 0, 0, False
        self.sums = Sums(targets=[0.0] * self.kind.targets)
        if not self.kind.dense:
            self._arrays["starts"][0] = 0

    def take(self, rows: Rows, start: int) -> int:
        """Copy rows from row `start` of `rows` on until the block is full; the row after them."""
        stop = self._stop(rows, start)
        self.full = stop < rows.count or self.rows + stop - start == self._most
        inside = slice(self.rows, self.rows + stop - start)
        for name in ("dense", "targets", "weights"):
            if name in self._arrays:
                self._arrays[name][inside] = rows.arrays[name][start:stop]
        if not self.kind.dense:
            indptr = rows.arrays["indptr"]
            first, last = int(indptr[start]), int(indptr[stop])
            self._reserve(self.nnz + last - first)
            for name in ("indices", "values"):
                self._arrays[name][self.nnz : self.nnz + last - first] = rows.arrays[name][
                    first:last
                ]
            ends = indptr[start + 1 : stop + 1] + (self.nnz - first)
            self._arrays["starts"][self.rows + 1 : self.rows + 1 + stop - start] = ends
            self.nnz += last - first
        self.sums = self.sums.plus(rows.sums(start, stop))
        self.rows += stop - start
        return stop

    def arrays(self, first_row: int) -> Arrays:
        """The parts of the block, the first row of which has the number `first_row`."""
        self._arrays["row"][: self.rows] = np.arange(first_row, first_row + self.rows)
        found = {}
        for name, (size, _) in self.kind.parts(self.rows, self.nnz).items():
            source = "starts" if name == "value_starts" else name
            found[name] = self._arrays[source][: size[0]]
        return found

    def _stop(self, rows: Rows, start: int) -> int:
        """How far the rows from `start` on fit into the block; the first into an empty one must."""
        stop = min(rows.count, start + self._most - self.rows)
        if self.kind.dense:
            return stop
        indptr = rows.arrays["indptr"][start : stop + 1]
        room = self._most_nnz - self.nnz
        fits = start + int(np.searchsorted(indptr, indptr[0] + room, side="right")) - 1
        if fits == start and not self.rows:
            raise DataError(
                f"BlockWriter: a row has {indptr[1] - indptr[0]:,} non-zeros, but a block holds at "
                f"most {self._most_nnz:,}; leave out columns, or cut the row in two."
            )
        return min(stop, fits)

    def _reserve(self, nnz: int) -> None:
        for name in ("indices", "values"):
            old = self._arrays[name]
            if nnz > old.size:
                self._arrays[name] = np.empty(max(nnz, old.size * 3 // 2), old.dtype)
                self._arrays[name][: self.nnz] = old[: self.nnz]
