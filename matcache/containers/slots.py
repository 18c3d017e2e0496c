"""Containers: storage with an identity (GUID), a version, and its writer's line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import source_line
from ..program.padding import Padding

ALIGNMENT = 256  # bytes; what cudaMalloc guarantees, and four cache lines
GAP = 1 << 16  # bytes between two arrays that a device copies, too, rather than start another copy

BFLOAT16: np.dtype[Any] = np.dtype([("bfloat16", np.uint16)])
"""The upper halves of float32 numbers. NumPy lacks this type, so the dtype only marks a container;
kernels of devices read the numbers."""


def type_name(dtype: Any) -> str:
    """Return the name of a number type.

    >>> type_name(np.float32), type_name(BFLOAT16)
    ('float32', 'bfloat16')
    """
    return "bfloat16" if dtype == BFLOAT16 else np.dtype(dtype).name


@dataclass(eq=False)
class Slot:
    """Dense storage of an immutable shape.

    guid: identity of the slot, not of its contents.
    version: counts the writes.
    array: None until the memory plan is committed.
    """

    guid: int
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    label: str
    where: str = "(never written)"
    version: int = 0
    array: Any = None  # a NumPy or device array
    inputs: tuple[tuple[Slot | PatternSlot, int], ...] = ()  # what the contents were computed from
    computed: int = -1  # the version that this computation produced
    in_slab: bool = False  # lies in the slab of the memory plan
    named: bool = False  # a new one is filled with zeros
    known: tuple[int, float] = (-1, 0.0)  # a version, and the number that the host wrote then
    padding: Padding = Padding()  # contents of a block's padding rows
    cleared: int = -1  # the version at which a new one was filled with zeros
    grows: int = 1  # the axis along which it grows with a sparse container that it depends on

    @property
    def nbytes(self) -> int:
        """The size of the contents in bytes."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def data(self) -> Any:
        """Return the contents, or an empty array of this dtype while memory is planned."""
        return np.empty((1, 0), self.dtype) if self.array is None else self.array

    def arrays(self) -> dict[str, Any]:
        """Return the array of the contents, if there is one, by the name of its attribute."""
        return {} if self.array is None else {"array": self.array}

    def stretch(self, before: int, after: int) -> None:
        """Take the shape for another capacity of the sparse container; contents are lost."""
        rows, columns = self.shape
        if self.grows == 0:
            self.shape = (rows // before * after, columns)
        else:
            self.shape = (rows, columns // before * after)
        self.written()

    def written(self, where: str | None = None) -> None:
        """Count a write, and remember its source line; `where` overrides the caller's."""
        self.version += 1
        self.where = where or source_line()

    def is_current(self) -> bool:
        """Return whether the contents were computed from operands as they are now."""
        if self.version != self.computed:
            return False
        for operand, version in self.inputs:  # noqa: SIM110 (a generator takes twice as long)
            if operand.version != version:
                return False
        return True

    def computed_from(self, *inputs: Slot | PatternSlot) -> None:
        """Note that the contents follow from the present `inputs`, to find hits."""
        self.inputs = tuple([(s, s.version) for s in inputs])
        self.computed = self.version


@dataclass(eq=False)
class PatternSlot:
    """The positions of a sparse matrix's non-zeros, by row (CSR) and by column.

    indptr: int64 [rows + 1], offsets of rows.
    indices: int32 [capacity], column of each non-zero.
    active: int32 [active_count], the columns that occur, ascending; or in the order of other
        numbers that they had before, where the model `reads_in_order`.
    starts: offsets of the active columns in `t_rows` and `t_pos`.
    t_rows: int32, rows of the non-zeros, by column and then by row.
    t_pos: positions of these non-zeros in the values.

    Shape and GUID never change. The capacity may grow, and each block replaces the arrays.
    """

    guid: int
    rows: int
    columns: int
    capacity: int
    label: str
    nnz: int = 0
    version: int = 0
    where: str = "(never written)"
    indptr: Any = None
    indices: Any = None
    active: Any = None
    active_count: int = 0
    starts: Any = None
    t_rows: Any = None
    t_pos: Any = None
    counts: Any = None  # int64 [2]: nnz and active_count, where kernels can read them
    turned: bool = False  # whether the transposed index was ever used
    block: Any = None  # row numbers of its block; see `padding.py`
    beside: PatternSlot | None = None  # the pattern whose offsets this one has, entry by entry
    beside_version: int = -1  # the version of it that had these offsets
    dependents: dict[int, Slot | PatternSlot] = field(default_factory=dict)  # what grows with it
    grown: Callable[[], None] | None = None  # called when the capacity has grown
    build: Callable[[], None] | None = None  # makes the transposed index; None: blocks bring it

    @property
    def position_type(self) -> type[np.signedinteger[Any]]:
        """The dtype of positions in the values."""
        return np.int32 if self.capacity < 2**31 else np.int64

    def arrays(self) -> dict[str, Any]:
        """Return all arrays that are there, by the names of their attributes."""
        names = ("indptr", "indices", "active", "starts", "t_rows", "t_pos", "counts")
        found = {name: getattr(self, name) for name in names}
        return {name: array for name, array in found.items() if array is not None}

    def offsets(self) -> list[Any]:
        """Return indptr and indices; empty arrays while memory is being planned."""
        return [_or_empty(self.indptr, np.int64), _or_empty(self.indices, np.int32)]

    def numbers(self) -> Any:
        """Return `counts`; an empty array while memory is being planned."""
        return _or_empty(self.counts, np.int64)

    def transposed(self) -> list[Any]:
        """Return active, starts, t_rows and t_pos; empty arrays while memory is planned."""
        self.turned = True
        return [
            _or_empty(self.active, np.int32),
            _or_empty(self.starts, np.int64),
            _or_empty(self.t_rows, np.int32),
            _or_empty(self.t_pos, self.position_type),
        ]

    def written(self, where: str | None = None) -> None:
        """Count a write, and remember its source line; `where` overrides the caller's."""
        self.version += 1
        self.where = where or source_line()


def _or_empty(array: Any, dtype: Any) -> Any:
    return np.empty(0, dtype) if array is None else array


def aligned(nbytes: int) -> int:
    """Return `nbytes` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def carve(slab: Any, offset: int, slot: Slot) -> Any:
    """Return the view of a byte slab at `offset` that holds `slot`."""
    return slab[offset : offset + slot.nbytes].view(slot.dtype).reshape(slot.shape)


def put(array: np.ndarray[Any, Any], numbers: Any) -> None:
    """Copy numbers of the same kind into an array of the host."""
    if isinstance(numbers, float):
        array.fill(numbers)  # takes a sixth of the time
    else:
        array[...] = numbers


def allocate_bytes(nbytes: int) -> np.ndarray[Any, Any]:
    """Allocate zeroed bytes, aligned for containers."""
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]
