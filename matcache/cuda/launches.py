"""How operations run on a CUDA device: the launches of the kernel table, kind "cuda".

While memory is being planned each asks for its containers and names its kernel, so that both are
there before the first block.
"""

from __future__ import annotations

from functools import cache as remembered
from pathlib import Path
from typing import Any

import numpy as np

from ..cache import MatCache
from ..chunks import turned
from ..cuda_header import C_TYPES, device_header
from ..emit_cuda import rowwise_source
from ..emit_cuda_fused import fused_source
from ..fused import Linear
from ..indexing import out_of_range
from ..lazy import Lazy, Mat
from ..rowwise import Compiled, values_container
from ..slots import PatternSlot, Slot
from ..table import launches
from .arrays import DeviceArray
from .driver import Product

WARPS = 8  # of a block of threads
CHUNKS = 512  # of a sum, at most; by the shape alone
CHUNK_ELEMENTS = 16384  # of a chunk of a sum of all numbers, at least
COLSUM_ROWS = 64  # the same of rows, where columns are summed
PARTIALS = 2**22  # numbers that sums by column may keep in between
EXACT_WARPS = 1024  # that note their largest terms
WORKSPACE = 32 << 20  # bytes that dense products may use


def c_type(dtype: Any) -> str:
    """Type of numbers in C."""
    return C_TYPES[np.dtype(dtype).name]


@remembered
def _library() -> str:
    return (Path(__file__).parent / "kernels.cu").read_text()


def library_source(v: str = "float", t: str = "float", o: str = "float", p: str = "int") -> str:
    """The module of `kernels.cu` for these types of numbers."""
    types = f"typedef {v} V;\ntypedef {t} T;\ntypedef {o} O;\ntypedef {p} P;\n"
    return device_header() + types + _library()


def _kernel(cache: MatCache, name: str, **types: str) -> Any:
    key = (name, *sorted(types.items()))
    return cache.backend.text(key, lambda: library_source(**types), name)


def _scratch(cache: MatCache, name: str, rows: int, columns: int) -> Slot:
    key = ("cuda", name, columns)
    return cache.result(key, (rows, columns), np.float64, f"{name} of sums")


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
        most = max(1, min(CHUNKS, PARTIALS // out.shape[1]))
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
    text = _kernel(cache, "transpose", v=c_type(source.dtype))
    if not cache.reserving:
        rows, columns = source.shape
        cache.backend.launch(text, rows * columns, 256, rows, columns, source.array, out.array)


@launches("sort", "cuda")
def _sort(cache: MatCache, source: Slot, out: Slot) -> None:
    text = _kernel(cache, "sort_rows", v=c_type(source.dtype))
    if not cache.reserving:
        rows, columns = source.shape
        cache.backend.launch(text, rows * columns, 256, rows, columns, source.array, out.array)


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
    text = backend.text(("rowwise", found, types), lambda: rowwise_source(plan, types))
    hidden: list[Slot] = []
    for n, _ in enumerate(plan.hidden):
        assert pattern is not None
        key = ("hidden", pattern.guid, plan.program.dtype, n)
        hidden.append(values_container(cache, key, pattern, dtype, "non-zeros"))
    if cache.reserving:
        return
    call: list[Any]
    if pattern is not None and plan.program.transposed:
        active, starts, t_rows, positions = turned(cache, pattern)
        call = [active_count(pattern), starts, t_rows, active, positions]
        rows = pattern.columns
    else:
        call = [rows, *(() if pattern is None else pattern.offsets())]
    for arg in args:
        if isinstance(arg, Mat):
            call.append(arg.slot.array)
        else:
            number = 0.0 if arg is None or isinstance(arg, bool | str) else float(arg)
            call.append(dtype.type(number))
    call += [slot.array for slot in (*slots, *hidden)]
    backend.launch(text, rows, WARPS, *call)


def active_count(pattern: PatternSlot) -> int:
    """The address of the number of columns that occur."""
    counts: DeviceArray = pattern.counts
    return counts.address + 8


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
    text = _kernel(cache, "transposed_product", **_types(pattern, values, table, out))
    turned(cache, pattern)
    if cache.reserving:
        return
    backend = cache.backend
    backend.clear(out.array)
    call = [*_index(cache, pattern), values.array, table.array, table.shape[1], out.array]
    backend.launch(text, pattern.columns, WARPS, *call)


@launches("add_exact_product", "cuda")
def _add_exact_product(
    cache: MatCache,
    pattern: PatternSlot,
    values: Slot,
    table: Slot,
    grid: Slot,
    total: Slot,
    largest: Slot,
) -> None:
    k, backend = table.shape[1], cache.backend
    types = _types(pattern, values, table, total)
    text, end = _kernel(cache, "add_exact_product", **types), _kernel(cache, "end_exact")
    blocks = EXACT_WARPS // WARPS
    parts = _scratch(cache, "largest terms", EXACT_WARPS, k)
    turned(cache, pattern)
    if cache.reserving:
        return
    backend.clear(parts.array)
    call = [*_index(cache, pattern), values.array, table.array, k]
    backend.launch_blocks(text, blocks, *call, grid.array, parts.array, total.array)
    backend.launch(end, k, 256, EXACT_WARPS, k, 0, parts.array, total.array, largest.array)


@launches("add_exact_columns", "cuda")
def _add_exact_columns(
    cache: MatCache, table: Slot, grid: Slot, total: Slot, largest: Slot
) -> None:
    (rows, k), backend = table.shape, cache.backend
    text = _kernel(cache, "exact_columns", t=c_type(table.dtype))
    end = _kernel(cache, "end_exact")
    most = max(1, min(CHUNKS, PARTIALS // k))
    sums, parts = (_scratch(cache, name, most, k) for name in ("exact parts", "largest parts"))
    if cache.reserving:
        return
    chunks = max(1, min(most, rows // COLSUM_ROWS))
    call = [rows, k, table.array, grid.array, sums.array, parts.array]
    backend.launch_blocks(text, chunks, *call)
    call = [chunks, k, sums.array, parts.array, total.array, largest.array]
    backend.launch(end, k, 256, *call)
