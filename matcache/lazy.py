"""Matrices and lazy expressions: what model code holds in its hands.

Elementwise operators build an `Elementwise` tree and run as one kernel when something needs the
value. Global operations (products, gathers, sums over rows) are nodes too, and run when needed. A
result lives in a container of the cache; the `Mat` that stands for it knows the version it saw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .elementwise import ELEMENTWISE
from .errors import ShapeError, StaleValueError
from .operand import Operand
from .slots import PatternSlot, Slot, source_line

if TYPE_CHECKING:
    from .cache import MatCache

Shape = tuple[int, int]


class Lazy(Operand):
    """A value of a known shape and dtype, computed or not. shape: (rows, columns)."""

    __slots__ = ("cache", "dtype", "label", "pattern", "shape", "where")

    def __init__(
        self,
        cache: MatCache,
        shape: Shape,
        dtype: np.dtype[Any],
        label: str,
        pattern: PatternSlot | None = None,
    ) -> None:
        self.cache = cache
        self.shape = shape
        self.dtype = dtype
        self.label = label
        self.pattern = pattern  # not None: a value per stored entry of this pattern
        self.where = source_line()

    def _apply(self, op: str, args: tuple[Any, ...]) -> Any:
        from .operations import build  # operations know how to make every node from its name

        return build(self.cache, op, args)

    def _assign(self, value: Any) -> None:
        raise ShapeError(
            f"<<= at {source_line()}: the left side is the expression {self.label}, which has no "
            "container of its own. Assign to a Mat, or write copy(...) around the expression first."
        )

    def mat(self) -> Mat:
        """The value as a `Mat`, computed now if it was not."""
        raise NotImplementedError

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Transposed):
            return self._apply("matmul_transposed", (self, other.of))
        return super().__matmul__(other)

    @property
    def T(self) -> Transposed:
        """The transposed matrix, as an operand of `@`."""
        return Transposed(self)

    def sum(self) -> Any:
        """Sum of all entries, as a float64 `Scalar`."""
        return self._apply("total", (self,))

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy as a NumPy array; of a sparse matrix, its stored values [nnz]."""
        return self.mat().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("np.asarray(mat): contents of a container are always copied out.")
        return np.asarray(self.numpy(), dtype=dtype)

    def __float__(self) -> float:
        if self.shape != (1, 1) or self.pattern is not None:
            raise ShapeError(f"float({self.label}): it is {self.shape}; only a 1 x 1 is a number.")
        return float(self.mat())

    def __getitem__(self, index: Any) -> Any:
        from .operations import gather

        return gather(self, index)

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind} {self.label} {self.shape[0]}x{self.shape[1]} {self.dtype}>"


