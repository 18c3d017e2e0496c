"""Select rows and columns by position, and sort rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.dispatch import launch, operation
from ..containers.expressions import Node
from ..containers.lazy import Lazy
from ..containers.matrices import Mat
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from .products import node


def sort(cache: MatCache, x: Lazy) -> Node:
    """Sort each row in ascending order; NaN last."""
    source = x.mat()
    if source.pattern is not None:
        raise ShapeError(f"sort at {source_line()}: {x.label} is sparse.")

    def compute(slot: Slot) -> None:
        launch(cache, "sort", source.slot, slot)

    return node(cache, x.shape, "sort", (source,), compute, x.dtype)


@operation("gather")
def gather(x: Lazy, index: Any) -> Node:
    """Return x[rows] or x[rows, columns] as a Mat.

    x: dense.
    index: for each axis an int, a slice, or positions as an integer Mat or array.

    Ints and arrays may count from the end, as in NumPy. A Mat of positions [1 x n] may not, but its
    contents may change from block to block. Positions out of range raise IndexError.
    """
    cache = x.cache
    if x.pattern is not None:
        raise ShapeError(f"{x.label}[...] at {source_line()}: a sparse matrix cannot be indexed.")
    both = index if isinstance(index, tuple) else (index, slice(None))
    if len(both) != 2:
        raise ShapeError(
            f"{x.label}[...] at {source_line()}: {len(both)} indices; must be one or two."
        )
    source = x.mat()
    rows, columns = (_positions(source, i, axis) for axis, i in enumerate(both))
    shape = (rows.shape[1], columns.shape[1])
    checked = not any(isinstance(i, Lazy) for i in both)  # those of the host were

    def compute(slot: Slot) -> None:
        launch(cache, "gather", source, rows, columns, slot, checked)

    return node(cache, shape, "gather", (source, rows, columns), compute, x.dtype)


def out_of_range(x: Mat, position: int, axis: int, where: str | None = None) -> None:
    """Raise IndexError for a position on an axis of x. where: source line; None: the caller's."""
    raise IndexError(
        f"{x.label}[...] at {where or source_line()}: position {position} on axis {axis}, which "
        f"has {x.shape[axis]} entries."
    )


def _positions(x: Mat, index: Any, axis: int) -> Mat:
    """Return positions as an int64 Mat [1 x n]."""
    cache, size = x.cache, x.shape[axis]
    if isinstance(index, Lazy):
        if index.dtype != np.int64 or index.shape[0] != 1 or index.cache is not cache:
            raise ShapeError(
                f"{x.label}[...] at {source_line()}: the index {index.label} is {index.shape} "
                f"{index.dtype}; positions must be an int64 Mat of shape (1, n) of the same cache."
            )
        return index.mat()
    key: tuple[Any, ...]
    positions: Any
    if isinstance(index, slice):
        steps = range(*index.indices(size))
        key, positions = ("positions", steps), steps
    else:
        given = np.asarray(index)
        if given.ndim > 1 or (given.dtype.kind not in "iu" and given.size):
            raise ShapeError(
                f"{x.label}[...] at {source_line()}: an index of {given.dtype} {given.shape}; "
                "positions must be integers in one dimension (for a mask, use np.flatnonzero)."
            )
        positions = np.atleast_1d(given).astype(np.int64)
        positions[positions < 0] += size
        for wrong in positions[(positions < 0) | (positions >= size)]:
            out_of_range(x, int(wrong if wrong >= 0 else wrong - size), axis)
        key = ("positions", positions.tobytes())
    slot = cache.result(key, (1, len(positions)), np.int64, "positions")
    if slot.array is not None and slot.computed < 0:
        cache.backend.write(slot.array, np.asarray(positions, np.int64))
        slot.computed = slot.version
    return Mat(cache, slot)
