"""Normal equations of many small least squares problems: made from entries and solved, or summed.

All matrices are float32. A system that is singular to float32 is solved as if with a little ridge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cache import MatCache
from .chunks import column_bounds, even_bounds, row_bounds, turned
from .cpu import ROW_CHUNKS, compiled
from .cpu_cholesky import packed, rows_source, scratch_length, solve_source, sums_source
from .errors import ShapeError
from .lazy import Lazy, Mat, Node, SparseMat
from .slots import PatternSlot, Slot, source_line
from .table import launch, launches

Operands = dict[str, tuple[Mat, tuple[int, int]]]  # with the shapes that they must have
MOST = 130  # unknowns: the text of a kernel grows with their square


def solve_rows(
    weights: SparseMat,
    table: Lazy,
    ridge: Lazy,
    rhs: Lazy,
    *,
    gram: Lazy | None = None,
    free: Lazy | None = None,
) -> Node:
    """For each row i the solution x of (sum_j w_ij v_j v_j' + gram + ridge_i) x = rhs_i.

    weights: sparse [n x m], not negative; table: [m x k], of rows v_j; ridge: [n x 1], positive;
    rhs: [n x k]; gram: [k x k], positive semidefinite. free: [1 x k], 0 where x is known: rhs has
    it, and the other equations are solved for the rest. Returns [n x k].
    """
    (n, m), k = weights.shape, table.shape[1]
    mats: Operands = {
        "table": (table.mat(), (m, k)),
        "ridge": (ridge.mat(), (n, 1)),
        "rhs": (rhs.mat(), (n, k)),
        **({} if gram is None else {"gram": (gram.mat(), (k, k))}),
        **({} if free is None else {"free": (free.mat(), (1, k))}),
    }
    _check("solve_rows", k, mats)
    cache, pattern, weights = table.cache, weights.pattern, _weights("solve_rows", weights)

    def compute(slot: Slot) -> None:
        given = [_slot(mats, name) for name in ("table", "gram", "free", "ridge", "rhs")]
        launch(cache, "solve_rows", pattern, weights.slot, *given, slot)
        if not cache.reserving:
            cache.flops += pattern.nnz * k * (k + 1) + n * _solve_flops(k)

    operands = (weights, *(mat for mat, _ in mats.values()))
    return Node(
        cache,
        (n, k),
        np.float32,
        key=("solve_rows", gram is None, free is None),
        operands=operands,
        compute=compute,
        label=f"solve_rows({weights.label}, {table.label})",
    )


def packed_columns(k: int) -> int:
    """Numbers that the sum of one column takes: see `add_outer`."""
    return packed(k)


def add_outer(sums: Mat, weights: SparseMat, table: Lazy) -> None:
    """sums[c] += sum over the stored entries (i, c) of weights[i, c] v_i v_i', in order of rows.

    sums: [m x packed_columns(k)]; weights: sparse [n x m], with its transposed index; table:
    [n x k], of rows v_i.
    """
    (n, m), k = weights.shape, table.shape[1]
    table = table.mat()
    _check("add_outer", k, {"table": (table, (n, k)), "sums": (sums, (m, packed(k)))})
    cache, pattern, weights = sums.cache, weights.pattern, _weights("add_outer", weights)
    sums.check(sums.version)
    turned(cache, pattern)
    sums.slot.written()
    sums.version, sums.where = sums.slot.version, sums.slot.where
    launch(cache, "add_outer", pattern, weights.slot, table.slot, sums.slot)
    if not cache.reserving:
        cache.flops += pattern.nnz * k * (k + 1)


def solve_sums(
    sums: Mat, ridge: Lazy, rhs: Lazy, *, gram: Lazy | None = None, free: Lazy | None = None
) -> Node:
    """For each row i the solution x of (sums_i + gram + ridge_i) x = rhs_i, sums by `add_outer`.

    sums: [m x packed_columns(k)]; ridge: [m x 1]; rhs: [m x k]; gram, free: as of `solve_rows`.
    """
    m, k = rhs.shape
    mats: Operands = {
        "sums": (sums.mat(), (m, packed(k))),
        "ridge": (ridge.mat(), (m, 1)),
        "rhs": (rhs.mat(), (m, k)),
        **({} if gram is None else {"gram": (gram.mat(), (k, k))}),
        **({} if free is None else {"free": (free.mat(), (1, k))}),
    }
    _check("solve_sums", k, mats)
    cache = sums.cache

    def compute(slot: Slot) -> None:
        given = [_slot(mats, name) for name in ("sums", "gram", "free", "ridge", "rhs")]
        launch(cache, "solve_sums", *given, slot)
        if not cache.reserving:
            cache.flops += m * _solve_flops(k)

    return Node(
        cache,
        (m, k),
        np.float32,
        key=("solve_sums", gram is None, free is None),
        operands=tuple(mat for mat, _ in mats.values()),
        compute=compute,
        label=f"solve_sums({sums.label})",
    )


def _slot(mats: Operands, name: str) -> Slot | None:
    return mats[name][0].slot if name in mats else None


@launches("solve_rows", "cpu")
def _solve_rows(
    cache: MatCache,
    pattern: PatternSlot,
    weights: Slot,
    table: Slot,
    gram: Slot | None,
    free: Slot | None,
    ridge: Slot,
    rhs: Slot,
    out: Slot,
) -> None:
    n, k = out.shape
    kernel = compiled(rows_source(k, gram=gram is not None, masked=free is not None))
    call = [row_bounds(cache, n, pattern), *pattern.offsets(), weights.data()[0]]
    call += [table.data(), _array(gram), _array(free), ridge.data(), rhs.data()]
    _run(cache, kernel, [*call, out.data(), _scratch(cache, k)])


@launches("add_outer", "cpu")
def _add_outer(
    cache: MatCache, pattern: PatternSlot, weights: Slot, table: Slot, sums: Slot
) -> None:
    call = [column_bounds(cache, pattern), *pattern.transposed(), weights.data()[0]]
    _run(cache, compiled(sums_source(table.shape[1])), [*call, table.data(), sums.data()])


@launches("solve_sums", "cpu")
def _solve_sums(
    cache: MatCache,
    sums: Slot,
    gram: Slot | None,
    free: Slot | None,
    ridge: Slot,
    rhs: Slot,
    out: Slot,
) -> None:
    m, k = out.shape
    kernel = compiled(solve_source(k, gram=gram is not None, masked=free is not None))
    call: list[Any] = [even_bounds(cache, m, min(ROW_CHUNKS, m)), sums.data()]
    call += [_array(gram), _array(free), ridge.data(), rhs.data()]
    _run(cache, kernel, [*call, out.data(), _scratch(cache, k)])


def _array(slot: Slot | None) -> Any:
    return np.empty((0, 0), np.float32) if slot is None else slot.data()


def _run(cache: MatCache, kernel: Callable[..., None], call: list[Any]) -> None:
    """Run a kernel over the chunks of its first argument."""
    if cache.reserving:
        cache.backend.expect(kernel, 0, 0, *call)
        return
    cache.backend.run(kernel, len(call[0]) - 1, *call)


def _scratch(cache: MatCache, k: int) -> Any:
    shape = (cache.backend.threads, scratch_length(k))
    slot = cache.result(("normal equations", k), shape, np.float32, "normal equations of threads")
    return slot.data()


def _solve_flops(k: int) -> int:
    return k**3 // 3 + 2 * k * k


def _weights(what: str, weights: SparseMat) -> Any:
    """Their Mat. Raises ShapeError if they are not float32."""
    if weights.dtype != np.float32:
        raise ShapeError(
            f"{what} at {source_line()}: {weights.label} is {weights.dtype}; weights are float32."
        )
    return weights.mat()


def _check(what: str, k: int, mats: Operands) -> None:
    if not 1 <= k <= MOST:
        raise ShapeError(f"{what} at {source_line()}: {k:,} unknowns; it takes 1 to {MOST}.")
    for name, (mat, shape) in mats.items():
        if mat.shape != shape or mat.dtype != np.float32 or mat.pattern is not None:
            raise ShapeError(
                f"{what} at {source_line()}: {name} is {mat.shape[0]} x {mat.shape[1]} "
                f"{mat.dtype}; expected {shape[0]} x {shape[1]} float32, dense."
            )
