"""Matrices and lazy expressions: what model code holds in its hands.

Elementwise operators build an `Elementwise` tree and run as one kernel when something needs the
value. Global operations (products, gathers, sums over rows) are nodes too, and run when needed. A
result lives in a container of the cache; the `Mat` that stands for it knows the version it saw.
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
    """A value of a known shape and dtype, computed or not. shape: (rows, columns)."""

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
        """pattern: where the values are, of a sparse one. where: the line that made it."""
        self.cache = cache
        self.shape = shape
        self.dtype = dtype
        self.label = label
        self.pattern = pattern  # not None: a value per stored entry of this pattern
        self.where = source_line() if where is None else where

    def _apply(self, op: str, args: tuple[Any, ...]) -> Any:
        return operate("build", self.cache, op, args)

    def _assign(self, value: Any) -> None:
        raise ShapeError(
            f"<<= at {source_line()}: the left side is the expression {self.label}, which has no "
            "container of its own. Assign to a Mat, or write copy(...) around the expression first."
        )

    def mat(self) -> Mat:
        """The value as a `Mat`, computed now if it was not."""
        raise NotImplementedError

    @property
    def padding(self) -> Padding:
        """What it holds in rows that a block is filled up with."""
        return Padding()

    def __matmul__(self, other: Any) -> Any:
        """Matrix product."""
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
        """`np.asarray(x)` is `x.numpy()`."""
        if copy is False:
            raise ValueError("np.asarray(mat): contents of a container are always copied out.")
        return np.asarray(self.numpy(), dtype=dtype)

    def __float__(self) -> float:
        """The one number of a 1 x 1 matrix."""
        return float(self.mat())

    def __getitem__(self, index: Any) -> Any:
        """`x[rows]`, `x[rows, columns]`: see `gather`."""
        return operate("gather", self, index)

    def __repr__(self) -> str:
        """Kind, label, shape and dtype; never the contents."""
        kind = type(self).__name__
        return f"<{kind} {self.label} {self.shape[0]}x{self.shape[1]} {self.dtype}>"


class Mat(Lazy):
    """A matrix in a container, as of the version that this handle saw.

    Reading it after the container has received a newer value raises `StaleValueError`.
    `x <<= value` writes into the container and keeps this handle current.
    """

    __slots__ = ("slot", "version")

    def __init__(self, cache: MatCache, slot: Slot, pattern: PatternSlot | None = None) -> None:
        """A handle on the present contents of `slot`."""
        shape = slot.shape if pattern is None else (pattern.rows, pattern.columns)
        super().__init__(cache, shape, slot.dtype, slot.label, pattern, slot.where)
        self.slot = slot
        self.version = slot.version

    @property
    def padding(self) -> Padding:
        """What it holds in rows that a block is filled up with."""
        return Padding(self.pattern.block, 0.0) if self.pattern is not None else self.slot.padding

    @property
    def guid(self) -> int:
        """Name of the container."""
        return self.slot.guid

    def mat(self) -> Mat:
        """This matrix, after checking that it is not stale."""
        self.check(self.version)
        return self

    def check(self, version: int, by: str | None = None) -> None:
        """Raise `StaleValueError` unless the container still has `version`.

        by: the line of the expression that reads it, where that is not computed at once.
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
        return NotImplemented  # Python makes an expression, then

    def __iadd__(self, other: Any) -> Any:
        """Refused for a matrix with a name, such as a parameter: `x <<= x + y` assigns to it."""
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
        """Copy numbers from the host into the container: an array of its shape, or one number.

        Of a sparse matrix, its stored values [nnz]. Raises ShapeError for another shape, and for
        numbers that its dtype cannot hold, such as 0.5 in int64.
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
        """A copy as a NumPy array; of a sparse matrix, its stored values [nnz]."""
        self.check(self.version)
        self.cache.require_data(f"numpy({self.label})")
        assert self.slot.array is not None
        stored = self.slot.array
        if self.pattern is not None:
            stored = stored.reshape(-1)[: self.pattern.nnz]
        found: np.ndarray[Any, Any] = self.cache.backend.read(stored)
        return found

    def shown(self) -> np.ndarray[Any, Any]:
        """The contents on the host [shape], to be read before the container is written again.

        They are not copied where they lie on the host.
        """
        self.check(self.version)
        self.cache.require_data(f"shown({self.label})")
        found: np.ndarray[Any, Any] = self.cache.backend.host(self.slot.data())
        return found

    def __float__(self) -> float:
        """The one number of a 1 x 1 matrix."""
        if self.shape != (1, 1) or self.pattern is not None:
            raise ShapeError(f"float({self.label}): it is {self.shape}; only a 1 x 1 is a number.")
        self.check(self.version)
        self.cache.require_data(f"float({self.label})")
        version, number = self.slot.known
        if version == self.slot.version:
            return number
        return float(self.cache.backend.host(self.slot.array)[0, 0])


class Scalar(Mat):
    """A 1 x 1 matrix: a number that changes from block to block without changing any key."""

    __slots__ = ()


class SparseMat(Mat):
    """A sparse matrix: values on a pattern. Elementwise operations act on the stored entries."""

    __slots__ = ("pattern_version",)

    pattern: PatternSlot

    def __init__(self, cache: MatCache, slot: Slot, pattern: PatternSlot) -> None:
        """A handle on the present contents of `slot`, at the entries of `pattern`."""
        super().__init__(cache, slot, pattern)
        self.pattern_version = pattern.version

    def check(self, version: int, by: str | None = None) -> None:
        """Raise `StaleValueError` unless values and pattern are those that this handle saw."""
        super().check(version, by)
        if self.pattern.version != self.pattern_version:
            raise StaleValueError(
                f"{self.label}: computed at {self.where} for a block that was replaced at "
                f"{self.pattern.where}, and read at {source_line()}{_made(by)}."
            )

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return self.pattern.nnz


class Transposed(Operand):
    """`x.T`: free as an operand of `@`; elsewhere a copy with rows and columns exchanged."""

    __slots__ = ("of",)

    def __init__(self, of: Lazy) -> None:
        """of: the matrix whose rows and columns are exchanged."""
        self.of = of

    def _apply(self, op: str, args: tuple[Any, ...]) -> Any:
        return self.of._apply(op, args)

    def _assign(self, value: Any) -> None:
        raise ShapeError(f"<<= at {source_line()}: {self.of.label}.T cannot be assigned to.")

    def __matmul__(self, right: Any) -> Any:
        """Matrix product, without making the transposed matrix."""
        return self.of._apply("transposed_matmul", (self.of, right))

    def mat(self) -> Mat:
        """A copy with rows and columns exchanged."""
        return self.of._apply("transpose", (self.of,)).mat()  # type: ignore[no-any-return]

    @property
    def shape(self) -> Shape:
        """(rows, columns)."""
        return (self.of.shape[1], self.of.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the matrix."""
        return self.of.dtype

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy as a NumPy array."""
        return self.mat().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """`np.asarray(x.T)` is `x.T.numpy()`."""
        return self.mat().__array__(dtype, copy)

    def __getitem__(self, index: Any) -> Any:
        """`x.T[rows, columns]`: see `gather`."""
        return self.mat()[index]

    @property
    def T(self) -> Lazy:
        """The matrix itself."""
        return self.of


class Node(Lazy):
    """An expression that computes itself into a container when it is needed.

    key: names the operation and its static parameters; operands: what it reads. `compute(slot)`
    does the work; while memory is being planned it is called too, and reserves what it needs.
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
        """Not computed yet; its operands are."""
        super().__init__(cache, shape, np.dtype(dtype), label)
        self.key = key
        self.operands = tuple(o.mat() for o in operands)
        self.versions = tuple(o.version for o in self.operands)
        self.compute = compute
        self._result: Mat | None = None

    def mat(self) -> Mat:
        """The value in its container of the cache."""
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
        """What it holds in rows that a block is filled up with."""
        if self.key[0] not in ("matmul", "matmul_transposed", "sort"):
            return Padding()
        block, number = self.operands[0].padding
        return Padding(block, number if number == 0.0 or self.key[0] == "sort" else None)

    def check_operands(self) -> None:
        """Raise `StaleValueError` if an operand was overwritten after this expression was made."""
        for operand, version in zip(self.operands, self.versions, strict=True):
            operand.check(version, self.where)

    def fits(self, target: Mat) -> bool:
        """Whether it can be computed straight into the container of `target`."""
        same = (self.shape, self.dtype) == (target.shape, target.dtype)
        return same and self._result is None and all(o.guid != target.guid for o in self.operands)

    def run(self, slot: Slot) -> None:
        """Compute into `slot`."""
        self.check_operands()
        slot.written()  # first: should it fail half-way, handles on the old contents are stale
        self.compute(slot)


