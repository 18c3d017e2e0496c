"""What matrices and expressions have in common: operators, and transposing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blocklearn.card import card

from ..errors import ShapeError, source_line
from ..notation.operand import Operand
from ..program.padding import Padding
from .dispatch import operate
from .slots import PatternSlot

if TYPE_CHECKING:
    from .cache import MatCache
    from .matrices import Mat


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
        self.where = where or cache.line or source_line()

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
        if isinstance(other, Triangle):
            return NotImplemented  # the triangle knows how
        return super().__matmul__(other)

    @property
    def T(self) -> Transposed:
        """The transposed matrix, as an operand of `@`."""
        return Transposed(self)

    def mean(self, axis: int | None = None) -> Any:
        """Return the mean of all entries, or by axis: see `matcache.mean`."""
        return operate("mean", self, axis)

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

    def _repr_html_(self) -> str:
        """Return kind, shape and memory as HTML, for notebooks."""
        rows, columns = self.shape
        facts = {"label": self.label, "shape": f"{rows:,} x {columns:,}", "dtype": self.dtype}
        if self.pattern is None:
            facts["memory"] = f"{rows * columns * np.dtype(self.dtype).itemsize:,} bytes"
        return card(type(self).__name__, facts)


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
        if isinstance(right, Triangle):
            return NotImplemented
        return self.of._apply("transposed_matmul", (self.of, right))

    def mat(self) -> Mat:
        """Return a transposed copy."""
        found: Mat = self.of._apply("transpose", (self.of,)).mat()
        return found

    def mean(self, axis: int | None = None) -> Any:
        """Return the mean of all entries, or by axis: see `matcache.mean`."""
        return self.mat().mean(axis)

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


class Triangle(Operand):
    """The entries of a square matrix on one side of its diagonal; the others count as 0.

    of: the matrix.
    lower: whether entries below the diagonal count, after turning; else those above it do.
    turned: whether the matrix is transposed.

    It is a factor of `@`, or the matrix of `solve`. Neither reads the entries that do not count.
    """

    __slots__ = ("lower", "of", "turned")

    def __init__(self, of: Lazy, *, lower: bool, turned: bool = False) -> None:
        """Look at the matrix `of`. Raises ShapeError if it is not square, or sparse."""
        if of.pattern is not None or of.shape[0] != of.shape[1]:
            raise ShapeError(
                f"triangle at {source_line()}: {of.label} is {of.shape[0]} x {of.shape[1]}; must "
                "be square and dense."
            )
        self.of, self.lower, self.turned = of, lower, turned

    def _apply(self, op: str, args: tuple[Any, ...]) -> Any:
        raise ShapeError(
            f"{op} at {source_line()}: a triangle of {self.of.label} can only be a factor of @ or "
            "the matrix of solve(). Use the matrix itself."
        )

    def _assign(self, value: Any) -> None:
        raise ShapeError(f"<<= at {source_line()}: a triangle of {self.of.label} is only read.")

    def __matmul__(self, right: Any) -> Any:
        """Return the matrix product."""
        return operate("triangular", "product", self, right, left=True)

    def __rmatmul__(self, left: Any) -> Any:
        """Return the matrix product."""
        return operate("triangular", "product", self, left, left=False)

    @property
    def T(self) -> Triangle:
        """The transposed triangle."""
        return Triangle(self.of, lower=not self.lower, turned=not self.turned)

    @property
    def shape(self) -> Shape:
        """The shape (rows, columns)."""
        return self.of.shape
