"""Keep a number for each token of the data, such as its topic.

A token is one of the n times that a word with count n occurs in a row. The numbers lie in one list:
row after row, and within a row entry after entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from blocklearn.datasources.arrays.compiled import kernel
from blocklearn.matcache import Mat, MatCache

from .row_share import PIECE, Ids, RowShare, ranges
from .row_store import RowStore
from .stored_rows import StoredRows

Terms = Callable[[npt.NDArray[np.int64], npt.NDArray[np.number]], npt.NDArray[np.float64]]

__hands_on__ = True  # a state is read where the model does it, see `source_line`


class TokenState(StoredRows):
    """A model's view of the numbers of tokens, uint16 or uint32.

    A learner keeps them as it keeps a `RowState`: in memory or in a file, and in checkpoints. They
    are no part of a saved model.

    offsets: int64 [rows + 1], each row's first token in the list of all.
    tokens: [1 x tokens of a block], numbers of the present block's tokens, which an operation may
        change in place.
    terms: what the learner adds up over all rows before each pass ends, some rows at a time: it
        gets their offsets, from 0, and their numbers; None: nothing.
    sums: what this was for the last pass that ended; None: no pass has.
    """

    saved: ClassVar[bool] = False
    terms: Terms | None = None
    sums: npt.NDArray[np.float64] | None = None

    def __init__(
        self, cache: MatCache, name: str, offsets: npt.NDArray[np.int64], block_rows: int,
        dtype: type[np.uint16 | np.uint32],
    ) -> None:  # fmt: skip
        """Create the view without a store: a memory plan needs none.

        offsets: [rows of the data + 1], each row's first token in the list.
        block_rows: most rows of a block.
        dtype: of the numbers. At first, every token has the largest.
        """
        longest = np.sort(np.diff(offsets))[::-1][:block_rows]
        block, rows = (1, max(int(longest.sum()), 1)), offsets.size - 1
        super().__init__(cache, name, rows, (int(offsets[-1]), 1), block, dtype)
        self.side, self.init = 0, int(np.iinfo(dtype).max)
        self.offsets, self._block_rows = offsets, block_rows
        self._starts = offsets  # of the rows in the store

    @property
    def tokens(self) -> Mat:
        """A handle to the numbers of the present block's tokens."""
        return self._block.handle()

    @property
    def held_bytes(self) -> int:
        """The bytes that a device needs to hold all tokens."""
        numbers = self.shape[0] * np.dtype(self.dtype).itemsize
        return numbers + 8 * (self.offsets.size + self._block_rows)

    def hold(self) -> None:
        """Hold all tokens on the device, as a part of the plan."""
        key, label = ("named", f"all of {self.name}"), f"{self.name} (on the device)"
        store = self.cache.result(key, (1, max(self.shape[0], 1)), self.dtype, label)
        self._held = self.cache.backend.hold(self.cache, store, self.offsets, self._block_rows)

    def stored(self, share: RowShare) -> tuple[int, int]:
        """Return the shape of the store of a worker with this share of the rows."""
        return int(self._starts_of(share)[-1]), 1

    def _starts_of(self, share: RowShare) -> Ids:
        if share.size == 1:
            return self.offsets
        own = share.own(np.arange(share.rows))
        return np.concatenate([[0], np.cumsum(np.diff(self.offsets)[own])])

    def connect(
        self, store: RowStore, share: RowShare | None = None, *, whole: bool = True
    ) -> None:
        """Use `store` from now on, as `StoredRows` does."""
        super().connect(store, share, whole=whole)
        self._starts = self.offsets if whole else self._starts_of(self.share)

    def _take(self, places: Ids, into: npt.NDArray[np.number]) -> None:
        with self.store.reading(places, self._starts):
            take_tokens(places, self._starts, self.kept[:, 0], into.reshape(-1))

    def _put(self, places: Ids, numbers: npt.NDArray[np.number]) -> None:
        with self.store.writing(places, self._starts):
            put_tokens(places, self._starts, numbers.reshape(-1), self.kept[:, 0])

    # ------------------------------------------------------------- rows of several workers

    def ranges(self) -> Iterator[Ids]:
        """Yield the numbers of all rows, range after range: see `ranges`."""
        return ranges(self.offsets[1:] * np.dtype(self.dtype).itemsize, PIECE)

    def starts_of(self, ids: Ids) -> Ids:
        """Return each row's first token among those of the rows `ids`, and their number."""
        return np.concatenate([[0], np.cumsum(self.offsets[ids + 1] - self.offsets[ids])])

    def of_rows(self, ids: Ids) -> npt.NDArray[np.number]:
        """Return the numbers of the tokens of the rows `ids`, one row after another."""
        rows = self._places(ids)
        found = np.empty(int((self._starts[rows + 1] - self._starts[rows]).sum()), self.dtype)
        self._take(rows, found)
        return found

    @property
    def owned(self) -> RowShare:
        """The tokens of the array of all that belong to this worker."""
        return RowShare(self.offsets[self.share.first_rows], self.share.rank, self.share.size)

    def span(self, ids: Ids) -> tuple[int, int]:
        """Return where the tokens of rows, one after another, begin and end in the list of all."""
        return int(self.offsets[ids[0]]), int(self.offsets[ids[-1] + 1])

    def cut(
        self, array: npt.NDArray[np.number], ids: Ids, first: int = 0
    ) -> npt.NDArray[np.number]:
        """Return the numbers of the rows `ids` in an array of all tokens.

        first: row that the array begins with.
        """
        last = int(ids.max(initial=first))
        return _taken(ids - first, self.offsets[first : last + 2] - self.offsets[first], array)

    def joined(
        self, ids: Ids, parts: Iterable[tuple[Ids, npt.NDArray[np.number]]]
    ) -> npt.NDArray[np.number]:
        """Return the tokens of the rows `ids` [tokens x 1].

        They are given in parts: places among `ids`, and numbers.
        """
        starts = self.starts_of(ids)
        found = np.empty((int(starts[-1]), 1), self.dtype)
        for places, numbers in parts:
            put_tokens(places, starts, numbers, found[:, 0])
        return found


def _taken(ids: Ids, starts: Ids, store: npt.NDArray[np.number]) -> npt.NDArray[np.number]:
    """Return the tokens of rows `ids` of a store [tokens x 1], whose rows begin at `starts`."""
    found = np.empty(int((starts[ids + 1] - starts[ids]).sum()), store.dtype)
    take_tokens(ids, starts, store[:, 0], found)
    return found


@kernel
def take_tokens(
    ids: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    store: npt.NDArray[np.number],
    into: npt.NDArray[np.number],
) -> None:
    """Copy the tokens of rows `ids`, one row after another, from `store` to `into`."""
    place = 0
    for i in range(ids.size):
        row = store[offsets[ids[i]] : offsets[ids[i] + 1]]
        here = into[place : place + row.size]
        for j in range(row.size):  # slices from 0, so that the compiler vectorises the copy
            here[j] = row[j]
        place += row.size


@kernel
def put_tokens(
    ids: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    found: npt.NDArray[np.number],
    store: npt.NDArray[np.number],
) -> None:
    """Copy the tokens of rows `ids` back from `found` to `store`."""
    place = 0
    for i in range(ids.size):
        row = store[offsets[ids[i]] : offsets[ids[i] + 1]]
        here = found[place : place + row.size]
        for j in range(row.size):
            row[j] = here[j]
        place += row.size
