"""Bring blocks the numbers that a learner keeps for their rows, and write them back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from blocklearn.matcache import DenseInput, MatCache, ShapeError
from blocklearn.matcache.containers.backend import Held
from blocklearn.matcache.containers.slots import Slot
from blocklearn.matcache.errors import source_line

from .row_share import Ids, RowShare
from .row_store import Init, RowStore

__hands_on__ = True  # a state is read where the model does it, see `source_line`


class StoredRows(ABC):
    """A model's view of a `RowStore`: of the rows of the present block.

    saved: whether saved models have it. Checkpoints do.
    side: 0 for rows of the data, 1 for rows of the transposed data (its columns).
    shape: of the array of all rows; block_shape: of the container of a block's.
    init: the first numbers, see `RowStore.draw`.
    updating: whether its rows are being trained.
    share: which rows this worker has trained on.
    whole: whether its store has all rows, or those of its share only.

    Where a device has room for the array of all rows, it holds them, and the store follows when its
    array is read.
    """

    saved: ClassVar[bool] = True
    side: int
    init: Init

    def __init__(
        self, cache: MatCache, name: str, rows: int, shape: tuple[int, int],
        block_shape: tuple[int, int], dtype: npt.DTypeLike,
    ) -> None:  # fmt: skip
        """Create the view without a store: a memory plan needs none.

        rows: of the data's side.
        """
        self.cache, self.name, self.dtype = cache, name, dtype
        self.shape, self.block_shape = shape, block_shape
        self.updating = False
        self.unknown = ""  # why the present block has no rows of it; "": it has
        self.share, self.whole = RowShare.of_all(rows), True
        self._block = DenseInput(cache, f"{name} of the block", block_shape, dtype)
        self._where = source_line()  # of what blocks bring, for messages
        self._store: RowStore | None = None
        self._held: Held | None = None
        self._buffer = np.zeros((0, 0), dtype)

    # ------------------------------------------------------------- the store

    @property
    def kept(self) -> npt.NDArray[np.number]:
        """The numbers in the store; do not write to it. Those of a block follow with `save`."""
        return self.store.array

    @property
    def store(self) -> RowStore:
        """The store, once there is one."""
        assert self._store is not None
        return self._store

    @property
    def connected(self) -> bool:
        """Whether there is a store; not while memory is planned."""
        return self._store is not None

    @property
    def is_table(self) -> bool:
        """Whether a table of all rows was read."""
        return False

    @property
    def held(self) -> bool:
        """Whether a device holds all rows."""
        return self._held is not None

    @abstractmethod
    def stored(self, share: RowShare) -> tuple[int, int]:
        """Return the shape of the store of a worker with this share of the rows."""

    def connect(
        self, store: RowStore, share: RowShare | None = None, *, whole: bool = True
    ) -> None:
        """Use `store` from now on. Raises ShapeError if it has another shape.

        share, whole: see the class; None: there is one worker.
        """
        self.share, self.whole = share or RowShare.of_all(self.share.rows), whole
        self._check_shape(store, self.shape if whole else self.stored(self.share))
        self._store = store
        if self._held is not None:
            self._block.stay()
            store.hold(self._held)
            return
        self._buffer = self.cache.backend.zeros(self.block_shape, self.dtype)
        self._block.bind(self._buffer)
        self.refresh()

    def _check_shape(self, store: RowStore, shape: tuple[int, int]) -> None:
        if store.shape != shape:
            rows, columns = store.shape
            raise ShapeError(
                f"{self.name}: a state of {rows:,} rows x {columns:,}; this model needs "
                f"{shape[0]:,} x {shape[1]:,}."
            )

    def refresh(self) -> None:  # noqa: B027 (tokens have nothing to update)
        """Update what is made of the store beside the rows of a block."""

    def check(self) -> None:
        """Compare the pages of a file, before a table of all rows is read."""
        if self._store is not None and self.is_table and self.whole:
            self._store.check()

    def expect(self, side: int) -> None:  # noqa: B027 (only tables are read in order)
        """Tell the system how a file is read in passes over the rows of this side."""

    # ------------------------------------------------------------- rows of a block

    def begin(self, row_ids: DenseInput) -> None:  # noqa: B027 (tokens are no rows)
        """Take note of the numbers of the block's rows, -1 where it has padding."""

    def load(self, ids: Ids, padded: Slot) -> None:
        """Load the numbers of the store's rows `ids` for a block.

        padded: container [block rows x 1] of `ids`, and -1 for padding.
        """
        if self._held is not None:
            self._held.take(padded, self._block.slot)
            self._block.slot.written(self._where)
            return
        self._take(self._places(ids), self._buffer)
        self._block.refill(self._buffer, self._where)

    def save(self, ids: Ids, padded: Slot) -> None:
        """Write the block's numbers to the rows `ids`. padded: see `load`."""
        if self._held is not None:
            self._held.put(padded, self._block.slot)
            return
        self._block.fetch(self._buffer)
        self._put(self._places(ids), self._buffer)

    def _places(self, ids: Ids) -> Ids:
        return ids if self.whole else self.share.places(ids)

    @abstractmethod
    def _take(self, places: Ids, into: npt.NDArray[np.number]) -> None:
        """Copy the numbers of these rows of the store to the beginning of `into`."""

    @abstractmethod
    def _put(self, places: Ids, numbers: npt.NDArray[np.number]) -> None:
        """Set these rows of the store to the beginning of `numbers`."""

    # ------------------------------------------------------------- rows of several workers

    @abstractmethod
    def of_rows(self, ids: Ids) -> npt.NDArray[np.number]:
        """Return a copy of the numbers of the store's rows `ids`, one row after another."""

    def set_rows(self, ids: Ids, numbers: npt.NDArray[np.number]) -> None:
        """Set the numbers of the store's rows `ids`, which are as `of_rows` returns them."""
        self._put(self._places(ids), numbers)
        if self.store.held is not None:
            self.store.changed()

    @property
    def stored_share(self) -> RowShare:
        """The places in the array of all rows that its store has, in order."""
        return RowShare.of_all(self.shape[0]) if self.whole else self.owned

    @property
    @abstractmethod
    def owned(self) -> RowShare:
        """The places in the array of all rows that belong to this worker."""
