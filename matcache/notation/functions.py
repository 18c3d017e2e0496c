"""Functions of model code. Each works on Mats, inside `@rowwise`, and in the float64 reference."""

from __future__ import annotations

from typing import Any

from .operand import apply


def exp(x: Any) -> Any:
    """Exponential, elementwise."""
    return apply("exp", x)


def log(x: Any) -> Any:
    """Natural logarithm, elementwise."""
    return apply("log", x)


def sqrt(x: Any) -> Any:
    """Square root, elementwise."""
    return apply("sqrt", x)


def sign(x: Any) -> Any:
    """-1, 0 or 1, elementwise; NaN stays NaN."""
    return apply("sign", x)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two, elementwise; NaN wins, as in NumPy."""
    return apply("maximum", a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two, elementwise; NaN wins, as in NumPy."""
    return apply("minimum", a, b)


def clip(x: Any, low: Any, high: Any) -> Any:
    """`minimum(maximum(x, low), high)`."""
    return minimum(maximum(x, low), high)


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition is not zero, else `b`, elementwise."""
    return apply("where", condition, a, b)


def equal(a: Any, b: Any) -> Any:
    """1 where equal, else 0, elementwise: `a == b`."""
    return apply("equal", a, b)


def lgamma(x: Any) -> Any:
    """Logarithm of the gamma function, for x > 0."""
    return apply("lgamma", x)


def digamma(x: Any) -> Any:
    """Derivative of `lgamma`, for x > 0."""
    return apply("digamma", x)


def exppsi(x: Any) -> Any:
    """`exp(digamma(x))` for x > 0, never below 1e-20: keeps tables away from denormal numbers."""
    return apply("exppsi", x)


def sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))`, without overflow."""
    return apply("sigmoid", x)


def softplus(x: Any) -> Any:
    """`log(1 + exp(x))`, without overflow."""
    return apply("softplus", x)


def copy(x: Any) -> Any:
    """The same values in a container of their own; the way to keep an old value in a loop."""
    return apply("copy", x)


def full(x: Any, value: Any) -> Any:
    """`value` wherever x has an entry: at the stored ones of a sparse x, at all of a dense one.

    x: [n x m]; its numbers do not matter. value: a number, or what `x + value` would take. The rows
    of a block's padding are entries too where x is dense.
    """
    return apply("full", x, value)


def ones_like(x: Any) -> Any:
    """1 wherever x has an entry: at the stored ones of a sparse x, at all of a dense one."""
    return full(x, 1.0)


def sddmm(rows: Any, table: Any, pattern: Any) -> Any:
    """Sampled dense-dense product: `rows[i] . table[j]` at the stored entries (i, j) of `pattern`.

    rows: [n x k], table: [m x k], pattern: sparse [n x m] -> sparse with the pattern of `pattern`.
    """
    return apply("sddmm", rows, table, pattern)


def rowsum(x: Any) -> Any:
    """Sum of each row: [n x k] or sparse -> [n x 1]."""
    return apply("rowsum", x)


def rowmax(x: Any) -> Any:
    """Largest entry of each row [n x k] -> [n x 1]; of a sparse row its largest stored entry."""
    return apply("rowmax", x)


def rowmin(x: Any) -> Any:
    """Smallest entry of each row [n x k] -> [n x 1]; of a sparse row its smallest stored entry."""
    return apply("rowmin", x)


def rowdot(a: Any, b: Any) -> Any:
    """Dot product of each pair of rows: [n x k], [n x k] -> [n x 1]."""
    return rowsum(a * b)


def rownnz(x: Any) -> Any:
    """Number of stored entries of each row of a sparse matrix -> [n x 1]."""
    return apply("rownnz", x)


def colsum(x: Any) -> Any:
    """Sum of each column: [n x k] -> [1 x k]; summed in float64 over a fixed number of chunks."""
    return apply("colsum", x)


def total(x: Any) -> Any:
    """Sum of all entries as a float64 `Scalar`, over a fixed number of chunks of rows."""
    return apply("total", x)


def gram(x: Any) -> Any:
    """`x.T @ x`: [n x k] -> [k x k]."""
    return apply("gram", x)


def sort(x: Any) -> Any:
    """Each row in ascending order; NaN last."""
    return apply("sort", x)
