"""CUDA launches of dense expressions and products, transposes, sorts and gathers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.dispatch import launches
from ...containers.matrices import Mat
from ...containers.slots import Slot
from ...emit.cuda_elements import SPAN, elements_source
from ...operations.compiled import Compiled
from ...operations.indexing import out_of_range
from ..driver import Product
from ..kernels import SORT_TILE, keys_source, move_source, sort_launches, sort_source
from .common import CHUNKS, COLSUM_ROWS, PARTIALS, c_type, library_kernel, scratch, workspace

TILE = 32  # rows and columns transposed at a time
SQUARE = 128  # rows and columns of a result that cuBLAS computes at a time, as a rule
LAUNCH = 134e6  # operations in the 2 us of a launch, at the 67 Tflop/s of an H200
END_COLUMNS = 8  # of a block of threads that joins parts
SUM_BLOCKS = 2048  # most blocks of threads that sum columns; more would each sum few rows
CHUNK_ELEMENTS = 16384  # least elements in a chunk of a total sum
SCATTER_BLOCKS = 2  # blocks for each processor, each with rows of the target


@launches("dense", "cuda")
def _dense(
    cache: MatCache,
    found: Compiled,
    args: list[Mat | float],
    shape: tuple[int, int],
    outs: tuple[Slot, ...],
) -> None:
    plan, (rows, columns), backend = found.plan, shape, cache.backend
    program, dtype = plan.program, np.dtype(plan.program.dtype)
    types = tuple(c_type(a.dtype if isinstance(a, Mat) else dtype) for a in args)
    results = tuple(c_type(out.dtype) for out in outs)
    facts = ("dense", found, types, results)
    text = backend.text(facts, lambda: elements_source(plan, types, results))
    extent = rows * columns if plan.flat else rows
    width = columns if program.by_column else 1
    pieces = rows // COLSUM_ROWS if program.by_column else rows * columns // CHUNK_ELEMENTS
    most = max(1, min(CHUNKS, PARTIALS // max(1, width)))
    spans = max(1, -(-columns // SPAN)) if program.by_column else 1
    chunks = max(1, min(most, pieces, extent, SUM_BLOCKS // spans))
    targets, ends = list(outs), dict[int, Any]()
    for n, ending in enumerate(program.endings):
        if ending != "assign":
            parts = most * spans if ending == "total" else most
            targets[n] = scratch(cache, f"partial sums {n}", parts, outs[n].shape[1])
            join = "end_max" if ending == "colmax" else "end_sum"
            ends[n] = library_kernel(cache, join, o=results[n])
    if cache.reserving:
        return
    call: list[Any] = [rows, columns]
    call += [a.slot.array if isinstance(a, Mat) else dtype.type(a) for a in args]
    call += [target.array for target in targets]
    if not ends:
        backend.launch(text, rows * columns, 256, *call)
        return
    backend.launch_blocks(text, chunks * spans, *call)
    for n, end in ends.items():
        out, parts = outs[n], chunks * spans if program.endings[n] == "total" else chunks
        backend.launch(
            end, out.shape[1], END_COLUMNS, parts, out.shape[1], targets[n].array, out.array
        )


@launches("product", "cuda")
def _product(cache: MatCache, op: str, left: Slot, right: Slot, out: Slot) -> None:
    (m, n), turn_left, turn_right = out.shape, op == "transposed_matmul", op == "matmul_transposed"
    k = left.shape[0] if turn_left else left.shape[1]
    half = left is right and op != "matmul" and half_is_less(m, k)
    room, mirror = workspace(cache), _move_kernel(cache, "mirror_tiles", out) if half else None
    if cache.reserving:
        return
    cache.backend.product(
        Product(
            out.dtype.name,
            m,
            n,
            k,
            left.array.address,
            turn_left,
            right.array.address,
            turn_right,
            out.array.address,
            (room.array.address, room.nbytes),
            half,
        )
    )
    if mirror is not None:
        cache.backend.launch(mirror, m * m, TILE**2, m, out.array)


def half_is_less(side: int, inner: int) -> bool:
    """Return whether half of a product, and a launch to copy it, are less work than the whole.

    side: of the result [side x side]. inner: terms of its sums.

    The library computes squares of the result, so a result of one square has no half.
    """
    return side * (side - SQUARE) * inner > LAUNCH


def _move_kernel(cache: MatCache, name: str, source: Slot) -> Any:
    value = c_type(source.dtype)
    return cache.backend.text((name, value), lambda: move_source(value), name)


@launches("transpose", "cuda")
def transpose(cache: MatCache, source: Slot, out: Slot) -> None:
    """Compute out = source.T."""
    text = _move_kernel(cache, "transpose_tiles", source)
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
    _sort_rows(cache, source, out, c_type(source.dtype))


@launches("argsort", "cuda")
def _argsort(cache: MatCache, source: Slot, out: Slot) -> None:
    backend, size = cache.backend, source.shape[0] * source.shape[1]
    pack, leave = (backend.text((name,), keys_source, name) for name in ("pack_keys", "columns_of"))
    each = 256  # threads in a block
    if not cache.reserving and size:
        backend.launch(pack, size, each, size, source.shape[1], source.array, out.array)
    _sort_rows(cache, out, out, "u64")
    if not cache.reserving and size:
        backend.launch(leave, size, each, size, out.array)


def _sort_rows(cache: MatCache, source: Slot, out: Slot, value: str) -> None:
    (rows, columns), backend = source.shape, cache.backend

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


@launches("gather checked", "cuda")
def _gather_checked(cache: MatCache, source: Mat, rows: Mat, columns: Mat, out: Slot) -> None:
    """Gather from positions that are known to be in range."""
    bad, backend = _bad(cache), cache.backend
    text = library_kernel(cache, "gather", v=c_type(source.dtype))
    if cache.reserving:
        return
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


@launches("gather", "cuda")
def _gather(cache: MatCache, source: Mat, rows: Mat, columns: Mat, out: Slot) -> None:
    bad, backend = _bad(cache), cache.backend
    if not cache.reserving:
        backend.clear(bad.array)
    _gather_checked(cache, source, rows, columns, out)
    if cache.reserving:
        return
    found = backend.read(bad.array)[0]
    for axis, positions in enumerate((rows, columns)):
        if place := int(found[axis]):
            out_of_range(source, int(positions.numpy().reshape(-1)[place - 1]), axis)


def _bad(cache: MatCache) -> Slot:
    """Return the room for positions that are out of range: of rows and columns."""
    return cache.result(("cuda", "bad index"), (1, 2), np.int64, "positions out of range")


@launches("scatter checked", "cuda")
def _scatter_checked(
    cache: MatCache, target: Slot, rows: Mat, columns: Mat, source: Mat, add: bool
) -> None:
    """Scatter to positions that are known to be in range."""
    types = {"v": c_type(target.dtype), "t": c_type(source.dtype)}
    bad, backend = _bad(cache), cache.backend
    text = library_kernel(cache, "scatter", **types)
    if cache.reserving:
        return
    n, m = (mat.shape[0] * mat.shape[1] for mat in (rows, columns))
    tall, wide = (int(side > 1) for side in source.shape)
    call = [*target.shape, target.array, n, m, rows.slot.array, columns.slot.array]
    call += [tall, wide, source.shape[1], source.slot.array, int(add), bad.array]
    blocks = min(SCATTER_BLOCKS * backend.processors, max(1, target.shape[0]))
    backend.launch_blocks(text, blocks, *call)


@launches("scatter", "cuda")
def _scatter(
    cache: MatCache, target: Slot, rows: Mat, columns: Mat, source: Mat, add: bool
) -> None:
    bad, backend = _bad(cache), cache.backend
    if not cache.reserving:
        backend.clear(bad.array)
    _scatter_checked(cache, target, rows, columns, source, add)
    if not cache.reserving and (place := int(backend.read(bad.array)[0, 0])):
        out_of_range(Mat(cache, target), int(rows.numpy().reshape(-1)[place - 1]), 0)
