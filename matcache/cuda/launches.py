"""How operations run on a CUDA device: the launches of the kernel table, kind "cuda".

While memory is being planned each asks for its containers and names its kernel, so that both are
there before the first block.
"""

from __future__ import annotations

from functools import cache as remembered
from pathlib import Path
from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.chunks import turned
from ..containers.dispatch import launches
from ..containers.matrices import Lazy, Mat
from ..containers.slots import PatternSlot, Slot, type_name
from ..emit.cuda_dense import fused_source
from ..emit.cuda_header import C_TYPES, device_header
from ..emit.cuda_rows import rowwise_source
from ..operations.arguments import is_static
from ..operations.dense import Linear
from ..operations.indexing import out_of_range
from ..operations.rowwise import Compiled, values_container
from .driver import Product
from .kernels import (
    SORT_TILE,
    exact_source,
    move_source,
    sort_launches,
    sort_source,
    transposed_source,
    wide_source,
)
from .order import active_count, length_order

WARPS = 8  # of a block of threads
WIDE = 8  # numbers of a vector that make a row worth its place in an order
LONG_BLOCKS = 2  # for each processor, that take long rows
TILE = 32  # rows and columns that are turned at a time
CHUNKS = 512  # of a sum, at most; by the shape alone
CHUNK_ELEMENTS = 16384  # of a chunk of a sum of all numbers, at least
COLSUM_ROWS = 64  # the same of rows, where columns are summed
PARTIALS = 2**22  # numbers that sums by column may keep in between
EXACT_BLOCKS = 512  # of threads, that note their largest terms
WORKSPACE = 32 << 20  # bytes that dense products may use


def c_type(dtype: Any) -> str:
    """Type of numbers in C."""
    return C_TYPES[type_name(dtype)]


@remembered
def _library() -> str:
    return (Path(__file__).parent / "kernels" / "dense.cu").read_text()


def library_source(v: str = "float", t: str = "float", o: str = "float") -> str:
    """The module of `kernels/dense.cu` for these types of numbers."""
    types = f"typedef {v} V;\ntypedef {t} T;\ntypedef {o} O;\n"
    return device_header() + types + _library()


def _kernel(cache: MatCache, name: str, **types: str) -> Any:
    key = (name, *sorted(types.items()))
    return cache.backend.text(key, lambda: library_source(**types), name)


def _scratch(cache: MatCache, name: str, rows: int, columns: int) -> Slot:
    key = ("cuda", name, columns)
    return cache.result(key, (rows, columns), np.float64, f"{name} of sums")


def _address(weights: Slot | None) -> Any:
    return 0 if weights is None else weights.array


# ------------------------------------------------------------------ dense


