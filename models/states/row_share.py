"""Which rows of the data belong to a worker, and where it keeps their states."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from blocklearn.matcache import ShapeError

PIECE = 2**26
"""Bytes of states of rows that workers exchange at a time."""

Ids = npt.NDArray[np.int64]


class RowShare:
    """The rows of one worker: block j of the rows in order is of the worker j mod workers.

    first_rows: int64 [blocks + 1], the first row of each block, and the number of rows.
    rank, size: the number of this worker, and of all.

    rows, count: the number of all rows, and of those of this worker.

    >>> share = RowShare(np.array([0, 2, 4, 5]), rank=0, size=2)
    >>> share.count, share.own(np.arange(5)).tolist(), share.places(np.array([4, 0])).tolist()
    (3, [0, 1, 4], [2, 0])
    """

    def __init__(self, first_rows: Ids, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size, self.first_rows = rank, size, first_rows
        step = int(first_rows[1]) if first_rows.size > 1 else 0
        even = np.minimum(step * np.arange(first_rows.size), first_rows[-1])
        self._step = step if np.array_equal(first_rows, even) else 0  # rows of a block; 0: uneven
        lengths = np.diff(first_rows)
        lengths[np.arange(lengths.size) % size != rank] = 0
        self._before = np.concatenate([[0], np.cumsum(lengths)])  # own rows before each block
        self.rows, self.count = int(first_rows[-1]), int(self._before[-1])

    @classmethod
    def of_all(cls, rows: int) -> RowShare:
        """Return the share of the only worker."""
        return cls(np.array([0, rows], np.int64))

    def owners(self, ids: Ids) -> Ids:
        """Return the worker that each of these rows belongs to."""
        found: Ids = self._blocks(ids) % self.size
        return found

    def own(self, ids: Ids) -> Ids:
        """Return those of these rows that belong to this worker."""
        return ids if self.size == 1 else ids[self.owners(ids) == self.rank]

    def places(self, ids: Ids) -> Ids:
        """Return the places of own rows among those of this worker, in the order of the rows.

        Raises ShapeError if one of them belongs to another worker.
        """
        if self.size == 1:
            return ids
        blocks = self._blocks(ids)
        if (wrong := ids[blocks % self.size != self.rank]).size:
            raise ShapeError(
                f"row {wrong[0]}: must be in a block of worker {self.owners(wrong[:1])[0]}, which "
                f"has its state, but a block of worker {self.rank} has it. Read training and "
                "held-out data in blocks of as many rows, and shuffle them with `shuffle` of the "
                "sources of this package; evaluate with crew=learner.crew, or a saved model."
            )
        found: Ids = ids - self.first_rows[blocks] + self._before[blocks]
        return found

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield where the rows of each block of this worker begin and end, in order.

        >>> list(RowShare(np.array([0, 2, 4, 5]), rank=0, size=2).runs())
        [(0, 2), (4, 5)]
        """
        for block in range(self.rank, self.first_rows.size - 1, self.size):
            yield int(self.first_rows[block]), int(self.first_rows[block + 1])

    def _blocks(self, ids: Ids) -> Ids:
        if self._step:
            found: Ids = ids // self._step
            return found
        return np.searchsorted(self.first_rows, ids, "right") - 1


def ranges(ends: Ids, most: int) -> Iterator[Ids]:
    """Yield the numbers of all rows in order, cut into ranges of at most `most` bytes.

    ends: bytes of the rows up to each, and with it. A range has one row at least.

    >>> [ids.tolist() for ids in ranges(np.array([3, 6, 20, 21]), 7)]
    [[0, 1], [2], [3]]
    """
    start = 0
    while start < ends.size:
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, "right")))
        yield np.arange(start, stop)
        start = stop
