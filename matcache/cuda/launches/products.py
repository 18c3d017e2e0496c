"""CUDA launches of transposed, exact, wide, masked and top products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import turned
from ...containers.dispatch import launches
from ...containers.matrices import SparseMat
from ...containers.slots import PatternSlot, Slot
from ..kernels import (
    exact_source,
    gram_source,
    index_source,
    masked_source,
    move_source,
    top_source,
    transposed_source,
    wide_source,
)
from ..order import active_count, apart, length_order
from .common import (
    CHUNKS,
    COLSUM_ROWS,
    PARTIALS,
    WARPS,
    c_type,
    kernel,
    library_kernel,
    scratch,
)

MIRRORED = 32**2  # numbers that a block of threads of `mirror_tiles` copies at a time
TOP_ROWS = 32  # rows for each block of threads in `top_products`
EXACT_BLOCKS = 512  # blocks of threads, each with its own largest terms


def _address(weights: Slot | None) -> Any:
    return 0 if weights is None else weights.array


def _index(cache: MatCache, pattern: PatternSlot) -> list[Any]:
    active, starts, t_rows, t_pos = turned(cache, pattern)
    return [active_count(pattern), active, starts, t_rows, t_pos]


def _types(pattern: PatternSlot, values: Slot, table: Slot, out: Slot) -> dict[str, str]:
    position = "int" if pattern.capacity < 2**31 else "i64"
    v, t, o = (c_type(slot.dtype) for slot in (values, table, out))
    return {"v": v, "t": t, "o": o, "p": position}


@launches("transposed_product", "cuda")
def _transposed_product(
    cache: MatCache, pattern: PatternSlot, values: Slot, table: Slot, out: Slot
) -> None:
    backend, k, types = cache.backend, table.shape[1], _types(pattern, values, table, out)
    v, t, o, p = (types[name] for name in "vtop")

    name, facts = "transposed_product", (k, v, t, o, p)
    text = backend.text((name, *facts), lambda: transposed_source(*facts), name)
    active, starts, t_rows, t_pos = turned(cache, pattern)
    order = length_order(cache, pattern, by_column=True)
    if cache.reserving:
        return
    blocks = apart(pattern, backend.processors)
    call = [active_count(pattern), pattern.columns, *order, blocks, active, starts, t_rows, t_pos]
    call += [values.array, table.array, out.array]
    backend.launch(text, pattern.columns + WARPS * blocks, WARPS, *call)


@launches("add_transposed_product", "cuda")
def _add_transposed_product(
    cache: MatCache,
    pattern: PatternSlot,
    values: Slot,
    table: Slot,
    scale: Slot,
    out: Slot,
    dtype: np.dtype[Any],
) -> None:
    backend, k, types = cache.backend, table.shape[1], _types(pattern, values, table, out)
    v, t, to, p = (types[name] for name in "vtop")
    name, facts = "add_transposed_product", (k, v, t, c_type(dtype), p, to)
    text = backend.text((name, *facts), lambda: transposed_source(*facts), name)
    index = turned(cache, pattern)
    order = length_order(cache, pattern, by_column=True)
    if cache.reserving:
        return
    blocks = apart(pattern, backend.processors)
    call = [active_count(pattern), *order, blocks, *index]
    call += [values.array, table.array, scale.array, out.array]
    columns = min(pattern.columns, pattern.capacity)
    backend.launch(text, columns + WARPS * blocks, WARPS, *call)


@launches("number_columns", "cuda")
def _number_columns(cache: MatCache, pattern: PatternSlot, out: Slot) -> None:
    position = "int" if pattern.capacity < 2**31 else "i64"
    number = kernel(cache, "number_columns", (position,), lambda: index_source(position))
    _, starts, _, t_pos = turned(cache, pattern)
    if not cache.reserving:
        call = [active_count(pattern), starts, t_pos, out.array]
        cache.backend.launch(number, min(pattern.columns, pattern.capacity), WARPS, *call)


@launches("sparse_gram", "cuda")
def _sparse_gram(cache: MatCache, pattern: PatternSlot, values: Slot, out: Slot) -> None:
    backend, k, types = cache.backend, out.shape[0], _types(pattern, values, out, out)
    v, p = types["v"], types["p"]
    gram = kernel(cache, "upper_gram", (v, p), lambda: gram_source(v, p))
    mirror = kernel(cache, "mirror_tiles", (v,), lambda: move_source(v))
    turned(cache, pattern)
    if cache.reserving:
        return
    backend.clear(out.array)
    count, *index = _index(cache, pattern)
    call = [count, k, *pattern.offsets(), values.array, *index, out.array]
    backend.launch(gram, pattern.columns, WARPS, *call)
    backend.launch(mirror, k * k, MIRRORED, k, out.array)


@launches("add_exact_product", "cuda")
def _add_exact_product(
    cache: MatCache,
    pattern: PatternSlot,
    values: Slot,
    table: Slot,
    weights: Slot | None,
    grid: Slot,
    total: Slot,
    largest: Slot,
) -> None:
    k, backend = table.shape[1], cache.backend
    position = _types(pattern, values, table, total)["p"]
    text = backend.text(
        ("add_exact_product", position), lambda: exact_source(position), "add_exact_product"
    )
    end = library_kernel(cache, "end_exact")
    parts = scratch(cache, "largest terms", EXACT_BLOCKS, k)
    turned(cache, pattern)
    if cache.reserving:
        return
    call = [*_index(cache, pattern), values.array, table.array, _address(weights), k]
    backend.launch_blocks(text, EXACT_BLOCKS, *call, grid.array, parts.array, total.array)
    backend.launch(end, k, 256, EXACT_BLOCKS, k, 0, parts.array, total.array, largest.array)


@launches("add_wide_product", "cuda")
def _add_wide_product(cache: MatCache, X: Slot, table: Slot, weights: Slot, total: Slot) -> None:
    (rows, n), k, backend = X.shape, table.shape[1], cache.backend
    text = backend.text(("add_wide_product",), wide_source, "add_wide_product")
    if not cache.reserving:
        call = [rows, n, k, X.array, table.array, weights.array, total.array]
        backend.launch(text, n * k, 256, *call)


@launches("add_exact_columns", "cuda")
def _add_exact_columns(
    cache: MatCache, table: Slot, weights: Slot | None, grid: Slot, total: Slot, largest: Slot
) -> None:
    (rows, k), backend = table.shape, cache.backend
    text = library_kernel(cache, "exact_columns", t=c_type(table.dtype))
    end = library_kernel(cache, "end_exact")
    most = max(1, min(CHUNKS, PARTIALS // max(1, k)))
    sums, parts = (scratch(cache, name, most, k) for name in ("exact parts", "largest parts"))
    if cache.reserving:
        return
    chunks = max(1, min(most, rows // COLSUM_ROWS))
    call = [rows, k, table.array, _address(weights), grid.array, sums.array, parts.array]
    backend.launch_blocks(text, chunks, *call)
    call = [chunks, k, sums.array, parts.array, total.array, largest.array]
    backend.launch(end, k, 256, *call)


@launches("masked_product", "cuda")
def _masked_product(
    cache: MatCache,
    left: SparseMat,
    right: SparseMat,
    by_column: bool,
    mask: PatternSlot,
    out: Slot,
) -> None:
    b, types = right.pattern, _types(right.pattern, left.slot, right.slot, out)
    v, t, o, p = (types[name] for name in "vtop")
    text = kernel(cache, "masked_product", (v, t, o, p), lambda: masked_source(v, t, o, p))
    if by_column:
        turned(cache, b)
    if cache.reserving:
        return
    call = [mask.rows, *mask.offsets(), *left.pattern.offsets(), left.slot.array]
    if by_column:
        count, active, *lists = _index(cache, b)
        call += [active, count, *lists]
    else:
        call += [0, 0, *b.offsets(), 0]
    cache.backend.launch(text, mask.rows, WARPS, *call, right.slot.array, out.array)


@launches("top_products", "cuda")
def _top_products(
    cache: MatCache,
    rows: Slot,
    table: Slot,
    unit: bool,
    leave_out: PatternSlot | None,
    scores: Slot,
    ids: Slot,
) -> None:
    backend, (r, k), (m, columns) = cache.backend, rows.shape, table.shape
    lengths, top = (
        kernel(cache, name, (), top_source) for name in ("inverse_lengths", "top_products")
    )
    inverse = cache.result(("cuda", "inverse", m), (1, m), np.float32, "lengths of table rows")
    if cache.reserving:
        return
    if unit:
        backend.launch(lengths, m, 256, m, columns, k, table.array, inverse.array)
    call = [r, m, columns, k, scores.shape[1], rows.array, table.array]
    call += [inverse.array if unit else 0]
    call += [0, 0] if leave_out is None else leave_out.offsets()
    backend.launch(top, r, TOP_ROWS, *call, scores.array, ids.array)
