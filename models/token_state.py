"""Keep a number for each token of the data, such as its topic.

A token is one of the n times that a word with count n occurs in a row. The numbers lie in one list:
row after row, and within a row entry after entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from blocklearn.datasources.arrays.compiled import kernel
from blocklearn.matcache import DenseInput, Mat, MatCache
from blocklearn.matcache.containers.backend import Held
from blocklearn.matcache.containers.slots import Slot
from blocklearn.matcache.errors import source_line

from .row_share import PIECE, Ids, RowShare, ranges
from .row_state import RowStore, check_store


class TokenState:
    """A model's view of the numbers of tokens, uint16 or uint32.

    A learner keeps them as it keeps a `RowState`: in memory or in a file, and in checkpoints. They
    are no part of a saved model.

    offsets: int64 [rows + 1], each row's first token in the list of all.
    share, whole: see `RowState`.
    tokens: [1 x tokens of a block], numbers of the present block's tokens, which an operation may
        change in place.
    """

    saved: ClassVar[bool] = False
    is_table: ClassVar[bool] = False
    side = 0

    def __init__(
        self, cache: MatCache, name: str, offsets: npt.NDArray[np.int64], block_rows: int,
        dtype: type[np.uint16 | np.uint32],
    ) -> None:  # fmt: skip
        """Create the view without a store: a memory plan needs none.

        offsets: [rows of the data + 1], each row's first token in the list.
        block_rows: most rows of a block.
        dtype: of the numbers. At first, every token has the largest.
        """
        self.name, self.dtype, self.offsets = name, dtype, offsets
        self.init = int(np.iinfo(dtype).max)
        self.shape = (int(offsets[-1]), 1)
        longest = np.sort(np.diff(offsets))[::-1][:block_rows]
        self.block_shape = (1, max(int(longest.sum()), 1))
        self.updating = False
        self.count = 1  # rows of `rows` that are no padding
        self._tokens = DenseInput(cache, f"{name} of the block", self.block_shape, self.dtype)
        self._where = source_line()  # of what blocks bring, for messages
        self._cache, self._block_rows = cache, block_rows
        self._held: Held | None = None
        self._store: RowStore | None = None
        self.share, self.whole = RowShare.of_all(offsets.size - 1), True
        self._starts = offsets  # of the rows in the store
        self._buffer = np.zeros((1, 0), self.dtype)

    @property
    def tokens(self) -> Mat:
        """A handle to the numbers of the present block's tokens."""
        return self._tokens.handle()

    rows = tokens

    @property
    def connected(self) -> bool:
        """Whether there is a store; not while memory is planned."""
        return self._store is not None

    @property
    def kept(self) -> npt.NDArray[np.number]:
        """The numbers of the tokens in the store; do not write to it."""
        assert self._store is not None
        return self._store.array

    @property
    def held(self) -> bool:
        """Whether a device holds all rows."""
        return self._held is not None

    @property
    def held_bytes(self) -> int:
        """The bytes that a device needs to hold all tokens."""
        numbers = self.shape[0] * np.dtype(self.dtype).itemsize
        return numbers + 8 * (self.offsets.size + self._block_rows)

    def hold(self) -> None:
        """Hold all tokens on the device, as a part of the plan."""
        key, label = ("named", f"all of {self.name}"), f"{self.name} (on the device)"
        store = self._cache.result(key, (1, max(self.shape[0], 1)), self.dtype, label)
        self._held = self._cache.backend.hold(self._cache, store, self.offsets, self._block_rows)

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
        """Use `store` from now on. Raises ShapeError if it has another shape.

        share, whole: see `RowState`; None: there is one worker.
        """
        self.share, self.whole = share or RowShare.of_all(self.offsets.size - 1), whole
        self._starts = self.offsets if whole else self._starts_of(self.share)
        check_store(self.name, store, self.shape if whole else (int(self._starts[-1]), 1))
        self._store = store
        if self._held is not None:
            self._tokens.stay()
            store.hold(self._held)
            return
        self._buffer = self._cache.backend.zeros(self.block_shape, self.dtype)
        self._tokens.bind(self._buffer)

    def refresh(self) -> None:
        """Do nothing: no table is made of the store."""

    def load(self, ids: npt.NDArray[np.int64], padded: Slot) -> None:
        """Load the numbers of the rows `ids` into `tokens`.

        padded: container [block rows x 1] of the same numbers, and -1 for padding.
        """
        if self._held is not None:
            self._held.take(padded, self._tokens.slot)
            self._tokens.slot.written(self._where)
            return
        self._take(self._places(ids), self._buffer[0])
        self._tokens.refill(self._buffer, self._where)

    def save(self, ids: npt.NDArray[np.int64], padded: Slot) -> None:
        """Write `tokens` to the store, as the numbers of the rows `ids`. padded: see `load`."""
        if self._held is not None:
            self._held.put(padded, self._tokens.slot)
            return
        self._tokens.fetch(self._buffer)
        self._put(self._places(ids), self._buffer[0])

    def check(self) -> None:
        """Do nothing: no table is read."""

    def begin(self, row_ids: DenseInput) -> None:
        """Do nothing: tokens are no rows of a block."""

    def expect(self, side: int) -> None:
        """Do nothing."""

    def _places(self, ids: Ids) -> Ids:
        return ids if self.whole else self.share.places(ids)

    def _take(self, rows: Ids, into: npt.NDArray[np.number]) -> None:
        """Copy the tokens of these rows of the store."""
        assert self._store is not None
        with self._store.reading_numbers(self._starts[rows], self._starts[rows + 1]):
            take_tokens(rows, self._starts, self.kept[:, 0], into)

    def _put(self, rows: Ids, found: npt.NDArray[np.number]) -> None:
        """Set the tokens of these rows of the store."""
        assert self._store is not None
        with self._store.writing_numbers(self._starts[rows], self._starts[rows + 1]):
            put_tokens(rows, self._starts, found, self.kept[:, 0])

    # ------------------------------------------------------------- rows of several workers

    def ranges(self) -> Iterator[Ids]:
        """Yield the numbers of all rows, range after range: see `ranges`."""
        return ranges(self.offsets[1:] * np.dtype(self.dtype).itemsize, PIECE)

    def of_rows(self, ids: Ids) -> npt.NDArray[np.number]:
        """Return the numbers of the tokens of the rows `ids`, one row after another."""
        rows = self._places(ids)
        found = np.empty(int((self._starts[rows + 1] - self._starts[rows]).sum()), self.dtype)
        self._take(rows, found)
        return found

    def set_rows(self, ids: Ids, numbers: npt.NDArray[np.number]) -> None:
        """Set the tokens of the rows `ids` to `numbers`, which are as `of_rows` returns them."""
        assert self._store is not None
        self._put(self._places(ids), numbers.reshape(-1))
        if self._store.held is not None:
            self._store.changed()

    @property
    def stored_share(self) -> RowShare:
        """The tokens of the array of all that its store has, in order."""
        return RowShare.of_all(self.shape[0]) if self.whole else self.owned

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
        starts = np.concatenate([[0], np.cumsum(self.offsets[ids + 1] - self.offsets[ids])])
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
        for token in range(offsets[ids[i]], offsets[ids[i] + 1]):
            into[place] = store[token]
            place += 1


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
        for token in range(offsets[ids[i]], offsets[ids[i] + 1]):
            store[token] = found[place]
            place += 1
