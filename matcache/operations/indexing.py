"""Select rows and columns by position, write to them, and join matrices."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..containers.cache import MatCache
from ..containers.dispatch import operate, operation
from ..containers.expressions import Elementwise, Node, result_dtype
from ..containers.keys import number_key
from ..containers.launching import launch
from ..containers.lazy import Lazy, Shape
from ..containers.matrices import Mat
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from ..program.padding import Padding, beside
from .dense import store
from .products import node

# ---------------------------------------------------------------- reading and writing by position

TRUTHS = {"less", "less_equal", "equal", "not_equal", "logical_and", "logical_or"}


class Gathered(Node):
    """`x[rows, columns]`: as a value a copy, and on the left side of an assignment a part of x."""

    __slots__ = ("apart", "at", "checked", "every_row", "whole", "written")

    def __init__(
        self,
        source: Mat,
        at: tuple[Mat, Mat],
        whole: Lazy,
        *,
        checked: bool,
        apart: bool,
        every_row: bool,
    ) -> None:
        """Choose rows and columns.

        at: positions of rows and of columns, int64 with one side of 1.
        whole: what was indexed; source is its value.
        checked: whether the positions are known to be in range.
        apart: whether no column is known to occur twice.
        every_row: whether all rows are chosen, in order.
        """
        rows, columns = at
        what = "gather checked" if checked else "gather"

        def compute(slot: Slot) -> None:
            launch(source.cache, what, source, rows, columns, slot)

        super().__init__(
            source.cache,
            (_count(rows), _count(columns)),
            source.dtype,
            key=("gather",),
            operands=(source, rows, columns),
            compute=compute,
            label=f"gather({source.label}, {rows.label}, {columns.label})",
            padding=source.padding if every_row else Padding(_block_of(rows)),
        )
        self.at, self.whole, self.apart, self.written = at, whole, apart, False
        self.every_row, self.checked = every_row, checked

    def _assign(self, value: Any) -> None:
        self._write(value, add=False)

    def __iadd__(self, value: Any) -> Self:
        """Add to rows of the matrix, in the order of the positions.

        A position that occurs twice gets both rows.
        """
        return self._write(value, add=True)

    def __isub__(self, value: Any) -> Self:
        """Subtract from rows of the matrix, in the order of the positions."""
        return self._write(-value, add=True)

    def _write(self, value: Any, *, add: bool) -> Self:
        target, cache = self.operands[0], self.cache
        if target is not self.whole:
            raise ShapeError(
                f"{target.label}[...] at {source_line()}: the expression has no container of its "
                "own to write to. Index a Mat."
            )
        if not self.apart:
            raise ShapeError(
                f"{target.label}[...] at {source_line()}: columns={self.at[1].label}: must be a "
                "slice, or different numbers that are known when memory is planned."
            )
        source = _written(target, self.shape, value)
        if cache.recording is not None:
            cache.recording.note("scatter", (target, *self.at, source, float(add)))
        self.check_operands()
        target.slot.written()
        block = target.padding.block or (source.padding.block if self.every_row else None)
        target.slot.padding = Padding(block)
        target.follow()
        what = "scatter checked" if self.checked else "scatter"
        launch(cache, what, target.slot, *self.at, source, add)
        cache.count(add * self.shape[0] * self.shape[1])
        self.written = True
        return self


def _written(target: Mat, shape: Shape, value: Any) -> Mat:
    """Return what is written to a part of `target` of that shape: a Mat that is not the target."""
    cache = target.cache
    if isinstance(value, int | float | np.number | np.bool_):
        return _number(cache, float(value))
    if not isinstance(value, Lazy) or value.cache is not cache or value.pattern is not None:
        raise ShapeError(
            f"{target.label}[...] at {source_line()}: {type(value).__name__} cannot be written; "
            "the value must be a number or a dense matrix of the same cache."
        )
    if any(have not in (1, want) for have, want in zip(value.shape, shape, strict=True)):
        raise ShapeError(
            f"{target.label}[...] at {source_line()}: the part is {shape[0]} x {shape[1]}, the "
            f"value {value.shape[0]} x {value.shape[1]}; each side must be equal, or 1."
        )
    source = value.mat()
    if source.guid == target.guid:
        source = Elementwise(cache, "copy", (source,), source.shape, source.dtype, None).mat()
    return source


def _number(cache: MatCache, number: float) -> Mat:
    slot = cache.result(("a number", number_key(number)), (1, 1), np.float64, f"{number:g}")
    return filled(cache, slot, number)


def filled(cache: MatCache, slot: Slot, numbers: Any) -> Mat:
    """Return a container that holds the same numbers for life."""
    if slot.array is not None and slot.computed < 0:
        cache.backend.write(slot.array, np.asarray(numbers, slot.dtype))
        slot.computed = slot.version
    return Mat(cache, slot)


@operation("gather")
def gather(x: Lazy, index: Any) -> Any:
    """Return x[rows] or x[rows, columns]: a Mat, or what is written to on the left of `<<=`.

    x: dense; of a sparse one, `selection.py` returns copies of rows and columns.
    index: for each axis an int, a slice, or positions as an array or a Mat of whole numbers.

    Ints and arrays may count from the end, as in NumPy. A Mat of positions, [1 x n] or [n x 1], may
    not, but its contents may change from block to block. Positions out of range raise IndexError.
    """
    both = index if isinstance(index, tuple) else (index, slice(None))
    if len(both) != 2:
        raise ShapeError(
            f"{x.label}[...] at {source_line()}: {len(both)} indices; must be one or two."
        )
    if x.pattern is not None:
        return operate("select", x, *both)
    source = x.mat()
    rows, columns = (positions(source, i, axis) for axis, i in enumerate(both))
    checked = not any(isinstance(i, Lazy) for i in both)  # those of the host were
    apart = not isinstance(both[1], Lazy) and _apart(both[1], x.shape[1])
    steps = range(*both[0].indices(x.shape[0])) if isinstance(both[0], slice) else None
    every_row = steps == range(x.shape[0])
    return Gathered(source, (rows, columns), x, checked=checked, apart=apart, every_row=every_row)


@operation("write part")
def write_part(x: Mat, index: Any, value: Any) -> None:
    """Write x[index] = value. Python calls this after `x[index] += value`, too."""
    if isinstance(value, Gathered) and value.written and value.whole is x:
        value.written = False  # `<<=` and `+=` have written it already
        return
    if x.pattern is not None:
        raise ShapeError(
            f"{x.label}[...] at {source_line()}: parts of a sparse matrix are copies, which "
            "cannot be written to. Assign to the whole matrix: x <<= ..."
        )
    part = gather(x, index)
    part <<= value


def _apart(index: Any, size: int) -> bool:
    """Return whether an index of the host chooses each of `size` columns once at most."""
    if isinstance(index, slice):
        return True
    places = np.atleast_1d(np.asarray(index)) % max(size, 1)
    return len(np.unique(places)) == len(places)


def _block_of(rows: Mat) -> Any:
    """Return the block that chosen rows belong to: one is chosen for each of its rows."""
    return rows.padding.block if rows.shape[0] > 1 else None


def _count(positions: Mat) -> int:
    return positions.shape[0] * positions.shape[1]


def out_of_range(x: Lazy, position: int, axis: int, where: str | None = None) -> None:
    """Raise IndexError for a position on an axis of x. where: source line; None: the caller's."""
    raise IndexError(
        f"{x.label}[...] at {where or source_line()}: position {position} on axis {axis}, which "
        f"has {x.shape[axis]} entries."
    )


