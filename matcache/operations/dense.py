"""Dense elementwise expressions as one kernel: linearise the tree, print it, run it over chunks.

A kernel may end in a sum: of all entries, or of each column. Sums run in float64 over
chunks cut by the shape alone, whose partial sums are added in order: the same bits with any number
of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache as remembered
from typing import Any, Literal

import numpy as np

from ..containers.cache import Key, MatCache, number_key
from ..containers.chunks import even_bounds
from ..containers.dispatch import launch, launches
from ..containers.matrices import Elementwise, Lazy, Mat
from ..containers.slots import Slot, source_line
from ..cpu.backend import ROW_CHUNKS, SUM_CHUNKS, Kernel, compiled
from ..emit.numba_dense import fused_source
from ..errors import ShapeError
from ..notation.elementwise import ELEMENTWISE

Ending = Literal["assign", "total", "colsum"]
CHUNK_ELEMENTS = 8192  # of a chunk, at least
WAKE_WORK = 2**19  # less is done before a second thread is awake: a number read is 1, a step 2
COLSUM_ROWS = 256  # rows that are summed at a time, whatever the number of columns beside a column


class Random(Lazy):
    """Uniform random numbers in (0, 1) by counter: a leaf of expressions, never stored by itself.

    key: int64 Mat [1 x 3] with (seed, pass, block). The number at (row, column) depends on the key,
    row, column and `stream` alone. Philox 4x32-10 (Salmon et al. 2011).
    """

    __slots__ = ("key", "stream", "version")

    def __init__(self, cache: MatCache, shape: tuple[int, int], key: Mat, stream: int) -> None:
        """The numbers of the key as it is now: once it changes, the expression is stale."""
        if key.cache is not cache:
            raise ShapeError(f"random at {source_line()}: {key.label} belongs to another cache.")
        super().__init__(cache, shape, np.dtype(np.float32), f"random({stream})")
        self.key = key
        self.stream = stream
        self.version = key.version

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
    """A `Fused` with its shape, and the operands and numbers of this evaluation."""

    fused: Fused
    shape: tuple[int, int]
    operands: list[Mat]
    numbers: list[float]

    @property
    def key(self) -> Key:
        """Its name in the cache."""
        guids = (m.guid for m in self.operands)
        return (("fused", self.fused, self.shape), *guids, *map(number_key, self.numbers))


def linearise(root: Lazy | float, shape: tuple[int, int], ending: Ending, dtype: str) -> Linear:
    """Flatten a tree; common sub-trees appear once.

    What has another shape (a vector among matrices, say) or needs more precision than `dtype` is
    computed first, into a container of its own: once, not once per element.
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

    def visit(node: Lazy | float, version: int) -> tuple[str, int]:
        if not isinstance(node, Lazy):
            numbers.append(float(node))
            return ("number", len(numbers) - 1)
        if isinstance(node, Random) and node.shape == shape:
            node.key.check(node.version)
            return leaf(node.key, Leaf("random", node.stream))
        if isinstance(node, Mat) and version >= 0:
            node.check(version)
        inline = isinstance(node, Elementwise) and not node.computed and node.shape == shape
        if inline and (node.dtype == np.float32 or dtype == "float64"):
            assert isinstance(node, Elementwise)
            if (place := places.get(id(node))) is None:
                references = tuple(
                    visit(a, v) for a, v in zip(node.args, node.versions, strict=True)
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


@remembered
def _kernel(fused: Fused) -> Kernel:
    """The compiled kernel; one for each structure that a process uses."""
    return compiled(fused_source(fused))


def run(cache: MatCache, linear: Linear, out: Slot) -> None:
    """Compute the expression, or its sums, into `out`; while planning, reserve what it needs."""
    out.written()  # first: should it fail half-way, handles on the old contents are stale
    launch(cache, "fused", linear, out)
    if not cache.reserving:
        cache.flops += linear.fused.flops * linear.shape[0] * linear.shape[1]


@launches("fused", "cpu")
def _launch(cache: MatCache, linear: Linear, out: Slot) -> None:
    fused, (rows, columns), backend = linear.fused, linear.shape, cache.backend
    extent = rows * columns if fused.flat else rows
    if fused.ending == "assign":
        chunks = max(1, min(ROW_CHUNKS, rows * columns // CHUNK_ELEMENTS, extent))
        target = out
    else:  # by shape alone
        colsum = fused.ending == "colsum"
        pieces = rows // COLSUM_ROWS if colsum else rows * columns // CHUNK_ELEMENTS
        chunks = max(1, min(SUM_CHUNKS, pieces))
        target = cache.result(
            ("partials", fused.ending, out.shape[1]),
            (SUM_CHUNKS, out.shape[1]),
            np.float64,
            "partial sums",
        )
    call: list[Any] = [even_bounds(cache, extent, chunks)]
    for mat, leaf in zip(linear.operands, fused.leaves, strict=True):
        data = mat.slot.data()
        call.append(data.reshape(-1) if fused.flat and leaf.kind == "full" else data)
    result = target.data().reshape(-1) if fused.flat and target is out else target.data()
    call += [*linear.numbers, columns, result]
    ends = () if target is out else (target.data()[:chunks], out.data())
    add_partials = backend.kernels["add_partials"]
    if cache.reserving:
        backend.expect(_kernel(fused), 0, 0, *call)
        if ends:
            backend.expect(add_partials, *ends)
        return
    if chunks > 1 and rows * columns * (2 * len(fused.steps) + 1) < WAKE_WORK:
        for chunk in range(chunks):
            _kernel(fused)(chunk, 0, *call)
    else:
        backend.run(_kernel(fused), chunks, *call)
    if ends:
        add_partials(*ends)
