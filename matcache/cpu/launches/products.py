"""CPU launches of transposed, exact, wide, masked and top products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.arrays import named
from ...containers.cache import MatCache
from ...containers.chunks import ROW_CHUNKS, turned
from ...containers.dispatch import launches
from ...containers.matrices import SparseMat
from ...containers.slots import PatternSlot, Slot
from ...operations.exact import NO_WEIGHTS
from ..algebra.blas import CHUNK_ROWS, add_turned
from ..kernels.bounds import Work, column_bounds, even_bounds, row_bounds
from ..kernels.masked import Lists, Rows
from ..kernels.top import GROUP, TILE

NONE = np.empty(0, np.int32)
FEWEST_ROWS = 8 * GROUP  # least rows in a chunk: each chunk transposes the whole table once
SCATTERING = 4  # threads that add up a column no faster than one that goes through the rows
LINE = 16  # numbers of float32 in a line of the processor's cache, which no two threads share
MOST_CHUNKS = 4  # most chunks for each thread, to balance uneven ones


@launches("add_exact_product", "cpu", only_calls=True)
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
    kernels, backend, k = cache.backend.kernels, cache.backend, table.shape[1]
    parts = cache.result(("exact", "parts", k), (ROW_CHUNKS, k), np.float64, "largest terms")
    bounds = column_bounds(cache, pattern)
    call = [*turned(cache, pattern), values.data()[0], table.data(), _factors(weights)]
    call += [grid.data(), parts.data(), total.data()]
    backend.run(kernels["add_exact_product"], bounds, *call)
    backend.call(kernels["keep_largest"], parts.data(), largest.data())


@launches("add_exact_columns", "cpu", only_calls=True)
def _add_exact_columns(
    cache: MatCache, table: Slot, weights: Slot | None, grid: Slot, total: Slot, largest: Slot
) -> None:
    kernels, k = cache.backend.kernels, table.shape[1]
    parts = cache.result(("exact", "part", k), (1, k), np.float64, "largest terms")
    call = [table.data(), _factors(weights), grid.data(), parts.data(), total.data()]
    cache.backend.call(kernels["add_exact_columns"], *call)
    cache.backend.call(kernels["keep_largest"], parts.data(), largest.data())


def _factors(weights: Slot | None) -> Any:
    return NO_WEIGHTS if weights is None else weights.data()


@launches("transposed_product", "cpu", only_calls=True)
def _transposed_product(
    cache: MatCache, pattern: PatternSlot, values: Slot, table: Slot, out: Slot
) -> None:
    kernels, arrays = cache.backend.kernels, [values.data()[0], table.data(), out.data()]
    one = table.shape[1] == 1
    if one and cache.backend.threads <= SCATTERING:
        cache.backend.call(kernels["scattered_column"], *pattern.offsets(), *arrays)
        return
    work = Work(entry=table.shape[1], fixed=out.shape[0] * out.shape[1])
    call = [*turned(cache, pattern), *arrays]
    kernel = kernels["transposed_column" if one else "transposed_product"]
    cache.backend.run(kernel, column_bounds(cache, pattern, work), *call)


@launches("add_transposed_product", "cpu", only_calls=True)
def _add_transposed_product(
    cache: MatCache,
    pattern: PatternSlot,
    values: Slot,
    table: Slot,
    scale: Slot,
    out: Slot,
    dtype: np.dtype[Any],
) -> None:
    kernels, k, threads = cache.backend.kernels, table.shape[1], cache.backend.threads
    width = -(-k // LINE) * LINE
    key = ("added", "sums", width, dtype.name)
    sums = cache.result(key, (threads, width), dtype, "sums to be added to a table")
    kernel = kernels["add_transposed_column" if k == 1 else "add_transposed_product"]
    bounds = column_bounds(cache, pattern, Work(entry=k, row=k))
    call = [*turned(cache, pattern), values.data()[0], table.data(), scale.data(), sums.data()]
    cache.backend.run(kernel, bounds, *call, out.data())


@launches("number_columns", "cpu", only_calls=True)
def _number_columns(cache: MatCache, pattern: PatternSlot, out: Slot) -> None:
    backend, (_, starts, _, t_pos) = cache.backend, turned(cache, pattern)
    bounds = column_bounds(cache, pattern, Work(entry=1))
    backend.run(backend.kernels["number_columns"], bounds, starts, t_pos, out.data()[0])


@launches("sparse_gram", "cpu", only_calls=True)
def _sparse_gram(cache: MatCache, pattern: PatternSlot, values: Slot, out: Slot) -> None:
    backend, kernels, k = cache.backend, cache.backend.kernels, out.shape[0]
    call = [*pattern.offsets(), values.data()[0], *turned(cache, pattern), out.data()]
    backend.run(kernels["lower_gram"], column_bounds(cache, pattern), *call)
    backend.run(kernels["mirror"], even_bounds(cache, k, min(ROW_CHUNKS, k)), out.data())


@launches("add_wide_product", "cpu")
def _add_wide_product(cache: MatCache, X: Slot, table: Slot, weights: Slot, total: Slot) -> None:
    (rows, n), k, threads = X.shape, table.shape[1], cache.backend.threads

    def room(name: str, height: int, width: int) -> Any:
        label = f"{name} of a sum in float64"
        return cache.result(("wide", name, height, width), (height, width), np.float64, label)

    weighted, parts = room("weighted table", rows, k), room("parts", n, k)
    wide = room("columns", threads * rows, CHUNK_ROWS)
    if cache.reserving:
        return
    np.multiply(table.data(), weights.data(), out=weighted.data(), dtype=np.float64)
    columns = wide.data().reshape(threads, rows, CHUNK_ROWS)
    add_turned(cache.backend.pool, X.data(), weighted.data(), columns, parts.data(), total.data())


@launches("masked_product", "cpu", only_calls=True)
def _masked_product(
    cache: MatCache,
    left: SparseMat,
    right: SparseMat,
    by_column: bool,
    mask: PatternSlot,
    out: Slot,
) -> None:
    b, backend = right.pattern, cache.backend
    if by_column:
        active, starts, ids, places = turned(cache, b)
    else:
        active, (starts, ids), places = NONE, b.offsets(), NONE
    offsets, columns = left.pattern.offsets()
    A = Rows(offsets, columns, left.slot.data()[0])
    B = Lists(by_column, active, b.numbers(), starts, ids, places, right.slot.data()[0])
    shape, dtype = (backend.threads, left.shape[1]), left.dtype
    rows = named(cache, f"rows spread for products ({shape[1]}, {dtype})", shape, dtype)
    call = [*mask.offsets(), A, B, rows.slot.data(), out.data()[0]]
    backend.run(backend.kernels["masked_product"], row_bounds(cache, mask.rows, mask), *call)


@launches("top_products", "cpu", only_calls=True)
def _top_products(
    cache: MatCache,
    rows: Slot,
    table: Slot,
    unit: bool,
    leave_out: PatternSlot | None,
    scores: Slot,
    ids: Slot,
) -> None:
    backend, (r, k) = cache.backend, rows.shape
    threads = backend.threads
    chunks = max(1, min(MOST_CHUNKS * threads, r // FEWEST_ROWS))
    at = cache.result(("top_products", "at", r), (r, 1), np.int64, "places in leave_out")
    tiles = cache.result(
        ("top_products", "tile", k), (threads * k, TILE), np.float32, "tiles of a table"
    )
    sums = cache.result(
        ("top_products", "sums"), (threads * GROUP, TILE), np.float32, "products of a tile"
    )
    none = [np.empty(0, np.int64), np.empty(0, np.int32)]
    call = [rows.data(), table.data(), unit]
    call += none if leave_out is None else leave_out.offsets()
    call += [at.data(), tiles.data(), sums.data(), scores.data(), ids.data()]
    backend.run(backend.kernels["top_products"], even_bounds(cache, r, chunks), *call)
