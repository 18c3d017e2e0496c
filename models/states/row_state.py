"""Keep a row of numbers for each row of the data, such as a user's factors.

A `RowState` is the model's view of a `RowStore`: the rows of the present block, or all rows as a
table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from blocklearn.matcache import DenseInput, Mat, MatCache, ShapeError
from blocklearn.matcache.containers.slots import Slot
from blocklearn.matcache.errors import source_line
from blocklearn.matcache.finite import is_finite
from blocklearn.matcache.program.padding import Padding

from .row_share import PIECE, Ids, RowShare
from .row_store import Init, RowStore
from .rows_by_need import RowsByNeed

__hands_on__ = True  # a state is read where the model does it, see `source_line`


class RowState(RowsByNeed):
    """A model's view of a `RowStore`.

    rows: [block rows x columns], those of the present block of this side, to be read and assigned;
        rows of padding are zero.
    table: [all rows x columns], to be read while the other side is trained, in scores and in
        predictions. A device holds a copy if `table` is read while memory is planned.
    read_in_order: whether updates of the other side read `table` in the order of its rows.
    """

    def __init__(
        self, cache: MatCache, name: str, side: int, shape: tuple[int, int], block_rows: int,
        init: Init,
    ) -> None:  # fmt: skip
        """Create the view without a store: a memory plan needs none.

        shape: of all rows.
        """
        block = block_rows, shape[1]
        super().__init__(cache, name, shape[0], shape, block, np.float32)
        self.side, self.init = side, init
        self._table: DenseInput | None = None
        self._is_table = False  # whether the rows that are held are those of `_table`
        self.read_in_order = False
        self._count = 0  # true rows of the present block: those after them are padding

    # ------------------------------------------------------------- what a model reads

    @property
    def count(self) -> int:
        """The true rows of the present block; those after them are padding."""
        self._read("count")
        return self._count

    @property
    def kept(self) -> npt.NDArray[np.number]:
        """The rows in the store; do not write to it. Those of a block follow with `save`."""
        self._read("kept")
        return super().kept

    def _read(self, what: str) -> None:
        """Note that numbers are read on the host: an update that does it runs for every block."""
        if self.cache.tape is not None:
            self.cache.tape.refuse(f"reads {self.name}.{what}")

    @property
    def rows(self) -> Mat:
        """A handle to the rows of the present block.

        Raises ShapeError where the block has none: in `predict`, whose rows are new.
        """
        if self.unknown:
            raise ShapeError(f"{self.name}.rows at {source_line()}: {self.unknown}")
        return self._block.handle()

    @rows.setter
    def rows(self, value: Mat) -> None:
        """Accept the result of `state.rows <<= value`, an assignment already done.

        Raises ShapeError for any other matrix: binding the name would store nothing.
        """
        if not isinstance(value, Mat) or value.slot is not self._block.slot:
            raise ShapeError(
                f"{self.name}.rows = ... at {source_line()}: must be an assignment into the rows. "
                "Write rows <<= value."
            )

    @property
    def table(self) -> Mat:
        """A handle to all rows.

        Raises ShapeError in an update of the state's own side: its rows change from block to block,
        with several replicas at any time. So it does where this worker has its own rows only.
        """
        if self.updating:
            raise ShapeError(
                f"{self.name}.table at {source_line()}: must not be read in an update of its own "
                f"rows (block.side {self.side}), while they change. Read {self.name}.rows, or add "
                "up what you need of all rows in a parameter."
            )
        if not self.whole:
            raise ShapeError(
                f"{self.name}.table at {source_line()}: must be of all rows, but each worker has "
                "the states of its own rows. Use a saved model."
            )
        if self._table is None:
            self._table = DenseInput(self.cache, self.name, self.shape, np.float32, copies=1)
            self.refresh()
        return self._table.handle()

    @table.setter
    def table(self, value: Mat) -> None:
        """Raise ShapeError: the table is read-only."""
        raise ShapeError(
            f"{self.name}.table at {source_line()}: must not be assigned to. Assign the rows of "
            f"the present block: {self.name}.rows <<= value."
        )

    def is_finite(self) -> bool:
        """Return whether all numbers are finite: of the store, or of the device that holds them."""
        return is_finite(self.kept) if self._held is None else self._held.finite()

    # ------------------------------------------------------------- the store

    @property
    def is_table(self) -> bool:
        """Whether `table` was read."""
        return self._table is not None

    @property
    def held_bytes(self) -> int:
        """The bytes that a device needs to hold all rows, beside what it has in any case."""
        return 4 * self.shape[0] * self.shape[1] if self._table is None else 0

    def hold(self) -> None:
        """Hold all rows on the device, as a part of the plan."""
        self._is_table = self._table is not None
        if self._table is not None:
            store = self._table.place
        else:
            key = ("named", f"all rows of {self.name}")
            store = self.cache.result(key, self.shape, np.float32, f"{self.name} (on the device)")
        self._held = self.cache.backend.hold(self.cache, store)

    def stored(self, share: RowShare) -> tuple[int, int]:
        """Return the shape of the store of a worker with this share of the rows."""
        return share.count, self.shape[1]

    def connect(
        self, store: RowStore, share: RowShare | None = None, *, whole: bool = True
    ) -> None:
        """Use `store` from now on, as `StoredRows` does; the table is the store."""
        super().connect(store, share, whole=whole)
        if self._is_table and self._table is not None:
            self._table.stay()

    def refresh(self) -> None:
        """Update `table` and `sample` from the store."""
        super().refresh()
        if self._store is None or not self.whole or self._table is None:
            return
        if self._is_table:
            self._table.slot.written(self._where)
        else:
            self._table.bind(self._store.array)

    def expect(self, side: int) -> None:
        """Tell the system how a file is read in passes over the rows of this side."""
        if self._store is not None and self._store.pages is not None:
            self._store.pages.expect(in_order=self.read_in_order and side != self.side)

    # ------------------------------------------------------------- rows of a block

    def begin(self, row_ids: DenseInput) -> None:
        """Take note that the rows are those of a block, and zero where it has padding.

        row_ids: of the block.
        """
        self._block.slot.padding = Padding(row_ids, 0.0)

    def load(self, ids: Ids, padded: Slot) -> None:
        """Load the store's rows `ids` [r <= block rows] into `rows`. padded: see `StoredRows`."""
        self._count = len(ids)
        super().load(ids, padded)

    def save(self, ids: Ids, padded: Slot) -> None:
        """Write `rows` to the rows `ids`, and set the padding to zero. padded: see `load`."""
        if self._held is None and self.whole:
            self.share.places(ids)  # others must not train on these
        super().save(ids, padded)
        if len(ids) == self.block_shape[0]:
            return
        if self._held is not None:
            self._block.slot.written(self._where)
        else:
            self._buffer[len(ids) :] = 0.0
            self._block.refill(self._buffer, self._where)

    def _take(self, places: Ids, into: npt.NDArray[np.number]) -> None:
        with self.store.reading(places):
            self.store.array.take(places, 0, into[: len(places)], "clip")
        into[len(places) :] = 0.0

    def _put(self, places: Ids, numbers: npt.NDArray[np.number]) -> None:
        with self.store.writing(places):
            self.store.array[places] = numbers[: len(places)]

    # ------------------------------------------------------------- rows of several workers

    def ranges(self) -> Iterator[Ids]:
        """Yield the numbers of all rows, range after range: see `ranges`."""
        most = max(1, PIECE // (4 * self.shape[1]))
        for start in range(0, self.shape[0], most):
            yield np.arange(start, min(start + most, self.shape[0]))

    def of_rows(self, ids: Ids) -> npt.NDArray[np.number]:
        """Return a copy of the store's rows `ids` [r x columns]."""
        found = np.empty((len(ids), self.shape[1]), np.float32)
        self._take(self._places(ids), found)
        return found

    def set_rows(self, ids: Ids, numbers: npt.NDArray[np.number]) -> None:
        """Set the store's rows `ids` to `numbers` [r * columns]."""
        super().set_rows(ids, numbers.reshape(len(ids), self.shape[1]))

    @property
    def owned(self) -> RowShare:
        """The rows of the array of all that belong to this worker."""
        return self.share

    def span(self, ids: Ids) -> tuple[int, int]:
        """Return where the rows `ids`, one after another, begin and end in the array of all."""
        return int(ids[0]), int(ids[-1]) + 1

    def cut(
        self, array: npt.NDArray[np.number], ids: Ids, first: int = 0
    ) -> npt.NDArray[np.number]:
        """Return a copy of the rows `ids` of an array of all rows, or of those from `first` on."""
        return array[ids - first]

    def joined(
        self, ids: Ids, parts: Iterable[tuple[Ids, npt.NDArray[np.number]]]
    ) -> npt.NDArray[np.number]:
        """Return the rows `ids` [r x columns], given in parts: places among `ids`, and numbers."""
        found = np.empty((len(ids), self.shape[1]), np.float32)
        for places, numbers in parts:
            found[places] = numbers.reshape(len(places), self.shape[1])
        return found


class TrainingState(RowState):
    """Rows that only training reads, such as numbers that an optimizer keeps.

    They are part of checkpoints, and no part of a saved model.
    """

    saved: ClassVar[bool] = False
