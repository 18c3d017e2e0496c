"""Containers: storage with an identity (GUID), a version and a place in the source that wrote it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ALIGNMENT = 256  # bytes; what cudaMalloc guarantees, and four cache lines

_HERE = str(Path(__file__).resolve().parent)
_LINKED = str(Path(__file__).absolute().parent)


def source_line() -> str:
    """`file:line` of the nearest caller outside this folder."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_HERE, _LINKED)):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


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
    array: np.ndarray[Any, Any] | None = None
    inputs: tuple[tuple[Slot | PatternSlot, int], ...] = ()  # what the contents were computed from
    computed: int = -1  # the version that this computation gave

    @property
    def nbytes(self) -> int:
        """Bytes of the contents."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def written(self) -> None:
        """Count a write, and remember the line that asked for it."""
        self.version += 1
        self.where = source_line()

    def is_current(self) -> bool:
        """Whether the contents are still those computed, from operands that have not changed."""
        return self.version == self.computed and all(s.version == v for s, v in self.inputs)


@dataclass(eq=False)
class PatternSlot:
    """Where the non-zeros of a sparse matrix are: CSR offsets and columns, and the transposed index.

    indptr int64 [rows + 1], indices int32 [capacity]; the transposed index names the columns that
    occur, ascending (`active` [active_count]), and for each its non-zeros by ascending row: `t_rows`
    and `t_pos` (their position in the values) between `starts[a]` and `starts[a + 1]`.
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
    indptr: np.ndarray[Any, Any] | None = None
    indices: np.ndarray[Any, Any] | None = None
    active: np.ndarray[Any, Any] | None = None
    active_count: int = 0
    starts: np.ndarray[Any, Any] | None = None
    t_rows: np.ndarray[Any, Any] | None = None
    t_pos: np.ndarray[Any, Any] | None = None
    dependents: list[Slot] = field(default_factory=list)  # values slots that must grow with it

    def written(self) -> None:
        """Count a write, and remember the line that asked for it."""
        self.version += 1
        self.where = source_line()


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def carve(slab: np.ndarray[Any, Any], offset: int, slot: Slot) -> np.ndarray[Any, Any]:
    """The view of a byte slab at `offset` that holds `slot`."""
    return slab[offset : offset + slot.nbytes].view(slot.dtype).reshape(slot.shape)


def allocate_bytes(nbytes: int) -> np.ndarray[Any, Any]:
    """Zeroed bytes that start at a multiple of the alignment."""
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]
