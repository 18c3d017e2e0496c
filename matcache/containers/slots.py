"""Containers: storage with an identity (GUID), a version, and the source line that wrote it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import source_line
from ..program.padding import Padding

ALIGNMENT = 256  # bytes; what cudaMalloc guarantees, and four cache lines

BFLOAT16: np.dtype[Any] = np.dtype([("bfloat16", np.uint16)])
"""The upper halves of float32: NumPy has no such numbers, so this only says what a container has in
it. Kernels of devices read them."""


def type_name(dtype: Any) -> str:
    """Name of a type of numbers.

    >>> type_name(np.float32), type_name(BFLOAT16)
    ('float32', 'bfloat16')
    """
    return "bfloat16" if dtype == BFLOAT16 else np.dtype(dtype).name


@dataclass(eq=False)
class Slot:
    """Dense storage of an immutable shape. `array` is None until the memory plan is committed.

    The `guid` names the slot, not its contents; `version` counts the writes to it.
    """

    guid: int
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    label: str
    where: str = "(never written)"
    version: int = 0
    array: Any = None  # of NumPy, or of the device
    inputs: tuple[tuple[Slot | PatternSlot, int], ...] = ()  # what the contents were computed from
    computed: int = -1  # the version that this computation gave
    in_slab: bool = False  # placed by the memory plan
    named: bool = False  # zeros when it is new
    known: tuple[int, float] = (-1, 0.0)  # the number that the host wrote at this version
    padding: Padding = Padding()  # what it holds in rows that a block fills up with

    @property
    def nbytes(self) -> int:
        """Bytes of the contents."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def data(self) -> Any:
        """The contents; while memory is being planned, an empty array of the same type."""
        return np.empty((1, 0), self.dtype) if self.array is None else self.array

    def written(self, where: str | None = None) -> None:
        """Count a write, and remember the line that asked for it (`where`, if that is known)."""
        self.version += 1
        self.where = where or source_line()

    def is_current(self) -> bool:
        """Whether the contents are still those computed, from operands that have not changed."""
        return self.version == self.computed and all(s.version == v for s, v in self.inputs)

    def computed_from(self, *inputs: Slot | PatternSlot) -> None:
        """Note that the contents follow from `inputs` as they are now: what makes a hit."""
        self.inputs = tuple((s, s.version) for s in inputs)
        self.computed = self.version


@dataclass(eq=False)
class PatternSlot:
    """Where the non-zeros of a sparse matrix are: CSR offsets and columns; the transposed index.

    indptr int64 [rows + 1], indices int32 [capacity]; the transposed index names the columns that
    occur, ascending (`active` [active_count]), and for each its non-zeros by ascending row:
    `t_rows` and `t_pos` (their position in the values) from `starts[a]` to `starts[a + 1]`.
    Shape and GUID never change; the capacity may grow, and the arrays are replaced at each block.
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
    turned: bool = False  # whether the transposed index was ever asked for
    block: Any = None  # row numbers of the block that it is of; see `padding.py`
    dependents: dict[int, Slot] = field(default_factory=dict)  # values that grow with it, by GUID
    grown: Callable[[], None] | None = None  # called when the capacity has grown
    build: Callable[[], None] | None = None  # makes the transposed index; None: blocks bring it

    @property
    def position_type(self) -> type[np.signedinteger[Any]]:
        """dtype of positions in the values."""
        return np.int32 if self.capacity < 2**31 else np.int64

    def offsets(self) -> list[Any]:
        """indptr and indices; while memory is being planned, empty arrays of their types."""
        return [_or_empty(self.indptr, np.int64), _or_empty(self.indices, np.int32)]

    def transposed(self) -> list[Any]:
        """active, starts, t_rows and t_pos; empty arrays while memory is being planned."""
        self.turned = True
        return [
            _or_empty(self.active, np.int32),
            _or_empty(self.starts, np.int64),
            _or_empty(self.t_rows, np.int32),
            _or_empty(self.t_pos, self.position_type),
        ]

    def written(self, where: str | None = None) -> None:
        """Count a write, and remember the line that asked for it (`where`, if that is known)."""
        self.version += 1
        self.where = where or source_line()


def _or_empty(array: Any, dtype: Any) -> Any:
    return np.empty(0, dtype) if array is None else array


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def carve(slab: Any, offset: int, slot: Slot) -> Any:
    """The view of a byte slab at `offset` that holds `slot`."""
    return slab[offset : offset + slot.nbytes].view(slot.dtype).reshape(slot.shape)


def allocate_bytes(nbytes: int) -> np.ndarray[Any, Any]:
    """Zeroed bytes that start at a multiple of the alignment."""
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]
