"""Keep a state for each row of the data, such as a user's factors.

A `RowStore` holds the states on the host, in memory or mapped from a file. A `RowState` is the
model's view of it: the rows of the present block, or all rows as a table. Where a device has room
for all rows, it holds them, and the store follows when its array is read.

Longer than 300 lines: a state is seen as rows of a block, as a table, and as rows of a worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from blocklearn.matcache import DenseInput, Mat, MatCache, ShapeError, SparseMat, named
from blocklearn.matcache.containers.backend import Held
from blocklearn.matcache.containers.matrices import handle
from blocklearn.matcache.containers.slots import Slot
from blocklearn.matcache.errors import source_line
from blocklearn.matcache.finite import is_finite
from blocklearn.matcache.operations.local import local_table
from blocklearn.matcache.program.padding import Padding

from .row_share import PIECE, Ids, RowShare

__hands_on__ = True  # a state is read where the model does it, see `source_line`

DRAWN = 2**16  # rows drawn at a time: another number changes what a seed draws

SAMPLE = 2**12
"""Rows of a sample of all, at most."""

Numbers = float | npt.NDArray[np.floating]  # one for all columns, or one for each
Kind = Literal["uniform", "normal"]
Init = Numbers | tuple[Kind, Numbers] | tuple[Kind, Numbers, Numbers]


class Pages(Protocol):
    """Compares the pages of a store in a file with what was written to them."""

    def reading(self, begin: Ids, end: Ids) -> AbstractContextManager[None]:
        """Read numbers of the flat array, from `begin` to `end` of each range."""

    def writing(self, begin: Ids, end: Ids) -> AbstractContextManager[None]:
        """Change numbers of the flat array, from `begin` to `end` of each range."""

    def check(self) -> None:
        """Compare all pages."""

    def renew(self) -> None:
        """Take the array as it is now."""

    def expect(self, *, in_order: bool) -> None:
        """Tell the system whether rows are read in their order."""


class RowStore:
    """Holds numbers [rows x columns], one row per row of the data. A learner owns it.

    held: where a device holds all rows; None: it does not.
    pages: of its file, to be compared; None: it is in memory.
    """

    held: Held | None = None
    pages: Pages | None = None

    def __init__(self, rows: int, columns: int, dtype: npt.DTypeLike = np.float32) -> None:
        """Allocate zeros in memory."""
        self._array: npt.NDArray[np.number] = np.zeros((rows, columns), dtype)

    @classmethod
    def of(cls, array: npt.NDArray[np.number]) -> RowStore:
        """Return a store that uses `array`, C-contiguous and writable, without a copy."""
        store = cls.__new__(cls)
        store._array = array
        return store

    @property
    def array(self) -> npt.NDArray[np.number]:
        """The rows, as of now. Call `changed` after writing to them."""
        if self.held is not None:
            self.held.bring(self._array)
        return self._array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self._array.shape
        return rows, columns

    def check(self) -> None:
        """Compare the pages of a file, before the array is read as a whole."""
        if self.pages is not None:
            self.pages.check()

    def reading(self, rows: Ids) -> AbstractContextManager[None]:
        """Read these rows of the array in a `with` statement."""
        return nullcontext() if self.pages is None else self.pages.reading(*self._numbers_of(rows))

    def reading_numbers(self, begin: Ids, end: Ids) -> AbstractContextManager[None]:
        """Read numbers of the flat array, from `begin` to `end` of each range, in the same way."""
        return nullcontext() if self.pages is None else self.pages.reading(begin, end)

    def writing(self, rows: Ids) -> AbstractContextManager[None]:
        """Change these rows of the array in a `with` statement."""
        return nullcontext() if self.pages is None else self.pages.writing(*self._numbers_of(rows))

    def writing_numbers(self, begin: Ids, end: Ids) -> AbstractContextManager[None]:
        """Change numbers of the flat array, in the same way."""
        return nullcontext() if self.pages is None else self.pages.writing(begin, end)

    def _numbers_of(self, rows: Ids) -> tuple[Ids, Ids]:
        begin = rows.astype(np.int64) * self._array.shape[1]
        return begin, begin + self._array.shape[1]

    def hold(self, held: Held) -> None:
        """Let a device hold the rows; pages of a file, which follow at times, are not compared."""
        self.held, self.pages = held, None
        self.changed()

    def changed(self) -> None:
        """Take the array as it is now: note its pages, and copy it to the device, if any."""
        if self.pages is not None:
            self.pages.renew()
        if self.held is not None:
            self.held.send(self._array)

    def draw(self, init: Init, seed: int, stream: int, share: RowShare | None = None) -> None:
        """Fill every row from `init`.

        `(kind, scale, centre)` draws `centre + scale * noise`. A row's noise depends only on
        `(seed, stream, row)`.

        share: of the worker whose rows these are; None: it has all.
        """
        if not isinstance(init, tuple):
            if np.any(init):
                self.array[:] = init
                self.changed()
            return
        kind, scale, centre = init if len(init) == 3 else (*init, 0.0)
        share = share or RowShare.of_all(len(self.array))
        for start in range(0, share.rows, DRAWN):
            own = share.own(np.arange(start, min(start + DRAWN, share.rows)))
            if not own.size:
                continue
            key = np.array([seed, (stream << 40) + start // DRAWN], np.uint64)
            rng = np.random.Generator(np.random.Philox(key=key))
            shape = (int(own[-1]) + 1 - start, self.array.shape[1])
            drawn = rng.standard_normal(shape, np.float32) if kind == "normal" else rng.random(
                shape, np.float32
            )  # fmt: skip
            places = share.places(own)
            with self.writing(places):
                self.array[places] = scale * drawn[own - start] + centre


class RowState:
    """A model's view of a `RowStore`.

    side: 0 for rows of the data, 1 for rows of the transposed data (its columns).
    rows: [block rows x columns], those of the present block of this side, to be read and assigned;
        rows of padding are zero.
    table: [all rows x columns], to be read while the other side is trained, in scores and in
        predictions. A device holds a copy if `table` is read while memory is planned.
    share: which rows this worker has trained on.
    whole: whether its store has all rows, or those of its share only.
    """

    dtype: ClassVar[npt.DTypeLike] = np.float32
    saved: ClassVar[bool] = True

    def __init__(
        self, cache: MatCache, name: str, side: int, shape: tuple[int, int], block_rows: int,
        init: Init,
    ) -> None:  # fmt: skip
        """Create the view without a store: a memory plan needs none."""
        self.cache, self.name, self.side, self.shape, self.init = cache, name, side, shape, init
        self.block_shape = (block_rows, shape[1])
        self._rows = DenseInput(cache, f"{name} of the block", self.block_shape, np.float32)
        self._where = source_line()  # of what blocks bring, for messages
        self._table: DenseInput | None = None
        self._held: Held | None = None
        self._is_table = False  # whether the rows that are held are those of `_table`
        self._store: RowStore | None = None
        self.read_in_order = False  # whether updates of the other side read `table` so
        self.share, self.whole = RowShare.of_all(shape[0]), True
        self._sample: Slot | None = None
        self._gram: Slot | None = None
        self._near: Slot | None = None
        self._buffer = np.zeros((0, 0), np.float32)
        self.updating = False  # whether its rows are being trained
        self._count = 0  # true rows of the present block: those after them are padding

    def begin(self, row_ids: DenseInput) -> None:
        """Take note that the rows are those of a block, and zero where it has padding.

        row_ids: of the block.
        """
        self._rows.slot.padding = Padding(row_ids, 0.0)

    @property
    def count(self) -> int:
        """The true rows of the present block; those after them are padding."""
        self._read("count")
        return self._count

    def _read(self, what: str) -> None:
        """Note that numbers are read on the host: an update that does it runs for every block."""
        if self.cache.tape is not None:
            self.cache.tape.refuse(f"reads {self.name}.{what}")

    @property
    def rows(self) -> Mat:
        """A handle to the rows of the present block."""
        return self._rows.handle()

    @rows.setter
    def rows(self, value: Mat) -> None:
        """Accept the result of `state.rows <<= value`, an assignment already done.

        Raises ShapeError for any other matrix: binding the name would store nothing.
        """
        if not isinstance(value, Mat) or value.slot is not self._rows.slot:
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
                f"rows (block.side {self.side}), while they change. Read {self.name}.rows, or sum "
                "what is wanted of all rows in a parameter."
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

    @property
    def sample(self) -> Mat:
        """Some rows of all, evenly spaced: [`SAMPLE` x columns] at most. On the CPU only.

        They are as they were when training turned to the other side.
        """
        if self._sample is None:
            shape = len(self.sampled), self.shape[1]
            self._sample = named(self.cache, f"{self.name}, a sample", shape).slot
            self.refresh()
        return handle(self.cache, self._sample)

    @cached_property
    def sampled(self) -> Ids:
        """The numbers of the rows of the sample."""
        count = min(self.shape[0], SAMPLE)
        return np.arange(count, dtype=np.int64) * self.shape[0] // max(1, count)

    @property
    def gram(self) -> Mat:
        """R.T @ R [columns x columns] of all rows R, as `sample` are some. On the CPU only."""
        shape = self.shape[1], self.shape[1]
        self._gram = named(self.cache, f"{self.name}.T @ {self.name}", shape).slot
        return handle(self.cache, self._gram)

    def near(self, X: SparseMat) -> Mat:
        """Return the rows that occur in the present block of the other side, as it numbers them.

        Workers bring them before the block: each needs to have its own rows only. On the CPU only.

        X: entries of the block, numbered by `local`.
        """
        rows = local_table(X, self.shape[1], f"{self.name} of the block")
        self._near = rows.slot
        return rows

    @property
    def kept(self) -> npt.NDArray[np.number]:
        """The rows in the store; do not write to it. Those of a block follow with `save`."""
        assert self._store is not None
        self._read("kept")
        return self._store.array

    def is_finite(self) -> bool:
        """Return whether all numbers are finite: of the store, or of the device that holds them."""
        return is_finite(self.kept) if self._held is None else self._held.finite()

    @property
    def is_table(self) -> bool:
        """Whether `table` was read."""
        return self._table is not None

    def stored(self, share: RowShare) -> tuple[int, int]:
        """Return the shape of the store of a worker with this share of the rows."""
        return share.count, self.shape[1]

    @property
    def held(self) -> bool:
        """Whether a device holds all rows."""
        return self._held is not None

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

    def connect(
        self, store: RowStore, share: RowShare | None = None, *, whole: bool = True
    ) -> None:
        """Use `store` from now on. Raises ShapeError if it has another shape.

        share, whole: see the class; None: there is one worker.
        """
        self.share, self.whole = share or RowShare.of_all(self.shape[0]), whole
        check_store(self.name, store, self.shape if whole else self.stored(self.share))
        self._store = store
        if self._held is not None:
            self._rows.stay()
            if self._is_table and self._table is not None:
                self._table.stay()
            store.hold(self._held)
            return
        self._buffer = self.cache.backend.zeros(self.block_shape, np.float32)
        self._rows.bind(self._buffer)
        self.refresh()

    def refresh(self) -> None:
        """Update `table` and `sample` from the store."""
        if self._store is None or not self.whole:
            return
        if self._sample is not None:
            with self._store.reading(self.sampled):
                self._store.array.take(self.sampled, 0, self._sample.data(), "clip")
            self._sample.written(self._where)
        if self._table is None:
            return
        if self._is_table:
            self._table.slot.written(self._where)
        else:
            self._table.bind(self._store.array)

    def load(self, ids: npt.NDArray[np.int64], padded: Slot) -> None:
        """Load the store's rows `ids` [r <= block rows] into `rows`.

        padded: container [block rows x 1] of the same numbers, and -1 for padding.
        """
        assert self._store is not None
        self._count = len(ids)
        if self._held is not None:
            self._held.take(padded, self._rows.slot)
            self._rows.slot.written(self._where)
            return
        buffer, count, ids = self._buffer, len(ids), self._places(ids)
        with self._store.reading(ids):
            self._store.array.take(ids, 0, buffer[:count], "clip")
        buffer[count:] = 0.0
        self._rows.refill(self._buffer, self._where)

    def save(self, ids: npt.NDArray[np.int64], padded: Slot) -> None:
        """Write `rows` to the rows `ids`, and set the padding to zero. padded: see `load`."""
        assert self._store is not None
        if self._held is not None:
            self._held.put(padded, self._rows.slot)
            if len(ids) < self.block_shape[0]:
                self._rows.slot.written(self._where)
            return
        self._rows.fetch(self._buffer)
        places = self.share.places(ids)  # also if it has all rows: others must not train on these
        places = ids if self.whole else places
        with self._store.writing(places):
            self._store.array[places] = self._buffer[: len(ids)]
        if len(ids) < len(self._buffer):
            self._buffer[len(ids) :] = 0.0
            self._rows.refill(self._buffer, self._where)

    def _places(self, ids: Ids) -> Ids:
        return ids if self.whole else self.share.places(ids)

    # ------------------------------------------------------------- rows of several workers

    @property
    def by_need(self) -> bool:
        """Whether blocks of the other side read rows by `near`, as workers bring them."""
        return self._near is not None

    @property
    def wants_sample(self) -> bool:
        """Whether `sample` was read."""
        return self._sample is not None

    def bring(self, places: Ids, rows: npt.NDArray[np.number]) -> None:
        """Set these places of what `near` returned to rows [r * columns] that occur."""
        assert self._near is not None
        self._near.data()[places] = rows.reshape(len(places), self.shape[1])
        self._near.written(self._where)

    @property
    def wants_gram(self) -> bool:
        """Whether `gram` was read."""
        return self._gram is not None

    def set_gram(self, found: npt.NDArray[np.number]) -> None:
        """Set `gram`."""
        assert self._gram is not None
        self._gram.data()[:] = found
        self._gram.written(self._where)

    def set_sample(self, rows: npt.NDArray[np.number]) -> None:
        """Set `sample` to these rows."""
        assert self._sample is not None
        self._sample.data()[:] = rows
        self._sample.written(self._where)

    def ranges(self) -> Iterator[Ids]:
        """Yield the numbers of all rows, range after range: see `ranges`."""
        most = max(1, PIECE // (4 * self.shape[1]))
        for start in range(0, self.shape[0], most):
            yield np.arange(start, min(start + most, self.shape[0]))

    def of_rows(self, ids: Ids) -> npt.NDArray[np.number]:
        """Return a copy of the store's rows `ids` [r x columns]."""
        assert self._store is not None
        places = self._places(ids)
        with self._store.reading(places):
            found: npt.NDArray[np.number] = self._store.array.take(places, 0)
            return found

    def run(self, begin: int, end: int) -> npt.NDArray[np.number]:
        """Return rows of a whole store, not to be changed: a copy if they lie in a file."""
        assert self._store is not None and self.whole
        if self._store.pages is None:
            return self._store.array[begin:end]
        return self.of_rows(np.arange(begin, end))

    def expect(self, side: int) -> None:
        """Tell the system how a file is read in passes over the rows of this side."""
        if self._store is not None and self._store.pages is not None:
            self._store.pages.expect(in_order=self.read_in_order and side != self.side)

    def check(self) -> None:
        """Compare the pages of a file, before `table` is read."""
        if self._store is not None and self._table is not None and self.whole:
            self._store.check()

    def set_rows(self, ids: Ids, numbers: npt.NDArray[np.number]) -> None:
        """Set the store's rows `ids` to `numbers` [r * columns]."""
        assert self._store is not None
        places = self._places(ids)
        with self._store.writing(places):
            self._store.array[places] = numbers.reshape(len(ids), self.shape[1])
        if self._store.held is not None:
            self._store.changed()

    @property
    def stored_share(self) -> RowShare:
        """The rows of the array of all that its store has, in order."""
        return RowShare.of_all(self.shape[0]) if self.whole else self.owned

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
        found = np.empty((len(ids), self.shape[1]), self.dtype)
        for places, numbers in parts:
            found[places] = numbers.reshape(len(places), self.shape[1])
        return found


class TrainingState(RowState):
    """Rows that only training reads, such as numbers that an optimizer keeps.

    They are part of checkpoints, and no part of a saved model.
    """

    saved: ClassVar[bool] = False


def check_store(name: str, store: RowStore, shape: tuple[int, int]) -> None:
    """Raise ShapeError if the store of a state has another shape."""
    if store.shape != shape:
        rows, columns = store.shape
        raise ShapeError(
            f"{name}: a state of {rows:,} rows x {columns:,}; this model needs "
            f"{shape[0]:,} x {shape[1]:,}."
        )
