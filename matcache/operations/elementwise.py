"""Build trees of elementwise operations."""

from __future__ import annotations

from ..containers.cache import MatCache
from ..containers.expressions import Elementwise, result_dtype
from ..containers.lazy import Lazy, Shape
from ..containers.slots import PatternSlot
from ..errors import ShapeError, source_line

DEEPEST = 64  # most operations on a path of a tree; a deeper tree is computed in parts


def elementwise(cache: MatCache, op: str, args: tuple[Lazy | float, ...]) -> Elementwise:
    """Return the tree of an elementwise operation. Raises ShapeError if shapes do not fit."""
    lazies = [a for a in args if isinstance(a, Lazy)]
    pattern: PatternSlot | None = None
    for arg in lazies:
        if arg.pattern is not None:
            if pattern is not None and pattern is not arg.pattern:
                raise ShapeError(
                    f"{op} at {source_line()}: {lazies[0].label} and {arg.label} have different "
                    "patterns of non-zeros. Elementwise operations act on the stored entries."
                )
            pattern = arg.pattern
    shape = (pattern.rows, pattern.columns) if pattern is not None else lazies[0].shape
    for arg in lazies:
        if arg.pattern is None:
            together = broadcast(op, shape, arg.shape)
            if pattern is not None and (together != shape or _is_full(arg.shape, shape)):
                raise ShapeError(
                    f"{op} at {source_line()}: {arg.label} is {text_of(arg.shape)}; beside a "
                    f"sparse {text_of(shape)} matrix it must be a number, a column "
                    f"{text_of((shape[0], 1))} or a row {text_of((1, shape[1]))}."
                )
            shape = together
    node = Elementwise(cache, op, args, shape, result_dtype(lazies), pattern)
    if node.depth >= DEEPEST:
        node.mat()
        node.depth = 0
    return node


def _is_full(a: Shape, of: Shape) -> bool:
    return a == of and 1 not in of


def text_of(shape: Shape) -> str:
    """Return a shape for messages."""
    return f"{shape[0]} x {shape[1]}"


def broadcast(op: str, a: Shape, b: Shape) -> Shape:
    """Return the shape of a result. Raises ShapeError if sides are neither equal nor 1."""
    sides = []
    for x, y in zip(a, b, strict=True):
        if x != y and 1 not in (x, y):
            raise ShapeError(
                f"{op} at {source_line()}: shapes {text_of(a)} and {text_of(b)} do not fit; each "
                "side must be equal, or 1."
            )
        sides.append(y if x == 1 else x)
    return (sides[0], sides[1])
