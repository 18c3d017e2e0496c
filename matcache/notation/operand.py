"""Ordinary Python operators on every value that a model computes with.

An `Operand` only passes the name of the operation and its arguments to `_apply`. Each family of
operands defines it once: `Lazy` builds an expression, `Traced` records an instruction of a row-wise
program, and `Ref` computes with NumPy in float64. So the same model code runs on all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import source_line

OPERATORS = {
    "add": ("add", False),
    "subtract": ("sub", False),
    "multiply": ("mul", False),
    "divide": ("div", False),
    "power": ("pow", False),
    "matmul": ("matmul", False),
    "less": ("less", False),
    "less_equal": ("less_equal", False),
    "greater": ("less", True),
    "greater_equal": ("less_equal", True),
    "equal": ("equal", False),
    "not_equal": ("not_equal", False),
    "bitwise_and": ("logical_and", False),
    "bitwise_or": ("logical_or", False),
}
"""NumPy's name of an operation -> its name here, and whether its arguments change places."""

OURS = (
    "argmax argmin argsort clip concatenate copy cos exp floor log maximum mean minimum sign sin "
    "sort sqrt tanh where cholesky diagonal eigh qr solve"
)
"""Functions of `blocklearn.matcache` with the names that NumPy has for them."""

INSTEAD = {
    **{name: f"blocklearn.matcache.{name}" for name in OURS.split()},
    "absolute": "abs(x)",
    "max": "rowmax(x) or colmax(x)",
    "min": "rowmin(x) or colmin(x)",
    "sum": "x.sum(axis) or total(x)",
    "dot": "x @ y",
    "negative": "-x",
    "square": "x ** 2",
    "logical_not": "~x",
    "logical_and": "a & b",
    "logical_or": "a | b",
    "floor_divide": "floor(x / y)",
    "std": "sqrt(mean((x - mean(x)) ** 2))",
    "var": "mean((x - mean(x)) ** 2)",
    "inv": "inverse(x)",
    "slogdet": "logdet(x)",
    "transpose": "x.T",
    "tolist": "x.numpy().tolist()",
    "hstack": "concatenate(parts, axis=1)",
    "vstack": "concatenate(parts)",
}
"""What to write in place of a function or method of NumPy's."""

SUMS = {None: "total", 0: "colsum", -2: "colsum", 1: "rowsum", -1: "rowsum"}
"""Sums by axis."""


