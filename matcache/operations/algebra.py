"""Factorizations and solutions of small dense matrices, in float64.

Matrices are k x k, or tall: n x k with n >= k. The CPU uses LAPACK, a device cuSOLVER. All memory
is part of the plan. An update that uses them is recorded like any other.

What has no solution gives NaN, not an error: numbers of a device are not read while it computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..containers.cache import MatCache
from ..containers.dispatch import operation
from ..containers.expressions import Node
from ..containers.launching import launch
from ..containers.lazy import Lazy, Shape, Transposed, Triangle
from ..containers.matrices import Mat, handle, slots_of
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from ..notation.operand import apply
from ..program.padding import Padding
from .build import real_rows
from .dense import store
from .indexing import filled
from .products import cast, of_product


class QR(NamedTuple):
    """The factors of a matrix x = Q @ R.

    Q: [n x k], whose columns are orthonormal.
    R: [k x k], upper triangular; no number on its diagonal is negative.
    """

    Q: Mat
    R: Mat


class Eigen(NamedTuple):
    """The eigenvalues and eigenvectors of a symmetric matrix.

    values: [1 x k], ascending.
    vectors: [k x k], a column for each value. Its largest entry by magnitude is positive.
    """

    values: Mat
    vectors: Mat


def lower(x: Lazy | Transposed) -> Triangle:
    """Return the lower triangle of a square matrix, with its diagonal, for `@` and `solve`."""
    return _triangle(x, lower=True)


def upper(x: Lazy | Transposed) -> Triangle:
    """Return the upper triangle of a square matrix, with its diagonal, for `@` and `solve`."""
    return _triangle(x, lower=False)


def cholesky(x: Lazy | Transposed) -> Node:
    """Return the lower triangular L with `L @ L.T == x`: [k x k] -> [k x k].

    x: symmetric and positive definite; only its lower triangle is read. If it is not, the result is
    NaN.
    """
    source = _square("cholesky", x)
    k, cache = source.shape[1], source.cache

    def compute(slot: Slot) -> None:
        store(Mat(cache, slot), source)
        launch(cache, "cholesky", slot)
        cache.count(k**3 // 3)

    return _node("cholesky", (k, k), (source,), compute)


def qr(x: Lazy | Transposed) -> QR:
    """Return the orthonormal and the triangular factor of a tall matrix: [n x k], n >= k.

    The padding rows of a block count as 0.
    """
    given = _matrix("qr", x)
    (n, k), cache = given.shape, given.cache
    if n < k:
        raise ShapeError(
            f"qr at {source_line()}: {given.label} is {n} x {k}; must have at least as many rows "
            "as columns."
        )
    source = real_rows(given).mat()

    def compute(q: Slot, r: Slot) -> None:
        store(Mat(cache, q), source)
        launch(cache, "qr", q, r)
        cache.count(4 * n * k * k)
        q.padding = Padding(source.padding.block)

    q, r = _several("qr", source, {"Q": (n, k), "R": (k, k)}, compute)
    return QR(q, r)


def eigh(x: Lazy | Transposed) -> Eigen:
    """Return eigenvalues and eigenvectors of a symmetric matrix [k x k].

    Only its lower triangle is read.
    """
    source = _square("eigh", x)
    k, cache = source.shape[1], source.cache

    def compute(values: Slot, vectors: Slot) -> None:
        work = _work(cache, k)
        store(Mat(cache, work), source)
        launch(cache, "eigh", work, values, vectors)
        cache.count(9 * k**3)

    values, vectors = _several("eigh", source, {"values": (1, k), "vectors": (k, k)}, compute)
    return Eigen(values, vectors)


def solve(matrix: Lazy | Transposed | Triangle, right: Lazy | Transposed) -> Node:
    """Return the X with `matrix @ X == right`: [k x k] and [k x m] -> [k x m].

    matrix: any square matrix, by LU factorization; or a triangle, such as `lower(cholesky(x))` or
    its `.T`, which takes k^2 m operations.

    If the matrix is singular, the result is NaN or infinite.
    """
    if isinstance(matrix, Triangle):
        found: Node = triangular("solve", matrix, right, left=True)
        return found
    a = _square("solve", matrix)
    b = _matrix("solve", right)
    (k, m), cache = b.shape, b.cache
    _fits("solve", a.shape, b.shape, left=True)

    def compute(slot: Slot) -> None:
        work = _work(cache, k)
        store(Mat(cache, work), a)
        store(Mat(cache, slot), b)
        launch(cache, "solve", work, slot)
        cache.count(2 * k**3 // 3 + 2 * k * k * m)

    return _node("solve", (k, m), (a, b), compute)


def inverse(x: Lazy | Transposed) -> Node:
    """Return the inverse of a square matrix: [k x k] -> [k x k].

    It is NaN or infinite if the matrix is singular. Prefer `solve` where the inverse is multiplied.
    """
    source = _square("inverse", x)
    k, cache = source.shape[1], source.cache
    slot = cache.result(("identity", k), (k, k), np.float64, "the identity matrix")
    return solve(source, filled(cache, slot, np.eye(k) if slot.computed < 0 else None))


def diagonal(x: Lazy | Transposed) -> Node:
    """Return the diagonal of a square matrix: [k x k] -> [1 x k]."""
    source = _square("diagonal", x)

    def compute(slot: Slot) -> None:
        launch(source.cache, "diagonal", source.slot, slot)

    return _node("diagonal", (1, source.shape[1]), (source,), compute, source.dtype)


def logdet(x: Lazy | Transposed) -> Any:
    """Return the log-determinant of a symmetric positive definite matrix: [k x k] -> 1 x 1.

    Only the lower triangle of x is read. If x is not positive definite, the result is NaN.
    """
    return 2.0 * apply("total", apply("log", diagonal(cholesky(x))))


# ---------------------------------------------------------------- how


@operation("triangular")
def triangular(what: str, triangle: Triangle, other: Any, *, left: bool) -> Node:
    """Return a product with a triangle, or a solution.

    what: "product" or "solve".
    left: whether the triangle is the left factor.
    """
    a, b = _matrix("@", triangle.of), _matrix("@", other)
    _fits("@" if what == "product" else "solve", a.shape, b.shape, left=left)
    table, cache = cast(a, np.dtype(np.float64)), a.cache

    def compute(slot: Slot) -> None:
        store(Mat(cache, slot), b)
        launch(cache, "triangular", what, table.slot, slot, left, triangle.lower, triangle.turned)
        cache.count(a.shape[0] * b.shape[0] * b.shape[1])

    name = f"triangle {what}" if left else "rows times triangle"
    facts = (what, triangle.lower, triangle.turned)
    held = Padding() if left else of_product(b)
    return _node(name, b.shape, (b, table), compute, facts=facts, padding=held)


def _triangle(x: Lazy | Transposed, *, lower: bool) -> Triangle:
    turned = isinstance(x, Transposed)
    return Triangle(x.of if isinstance(x, Transposed) else x, lower=lower, turned=turned)


def _node(
    name: str,
    shape: Shape,
    operands: tuple[Mat, ...],
    compute: Callable[[Slot], None],
    dtype: Any = np.float64,
    facts: tuple[Any, ...] = (),
    padding: Padding = Padding(),  # noqa: B008 (it cannot change)
) -> Node:
    label = f"{name}({', '.join(o.label for o in operands)})"
    key, cache = (name, *facts), operands[0].cache
    return Node(
        cache, shape, dtype, key=key, operands=operands, compute=compute, label=label,
        padding=padding,
    )  # fmt: skip


def _several(
    name: str, source: Mat, shapes: dict[str, Shape], compute: Callable[..., None]
) -> list[Mat]:
    """Return results that are computed together, in containers of the cache."""
    cache = source.cache
    slots = [
        cache.result(((name, part), source.guid), shape, np.float64, f"{part} of {source.label}")
        for part, shape in shapes.items()
    ]
    if any([cache.begin(slot) for slot in slots]):  # noqa: C419 - each must begin
        for slot in slots:
            slot.written()
        compute(*slots)
        for slot in slots:
            slot.computed_from(*slots_of([source]))
    return [handle(cache, slot) for slot in slots]


def _work(cache: MatCache, k: int) -> Slot:
    return cache.result(("algebra", k), (k, k), np.float64, "a matrix that is factorized")


def _matrix(what: str, x: Any) -> Mat:
    if isinstance(x, Lazy | Transposed) and (mat := x.mat()).pattern is None:
        return mat
    kind = "a sparse matrix" if isinstance(x, Lazy) else type(x).__name__
    raise ShapeError(f"{what} at {source_line()}: {kind}; must be a dense matrix of a MatCache.")


def _square(what: str, x: Any) -> Mat:
    mat = _matrix(what, x)
    if mat.shape[0] != mat.shape[1]:
        raise ShapeError(
            f"{what} at {source_line()}: {mat.label} is {mat.shape[0]} x {mat.shape[1]}; must be "
            "square."
        )
    return mat


def _fits(what: str, square: Shape, other: Shape, *, left: bool) -> None:
    if square[0] != other[0 if left else 1]:
        sides = [f"{rows} x {columns}" for rows, columns in (square, other)]
        raise ShapeError(
            f"{what} at {source_line()}: {' and '.join(sides if left else sides[::-1])}; the inner "
            "sides must be equal."
        )
