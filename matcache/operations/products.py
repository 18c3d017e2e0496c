"""Products: dense by BLAS, sparse by rows, transposed sparse by columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.expressions import Elementwise, Node, result_dtype
from ..containers.launching import launch
from ..containers.lazy import Lazy, Shape
from ..containers.matrices import Mat, SparseMat
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from ..notation.operand import apply
from ..program.padding import Padding
from .calls import run
from .rounding import as_table
from .rowwise import Rowwise


def matmul(cache: MatCache, left: Lazy, right: Lazy) -> Any:
    """Return left @ right: [n x m] and [m x k], one may be sparse -> [n x k]."""
    _inner(left.shape, right.shape)
    if right.pattern is not None:
        _dense("@", left, f"{left.label} @ {right.label}: one side must be dense")
        return transpose(cache, transposed_matmul(cache, right, transpose(cache, left)))
    if left.pattern is not None:
        label = f"matmul({left.label}, {right.label})"
        return run(_SPARSE_MATMUL, (left.mat(), right.mat()), label=label)
    return _blas(cache, "matmul", left, right)


def transposed_matmul(cache: MatCache, left: Lazy, right: Lazy) -> Any:
    """Return left.T @ right: [n x m] and [n x k], one may be sparse, or both are one -> [m x k]."""
    if None not in (left.pattern, right.pattern) and left.mat().guid == right.mat().guid:
        return gram(cache, left)
    if left.pattern is not None:
        _dense("@", right, f"{left.label}.T @ {right.label}: one side must be dense")
    _inner((left.shape[1], left.shape[0]), right.shape)
    if right.pattern is not None:
        return transpose(cache, transposed_matmul(cache, right, left))
    if left.pattern is None:
        return _blas(cache, "transposed_matmul", left, right)
    dtype = result_dtype((left, right))
    values = left.mat()
    assert isinstance(values, SparseMat)
    table = as_table(cast(right, dtype), values)
    pattern, shape = values.pattern, (left.shape[1], right.shape[1])

    def compute(slot: Slot) -> None:
        launch(cache, "transposed_product", pattern, values.slot, table.slot, slot)
        cache.count(0, pattern, 2 * shape[1])

    found = node(cache, shape, "transposed_matmul", (values, table), compute, dtype)
    return TurnedProduct(found, values, right)


class TurnedProduct(Node):
    """`S.T @ R` of a sparse S, not yet computed: 0 but for the columns that occur in S.

    sparse: S.
    dense: R.
    """

    __slots__ = ("dense", "sparse")

    def __init__(self, found: Node, sparse: SparseMat, dense: Lazy) -> None:
        """Take over what `found` computes."""
        super().__init__(
            found.cache,
            found.shape,
            found.dtype,
            key=found.key,
            operands=found.operands,
            compute=found.compute,
            label=found.label,
        )
        self.sparse, self.dense = sparse, dense

    @property
    def computed(self) -> bool:
        """Whether a container already holds the value, as a dense matrix."""
        return self._result is not None


def matmul_transposed(cache: MatCache, left: Lazy, right: Lazy) -> Any:
    """Return left @ right.T: [n x k] and [m x k] -> [n x m]; right must be dense."""
    _dense("@", right, f"{left.label} @ {right.label}.T: the right side must be dense")
    if left.pattern is not None:
        return matmul(cache, left, transpose(cache, right))
    _inner(left.shape, (right.shape[1], right.shape[0]))
    return _blas(cache, "matmul_transposed", left, right)


def gram(cache: MatCache, x: Lazy) -> Any:
    """Return x.T @ x, dense [k x k] of a dense or sparse x [n x k].

    One half is computed, and copied, of any `x.T @ x`, and of `x @ x.T` of a dense x: on the CPU
    always, on a device of a dense x only where that is less work. An entry of a sparse x costs a
    look at its row.
    """
    mat = x.mat()
    if not isinstance(mat, SparseMat):
        return transposed_matmul(cache, mat, mat)
    values, pattern, k = mat, mat.pattern, mat.shape[1]

    def compute(slot: Slot) -> None:
        launch(cache, "sparse_gram", pattern, values.slot, slot)

    return node(cache, (k, k), "gram", (values,), compute, values.dtype)


def sddmm(cache: MatCache, rows: Lazy, table: Lazy, pattern: Lazy) -> Any:
    """Return rows[i] . table[j] at the stored entries (i, j) of `pattern`."""
    if pattern.pattern is None:
        raise ShapeError(f"sddmm at {source_line()}: the third argument must be a sparse matrix.")
    for side in (rows, table):
        _dense("sddmm", side, "the first two arguments must be dense")
    if (rows.shape[0], table.shape[0]) != pattern.shape or rows.shape[1] != table.shape[1]:
        raise ShapeError(
            f"sddmm at {source_line()}: rows {_x(rows)}, table {_x(table)}, pattern {_x(pattern)}; "
            "expected n x k, m x k, n x m."
        )
    label = f"sddmm({rows.label}, {table.label}, {pattern.label})"
    return run(_SDDMM, (rows.mat(), table.mat(), pattern.mat()), label=label)


def transpose(cache: MatCache, x: Lazy) -> Node:
    """Return a transposed copy of a dense matrix."""
    if x.pattern is not None:
        raise ShapeError(
            f"{x.label}.T at {source_line()}: of a sparse matrix it can only be the left side of @."
        )
    source = x.mat()

    def compute(slot: Slot) -> None:
        launch(cache, "transpose", source.slot, slot)

    return node(cache, (x.shape[1], x.shape[0]), "transpose", (source,), compute, x.dtype)


_SPARSE_MATMUL = Rowwise(lambda x, table: x @ table)
_SDDMM = Rowwise(lambda rows, table, pattern: apply("sddmm", rows, table, pattern))


# ---------------------------------------------------------------- how


def _blas(cache: MatCache, op: str, left: Lazy, right: Lazy) -> Node:
    """Return a dense product. `op` says which side is transposed."""
    dtype = result_dtype((left, right))
    a, b = cast(left, dtype), cast(right, dtype)

    def compute(slot: Slot) -> None:
        launch(cache, "product", op, a.slot, b.slot, slot)
        inner = a.shape[0] if op == "transposed_matmul" else a.shape[1]
        cache.count(2 * slot.shape[0] * inner * slot.shape[1])

    shape = (
        left.shape[op == "transposed_matmul"],
        right.shape[op != "matmul_transposed"],
    )
    held = Padding() if op == "transposed_matmul" else of_product(a)
    return node(cache, shape, op, (a, b), compute, dtype, held)


def of_product(rows: Lazy) -> Padding:
    """Return the padding of a product whose left factor is `rows`."""
    block, number = rows.padding
    return Padding(block, 0.0 if number == 0.0 else None)


def cast(x: Lazy, dtype: np.dtype[Any]) -> Mat:
    """Return `x` as a Mat of `dtype`: itself, or a converted copy."""
    if x.dtype == dtype:
        return x.mat()
    return Elementwise(x.cache, "copy", (x,), x.shape, dtype, None).mat()


def node(
    cache: MatCache,
    shape: Shape,
    op: str,
    operands: tuple[Mat, ...],
    compute: Callable[[Slot], None],
    dtype: Any,
    padding: Padding = Padding(),  # noqa: B008 (it cannot change)
) -> Node:
    """Return a node whose label and key contain `op`. padding: see `Node`."""
    label, key = f"{op}({', '.join(o.label for o in operands)})", (op,)
    return Node(
        cache, shape, dtype, key=key, operands=operands, compute=compute, label=label,
        padding=padding,
    )  # fmt: skip


def _dense(op: str, x: Lazy, rule: str) -> None:
    if x.pattern is not None:
        raise ShapeError(f"{op} at {source_line()}: {rule}.")


def _inner(left: Shape, right: Shape) -> None:
    if left[1] != right[0]:
        raise ShapeError(
            f"@ at {source_line()}: {left[0]} x {left[1]} times {right[0]} x {right[1]}: "
            f"{left[1]} columns against {right[0]} rows."
        )


def _x(x: Lazy) -> str:
    return f"{x.shape[0]} x {x.shape[1]}"


def add_wide_product(total: Mat, X: Lazy, table: Lazy, weights: Lazy) -> None:
    """Add a product computed in float64: total += X.T @ (table * weights).

    total: float64 [n x k].
    X: dense float32 [rows x n].
    table: dense float32 [rows x k].
    weights: dense float32 [rows x 1].
    """
    X, table, weights = X.mat(), table.mat(), weights.mat()
    (rows, n), k = X.shape, table.shape[1]
    given = [(m.shape, m.dtype.name) for m in (total, table, weights)]
    wanted = [((n, k), "float64"), ((rows, k), "float32"), ((rows, 1), "float32")]
    if X.pattern is not None or X.dtype != np.float32 or given != wanted:
        raise ShapeError(
            f"add_wide_product at {source_line()}: X is {X.dtype} {X.shape}, total, table and "
            f"weights are {given}; X must be dense and float32, and the others {wanted}."
        )
    where = source_line()
    total.slot.written(where)
    total.follow()
    launch(X.cache, "add_wide_product", X.slot, table.slot, weights.slot, total.slot)
    X.cache.count(2 * rows * n * k)