class Elementwise(Lazy):
    """A tree of elementwise operations over `Mat`s and numbers; not yet computed."""

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
        """op: a name in `ELEMENTWISE`."""
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
        """What it holds in rows that a block is filled up with."""
        return self._padding

    @property
    def computed(self) -> bool:
        """Whether the value is in a container already."""
        return self._result is not None

    def mat(self) -> Mat:
        """The value in its container of the cache."""
        if self._result is None:
            self._result = operate("evaluate", self)
        self._result.check(self._result.version)
        return self._result


def _made(by: str | None) -> str:
    """Where the expression that reads a value was made, if it was not where it is computed."""
    return "" if by is None or by == source_line() else f", by the expression made at {by}"


def handle(cache: MatCache, slot: Slot) -> Mat:
    """A handle on a dense container: a `Scalar` if it is 1 x 1."""
    return Scalar(cache, slot) if slot.shape == (1, 1) else Mat(cache, slot)


def slots_of(mats: Iterable[Mat]) -> list[Slot | PatternSlot]:
    """The containers that the values of `mats` are in, patterns included."""
    found: list[Slot | PatternSlot] = []
    for mat in mats:
        found.append(mat.slot)
        if mat.pattern is not None:
            found.append(mat.pattern)
    return found


def result_dtype(lazies: Iterable[Lazy]) -> np.dtype[Any]:
    """float64 if a matrix is (a 1 x 1 does not count) or if all are integers; else float32."""
    lazies = list(lazies)
    large = [a.dtype for a in lazies if a.shape != (1, 1)] or [a.dtype for a in lazies]
    if any(d == np.float64 for d in large) or all(d.kind in "iu" for d in large):
        return np.dtype(np.float64)
    return np.dtype(np.float32)