def positions(x: Mat, index: Any, axis: int) -> Mat:
    """Return positions as an int64 Mat, [1 x n] or [n x 1]."""
    cache, size = x.cache, x.shape[axis]
    if isinstance(index, Lazy):
        if 1 not in index.shape or index.pattern is not None or index.cache is not cache:
            raise ShapeError(
                f"{x.label}[...] at {source_line()}: the index {index.label} is {index.shape} "
                f"{index.dtype}; positions must be a dense Mat [1 x n] or [n x 1] of the same "
                "cache."
            )
        if isinstance(index, Elementwise) and index.op in TRUTHS:
            raise ShapeError(
                f"{x.label}[...] at {source_line()}: the index {index.label} is a mask, whose "
                "numbers are 0 and 1; positions must be numbers of rows or columns. To choose by a "
                "condition, write where(condition, value, 0.0)."
            )
        return index.mat() if index.dtype == np.int64 else _whole(index.mat())
    if isinstance(index, slice):
        return _steps(cache, range(*index.indices(size)))
    given = np.asarray(index)
    if given.ndim > 1 or (given.dtype.kind not in "iu" and given.size):
        raise ShapeError(
            f"{x.label}[...] at {source_line()}: an index of {given.dtype} {given.shape}; "
            "positions must be integers in one dimension (for a mask, use np.flatnonzero)."
        )
    places = np.atleast_1d(given).astype(np.int64)
    places[places < 0] += size
    for wrong in places[(places < 0) | (places >= size)]:
        out_of_range(x, int(wrong if wrong >= 0 else wrong - size), axis)
    key = ("positions", places.tobytes())
    return filled(cache, cache.result(key, (1, len(places)), np.int64, "positions"), places)


def _steps(cache: MatCache, steps: range) -> Mat:
    slot = cache.result(("positions", steps), (1, len(steps)), np.int64, "positions")
    return filled(cache, slot, np.array(steps, np.int64) if slot.computed < 0 else None)


def _whole(index: Mat) -> Mat:
    """Return whole numbers, such as those of `argmax`, as int64."""

    def compute(slot: Slot) -> None:
        store(Mat(index.cache, slot), index)

    held = Padding(index.padding.block)
    return node(index.cache, index.shape, "whole numbers", (index,), compute, np.int64, held).mat()


# ---------------------------------------------------------------- joining


def concatenate(cache: MatCache, *parts: Lazy, axis: int) -> Node:
    """Join dense matrices: one below the other (axis 0), or side by side (axis 1)."""
    if any(part.pattern is not None for part in parts):
        raise ShapeError(f"concatenate at {source_line()}: a part is sparse; all must be dense.")
    if len({part.shape[1 - axis] for part in parts}) > 1:
        sides = ", ".join(f"{part.shape[0]} x {part.shape[1]}" for part in parts)
        raise ShapeError(
            f"concatenate at {source_line()}: parts of {sides}; they must have equal "
            f"{('columns', 'rows')[axis]}."
        )
    mats = tuple(part.mat() for part in parts)
    size = [sum(part.shape[0] for part in parts), parts[0].shape[1]]
    if axis == 1:
        size = [parts[0].shape[0], sum(part.shape[1] for part in parts)]
    shape: Shape = (size[0], size[1])
    places, first = [], 0
    for mat in mats:
        ranges = [range(side) for side in shape]
        ranges[axis] = range(first, first + mat.shape[axis])
        first = ranges[axis].stop
        places.append(tuple(_steps(cache, steps) for steps in ranges))

    def compute(slot: Slot) -> None:
        for mat, (rows, columns) in zip(mats, places, strict=True):
            launch(cache, "scatter checked", slot, rows, columns, mat, False)

    held = beside(mats) if axis == 1 else Padding()
    dtype = result_dtype(mats)
    return node(cache, shape, f"concatenate {axis}", mats, compute, dtype, held)
