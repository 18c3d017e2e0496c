"""The containers of blocks, sparse and dense, which are filled again and again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError, source_line
from .backend import Backend, Held, HeldMatrix, Incoming
from .cache import MatCache
from .matrices import Mat, SparseMat
from .slots import PatternSlot, Slot

NO_INDEX: tuple[Any, ...] = (None, None, None, None)
BUFFERS = 2  # blocks on a device at a time: one in use, one being copied


class SparseInput:
    """The sparse container of a block, with fixed shape and a capacity in non-zeros.

    `bind` points it at a block's arrays without copying. Its GUIDs stay, so everything computed
    from it keeps its containers.
    """

    def __init__(
        self,
        cache: MatCache,
        name: str,
        rows: int,
        columns: int,
        capacity: int,
        dtype: Any = np.float32,
        *,
        indexed: bool = True,
        beside: Sequence[DenseInput] = (),
    ) -> None:
        """Make the container, without contents.

        capacity: largest number of non-zeros in a block.
        indexed: whether the transposed index is used; False reserves no room for it.
        beside: inputs without copies of their own, whose arrays come with those of this one.
        """
        self.cache, self._indexed, self._beside = cache, indexed, beside
        capacity = max(capacity, 1)
        self.pattern = PatternSlot(cache.new_guid(), rows, columns, capacity, name)
        self.values = Slot(cache.new_guid(), (1, capacity), np.dtype(dtype), name)
        cache.inputs += [self.pattern, self.values]
        self._counts = np.zeros(2, np.int64)
        self.pattern.grown = self._make_room
        self._make_room()

    def _make_room(self) -> None:
        """Reserve room for the arrays of blocks."""
        pattern, capacity = self.pattern, self.pattern.capacity
        backend: Backend = self.cache.backend
        active = min(pattern.columns, capacity)
        self._index = backend.index(self.cache, pattern, of_block=True) if self._indexed else None
        if self._index is not None:
            pattern.build = self._index.build
        arrays: list[tuple[tuple[int, ...], Any]] = [
            ((2,), np.int64),  # counts
            *((part.slot.shape, part.slot.dtype) for part in self._beside),
            ((pattern.rows + 1,), np.int64),  # indptr
            ((capacity,), np.int32),  # indices
            ((1, capacity), self.values.dtype),  # values
        ]
        if self._index is None and self._indexed:
            arrays += [
                ((active,), np.int32),  # active
                ((active + 1,), np.int64),  # starts
                ((capacity,), np.int32),  # t_rows
                ((capacity,), pattern.position_type),  # t_pos
            ]
        label = f"arrays of {pattern.label}"
        self._room: Incoming | None = backend.incoming(self.cache, label, arrays, BUFFERS)

    def handle(self) -> SparseMat:
        """Return a handle on the present contents; earlier handles become stale."""
        return SparseMat(self.cache, self.values, self.pattern)

    def renew(self) -> None:
        """Mark the contents as changed, so that dependent results are computed anew."""
        self.pattern.written()
        self.values.written(self.pattern.where)

    def bind(
        self,
        *,
        indptr: np.ndarray[Any, Any],
        indices: np.ndarray[Any, Any],
        values: np.ndarray[Any, Any],
        active: np.ndarray[Any, Any] | None = None,
        active_count: int = 0,
        starts: np.ndarray[Any, Any] | None = None,
        t_rows: np.ndarray[Any, Any] | None = None,
        t_pos: np.ndarray[Any, Any] | None = None,
    ) -> SparseMat:
        """Use these arrays as the contents, and return a handle on them.

        See `PatternSlot` for their meaning. Not checked: indices must be in range, and offsets
        ascending. The transposed index is ignored if the backend makes its own.
        """
        pattern = self.pattern
        if len(indptr) != pattern.rows + 1:
            raise ShapeError(
                f"{pattern.label}: a block of {len(indptr) - 1} rows; the container has "
                f"{pattern.rows}."
            )
        nnz = int(indptr[-1])
        for what, array, dtype in [
            ("offsets", indptr, np.int64),
            ("column indices", indices, np.int32),
            ("values", values, self.values.dtype),
        ]:
            _check_array(pattern.label, what, array, dtype)
        if min(indices.size, values.size) < nnz:
            raise ShapeError(
                f"{pattern.label}: offsets end at {nnz:,}, but there are {indices.size:,} column "
                f"indices and {values.size:,} values."
            )
        index = None
        if active is not None and starts is not None and t_rows is not None and t_pos is not None:
            index = active, starts, t_rows, t_pos
        self.refill(indptr, indices, values, nnz, index, active_count, source_line())
        return self.handle()

    def refill(
        self,
        indptr: np.ndarray[Any, Any],
        indices: np.ndarray[Any, Any],
        values: np.ndarray[Any, Any],
        nnz: int,
        index: tuple[np.ndarray[Any, Any], ...] | None,
        active_count: int,
        where: str,
        same: Hashable | None = None,
        beside: Sequence[np.ndarray[Any, Any]] = (),
    ) -> None:
        """Use these arrays as the contents, like `bind`, without checking them.

        index: active, starts, t_rows and t_pos; None: there is no transposed index.
        where: the source line to name.
        same: equal for arrays with the same contents; see `Incoming`.
        beside: arrays of the inputs that come with this one.
        """
        if nnz > self.pattern.capacity:
            self.cache.grow(self.pattern, nnz)
        self._counts[0], self._counts[1] = nnz, active_count
        turned = () if self._index is not None or index is None else index
        arrays: Sequence[Any] = self._counts, *beside, indptr, indices, values, *turned
        if self._room is not None:
            used = [2, *map(len, beside), len(indptr), nnz, nnz]
            if turned:
                used += [active_count, active_count + 1, nnz, nnz]
            arrays = self._room.bind(arrays, used, same)
        self._use(arrays, nnz, active_count, where)

    def choose(self, matrix: HeldMatrix, ids: np.ndarray[Any, Any], nnz: int, where: str) -> None:
        """Use rows of a matrix that lies where kernels read it as the contents.

        ids: int64 [rows], -1 for padding: the array of the first input `beside`. Kernels must fill
            those of the others.
        nnz: non-zeros of these rows, which fit into the container.
        where: see `refill`.
        """
        assert self._room is not None
        rest = len(self._beside) - 1 + 3  # offsets, columns and values
        arrays = [None, ids, *[None] * rest]
        self._use(self._room.bind(arrays), nnz, 0, where)
        matrix.take(self._beside[0].slot, self.pattern, self.values)

    def _use(self, arrays: Sequence[Any], nnz: int, active_count: int, where: str) -> None:
        """Use the arrays of a block, as `refill` lists them, where kernels read them."""
        pattern = self.pattern
        pattern.nnz, pattern.active_count = nnz, active_count
        pattern.counts, *arrays = arrays
        for part in self._beside:
            part.take(arrays.pop(0), where)
        pattern.indptr, pattern.indices, values, *turned = arrays
        self.values.array = values if self._room is not None else values.reshape(1, -1)
        if self._index is not None:
            turned = self._index.arrays()
            pattern.active_count = min(nnz, pattern.columns)  # upper bound; the device knows
        pattern.active, pattern.starts, pattern.t_rows, pattern.t_pos = turned or NO_INDEX
        self.values.shape = (1, pattern.capacity)
        pattern.written(where)
        self.values.written(where)


class DenseInput:
    """The dense container of a block; `bind` points it at an array without copying."""

    def __init__(
        self, cache: MatCache, name: str, shape: tuple[int, int], dtype: Any, copies: int = BUFFERS
    ) -> None:
        """Make the container, without contents.

        copies: how many blocks may be in use at a time; 0: its arrays come with a `SparseInput`.
        """
        self.cache = cache
        self.slot = Slot(cache.new_guid(), shape, np.dtype(dtype), name)
        cache.inputs.append(self.slot)
        self._room: Any = None  # an Incoming
        if copies:
            self._room = cache.backend.incoming(cache, name, [(shape, dtype)], copies)

    def handle(self) -> Mat:
        """Return a handle on the present contents; earlier handles become stale."""
        return Mat(self.cache, self.slot)

    def bind(self, array: np.ndarray[Any, Any]) -> Mat:
        """Use `array` as the contents, and return a handle on them.

        array: C-contiguous, of the container's shape and dtype.
        """
        if array.shape != self.slot.shape:
            raise ShapeError(
                f"{self.slot.label}: a block of {array.shape}; the container is {self.slot.shape}."
            )
        _check_array(self.slot.label, "numbers", array, self.slot.dtype)
        self.refill(array, source_line())
        return self.handle()

    def refill(self, array: np.ndarray[Any, Any], where: str, same: Hashable | None = None) -> None:
        """Use `array`, maybe of one dimension, as the contents, like `bind`, without checking it.

        where, same: see `SparseInput.refill`.
        """
        self.take(array if self._room is None else self._room.bind([array], same=same)[0], where)

    def choose(self, rows: Held, ids: Slot, where: str) -> None:
        """Use rows of a table that lies where kernels read it as the contents.

        ids: see `Held`. where: see `SparseInput.refill`.
        """
        self.take(self._room.bind([None])[0], where)
        rows.take(ids, self.slot)

    def take(self, array: Any, where: str) -> None:
        """Use an array that lies where kernels read it. where: see `SparseInput.refill`."""
        shape = self.slot.shape
        self.slot.array = array if array.shape == shape else array.reshape(shape)
        self.slot.written(where)

    def renew(self) -> None:
        """Mark the contents as changed: see `SparseInput.renew`."""
        self.slot.written()

    @property
    def place(self) -> Slot:
        """The container on a device that `stay` uses."""
        place: Slot = self._room.place
        return place

    def stay(self) -> None:
        """Use one place on a device for all blocks, where kernels write the contents."""
        self.slot.array = self.place.array.reshape(self.slot.shape)

    def fetch(self, into: np.ndarray[Any, Any]) -> None:
        """Copy the present contents, possibly assigned to, back into the bound array."""
        found = self.cache.backend.host(self.slot.array)
        if found is not into:
            np.copyto(into, found)


def _check_array(label: str, what: str, array: np.ndarray[Any, Any], dtype: Any) -> None:
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise ShapeError(
            f"{label}: its {what} must be {np.dtype(dtype)}, C-contiguous; got {array.dtype} with "
            f"strides {array.strides}."
        )
