"""Expressions that compute themselves into a container when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..notation.elementwise import ELEMENTWISE
from ..program import padding
from ..program.padding import Padding
from .dispatch import operate
from .lazy import Lazy, Shape
from .matrices import Mat, handle, slots_of
from .slots import PatternSlot, Slot

if TYPE_CHECKING:
    from .cache import MatCache


SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


class Node(Lazy):
    """An expression that computes itself into a container when it is needed.

    key: name of the operation and its static parameters.
    operands: what it reads.
    compute: `compute(slot)` does the work. While memory is being planned it is also called, and
    reserves what it needs.
    padding: the contents of a block's padding rows, if its rows are those of a block.
    """

    __slots__ = ("_padding", "_result", "compute", "key", "operands", "versions")

    def __init__(
        self,
        cache: MatCache,
        shape: Shape,
        dtype: Any,
        *,
        key: tuple[Any, ...],
        operands: tuple[Lazy, ...],
        compute: Callable[[Slot], None],
        label: str,
        padding: Padding = Padding(),  # noqa: B008 (it cannot change)
    ) -> None:
        """Compute the operands; this node is computed later."""
        super().__init__(cache, shape, np.dtype(dtype), label)
        self.key = key
        self.operands = tuple(o.mat() for o in operands)
        self.versions = tuple(o.version for o in self.operands)
        self.compute = compute
        self._padding = padding
        self._result: Mat | None = None

    def mat(self) -> Mat:
        """Return the value in its container of the cache."""
        if self._result is None:
            self.check_operands()
            slot = self.cache.result(
                (self.key, *(o.guid for o in self.operands)), self.shape, self.dtype, self.label
            )
            if self.cache.begin(slot):
                self.run(slot)
                slot.padding = self.padding
                slot.computed_from(*slots_of(self.operands))
            self._result = handle(self.cache, slot)
        self._result.check(self._result.version)
        return self._result

    @property
    def padding(self) -> Padding:
        """The contents of a block's padding rows."""
        return self._padding

    def check_operands(self) -> None:
        """Raise `StaleValueError` if an operand was overwritten since this node was made."""
        for operand, version in zip(self.operands, self.versions, strict=True):
            operand.check(version, self.where)

    def fits(self, target: Mat) -> bool:
        """Return whether the container of `target` can receive the result directly."""
        same = (self.shape, self.dtype) == (target.shape, target.dtype)
        return same and self._result is None and all(o.guid != target.guid for o in self.operands)

    def run(self, slot: Slot) -> None:
        """Compute into `slot`."""
        self.check_operands()
        before = self.cache.at_line()
        try:
            slot.written(self.cache.line)  # first: should this fail, older handles are stale
            self.compute(slot)
        finally:
            self.cache.line = before


class Elementwise(Lazy):
    """A tree of elementwise operations over `Mat`s and numbers, not yet computed."""

    __slots__ = ("_padding", "_result", "args", "depth", "op", "versions")

    def __init__(
        self,
        cache: MatCache,
        op: str,
        args: tuple[Lazy | float, ...],
        shape: Shape,
        dtype: np.dtype[Any],
        pattern: PatternSlot | None,
    ) -> None:
        """Make a tree whose root is `op`, a name in `ELEMENTWISE`."""
        label = f"{op}({', '.join(a.label if isinstance(a, Lazy) else f'{a:g}' for a in args)})"
        super().__init__(cache, shape, dtype, label if len(label) < 120 else f"{op}(...)", pattern)
        assert op in ELEMENTWISE
        self.op = op
        self.args = args
        self.depth: int = 1 + max((a.depth for a in args if isinstance(a, Elementwise)), default=0)
        self.versions = tuple(a.version if isinstance(a, Mat) else -1 for a in args)
        self._result: Mat | None = None
        self._padding = padding.of_elementwise(op, args, shape[0]) if pattern is None else (
            Padding(pattern.block, 0.0)
        )  # fmt: skip

    @property
    def padding(self) -> Padding:
        """The contents of a block's padding rows."""
        return self._padding

    @property
    def computed(self) -> bool:
        """Whether a container already holds the value."""
        return self._result is not None

    def mat(self) -> Mat:
        """Return the value in its container of the cache."""
        if self._result is None:
            self._result = operate("evaluate", self)
        self._result.check(self._result.version)
        return self._result


def result_dtype(lazies: Iterable[Lazy]) -> np.dtype[Any]:
    """Return float64 if a matrix is float64 or if all are integers, else float32.

    A 1 x 1 matrix does not count, unless all are 1 x 1.
    """
    lazies = list(lazies)
    large = [a.dtype for a in lazies if a.shape != (1, 1)] or [a.dtype for a in lazies]
    if DOUBLE in large or all(d.kind in "iu" for d in large):
        return DOUBLE
    return SINGLE