class Operand:
    """Base class of everything that takes part in expressions.

    Not an ABC: `isinstance` is slow for those, and runs hundreds of times for each block.
    """

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Any:
        """Treat `array * operand` like `number * operand`; refuse NumPy's functions.

        They would read numbers on the host. Our functions of the same names do not.
        """
        name = ufunc.__name__
        if name in OPERATORS and method == "__call__" and not options:
            op, turned = OPERATORS[name]
            args = tuple(a.item() if isinstance(a, np.ndarray) and a.ndim == 0 else a for a in args)
            return self._apply(op, args[::-1] if turned else args)
        if method == "at":
            raise self._no_array(f"{name}.at", "x[positions] += rows")
        raise self._no_array(name, INSTEAD.get(name))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """Refuse NumPy's functions."""
        raise self._no_array(function.__name__, INSTEAD.get(function.__name__))

    def _no_array(self, name: str, instead: str | None) -> TypeError:
        ours = instead or "blocklearn.matcache.exp, log, maximum, total and others"
        return TypeError(
            f"np.{name} at {source_line()}: must be applied to NumPy arrays, not to matrices of "
            f"the cache; use {ours}"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say what to write in place of a method of NumPy's arrays."""
            told = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{told}; use {INSTEAD[name]}" if name in INSTEAD else told)

    def _apply(self, op: str, args: tuple[Any, ...]) -> Any:
        """Return the result of operation `op` on `args`; at least one is of this family."""
        raise NotImplementedError

    def _assign(self, value: Any) -> None:
        """Write `value` into this operand's container (`x <<= value`)."""
        raise NotImplementedError

    def __ilshift__(self, value: Any) -> Self:
        """Assign into this container."""
        self._assign(value)
        return self

    def sum(self, axis: int | None = None) -> Any:
        """Return the sum of all entries (1 x 1), of each column (axis 0) or each row (axis 1)."""
        if axis not in SUMS:
            raise ValueError(f"sum: axis={axis!r}: must be None, 0 (of columns) or 1 (of rows).")
        return self._apply(SUMS[axis], (self,))

    def __add__(self, other: Any) -> Any:
        """Return the elementwise sum."""
        return self._apply("add", (self, other))

    def __radd__(self, other: Any) -> Any:
        """Return the elementwise sum."""
        return self._apply("add", (other, self))

    def __sub__(self, other: Any) -> Any:
        """Return the elementwise difference."""
        return self._apply("sub", (self, other))

    def __rsub__(self, other: Any) -> Any:
        """Return the elementwise difference."""
        return self._apply("sub", (other, self))

    def __mul__(self, other: Any) -> Any:
        """Return the elementwise product."""
        return self._apply("mul", (self, other))

    def __rmul__(self, other: Any) -> Any:
        """Return the elementwise product."""
        return self._apply("mul", (other, self))

    def __truediv__(self, other: Any) -> Any:
        """Return the elementwise quotient."""
        return self._apply("div", (self, other))

    def __rtruediv__(self, other: Any) -> Any:
        """Return the elementwise quotient."""
        return self._apply("div", (other, self))

    def __pow__(self, other: Any) -> Any:
        """Return the elementwise power."""
        if isinstance(other, int | float) and other == 2:  # exact, and 20 times faster than pow
            return self._apply("mul", (self, self))
        return self._apply("pow", (self, other))

    def __rpow__(self, other: Any) -> Any:
        """Return the elementwise power."""
        return self._apply("pow", (other, self))

    def __neg__(self) -> Any:
        """Return the elementwise negation."""
        return self._apply("neg", (self,))

    def __pos__(self) -> Any:
        """Return a copy."""
        return self._apply("copy", (self,))

    def __abs__(self) -> Any:
        """Return the elementwise absolute value."""
        return self._apply("abs", (self,))

    def __lt__(self, other: Any) -> Any:
        """Return 1 where less, else 0."""
        return self._apply("less", (self, other))

    def __le__(self, other: Any) -> Any:
        """Return 1 where less or equal, else 0."""
        return self._apply("less_equal", (self, other))

    def __gt__(self, other: Any) -> Any:
        """Return 1 where greater, else 0."""
        return self._apply("less", (other, self))

    def __ge__(self, other: Any) -> Any:
        """Return 1 where greater or equal, else 0."""
        return self._apply("less_equal", (other, self))

    def __eq__(self, other: object) -> Any:
        """Return 1 where equal, else 0. For identity of matrices use `a is b`."""
        return self._apply("equal", (self, other))

    def __ne__(self, other: object) -> Any:
        """Return 1 where not equal, else 0."""
        return self._apply("not_equal", (self, other))

    __hash__ = object.__hash__  # by identity, which dictionaries and sets compare first

    def __and__(self, other: Any) -> Any:
        """Return 1 where both are not zero, else 0."""
        return self._apply("logical_and", (self, other))

    def __rand__(self, other: Any) -> Any:
        """Return 1 where both are not zero, else 0."""
        return self._apply("logical_and", (other, self))

    def __or__(self, other: Any) -> Any:
        """Return 1 where one or both are not zero, else 0."""
        return self._apply("logical_or", (self, other))

    def __ror__(self, other: Any) -> Any:
        """Return 1 where one or both are not zero, else 0."""
        return self._apply("logical_or", (other, self))

    def __invert__(self) -> Any:
        """Return 1 where zero, else 0."""
        return self._apply("equal", (self, 0.0))

    def __matmul__(self, other: Any) -> Any:
        """Return the matrix product."""
        return self._apply("matmul", (self, other))

    def __rmatmul__(self, other: Any) -> Any:
        """Return the matrix product."""
        return self._apply("matmul", (other, self))

    def __bool__(self) -> bool:
        """Raise an error: a matrix is neither true nor false."""
        raise TypeError(
            f"{source_line()}: the truth of a matrix is not defined: if, while, and, or, max, min "
            "ask for it. Use where(condition, a, b), maximum(a, b) or minimum(a, b) for a choice "
            "element by element, or float(scalar) to read a number on the host."
        )


def apply(op: str, *args: Any) -> Any:
    """Apply `op` to `args`, of which at least one must be an `Operand`."""
    for arg in args:
        if isinstance(arg, Operand):
            return arg._apply(op, args)
    raise TypeError(
        f"{op}: none of the arguments {args!r} is a matrix of a MatCache; for plain numbers and "
        "arrays use NumPy's function of that name."
    )