@launches("fused", "cuda")
def _fused(cache: MatCache, linear: Linear, out: Slot) -> None:
    fused, (rows, columns), backend = linear.fused, linear.shape, cache.backend
    types = tuple(c_type(m.dtype) for m in linear.operands)
    result = c_type(out.dtype)
    text = backend.text(("fused", fused, types, result), lambda: fused_source(fused, types, result))
    extent = rows * columns if fused.flat else rows
    chunks, target = 0, out
    if fused.ending != "assign":
        colsum = fused.ending == "colsum"
        pieces = rows // COLSUM_ROWS if colsum else rows * columns // CHUNK_ELEMENTS
        most = max(1, min(CHUNKS, PARTIALS // max(1, out.shape[1])))
        chunks = max(1, min(most, pieces, extent))
        target = _scratch(cache, "partial sums", most, out.shape[1])
    end = _kernel(cache, "end_sum", o=result) if chunks else None
    if cache.reserving:
        return
    dtype = np.dtype(fused.dtype).type
    call: list[Any] = [rows, columns, *(m.slot.array for m in linear.operands)]
    call += [dtype(n) for n in linear.numbers]
    if end is None:
        backend.launch(text, rows * columns, 256, *call, out.array)
        return
    backend.launch_blocks(text, chunks, *call, target.array)
    backend.launch(end, out.shape[1], 256, chunks, out.shape[1], target.array, out.array)


@launches("product", "cuda")
def _product(cache: MatCache, op: str, left: Slot, right: Slot, out: Slot) -> None:
    room = cache.result(("cuda", "workspace"), (1, WORKSPACE), np.uint8, "room for dense products")
    if cache.reserving:
        return
    (m, n), turn_left, turn_right = out.shape, op == "transposed_matmul", op == "matmul_transposed"
    cache.backend.product(
        Product(
            out.dtype.name,
            m,
            n,
            left.shape[0] if turn_left else left.shape[1],
            left.array.address,
            turn_left,
            right.array.address,
            turn_right,
            out.array.address,
            (room.array.address, WORKSPACE),
        )
    )


@launches("transpose", "cuda")
def _transpose(cache: MatCache, source: Slot, out: Slot) -> None:
    value = c_type(source.dtype)
    key = ("transpose", value)
    text = cache.backend.text(key, lambda: move_source(value), "transpose_tiles")
    if not cache.reserving:
        rows, columns = source.shape
        call = [rows, columns, source.array, out.array]
        cache.backend.launch(text, rows * columns, TILE**2, *call)


@launches("round_table", "cuda")
def _round_table(cache: MatCache, source: Slot, out: Slot) -> None:
    text = cache.backend.text(("to_bfloat16",), move_source, "to_bfloat16")
    if not cache.reserving:
        size = source.shape[0] * source.shape[1]
        cache.backend.launch(text, size, 4 * 256, size, source.array, out.array)


@launches("sort", "cuda")
def _sort(cache: MatCache, source: Slot, out: Slot) -> None:
    value, (rows, columns), backend = c_type(source.dtype), source.shape, cache.backend

    def text(name: str) -> Any:
        return backend.text((name, value), lambda: sort_source(value), name)

    steps = [(text(name), size) for name, size in sort_launches(columns)]
    tiles = text("sort_tiles")
    if cache.reserving or not source.nbytes:
        return
    units, each = rows * -(-columns // SORT_TILE), [rows, columns]
    backend.launch(tiles, units, 1, *each, source.array, out.array)
    for step, size in steps:
        if size:
            backend.launch(step, rows * columns, 2 * 256, *each, size, out.array)
        else:
            backend.launch(step, units, 1, *each, out.array)


@launches("gather", "cuda")
def _gather(
    cache: MatCache, source: Mat, rows: Mat, columns: Mat, out: Slot, checked: bool
) -> None:
    bad = cache.result(("cuda", "bad index"), (1, 2), np.int64, "positions out of range")
    text, backend = _kernel(cache, "gather", v=c_type(source.dtype)), cache.backend
    if cache.reserving:
        return
    if not checked:
        backend.clear(bad.array)
    backend.launch(
        text,
        out.shape[0] * out.shape[1],
        256,
        *source.shape,
        source.slot.array,
        *out.shape,
        rows.slot.array,
        columns.slot.array,
        out.array,
        bad.array,
    )
    if checked:
        return
    found = backend.read(bad.array)[0]
    for axis, positions in enumerate((rows, columns)):
        if place := int(found[axis]):
            out_of_range(source, int(positions.numpy()[0, place - 1]), axis)


# ------------------------------------------------------------------ rows


@launches("rowwise", "cuda")
def _rowwise(
    cache: MatCache,
    found: Compiled,
    args: tuple[Any, ...],
    slots: list[Slot],
    rows: int,
    pattern: PatternSlot | None,
) -> None:
    plan, backend = found.plan, cache.backend
    dtype = np.dtype(plan.program.dtype)
    types = tuple(c_type(a.dtype if isinstance(a, Lazy) else dtype) for a in args)
    transposed = pattern is not None and bool(plan.program.transposed)
    order: list[Any] = []
    by_length = pattern is not None and (found.loops or found.width >= WIDE)
    if pattern is not None and by_length:
        order = length_order(cache, pattern, by_column=transposed)

    def source() -> str:
        return rowwise_source(plan, types, ordered=by_length)

    text = backend.text(("rowwise", found, types), source)
    long = backend.text(("rowwise long", found, types), source, "run_long") if by_length else None
    hidden: list[Slot] = []
    for n, _ in enumerate(plan.hidden):
        assert pattern is not None
        key = ("hidden", pattern.guid, plan.program.dtype, n)
        hidden.append(values_container(cache, key, pattern, dtype, "non-zeros"))
    if cache.reserving:
        return
    call: list[Any]
    if pattern is not None and transposed:
        active, starts, t_rows, positions = turned(cache, pattern)
        call = [active_count(pattern), *order, starts, t_rows, active, positions]
        rows = pattern.columns
    else:
        call = [rows, *order, *(() if pattern is None else pattern.offsets())]
    for arg in args:
        if isinstance(arg, Mat):
            call.append(arg.slot.array)
        else:
            call.append(dtype.type(0.0 if is_static(arg) else float(arg)))
    call += [slot.array for slot in (*slots, *hidden)]
    if long is not None:  # first: they take longest
        backend.launch_blocks(long, LONG_BLOCKS * backend.processors, *call)
    backend.launch(text, rows, WARPS, *call)


# ------------------------------------------------------------------ over the transposed index


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

    def text(name: str) -> Any:
        return backend.text((name, k, v, t, o, p), lambda: transposed_source(k, v, t, o, p), name)

    each, long = text("transposed_product"), text("transposed_long")
    active, starts, t_rows, t_pos = turned(cache, pattern)
    order = length_order(cache, pattern, by_column=True)
    if cache.reserving:
        return
    call = [active_count(pattern), pattern.columns, *order, active, starts, t_rows, t_pos]
    call += [values.array, table.array, out.array]
    backend.launch(each, pattern.columns, WARPS, *call)
    backend.launch_blocks(long, LONG_BLOCKS * backend.processors, *call)


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
    end = _kernel(cache, "end_exact")
    parts = _scratch(cache, "largest terms", EXACT_BLOCKS, k)
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
    text = _kernel(cache, "exact_columns", t=c_type(table.dtype))
    end = _kernel(cache, "end_exact")
    most = max(1, min(CHUNKS, PARTIALS // max(1, k)))
    sums, parts = (_scratch(cache, name, most, k) for name in ("exact parts", "largest parts"))
    if cache.reserving:
        return
    chunks = max(1, min(most, rows // COLSUM_ROWS))
    call = [rows, k, table.array, _address(weights), grid.array, sums.array, parts.array]
    backend.launch_blocks(text, chunks, *call)
    call = [chunks, k, sums.array, parts.array, total.array, largest.array]
    backend.launch(end, k, 256, *call)
