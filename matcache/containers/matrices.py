"""Matrices and lazy expressions, the objects that model code works with.

Elementwise operators build an `Elementwise` tree, which runs as one kernel when its value is
needed. Global operations (products, gathers, sums over rows) are nodes and also run when needed. A
result lives in a container of the cache; its `Mat` remembers the version it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ShapeError, StaleValueError, source_line
from ..notation.elementwise import ELEMENTWISE
from ..notation.operand import Operand
from ..program import padding
from ..program.padding import Padding
from .dispatch import operate
from .slots import PatternSlot, Slot

if TYPE_CHECKING:
    from .cache import MatCache

Shape = tuple[int, int]


class Lazy(Operand):
    """A value of known shape (rows, columns) and dtype, computed or not."""

    __slots__ = ("cache", "dtype", "label", "pattern", "shape", "where")

    def __init__(
        self,
        cache: MatCache,
        shape: Shape,
        dtype: np.dtype[Any],
        label: str,
        pattern: PatternSlot | None = None,
        where: str | None = None,
    ) -> None:
        """Describe the value.

        pattern: positions of the values of a sparse matrix; None: dense.
        where: source line that made it; None: the caller's.
        """
        self.cache = cache
        self.shape = shape
        self.dtype = dtype
        self.label = label
        self.pattern = pattern  # not None: one value per stored entry of this pattern
        self.where = source_line() if where is None else where

    def _apply(self, op: str, args: tuple[Any, ...]) -> Any:
        return operate("build", self.cache, op, args)

    def _assign(self, value: Any) -> None:
        raise ShapeError(
            f"<<= at {source_line()}: the left side is the expression {self.label}, which has no "
            "container of its own. Assign to a Mat, or write copy(...) around the expression first."
        )

    def mat(self) -> Mat:
        """Return the value as a `Mat`, computing it if necessary."""
        raise NotImplementedError

    @property
    def padding(self) -> Padding:
        """The contents of a block's padding rows."""
        return Padding()

    def __matmul__(self, other: Any) -> Any:
        """Return the matrix product."""
        if isinstance(other, Transposed):
            return self._apply("matmul_transposed", (self, other.of))
        return super().__matmul__(other)

    @property
    def T(self) -> Transposed:
        """The transposed matrix, as an operand of `@`."""
        return Transposed(self)

    def sum(self) -> Any:
        """Return the sum of all entries, as a float64 `Scalar`."""
        return self._apply("total", (self,))

    def numpy(self) -> np.ndarray[Any, Any]:
        """Copy into a NumPy array; of a sparse matrix, only its stored values [nnz]."""
        return self.mat().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return `x.numpy()`, for `np.asarray(x)`."""
        if copy is False:
            raise ValueError("np.asarray(mat, copy=False): must be a copy. Leave copy out.")
        return np.asarray(self.numpy(), dtype=dtype)

    def __float__(self) -> float:
        """Return the number in a 1 x 1 matrix."""
        return float(self.mat())

    def __getitem__(self, index: Any) -> Any:
        """Return `x[rows]` or `x[rows, columns]`: see `gather`."""
        return operate("gather", self, index)

    def __repr__(self) -> str:
        """Show kind, label, shape and dtype, never the contents."""
        kind = type(self).__name__
        return f"<{kind} {self.label} {self.shape[0]}x{self.shape[1]} {self.dtype}>"


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
                "copy(...) before computing the new one, or assign it to a container of its own "
                "with <<=."
            )
        if self.slot.array is None and not self.cache.reserving:
            self.cache.require_data(self.label)  # closed?
            raise ShapeError(f"{self.label} at {source_line()}: no block is bound to it yet.")

    def _assign(self, value: Any) -> None:
        operate("assign", self, value)
        self.version = self.slot.version
        self.where = self.slot.where

    def _rebound(self, sign: str) -> Any:
        if self.slot.named:
            raise ShapeError(
                f"{self.label} {sign}= ... at {source_line()}: must be an assignment into the "
                f"matrix. Write {self.label} <<= {self.label} {sign} ...; where another value is "
                f"meant, give it a name of its own. ({sign}= would bind the name to an expression, "
                f"and leave {self.label} as it is.)"
            )
        return NotImplemented  # Python then makes an expression

    def __iadd__(self, other: Any) -> Any:
        """Refuse to rebind a named matrix, such as a parameter; write `x <<= x + y`."""
        return self._rebound("+")

    def __isub__(self, other: Any) -> Any:
        """Likewise."""
        return self._rebound("-")

    def __imul__(self, other: Any) -> Any:
        """Likewise."""
        return self._rebound("*")

    def __itruediv__(self, other: Any) -> Any:
        """Likewise."""
        return self._rebound("/")

    def __ipow__(self, other: Any) -> Any:
        """Likewise."""
        return self._rebound("**")

    def __imatmul__(self, other: Any) -> Any:
        """Likewise."""
        return self._rebound("@")

    def __iand__(self, other: Any) -> Any:
        """Likewise."""
        return self._rebound("&")

    def __ior__(self, other: Any) -> Any:
        """Likewise."""
        return self._rebound("|")

    def set(self, value: Any) -> None:
        """Copy numbers from the host into the container.

        value: an array of the matrix's shape, or one number; for a sparse matrix, its stored values
        [nnz].

        Raises ShapeError for another shape, and for numbers that the dtype cannot hold, such as 0.5
        in int64.
        """
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

    def numpy(self) -> np.ndarray[Any, Any]:
        """Copy into a NumPy array; of a sparse matrix, only its stored values [nnz]."""
        self.check(self.version)
        self.cache.require_data(f"numpy({self.label})")
        assert self.slot.array is not None
        stored = self.slot.array
        if self.pattern is not None:
            stored = stored.reshape(-1)[: self.pattern.nnz]
        found: np.ndarray[Any, Any] = self.cache.backend.read(stored)
        return found

    def shown(self) -> np.ndarray[Any, Any]:
        """Return the contents [shape] on the host, without a copy if they lie there.

        Read them before the container is written again.
        """
        self.check(self.version)
        self.cache.require_data(f"shown({self.label})")
        found: np.ndarray[Any, Any] = self.cache.backend.host(self.slot.data())
        return found

    def __float__(self) -> float:
        """Return the number in a 1 x 1 matrix."""
        if self.shape != (1, 1) or self.pattern is not None:
            raise ShapeError(f"float({self.label}): shape={self.shape}: must be (1, 1).")
        self.check(self.version)
        self.cache.require_data(f"float({self.label})")
        version, number = self.slot.known
        if version == self.slot.version:
            return number
        return float(self.cache.backend.host(self.slot.array)[0, 0])


class Scalar(Mat):
    """A 1 x 1 matrix: a number that changes without changing any key."""

    __slots__ = ()


class SparseMat(Mat):
    """A sparse matrix: values on a pattern. Elementwise operations act on its values."""

    __slots__ = ("pattern_version",)

    pattern: PatternSlot

    def __init__(self, cache: MatCache, slot: Slot, pattern: PatternSlot) -> None:
        """Make a handle on the present contents of `slot`, at the entries of `pattern`."""
        super().__init__(cache, slot, pattern)
        self.pattern_version = pattern.version

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
        return self.pattern.nnz


class Transposed(Operand):
    """`x.T`: free as an operand of `@`; elsewhere a transposed copy."""

    __slots__ = ("of",)

    def __init__(self, of: Lazy) -> None:
        """Transpose the matrix `of`."""
        self.of = of

    def _apply(self, op: str, args: tuple[Any, ...]) -> Any:
        return self.of._apply(op, args)

    def _assign(self, value: Any) -> None:
        raise ShapeError(f"<<= at {source_line()}: {self.of.label}.T cannot be assigned to.")

    def __matmul__(self, right: Any) -> Any:
        """Return the matrix product, without making the transposed matrix."""
        return self.of._apply("transposed_matmul", (self.of, right))

    def mat(self) -> Mat:
        """Return a transposed copy."""
        return self.of._apply("transpose", (self.of,)).mat()  # type: ignore[no-any-return]

    @property
    def shape(self) -> Shape:
        """The shape (rows, columns)."""
        return (self.of.shape[1], self.of.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the matrix."""
        return self.of.dtype

    def numpy(self) -> np.ndarray[Any, Any]:
        """Copy into a NumPy array."""
        return self.mat().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return `x.T.numpy()`, for `np.asarray(x.T)`."""
        return self.mat().__array__(dtype, copy)

    def __getitem__(self, index: Any) -> Any:
        """Return `x.T[rows, columns]`: see `gather`."""
        return self.mat()[index]

    @property
    def T(self) -> Lazy:
        """The original matrix."""
        return self.of


class Node(Lazy):
    """An expression that computes itself into a container when it is needed.

    key: name of the operation and its static parameters.
    operands: what it reads.
    compute: `compute(slot)` does the work. While memory is being planned it is also called, and
    reserves what it needs.
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
        """Compute the operands; this node is computed later."""
        super().__init__(cache, shape, np.dtype(dtype), label)
        self.key = key
        self.operands = tuple(o.mat() for o in operands)
        self.versions = tuple(o.version for o in self.operands)
        self.compute = compute
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
        if self.key[0] not in ("matmul", "matmul_transposed", "sort"):
            return Padding()
        block, number = self.operands[0].padding
        return Padding(block, number if number == 0.0 or self.key[0] == "sort" else None)

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
        slot.written()  # first, so that handles on the old contents are stale even if this fails
        self.compute(slot)


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


def result_dtype(lazies: Iterable[Lazy]) -> np.dtype[Any]:
    """Return float64 if a matrix is float64 or if all are integers, else float32.

    A 1 x 1 matrix does not count, unless all are 1 x 1.
    """
    lazies = list(lazies)
    large = [a.dtype for a in lazies if a.shape != (1, 1)] or [a.dtype for a in lazies]
    if any(d == np.float64 for d in large) or all(d.kind in "iu" for d in large):
        return np.dtype(np.float64)
    return np.dtype(np.float32)