class Mat(Lazy):
    """A matrix in a container, as of the version that this handle saw.

    Reading it after the container has received a newer value raises `StaleValueError`. `x <<= value`
    writes into the container and keeps this handle current.
    """

    __slots__ = ("slot", "version")

    def __init__(self, cache: MatCache, slot: Slot, pattern: PatternSlot | None = None) -> None:
        shape = slot.shape if pattern is None else (pattern.rows, pattern.columns)
        super().__init__(cache, shape, slot.dtype, slot.label, pattern)
        self.slot = slot
        self.version = slot.version
        self.where = slot.where

    @property
    def guid(self) -> int:
        """Name of the container."""
        return self.slot.guid

    def mat(self) -> Mat:
        """This matrix, after checking that it is not stale."""
        self.check(self.version)
        return self

    def check(self, version: int) -> None:
        """Raise `StaleValueError` unless the container still has `version`."""
        if self.slot.version != version:
            raise StaleValueError(
                f"{self.label}: the value computed at {self.where} was overwritten at "
                f"{self.slot.where}, and is read at {source_line()}. Keep it with copy(...) before "
                "computing the new one, or assign it to a container of its own with <<=."
            )

    def _assign(self, value: Any) -> None:
        from .operations import assign

        assign(self, value)
        self.version = self.slot.version
        self.where = self.slot.where

    def set(self, value: Any) -> None:
        """Copy numbers from the host into the container. value: an array of its shape, or a number."""
        array = np.asarray(value)
        if array.shape not in ((), self.shape):
            raise ShapeError(
                f"{self.label}.set: got an array of shape {array.shape}, expected {self.shape}."
            )
        if self.slot.array is not None:
            self.slot.array[...] = array
        self.slot.written()
        self.version = self.slot.version
        self.where = self.slot.where

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy as a NumPy array; of a sparse matrix, its stored values [nnz]."""
        self.check(self.version)
        self.cache.require_data(f"numpy({self.label})")
        assert self.slot.array is not None
        if self.pattern is not None:
            return self.slot.array[0, : self.pattern.nnz].copy()
        return self.slot.array.copy()

    def __float__(self) -> float:
        if self.shape != (1, 1) or self.pattern is not None:
            raise ShapeError(f"float({self.label}): it is {self.shape}; only a 1 x 1 is a number.")
        self.check(self.version)
        self.cache.require_data(f"float({self.label})")
        assert self.slot.array is not None
        return float(self.slot.array[0, 0])


class Scalar(Mat):
    """A 1 x 1 matrix: a number that changes from block to block without changing any key."""

    __slots__ = ()


class SparseMat(Mat):
    """A sparse matrix: values on a pattern. Elementwise operations act on the stored entries."""

    __slots__ = ("pattern_version",)

    pattern: PatternSlot

    def __init__(self, cache: MatCache, slot: Slot, pattern: PatternSlot) -> None:
        super().__init__(cache, slot, pattern)
        self.pattern_version = pattern.version

    def check(self, version: int) -> None:
        """Raise `StaleValueError` unless values and pattern are those that this handle saw."""
        super().check(version)
        if self.pattern.version != self.pattern_version:
            raise StaleValueError(
                f"{self.label}: computed at {self.where} for a block that was replaced at "
                f"{self.pattern.where}, and read at {source_line()}."
            )

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return self.pattern.nnz


class Transposed(Operand):
    """`x.T`: free as an operand of `@`; elsewhere a copy with rows and columns exchanged."""

    __slots__ = ("of",)

    def __init__(self, of: Lazy) -> None:
        self.of = of

    def _apply(self, op: str, args: tuple[Any, ...]) -> Any:
        return self.of._apply(op, args)

    def _assign(self, value: Any) -> None:
        raise ShapeError(f"<<= at {source_line()}: {self.of.label}.T cannot be assigned to.")

    def __matmul__(self, right: Any) -> Any:
        return self.of._apply("transposed_matmul", (self.of, right))

    @property
    def T(self) -> Lazy:
        """The matrix itself."""
        return self.of


class Node(Lazy):
    """An expression that computes itself into a container when it is needed.

    key: names the operation and its static parameters; operands: what it reads. `compute(slot)` does
    the work and is not called while memory is being planned.
    """

    __slots__ = ("_result", "compute", "key", "operands", "versions")

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
    ) -> None:
        super().__init__(cache, shape, np.dtype(dtype), label)
        self.key = key
        self.operands = tuple(o.mat() for o in operands)
        self.versions = tuple(o.version for o in self.operands)
        self.compute = compute
        self._result: Mat | None = None

    def mat(self) -> Mat:
        """The value in its container of the cache."""
        if self._result is None:
            slot = self.cache.result(
                (self.key, *(o.guid for o in self.operands)), self.shape, self.dtype, self.label
            )
            if self.cache.begin(slot):
                self.run(slot)
                slot.inputs = tuple((o.slot, o.slot.version) for o in self.operands) + tuple(
                    (o.pattern, o.pattern.version) for o in self.operands if o.pattern is not None
                )
                slot.computed = slot.version
            kind = Scalar if self.shape == (1, 1) else Mat
            self._result = kind(self.cache, slot)
        self._result.check(self._result.version)
        return self._result

    def run(self, slot: Slot) -> None:
        """Compute into `slot`."""
        for operand, version in zip(self.operands, self.versions, strict=True):
            operand.check(version)
        if not self.cache.reserving:
            self.compute(slot)
        slot.written()


class Elementwise(Lazy):
    """A tree of elementwise operations over `Mat`s and numbers; not yet computed."""

    __slots__ = ("_result", "args", "op", "versions")

    def __init__(
        self,
        cache: MatCache,
        op: str,
        args: tuple[Lazy | float, ...],
        shape: Shape,
        dtype: np.dtype[Any],
        pattern: PatternSlot | None,
    ) -> None:
        label = f"{op}({', '.join(a.label if isinstance(a, Lazy) else f'{a:g}' for a in args)})"
        super().__init__(cache, shape, dtype, label if len(label) < 120 else f"{op}(...)", pattern)
        assert op in ELEMENTWISE
        self.op = op
        self.args = args
        self.versions = tuple(a.version if isinstance(a, Mat) else -1 for a in args)
        self._result: Mat | None = None

    def mat(self) -> Mat:
        """The value in its container of the cache."""
        if self._result is None:
            from .operations import evaluate

            self._result = evaluate(self)
        self._result.check(self._result.version)
        return self._result
