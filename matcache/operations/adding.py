"""Add `S.T @ R` of a sparse S to a table, in one kernel: `table += scale * (S.T @ R)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..containers.dispatch import operation
from ..containers.expressions import Elementwise, result_dtype
from ..containers.keys import number_key
from ..containers.launching import launch
from ..containers.lazy import Lazy
from ..containers.matrices import Mat
from ..notation.operand import apply
from ..program.padding import Padding
from .indexing import filled
from .products import TurnedProduct, cast

Factor = Lazy | float


class OtherSum(Exception):
    """An expression that is no sum of products `S.T @ R` with factors."""


@operation("add products")
def add_products(target: Mat, value: Any, sign: float) -> bool:
    """Add `sign * value` to `target`, if value is a sum of products `S.T @ R` with factors.

    Only rows of the columns that occur in an S are read and written. A row of each product is
    summed first and then added, so the bits depend neither on threads nor on other rows.

    value: products that are not computed yet, joined by + and -, times or over numbers or matrices
        of 1 x 1. Of any other value nothing is added, and the result is False.
    """
    if target.pattern is not None or not isinstance(value, Lazy) or value.cache is not target.cache:
        return False
    try:
        terms = list(_terms(value, sign))
    except OtherSum:
        return False
    cache, products = target.cache, [product for product, _ in terms]
    read = [mat for product in products for mat in product.operands]
    read += [factor for _, factor in terms if isinstance(factor, Mat)]
    if (
        target.dtype.kind != "f"
        or any(product.shape != target.shape for product in products)
        or any(mat.guid == target.guid for mat in read)
    ):
        return False
    factors = [_one(target, product, factor) for product, factor in terms]
    if cache.recording is not None:
        cache.recording.note("+=", (target, *read, *(factor for _, factor in terms)))
    for product in products:
        product.check_operands()
    target.mat().slot.written()
    target.slot.padding = Padding()
    target.follow()
    for product, factor in zip(products, factors, strict=True):
        pattern, (values, table) = product.sparse.pattern, (mat.slot for mat in product.operands)
        call = (pattern, values, table, factor.slot, target.slot, product.dtype)
        launch(cache, "add_transposed_product", *call)
        cache.count(0, pattern, 2 * target.shape[1])
    return True


def _terms(value: Any, factor: Factor) -> Iterator[tuple[TurnedProduct, Factor]]:
    """Yield the products that value is a sum of, each with its factor times the given one."""
    if isinstance(value, TurnedProduct) and not value.computed:
        yield value, factor
        return
    if not isinstance(value, Elementwise) or value.computed:
        raise OtherSum
    for arg, version in zip(value.args, value.versions, strict=True):
        if isinstance(arg, Mat):
            arg.check(version, value.where)
    match value.op, value.args:
        case (("add" | "sub"), (left, right)):
            yield from _terms(left, factor)
            yield from _terms(right, factor if value.op == "add" else _times(factor, "mul", -1.0))
        case "neg", (inner,):
            yield from _terms(inner, _times(factor, "mul", -1.0))
        case (("mul" | "div"), (inner, by)) if _is_one(by):
            yield from _terms(inner, _times(factor, value.op, by))
        case "mul", (by, inner) if _is_one(by):
            yield from _terms(inner, _times(factor, "mul", by))
        case _:
            raise OtherSum


def _is_one(value: Factor) -> bool:
    """Return whether it is a number, or a matrix of 1 x 1."""
    return not isinstance(value, Lazy) or (value.shape == (1, 1) and value.pattern is None)


def _times(factor: Factor, op: str, by: Factor) -> Factor:
    if isinstance(factor, Lazy) or isinstance(by, Lazy):
        first = factor if isinstance(factor, Lazy) else apply("full", by, factor)
        found: Lazy = apply(op, first, by)
        return found
    if op == "div" and by == 0.0:
        raise OtherSum
    return factor * by if op == "mul" else factor / by


def _one(target: Mat, product: TurnedProduct, factor: Factor) -> Mat:
    """Return a factor as a matrix of 1 x 1, as precise as the sum."""
    cache, dtype = target.cache, result_dtype([target, product])
    if isinstance(factor, Lazy):
        return cast(factor, dtype)
    key = ("a factor", number_key(factor), dtype.name)
    return filled(cache, cache.result(key, (1, 1), dtype, f"{factor:g}"), factor)
