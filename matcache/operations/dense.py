"""Compile a dense elementwise expression to one kernel, and run it over chunks.

A kernel may end in a sum: of all entries, or of each column. Sums run in float64 over chunks whose
bounds depend only on the shape. Partial sums are added in order, so the bits do not depend on the
number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..containers.cache import Key, MatCache, number_key
from ..containers.dispatch import launch
from ..containers.expressions import Elementwise
from ..containers.lazy import Lazy
from ..containers.matrices import Mat
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from ..program.dense import Ending, Fused, Leaf

CHUNK_ELEMENTS = 8192  # least elements of a chunk
WAKE_WORK = 2**19  # smaller work ends before a second thread wakes; a number read is 1, a step 2
COLSUM_ROWS = 256  # rows summed at a time; fixed, so a column's bits do not depend on other columns


class Random(Lazy):
    """Uniform random numbers in (0, 1), by counter: an expression that is not stored.

    key: int64 Mat [1 x 3] with (seed, pass, block).

    The number at (row, column) depends only on the key, row, column and `stream`. Philox 4x32-10
    (Salmon et al. 2011).
    """

    __slots__ = ("key", "stream", "version")

    def __init__(self, cache: MatCache, shape: tuple[int, int], key: Mat, stream: int) -> None:
        """Use the present contents of `key`; once it changes, the expression is stale."""
        if key.cache is not cache:
            raise ShapeError(f"random at {source_line()}: {key.label} belongs to another cache.")
        super().__init__(cache, shape, np.dtype(np.float32), f"random({stream})")
        self.key = key
        self.stream = stream
        self.version = key.version

    def mat(self) -> Mat:
        """Return the numbers in a container."""
        found: Mat = self._apply("copy", (self,)).mat()
        return found


def random(cache: MatCache, shape: tuple[int, int], key: Mat, stream: int = 0) -> Random:
    """Return uniform random numbers in (0, 1), by counter: see `Random`.

    shape: (rows, columns) of the result.
    key: int64 Mat [1 x 3] with (seed, pass, block).
    stream: distinguishes draws with the same key.
    """
    if key.shape != (1, 3) or key.dtype != np.int64:
        raise ShapeError(
            f"random at {source_line()}: the key {key.label} is {key.shape} {key.dtype}; it must "
            "be int64 of shape (1, 3): seed, pass, block."
        )
    return Random(cache, shape, key, stream)


@dataclass
class Linear:
    """A `Fused` with its shape, and the operands and numbers of this evaluation."""

    fused: Fused
    shape: tuple[int, int]
    operands: list[Mat]
    numbers: list[float]

    @property
    def key(self) -> Key:
        """The key of the expression in the cache."""
        guids = (m.guid for m in self.operands)
        return (("fused", self.fused, self.shape), *guids, *map(number_key, self.numbers))


def linearise(root: Lazy | float, shape: tuple[int, int], ending: Ending, dtype: str) -> Linear:
    """Flatten a tree; common sub-trees appear once.

    Operands of another shape, and those that need more precision than `dtype`, are computed first
    into containers of their own: once, not once per element.
    """
    leaves: list[Leaf] = []
    operands: list[Mat] = []
    numbers: list[float] = []
    steps: list[tuple[str, tuple[tuple[str, int], ...]]] = []
    places: dict[Any, tuple[str, int]] = {}

    def leaf(mat: Mat, kind: Leaf) -> tuple[str, int]:
        place = places.get((mat.guid, kind))
        if place is None:
            place = places[mat.guid, kind] = ("leaf", len(leaves))
            leaves.append(kind)
            operands.append(mat)
        return place

    def visit(node: Lazy | float, version: int, by: str | None = None) -> tuple[str, int]:
        if not isinstance(node, Lazy):
            numbers.append(float(node))
            return ("number", len(numbers) - 1)
        if isinstance(node, Random) and node.shape == shape:
            node.key.check(node.version, node.where)
            return leaf(node.key, Leaf("random", node.stream))
        if isinstance(node, Mat) and version >= 0:
            node.check(version, by)
        inline = isinstance(node, Elementwise) and not node.computed and node.shape == shape
        if inline and (node.dtype == np.float32 or dtype == "float64"):
            assert isinstance(node, Elementwise)
            if (place := places.get(id(node))) is None:
                references = tuple(
                    visit(a, v, node.where) for a, v in zip(node.args, node.versions, strict=True)
                )
                step = (node.op, references)
                if (place := places.get(step)) is None:
                    steps.append(step)
                    place = places[step] = ("step", len(steps) - 1)
                places[id(node)] = place
            return place
        mat = node.mat()
        return leaf(mat, Leaf(_kind(mat.shape, shape)))

    result = visit(root, -1)
    fused = Fused(tuple(leaves), len(numbers), tuple(steps), result, ending, dtype)
    return Linear(fused, shape, operands, numbers)


def _kind(shape: tuple[int, int], of: tuple[int, int]) -> str:
    if shape == of:
        return "full"
    if shape == (1, 1):
        return "one"
    return "row" if shape[0] == 1 else "column"


def run(cache: MatCache, linear: Linear, out: Slot) -> None:
    """Compute the expression, or its sums, into `out`; in planning, reserve memory."""
    out.written()  # first, so that handles on the old contents are stale even if this fails
    launch(cache, "fused", linear, out)
    cache.count(linear.fused.flops * linear.shape[0] * linear.shape[1])
