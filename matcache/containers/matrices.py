"""Matrices and lazy expressions, the objects that model code works with.

Elementwise operators build an `Elementwise` tree, which runs as one kernel when its value is
needed. Global operations (products, gathers, sums over rows) are nodes and also run when needed. A
result lives in a container of the cache; its `Mat` remembers the version it saw.

Longer than 300 lines: the operators of a matrix are methods of one class.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import ShapeError, StaleValueError, source_line
from ..program.padding import Padding
from .block_number import BlockNumber
from .dispatch import operate
from .lazy import Lazy
from .slots import PatternSlot, Slot

if TYPE_CHECKING:
    from .cache import MatCache


Tables = Literal["float32", "bfloat16"]
"""The precision in which rows gather from tables."""


class Mat(Lazy):
    """A matrix in a container, at the version that this handle saw.

    Reading it after the container received a newer value raises `StaleValueError`. `x <<= value`
    writes into the container and keeps this handle current.
    """

    __slots__ = ("slot", "version")

    def __init__(self, cache: MatCache, slot: Slot, pattern: PatternSlot | None = None) -> None:
        """Make a handle on the present contents of `slot`."""
        shape = slot.shape if pattern is None else (pattern.rows, pattern.columns)
        super().__init__(cache, shape, slot.dtype, slot.label, pattern, slot.where)
        self.slot = slot
        self.version = slot.version

    @property
    def padding(self) -> Padding:
        """The contents of a block's padding rows."""
        return Padding(self.pattern.block, 0.0) if self.pattern is not None else self.slot.padding

    @property
    def guid(self) -> int:
        """The identity of the container."""
        return self.slot.guid

    def mat(self) -> Mat:
        """Return this matrix, after checking that it is not stale."""
        self.check(self.version)
        return self

    def check(self, version: int, by: str | None = None) -> None:
        """Raise `StaleValueError` unless the container still has `version`.

        by: source line of the expression that reads it, if that is computed later.
        """
        if self.slot.version != version:
            raise StaleValueError(
                f"{self.label}: the value computed at {self.where} was overwritten at "
                f"{self.slot.where}, and is read at {source_line()}{_made(by)}. Keep it with "
                "copy(...).mat() before computing the new one, or assign it to a container of its "
                "own with <<=."
            )
        if self.slot.array is None and not self.cache.reserving:
            self.cache.require_data(self.label)  # closed?
            raise ShapeError(f"{self.label} at {source_line()}: no block is bound to it yet.")

    def _assign(self, value: Any) -> None:
        operate("assign", self, value)
        self.follow()

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write `x[rows] = value` or `x[rows, columns] = value`, as `x[rows] <<= value` does."""
        operate("write part", self, index, value)

    def follow(self) -> None:
        """Make this handle current, after writing through it."""
        self.version, self.where = self.slot.version, self.slot.where
        if self.cache.tape is not None:
            self.cache.tape.touched(self)

    def _in_place(self, operation: Callable[[Any, Any], Any], other: Any, sign: float = 0.0) -> Any:
        """Assign `operation` of this matrix and `other`; a nameless result becomes an expression.

        A nameless result has no container that outlives its use, so its name is bound anew. sign:
        of `other` in a sum; 0: the operation is no sum.
        """
        if not self.slot.named:
            return NotImplemented  # Python then makes the expression
        if not sign or not operate("add products", self, other, sign):
            self._assign(operation(self, other))
        return self

    def __iadd__(self, other: Any) -> Any:
        """Add to a named matrix: as `x <<= x + y`, but `S.T @ R` only to rows that occur in S."""
        return self._in_place(operator.add, other, 1.0)

    def __isub__(self, other: Any) -> Any:
        """Likewise."""
        return self._in_place(operator.sub, other, -1.0)

    def __imul__(self, other: Any) -> Any:
        """Likewise."""
        return self._in_place(operator.mul, other)

    def __itruediv__(self, other: Any) -> Any:
        """Likewise."""
        return self._in_place(operator.truediv, other)

    def __ipow__(self, other: Any) -> Any:
        """Likewise."""
        return self._in_place(operator.pow, other)

    def __imatmul__(self, other: Any) -> Any:
        """Likewise."""
        return self._in_place(operator.matmul, other)

    def __iand__(self, other: Any) -> Any:
        """Likewise."""
        return self._in_place(operator.and_, other)

    def __ior__(self, other: Any) -> Any:
        """Likewise."""
        return self._in_place(operator.or_, other)

    def lie_in(self, array: np.ndarray[Any, Any]) -> None:
        """Use an array of the host as the container's memory; this handle stays current.

        array: of the same shape and dtype, C-contiguous and writable. The cache is on the CPU.
        """
        self.slot.array = array
        self.slot.written(self.slot.where)
        self.version = self.slot.version

    def set(self, value: Any) -> None:
        """Copy numbers from the host into the container.

        value: an array of the matrix's shape, or one number; for a sparse matrix, its stored values
        [nnz].

        Raises ShapeError for another shape, and for numbers that the dtype cannot hold, such as 0.5
        in int64.
        """
        cache, slot = self.cache, self.slot
        if cache.repeats:  # the numbers are as they were when this was recorded
            slot.version = self.version = slot.version + 1
            cache.backend.write(slot.array, value)
            return
        if type(value) is BlockNumber and value.tape.records and self.shape == (1, 1):
            value.tape.follow(self, value)
            return
        array = np.asarray(value)
        shape = self.shape if self.pattern is None else (self.pattern.nnz,)
        if array.shape not in ((), shape):
            raise ShapeError(
                f"{self.label}.set at {source_line()}: got an array of shape {array.shape}, "
                f"expected {shape}."
            )
        if not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise ShapeError(
                f"{self.label}.set at {source_line()}: got {array.dtype}, which {self.dtype} "
                "cannot hold."
            )
        if self.cache.recording is not None:
            self.cache.recording.note("set", (self, array))
        self.slot.written()
        if self.slot.array is not None:
            target = self.slot.array
            if self.pattern is not None:
                target = target.reshape(-1)[: self.pattern.nnz]
            self.cache.backend.write(target, array)
            if self.shape == (1, 1) and self.pattern is None:
                self.slot.known = self.slot.version, float(self.dtype.type(array.reshape(-1)[0]))
        self.version = self.slot.version
        self.where = self.slot.where
        if self.cache.tape is not None:
            self.cache.tape.set(self, array)

    def set_rows(self, rows: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> None:
        """Set rows of a dense container from the host, and all others to 0.

        rows: their numbers, each once. numbers: a row for each, of the container's dtype.

        It is for `Model.allocate`: an update that calls it is not recorded.

        Raises ShapeError for numbers of another shape.
        """
        slot, backend = self.slot, self.cache.backend
        if numbers.shape != (len(rows), self.shape[1]):
            raise ShapeError(
                f"{self.label}.set_rows at {source_line()}: got an array of shape {numbers.shape}, "
                f"expected {(len(rows), self.shape[1])}."
            )
        if self.cache.tape is not None:
            self.cache.tape.refuse(f"sets rows of {self.label}")
        if slot.version != slot.cleared:
            self.set(0.0)
        slot.written()
        if slot.array is not None:
            backend.set_rows(slot.array, rows.astype(np.int64), numbers)
        self.version, self.where = slot.version, slot.where

    def refill(self, numbers: Any, where: str) -> None:
        """Copy numbers into a dense container like `set`, without checking them.

        where: the source line to name.
        """
        self.slot.written(where)
        if self.slot.array is not None:
            self.cache.backend.write(self.slot.array, numbers)
        self.version, self.where = self.slot.version, where

    def numpy(self) -> np.ndarray[Any, Any]:
        """Copy into a NumPy array; of a sparse matrix, only its stored values [nnz]."""
        self.check(self.version)
        self._reads("numpy")
        assert self.slot.array is not None
        stored = self.slot.array
        if self.pattern is not None:
            stored = stored.reshape(-1)[: self.pattern.nnz]
        found: np.ndarray[Any, Any] = self.cache.backend.read(stored)
        return found

    def _reads(self, how: str) -> None:
        """Prepare to read numbers to the host: a program that does it runs for every block."""
        self.cache.require_data(f"{how}({self.label})")
        if self.cache.tape is not None:
            self.cache.tape.refuse(f"reads {self.label}")

    def shown(self) -> np.ndarray[Any, Any]:
        """Return the contents [shape] on the host, without a copy if they lie there.

        Read them before the container is written again.
        """
        self.check(self.version)
        self._reads("shown")
        found: np.ndarray[Any, Any] = self.cache.backend.host(self.slot.data())
        return found

    def __float__(self) -> float:
        """Return the number in a 1 x 1 matrix."""
        if self.shape != (1, 1) or self.pattern is not None:
            raise ShapeError(f"float({self.label}): shape={self.shape}: must be (1, 1).")
        self.check(self.version)
        self._reads("float")
        version, number = self.slot.known
        if version == self.slot.version:
            return number
        return float(self.cache.backend.host(self.slot.array)[0, 0])


class Scalar(Mat):
    """A 1 x 1 matrix: a number that changes without changing any key."""

    __slots__ = ()


class SparseMat(Mat):
    """A sparse matrix: values on a pattern. Elementwise operations act on its values.

    tables: how operations on this handle read the tables that its entries choose rows of.
        "bfloat16": from a rounded copy. Results on its pattern do likewise.
    """

    __slots__ = ("pattern_version", "tables")

    pattern: PatternSlot

    def __init__(
        self, cache: MatCache, slot: Slot, pattern: PatternSlot, tables: Tables = "float32"
    ) -> None:
        """Make a handle on the present contents of `slot`, at the entries of `pattern`."""
        super().__init__(cache, slot, pattern)
        self.pattern_version = pattern.version
        self.tables: Tables = tables

    def reading(self, tables: Tables) -> SparseMat:
        """Return a handle on the same contents that reads tables in that precision."""
        self.check(self.version)
        return SparseMat(self.cache, self.slot, self.pattern, tables)

    def check(self, version: int, by: str | None = None) -> None:
        """Raise `StaleValueError` unless values and pattern are those this handle saw."""
        super().check(version, by)
        if self.pattern.version != self.pattern_version:
            raise StaleValueError(
                f"{self.label}: computed at {self.where} for a block that was replaced at "
                f"{self.pattern.where}, and read at {source_line()}{_made(by)}."
            )

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        if self.cache.tape is not None:
            self.cache.tape.refuse(f"reads the number of entries of {self.label}")
        return self.pattern.nnz


def _made(by: str | None) -> str:
    """Say where the expression that reads a value was made, if on another line."""
    return "" if by is None or by == source_line() else f", by the expression made at {by}"


def handle(cache: MatCache, slot: Slot) -> Mat:
    """Return a handle on a dense container: a `Scalar` if it is 1 x 1."""
    return Scalar(cache, slot) if slot.shape == (1, 1) else Mat(cache, slot)


def slots_of(mats: Iterable[Mat]) -> list[Slot | PatternSlot]:
    """Return the containers of the values of `mats`, including patterns."""
    found: list[Slot | PatternSlot] = []
    for mat in mats:
        found.append(mat.slot)
        if mat.pattern is not None:
            found.append(mat.pattern)
    return found
