"""Flatten trees of elementwise operations; compile and run those of dense matrices.

A kernel may end in sums: of all entries, or of each column. Sums run in float64 over chunks whose
bounds depend only on the shape. Partial sums are added in order, so the bits do not depend on the
number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache as remembered
from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.expressions import DOUBLE, Elementwise, result_dtype
from ..containers.keys import number_key
from ..containers.launching import launch
from ..containers.lazy import Lazy, Shape
from ..containers.matrices import Mat, handle, slots_of
from ..containers.slots import PatternSlot, Slot
from ..errors import ShapeError, source_line
from ..program.dense import Reference, Step, dense_program
from ..program.instructions import Ending
from ..program.schedule import schedule
from .compiled import Compiled

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
    sides = shape if isinstance(shape, tuple) else ()
    if len(sides) != 2 or any(not isinstance(s, int | np.integer) or s < 0 for s in sides):
        raise ShapeError(
            f"random at {source_line()}: shape={shape!r}: must be (rows, columns), whole numbers."
        )
    return Random(cache, shape, key, stream)


def linearise(
    roots: Sequence[Lazy | float], shape: Shape, pattern: PatternSlot | None = None
) -> tuple[list[Mat | Random | float], tuple[Step, ...], tuple[Reference, ...]]:
    """Flatten trees into leaves, steps, and the places of the roots; common sub-trees appear once.

    Operands of another shape or pattern are computed first into containers of their own: once, not
    once per element. Leaves are Mats, numbers, and random numbers of this shape.
    """
    trees = _Trees(shape, pattern)
    found = tuple([trees.place(root, -1) for root in roots])
    return trees.leaves, tuple(trees.steps), found


class _Trees:
    """Leaves and steps of trees. A function within `linearise` would hold itself and the leaves."""

    def __init__(self, shape: Shape, pattern: PatternSlot | None) -> None:
        """See `linearise`."""
        self.shape, self.pattern = shape, pattern
        self.leaves: list[Mat | Random | float] = []
        self.steps: list[Step] = []
        self._places: dict[object, Reference] = {}  # by the guid of a leaf, or by step
        self._visited: dict[int, Reference] = {}

    def place(self, node: Lazy | float, version: int, by: str | None = None) -> Reference:
        """Return the place of a node, after its leaves and steps were added.

        version: at which a Mat must be. by: where the expression that reads it was made.
        """
        if isinstance(node, Elementwise) and not node.computed:
            if node.shape == self.shape and node.pattern is self.pattern:
                if (place := self._visited.get(id(node))) is None:
                    pairs = zip(node.args, node.versions, strict=True)
                    step = (node.op, tuple([self.place(a, v, node.where) for a, v in pairs]))
                    place = self._places.setdefault(step, ("step", len(self.steps)))
                    self._visited[id(node)] = place
                    if place[1] == len(self.steps):
                        self.steps.append(step)
                return place
        leaf: Mat | Random | float
        key: object
        if not isinstance(node, Lazy):
            leaf, key = float(node), ("number", len(self.leaves))
        elif isinstance(node, Random) and node.shape == self.shape:
            node.key.check(node.version, node.where)
            leaf, key = node, (node.key.guid, node.stream)
        else:
            if isinstance(node, Mat) and version >= 0:
                node.check(version, by)
            leaf = node.mat()
            key = leaf.guid
        place = self._places.setdefault(key, ("leaf", len(self.leaves)))
        if place[1] == len(self.leaves):
            self.leaves.append(leaf)
        return place


def result(
    cache: MatCache, root: Lazy, ending: Ending, shape: Shape, dtype: Any, label: str
) -> Mat:
    """Compute an expression, or its sums, into its container of the cache.

    shape, dtype: of the container. Sums are computed in the expression's own dtype.
    """
    own = "float64" if result_dtype([root]) == DOUBLE else "float32"
    found, args = compiled(cache, (root,), root.shape, (ending,), own)
    slot = cache.result((("dense", found, root.shape), *parts_of(args)), shape, dtype, label)
    if cache.begin(slot):
        run(cache, found, args, root.shape, (slot,))
        slot.computed_from(*slots_of([a for a in args if isinstance(a, Mat)]))
    return handle(cache, slot)


def store(target: Mat, root: Lazy | float) -> None:
    """Compute an expression into the container of `target`, which may be wider than it is."""
    precise = [x for x in (target, root) if isinstance(x, Lazy) and x.dtype != np.float32]
    dtype = "float64" if precise else "float32"
    found, args = compiled(target.cache, (root,), target.shape, ("assign",), dtype, (target,))
    run(target.cache, found, args, target.shape, (target.slot,))


def compiled(
    cache: MatCache,
    roots: Sequence[Lazy | float],
    shape: Shape,
    endings: tuple[Ending, ...],
    dtype: str,
    targets: Sequence[Any] = (),
) -> tuple[Compiled, list[Mat | float]]:
    """Return the program of expressions of one shape, and the arguments of this evaluation.

    targets: what the expressions are assigned to, where these are Mats. A kernel that knows which
    of them it reads may compute several elements at a time.
    """
    leaves, steps, places = linearise(roots, shape)
    kinds = tuple([_kind(leaf, shape) for leaf in leaves])
    written = {mat.guid: n for n, mat in enumerate(targets) if isinstance(mat, Mat)}
    in_place = tuple(
        [
            (n, written[leaf.guid])
            for n, leaf in enumerate(leaves)
            if isinstance(leaf, Mat) and leaf.guid in written and leaf.shape == shape
        ]
    )
    structure = ("dense", kinds, steps, places, endings, dtype, in_place)
    found = cache.programs.get(structure)
    if found is None:
        found = cache.programs[structure] = _scheduled(*structure[1:])
    return found, [leaf.key if isinstance(leaf, Random) else leaf for leaf in leaves]


@remembered
def _scheduled(*structure: Any) -> Compiled:
    """Return the program of a structure. It never changes, so all caches share it."""
    plan = schedule(dense_program(*structure))
    return Compiled(plan, single=True, returned=(-1,), writes=(), must_run=())


def parts_of(args: list[Mat | float]) -> list[Any]:
    """Return what the arguments of an evaluation add to the key of its results."""
    return [a.guid if isinstance(a, Mat) else number_key(a) for a in args]


def _kind(leaf: Mat | Random | float, of: Shape) -> tuple[str, int]:
    if isinstance(leaf, float):
        return "number", 0
    if isinstance(leaf, Random):
        return "random", leaf.stream
    if leaf.shape == of:
        return "full", 0
    if leaf.shape == (1, 1):
        return "one", 0
    return ("row" if leaf.shape[0] == 1 else "column"), 0


def run(
    cache: MatCache,
    found: Compiled,
    args: list[Mat | float],
    shape: Shape,
    outs: tuple[Slot, ...],
) -> None:
    """Compute into `outs`; in planning, reserve memory."""
    before = cache.at_line()
    try:
        for out in outs:
            out.written(cache.line)  # first: should this fail, older handles are stale
        launch(cache, "dense", found, args, shape, outs)
    finally:
        cache.line = before
    sums = sum(ending != "assign" for ending in found.plan.program.endings)
    cache.count((found.flops_each({})[1] + sums) * shape[0] * shape[1])
