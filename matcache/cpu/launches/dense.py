"""CPU launches of dense expressions, products, transposes, sorting and gathering."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import ROW_CHUNKS, SUM_CHUNKS, worthwhile
from ...containers.dispatch import launches
from ...containers.matrices import Mat
from ...containers.slots import Slot
from ...operations.compiled import Compiled
from ...operations.dense import CHUNK_ELEMENTS, COLSUM_ROWS, WAKE_WORK
from ...operations.indexing import out_of_range
from ..algebra.blas import rows_of_chunk
from ..algebra.gemm import routines
from ..compiling.compiled import kernel_of
from ..kernels.bounds import even_bounds
from ..kernels.keys import COLUMN


@launches("dense", "cpu", only_calls=True)
def _dense(
    cache: MatCache,
    found: Compiled,
    args: list[Mat | float],
    shape: tuple[int, int],
    outs: tuple[Slot, ...],
) -> None:
    (rows, columns), backend = shape, cache.backend
    flat, program = found.plan.flat, found.plan.program
    extent = rows * columns if flat else rows
    joins, targets = dict[int, str](), list(outs)
    for n, (ending, out) in enumerate(zip(program.endings, outs, strict=True)):
        if ending != "assign":
            joins[n] = "max_partials" if ending == "colmax" else "add_partials"
            targets[n] = cache.result(
                ("partials", ending, n, out.shape[1]),
                (SUM_CHUNKS, out.shape[1]),
                np.float64,
                "partial sums",
            )
    if not joins:
        chunks = max(1, min(ROW_CHUNKS, rows * columns // CHUNK_ELEMENTS, extent))
    else:  # depends only on the shape
        pieces = rows // COLSUM_ROWS if program.by_column else rows * columns // CHUNK_ELEMENTS
        chunks = max(1, min(SUM_CHUNKS, pieces))
    call: list[Any] = []
    for arg, argument in zip(args, program.arguments, strict=True):
        data: Any = arg.slot.data() if isinstance(arg, Mat) else arg
        call.append(data.reshape(-1) if flat and argument.rowlike else data)
    for n, target in enumerate(targets):
        data = target.data()
        call.append(data.reshape(-1) if flat and n not in joins else data)
    call.append(columns)
    run = backend.run
    if chunks > 1 and rows * columns * (2 * found.flops_each({})[1] + 1) < WAKE_WORK:
        run = backend.run_here
    run(kernel_of(found), even_bounds(cache, extent, chunks), *call)
    for n, join in joins.items():
        backend.call(backend.kernels[join], targets[n].data()[:chunks], outs[n].data())


@launches("sort", "cpu")
def _sort(cache: MatCache, source: Slot, out: Slot) -> None:
    if cache.reserving:
        return
    given, found, rows = source.data(), out.data(), out.shape[0]
    chunks = max(1, min(ROW_CHUNKS, rows * out.shape[1] // CHUNK_ELEMENTS, rows))

    def sort_rows(chunk: int, thread: int) -> None:
        """Sort the rows of a chunk; NumPy releases the interpreter's lock."""
        part = slice(rows * chunk // chunks, rows * (chunk + 1) // chunks)
        np.copyto(found[part], given[part])
        found[part].sort(axis=1)

    cache.backend.pool.run(sort_rows, chunks)


@launches("argsort", "cpu")
def _argsort(cache: MatCache, source: Slot, out: Slot) -> None:
    """Sort pieces of rows: where there are few rows, several of each, which are then merged."""
    (rows, columns), backend = out.shape, cache.backend
    pieces = max(1, min(-(-backend.pool.threads // max(1, rows)), columns // CHUNK_ELEMENTS))
    parts, merges = rows * pieces, (pieces - 1).bit_length()
    chunks = max(1, min(ROW_CHUNKS, rows * columns // CHUNK_ELEMENTS, parts))
    bounds, keys = even_bounds(cache, parts, chunks), source.data().view(np.uint32)
    found = other = out.data().view(np.uint64)
    if merges:
        room = cache.result(("keys", *out.shape), out.shape, np.uint64, "keys being merged")
        other = room.data()
    if merges % 2:
        found, other = other, found
    backend.run(backend.kernels["pack_keys"], bounds, pieces, keys, found)
    if not cache.reserving:

        def sort_parts(chunk: int, thread: int) -> None:
            """Sort the pieces of a chunk; NumPy releases the interpreter's lock."""
            for part in range(parts * chunk // chunks, parts * (chunk + 1) // chunks):
                row, piece = divmod(part, pieces)
                packed = found[row, columns * piece // pieces : columns * (piece + 1) // pieces]
                packed.sort()
                if not merges:
                    np.bitwise_and(packed, COLUMN, out=packed)

        backend.pool.run(sort_parts, chunks)
    for merge in range(merges):
        last = int(merge == merges - 1)
        call = bounds, pieces, 1 << merge, last, found, other
        backend.run(backend.kernels["merge_runs"], *call)
        found, other = other, found


@launches("gather checked", "cpu", only_calls=True)
def _gather_checked(cache: MatCache, source: Mat, rows: Mat, columns: Mat, out: Slot) -> None:
    """Gather from positions that are known to be in range."""
    chunks = max(1, min(ROW_CHUNKS, out.shape[0] * out.shape[1] // CHUNK_ELEMENTS, out.shape[0]))
    call = [source.slot.data(), *_line(rows, columns), out.data(), _bad(cache)]
    bounds = even_bounds(cache, out.shape[0], chunks)
    cache.backend.run(cache.backend.kernels["gather"], bounds, *call)


@launches("gather", "cpu")
def _gather(cache: MatCache, source: Mat, rows: Mat, columns: Mat, out: Slot) -> None:
    bad = _bad(cache)
    bad.fill(0)
    _gather_checked(cache, source, rows, columns, out)
    if cache.reserving:
        return
    for axis, positions in enumerate((rows, columns)):
        if place := int(bad[:, axis].max()):
            out_of_range(source, int(_line(positions)[0][place - 1]), axis, out.where)


def _bad(cache: MatCache) -> Any:
    """Return the room for positions that are out of range: of rows and columns, by chunk."""
    room = cache.result(("bad index",), (ROW_CHUNKS, 2), np.int64, "positions out of range")
    return room.data()


def _line(*positions: Mat) -> list[Any]:
    return [mat.slot.data().reshape(-1) for mat in positions]


@launches("scatter checked", "cpu", only_calls=True)
def _scatter_checked(
    cache: MatCache, target: Slot, rows: Mat, columns: Mat, source: Mat, add: bool
) -> None:
    """Scatter to positions that are known to be in range."""
    work, backend = rows.shape[0] * rows.shape[1] * target.shape[1], cache.backend
    chunks = max(1, min(worthwhile(work, ROW_CHUNKS, backend.threads), target.shape[0]))
    call = [target.data(), *_line(rows, columns), source.slot.data(), add, _bad(cache)]
    backend.run(backend.kernels["scatter"], even_bounds(cache, target.shape[0], chunks), *call)


@launches("scatter", "cpu")
def _scatter(
    cache: MatCache, target: Slot, rows: Mat, columns: Mat, source: Mat, add: bool
) -> None:
    bad = _bad(cache)
    bad.fill(0)
    _scatter_checked(cache, target, rows, columns, source, add)
    if not cache.reserving and (place := int(bad[0, 0])):
        out_of_range(Mat(cache, target), int(_line(rows)[0][place - 1]), 0, target.where)


@launches("product", "cpu", only_calls=True)
def _product(cache: MatCache, op: str, left: Slot, right: Slot, out: Slot) -> None:
    backend, (rows, columns) = cache.backend, out.shape
    turned_left, turned_right = op == "transposed_matmul", op == "matmul_transposed"
    x, y, size = left.data(), right.data(), rows_of_chunk(rows)
    inner = left.shape[0] if turned_left else left.shape[1]
    found = routines(out.dtype)
    if found is None or min(rows % size or size, columns, inner) < 2:
        if not cache.reserving:
            turned = x.T if turned_left else x, y.T if turned_right else y
            symmetric = left is right and turned_left != turned_right
            backend.call(backend.matmul, *turned, out.data(), symmetric)
        return
    chunks = -(-rows // size)
    call = [*found, x, turned_left, y, turned_right, out.data()]
    backend.run_blas(backend.kernels["product"], even_bounds(cache, chunks * size, chunks), *call)


@launches("transpose", "cpu")
def _transpose(cache: MatCache, source: Slot, out: Slot) -> None:
    if not cache.reserving:
        np.copyto(out.data(), source.data().T)


@launches("round_table", "cpu", only_calls=True)
def _round_table(cache: MatCache, source: Slot, out: Slot) -> None:
    size = source.shape[0] * source.shape[1]
    call = [slot.data().reshape(-1).view(np.uint32) for slot in (source, out)]
    bounds = even_bounds(cache, size, min(ROW_CHUNKS, size))
    cache.backend.run(cache.backend.kernels["round_table"], bounds, *call)
