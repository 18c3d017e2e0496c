"""CUDA launches of choosing rows and columns of sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.arrays import named
from ...containers.cache import MatCache
from ...containers.dispatch import launches
from ...containers.matrices import Mat, SparseMat
from ...containers.slots import PatternSlot, Slot
from ...operations.selection import counted
from ..kernels import selection_source
from .common import WARPS, c_type, kernel

EACH = 256  # threads in a block


def _kernels(cache: MatCache, values: Slot, *names: str) -> list[Any]:
    v = c_type(values.dtype)
    return [kernel(cache, name, (v,), lambda: selection_source(v)) for name in names]


@launches("take rows", "cuda")
def _take_rows(cache: MatCache, x: SparseMat, at: Mat, to: PatternSlot, out: Slot) -> None:
    backend, n = cache.backend, to.rows
    lengths, add, copy = _kernels(cache, out, "row_lengths", "length_starts", "copy_rows")
    if cache.reserving:
        return
    places, (indptr, columns) = at.slot.array, x.pattern.offsets()
    backend.clear(to.counts)
    call = [n, places, x.shape[0], indptr, to.indptr, to.counts]
    backend.launch(lengths, n, EACH, *call)
    backend.launch_blocks(add, 1, n, to.indptr, to.counts)
    counted(x, 0, at, to, backend.read(to.counts), out.where)
    call = [n, places, indptr, columns, x.slot.array, to.indptr, to.indices, out.array]
    backend.launch(copy, n, WARPS, *call)


@launches("take columns", "cuda")
def _take_columns(cache: MatCache, x: SparseMat, at: Mat, to: PatternSlot, out: Slot) -> None:
    backend, (n, m) = cache.backend, (to.rows, to.columns)
    names = ("link_columns", "column_lengths", "length_starts", "copy_columns", "unlink_columns")
    link, lengths, add, copy, unlink = _kernels(cache, out, *names)

    def room(what: str, size: int) -> Any:
        return named(cache, f"{what} ({size})", (1, size), np.int32).slot.array

    first, after = room("first places of columns", x.shape[1]), room("next places", m)
    if cache.reserving:
        return
    places, lists = at.slot.array, [n, first, after, *x.pattern.offsets()]
    backend.clear(to.counts)
    backend.launch(link, m, EACH, m, places, x.shape[1], first, after, to.counts)
    backend.launch(lengths, n, WARPS, *lists, to.indptr)
    backend.launch_blocks(add, 1, n, to.indptr, to.counts)
    try:
        counted(x, 1, at, to, backend.read(to.counts), out.where)
        call = [*lists, x.slot.array, to.indptr, to.indices, out.array]
        backend.launch(copy, n, WARPS, *call)
    finally:
        backend.launch(unlink, m, EACH, m, places, x.shape[1], first)
