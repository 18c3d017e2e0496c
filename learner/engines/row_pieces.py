"""The states of all rows, which lie elsewhere and are read piece by piece."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.models.states.row_share import PIECE, RowShare

Rows = NDArray[Any]


class RowPieces(ABC):
    """The state of all rows, which lies elsewhere and is read piece by piece.

    shape, dtype: of the whole.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """The bytes of the whole."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @abstractmethod
    def pieces(self) -> Iterator[Rows]:
        """Yield the rows in order, range after range."""

    def whole(self) -> Rows:
        """Return all rows."""
        found = np.empty(self.shape, self.dtype)
        start = 0
        for piece in self.pieces():
            found[start : start + len(piece)] = piece
            start += len(piece)
        return found


class OwnRows(RowPieces):
    """The rows that belong to a worker, of a state that it has whole.

    rows: all of them. owned: which.
    """

    def __init__(self, rows: Rows, owned: RowShare) -> None:
        super().__init__((owned.count, rows.shape[1]), rows.dtype)
        self._rows, self._owned = rows, owned

    def pieces(self) -> Iterator[Rows]:
        """Yield the rows in order, block after block."""
        return (self._rows[begin:end] for begin, end in self._owned.runs())


class PartedRows(RowPieces):
    """The state of all rows in parts, one of each worker that wrote them.

    first_rows: int64 [blocks + 1], where each block of rows begins, and the number of all: block j
        is in part j mod parts.
    parts: [rows of the part x columns] each, by worker.
    source: what the parts are of, the same for all states of it.
    """

    def __init__(
        self, first_rows: NDArray[np.int64], parts: Sequence[Rows], source: Hashable
    ) -> None:
        super().__init__((int(first_rows[-1]), parts[0].shape[1]), parts[0].dtype)
        self.source = source
        self._first, self._parts = first_rows, parts
        lengths = np.diff(first_rows)
        self._places = np.empty_like(lengths)  # of blocks within their parts
        for part in range(len(parts)):
            own = lengths[part :: len(parts)]
            self._places[part :: len(parts)] = np.cumsum(own) - own

    def read(self, begin: int, into: Rows) -> None:
        """Copy the rows from `begin` on into an array [rows x columns]."""
        block = int(np.searchsorted(self._first, begin, "right")) - 1
        done = 0
        while done < len(into):
            skipped = begin + done - int(self._first[block])
            count = min(int(self._first[block + 1]) - begin - done, len(into) - done)
            place = int(self._places[block]) + skipped
            into[done : done + count] = self._parts[block % len(self._parts)][place : place + count]
            done, block = done + count, block + 1

    def __getitem__(self, rows: slice) -> Rows:
        """Return a copy of rows one after another."""
        begin, end, _ = rows.indices(self.shape[0])
        found = np.empty((end - begin, self.shape[1]), self.dtype)
        self.read(begin, found)
        return found

    def pieces(self) -> Iterator[Rows]:
        """Yield the rows in order, range after range."""
        most = max(1, PIECE // (self.shape[1] * self.dtype.itemsize))
        return (self[start : start + most] for start in range(0, self.shape[0], most))
