"""Functions of model code, for Mats, in `@rowwise`, and in the float64 reference."""

from __future__ import annotations

from typing import Any

from ..errors import source_line
from .operand import apply

TINY = 1e-30  # least divisor, where sums and squares may be 0


def exp(x: Any) -> Any:
    """Return the exponential, elementwise."""
    return apply("exp", x)


def log(x: Any) -> Any:
    """Return the natural logarithm, elementwise."""
    return apply("log", x)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent, elementwise."""
    return apply("tanh", x)


def cos(x: Any) -> Any:
    """Return the cosine, elementwise."""
    return apply("cos", x)


def sin(x: Any) -> Any:
    """Return the sine, elementwise."""
    return apply("sin", x)


def floor(x: Any) -> Any:
    """Return the largest whole number that is not larger, elementwise."""
    return apply("floor", x)


def sqrt(x: Any) -> Any:
    """Return the square root, elementwise."""
    return apply("sqrt", x)


def sign(x: Any) -> Any:
    """Return -1, 0 or 1, elementwise; NaN stays NaN."""
    return apply("sign", x)


def maximum(a: Any, b: Any) -> Any:
    """Return the larger of two, elementwise; NaN wins, as in NumPy."""
    return apply("maximum", a, b)


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller of two, elementwise; NaN wins, as in NumPy."""
    return apply("minimum", a, b)


def clip(x: Any, low: Any, high: Any) -> Any:
    """Return `minimum(maximum(x, low), high)`."""
    return minimum(maximum(x, low), high)


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` where the condition is not zero, else `b`, elementwise."""
    return apply("where", condition, a, b)


def equal(a: Any, b: Any) -> Any:
    """Return 1 where `a` equals `b`, else 0, elementwise."""
    return apply("equal", a, b)


def lgamma(x: Any) -> Any:
    """Return the logarithm of the gamma function, for x > 0."""
    return apply("lgamma", x)


def digamma(x: Any) -> Any:
    """Return the derivative of `lgamma`, for x > 0."""
    return apply("digamma", x)


def exppsi(x: Any) -> Any:
    """Return `exp(digamma(x))` for x > 0, but at least 1e-20.

    The lower bound keeps denormal numbers, which are slow, out of tables.
    """
    return apply("exppsi", x)


def sigmoid(x: Any) -> Any:
    """Return `1 / (1 + exp(-x))`, without overflow."""
    return apply("sigmoid", x)


def softplus(x: Any) -> Any:
    """Return `log(1 + exp(x))`, without overflow."""
    return apply("softplus", x)


def copy(x: Any) -> Any:
    """Return a copy in its own container, for example to keep an old value in a loop."""
    return apply("copy", x)


def full(x: Any, value: Any) -> Any:
    """Return `value` at every entry of x.

    x: [n x m]; only its shape and, if it is sparse, its stored entries matter.
    value: a number, or any operand that `x + value` accepts.

    If x is dense, a block's padding rows count as entries too.
    """
    return apply("full", x, value)


def ones_like(x: Any) -> Any:
    """Return 1 at every entry of x: the stored ones if x is sparse, else all."""
    return full(x, 1.0)


def sddmm(rows: Any, table: Any, pattern: Any) -> Any:
    """Return `rows[i] . table[j]` at the stored entries (i, j) of `pattern`.

    rows: [n x k].
    table: [m x k].
    pattern: sparse [n x m]; the result has the same pattern.

    The name stands for sampled dense-dense matrix multiplication.
    """
    return apply("sddmm", rows, table, pattern)


def rowsum(x: Any) -> Any:
    """Return the sum of each row: [n x k] or sparse -> [n x 1]."""
    return apply("rowsum", x)


def rowmax(x: Any) -> Any:
    """Return each row's largest entry: [n x k] -> [n x 1].

    Of a sparse row, it is the largest stored entry.
    """
    return apply("rowmax", x)


def rowmin(x: Any) -> Any:
    """Return each row's smallest entry: [n x k] -> [n x 1].

    Of a sparse row, it is the smallest stored entry.
    """
    return apply("rowmin", x)


def argmax(x: Any) -> Any:
    """Return the column of each row's largest entry: [n x k] -> [n x 1], as floats.

    Of equal ones it is the first; NaN counts as the largest, as in NumPy. Of a sparse row, it is
    the column of the largest stored entry, or -1 where nothing is stored. In float32, columns are
    exact up to 2^24.
    """
    return apply("argmax", x)


def argmin(x: Any) -> Any:
    """Return the column of each row's smallest entry: [n x k] -> [n x 1]; see `argmax`."""
    return apply("argmin", x)


def rowdot(a: Any, b: Any) -> Any:
    """Return the dot product of each pair of rows: [n x k], [n x k] -> [n x 1]."""
    return rowsum(a * b)


def rownnz(x: Any) -> Any:
    """Return the number of stored entries of each row of a sparse matrix -> [n x 1]."""
    return apply("rownnz", x)


def colsum(x: Any) -> Any:
    """Return the sum of each column: [n x k] -> [1 x k].

    Sums run in float64 over a fixed number of chunks.
    """
    return apply("colsum", x)


def colmax(x: Any) -> Any:
    """Return the largest entry of each column of a dense matrix: [n x k] -> [1 x k]."""
    return apply("colmax", x)


def colmin(x: Any) -> Any:
    """Return the smallest entry of each column of a dense matrix: [n x k] -> [1 x k]."""
    return -colmax(-x)


def mean(x: Any, axis: int | None = None) -> Any:
    """Return the mean of all entries (1 x 1), of each column (axis 0) or of each row (axis 1).

    x: [n x k]. The zeros of a sparse matrix count, and the padding rows of a block do not.
    """
    return x.mean(axis)


def concatenate(parts: Any, axis: int = 0) -> Any:
    """Return matrices side by side (axis 1), or one below the other (axis 0).

    parts: dense matrices, one or more, with equal columns (axis 0) or rows (axis 1).
    """
    if not isinstance(axis, int) or axis not in (0, 1, -1, -2):
        raise ValueError(f"concatenate: axis={axis!r}: must be 0 or 1; matrices are in one list.")
    found = tuple(parts)
    if not found:
        raise ValueError(f"concatenate at {source_line()}: no parts; pass one matrix or more.")
    return apply(f"concatenate(axis={axis % 2})", *found)


def total(x: Any) -> Any:
    """Return the sum of all entries as a float64 `Scalar`.

    Sums run over a fixed number of chunks of rows.
    """
    return apply("total", x)


def gram(x: Any) -> Any:
    """Return `x.T @ x`: [n x k] -> [k x k]."""
    return apply("gram", x)


def argsort(x: Any) -> Any:
    """Return the columns that sort each row, int64; equal numbers keep their order, NaN last.

    x: float32.

    To sort pairs by key, in one row: `order = argsort(keys); keys[:, order], values[:, order]`.
    """
    return apply("argsort", x)


def sort(x: Any) -> Any:
    """Sort each row in ascending order; NaN last."""
    return apply("sort", x)
