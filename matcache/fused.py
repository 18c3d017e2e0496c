"""Dense elementwise expressions as one kernel: linearise the tree, print it, run it over chunks.

A kernel may end in a sum: of all entries, or of each column. Sums run in float64 over a fixed number
of chunks of rows, whose partial sums are added in order: the same bits with any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .cache import MatCache
from .cpu import ROW_CHUNKS, SUM_CHUNKS, compiled
from .elementwise import ELEMENTWISE
from .emit_numba import fused_source
from .lazy import Elementwise, Lazy, Mat
from .slots import Slot

Ending = Literal["assign", "total", "colsum"]
CHUNK_ELEMENTS = 8192  # fewer are not worth a second thread


class Random(Lazy):
    """Uniform random numbers in (0, 1) by counter: a leaf of expressions, never stored by itself.

    key: int64 Mat [1 x 3] with (seed, pass, block). The number at (row, column) depends on the key,
    row, column and `stream` alone. Philox 4x32-10 (Salmon et al. 2011).
    """

    __slots__ = ("key", "stream")

    def __init__(self, cache: MatCache, shape: tuple[int, int], key: Mat, stream: int) -> None:
        super().__init__(cache, shape, np.dtype(np.float32), f"random({stream})")
        self.key = key
        self.stream = stream

    def mat(self) -> Mat:
        """The numbers in a container."""
        return self._apply("copy", (self,)).mat()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Leaf:
    """How one input is read. kind: full, row (1 x n), column (m x 1), one (1 x 1), random."""

    kind: str
    stream: int = 0


@dataclass(frozen=True)
class Fused:
    """A linearised expression: hashable, so that it is the key of the compiled kernel.

    steps: (operation, references); a reference is ("leaf", n), ("number", n) or ("step", n).
    The value of the last step (or `result`) is the value of the expression.
    """

    leaves: tuple[Leaf, ...]
    numbers: int
    steps: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    result: tuple[str, int]
    ending: Ending
    dtype: str

    @property
    def flat(self) -> bool:
        """Whether rows and columns do not matter, so that it runs over the elements in one loop."""
        return self.ending != "colsum" and all(x.kind in ("full", "one") for x in self.leaves)

    @property
    def flops(self) -> int:
        """Operations per element."""
        return sum(ELEMENTWISE[op].flops for op, _ in self.steps) + (self.ending != "assign")


@dataclass
class Linear:
    """A `Fused` with the operands and numbers of this evaluation."""

    fused: Fused
    operands: list[Mat]
    numbers: list[float]


def linearise(root: Lazy | float, shape: tuple[int, int], ending: Ending, dtype: str) -> Linear:
    """Flatten a tree; common sub-trees appear once."""
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

    def visit(node: Lazy | float, version: int) -> tuple[str, int]:
        if not isinstance(node, Lazy):
            numbers.append(float(node))
            return ("number", len(numbers) - 1)
        if isinstance(node, Random):
            node.key.check(node.key.version)
            return leaf(node.key, Leaf("random", node.stream))
        if isinstance(node, Elementwise) and node._result is None:
            if (place := places.get(id(node))) is None:
                references = tuple(visit(a, v) for a, v in zip(node.args, node.versions, strict=True))
                step = (node.op, references)
                if (place := places.get(step)) is None:
                    steps.append(step)
                    place = places[step] = ("step", len(steps) - 1)
                places[id(node)] = place
            return place
        if isinstance(node, Mat):
            node.check(version if version >= 0 else node.version)
            mat = node
        else:
            mat = node.mat()
        return leaf(mat, Leaf(_kind(mat.shape, shape)))

    result = visit(root, -1)
    fused = Fused(tuple(leaves), len(numbers), tuple(steps), result, ending, dtype)
    return Linear(fused, operands, numbers)


def _kind(shape: tuple[int, int], of: tuple[int, int]) -> str:
    if shape == of:
        return "full"
    if shape == (1, 1):
        return "one"
    return "row" if shape[0] == 1 else "column"


def even_bounds(cache: MatCache, rows: int, chunks: int) -> np.ndarray[Any, Any]:
    """Offsets of `chunks` equal chunks of `rows` rows, in a container."""
    label = f"bounds of {chunks} chunks"
    slot = cache.result(("bounds", rows, chunks), (1, chunks + 1), np.int64, label)
    if slot.array is None:
        return np.empty(0, np.int64)
    if slot.computed < 0:
        for chunk in range(chunks + 1):
            slot.array[0, chunk] = rows * chunk // chunks
        slot.computed = slot.version
    return slot.array[0]


def run(cache: MatCache, linear: Linear, shape: tuple[int, int], out: Slot) -> None:
    """Compute the expression, or its sums, into `out`."""
    fused = linear.fused
    kernel = compiled(fused_source(fused))
    rows = shape[0] * shape[1] if fused.flat else shape[0]
    if fused.ending == "assign":
        chunks = max(1, min(ROW_CHUNKS, shape[0] * shape[1] // CHUNK_ELEMENTS, rows))
        target = out
    else:
        chunks = SUM_CHUNKS
        target = cache.result(
            ("partials", fused.ending, out.shape[1]),
            (SUM_CHUNKS, out.shape[1]),
            np.float64,
            "partial sums",
        )
    bounds = even_bounds(cache, rows, chunks)
    if cache.reserving:
        return
    arrays = [_view(m, leaf, fused.flat) for m, leaf in zip(linear.operands, fused.leaves, strict=True)]
    assert target.array is not None and out.array is not None
    result = target.array.reshape(-1) if fused.flat and target is out else target.array
    cache.backend.run(kernel, chunks, bounds, *arrays, *linear.numbers, shape[1], result)
    if target is not out:
        cache.backend.kernels["add_partials"](target.array, out.array)
    cache.flops += fused.flops * shape[0] * shape[1]


def _view(mat: Mat, leaf: Leaf, flat: bool) -> np.ndarray[Any, Any]:
    assert mat.slot.array is not None
    return mat.slot.array.reshape(-1) if flat and leaf.kind == "full" else mat.slot.array
