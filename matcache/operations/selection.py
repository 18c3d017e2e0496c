"""Select rows and columns of a sparse matrix by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..containers.dispatch import operation
from ..containers.launching import launch
from ..containers.lazy import Lazy
from ..containers.matrices import Mat, SparseMat, slots_of
from ..containers.patterns import BAD, filled_pattern, values_container
from ..containers.slots import PatternSlot
from ..errors import ShapeError, source_line
from .indexing import out_of_range, positions

WHOLE = slice(None)


def take(x: Lazy, index: Any, axis: int = 0, *, capacity: int | None = None) -> SparseMat:
    """Return rows (axis 0) or columns (axis 1) of a sparse matrix: `x[index]` or `x[:, index]`.

    index: an int, a slice, or positions as an array or a Mat of whole numbers, as of dense
        matrices. Their order is that of the result; a position that occurs twice is copied twice.
    capacity: stored entries that the result has room for. None: enough for positions that are known
        when memory is planned; for a Mat of positions as many as x has room for, which is enough
        where none occurs twice.

    The result has a pattern of its own. It can be used like a block, and its containers are part of
    the plan. On a device, each call waits until the number of its entries is known.

    Raises IndexError for positions out of range, and ShapeError where the chosen entries are more
    than `capacity`, or x is dense.
    """
    source = x.mat()
    if axis not in (0, 1) or not isinstance(source, SparseMat):
        kind = "sparse" if isinstance(source, SparseMat) else "dense: use x[rows, columns]"
        raise ShapeError(
            f"take at {source_line()}: axis={axis} of {x.label}, which is {kind}; the axis must be "
            "0 or 1, and the matrix sparse."
        )
    cache, at = x.cache, positions(source, index, axis)
    n = at.shape[0] * at.shape[1]
    shape = (n, x.shape[1]) if axis == 0 else (x.shape[0], n)
    if capacity is None:
        capacity = min(_times(index, x.shape[axis]) * source.pattern.capacity, shape[0] * shape[1])
    name = ("take rows", "take columns")[axis]
    key = (name, capacity, source.guid, source.pattern.guid, at.guid)
    label = f"{name}({source.label}, {at.label})"
    pattern = filled_pattern(cache, key, shape, max(capacity, 1), label, source.pattern)
    pattern.block = source.pattern.block if axis == 1 else None
    slot = values_container(cache, (*key, pattern.guid), pattern, source.dtype, label)
    if cache.begin(slot):
        slot.written()
        launch(cache, name, source, at, pattern, slot)
        slot.computed_from(*slots_of([source, at]))
    return SparseMat(cache, slot, pattern, source.tables)


@operation("select")
def select(x: Lazy, rows: Any, columns: Any) -> SparseMat:
    """Return x[rows, columns] of a sparse x."""
    rows_all, columns_all = (isinstance(i, slice) and i == WHOLE for i in (rows, columns))
    if columns_all:
        return take(x, rows)
    return take(x if rows_all else take(x, rows), columns, axis=1)


def _times(index: Any, size: int) -> int:
    """Return how often an index may choose the same position; a Mat counts as once."""
    if isinstance(index, slice | Lazy) or not np.size(index):
        return 1
    return int(np.unique(np.asarray(index) % max(size, 1), return_counts=True)[1].max())


def counted(x: Mat, axis: int, at: Mat, pattern: PatternSlot, counts: Any, where: str) -> None:
    """Take over how many entries were chosen, before they are copied.

    counts: on the host, see `filled_pattern`.
    where: source line of the choice.

    Raises IndexError and ShapeError: see `take`.
    """
    found = int(counts[0])
    if place := int(counts[BAD]):
        out_of_range(x, int(at.numpy().reshape(-1)[place - 1]), axis, where)
    if found > pattern.capacity:
        raise ShapeError(
            f"{pattern.label} at {where}: the positions choose {found:,} stored entries, and there "
            f"is room for {pattern.capacity:,}. Make more: take({x.label}, positions, axis={axis}, "
            f"capacity=N), N the most that any block may choose."
        )
    pattern.nnz, pattern.active_count = found, min(found, pattern.columns)
    pattern.written(where)
