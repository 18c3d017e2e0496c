"""CPU launches of choosing rows and columns of sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.arrays import named
from ...containers.cache import MatCache
from ...containers.dispatch import launches
from ...containers.matrices import Mat, SparseMat
from ...containers.slots import PatternSlot, Slot
from ...operations.selection import counted
from ..kernels.bounds import Work, row_bounds

ENTRY = Work(entry=2)


@launches("take rows", "cpu")
def _take_rows(cache: MatCache, x: SparseMat, at: Mat, to: PatternSlot, out: Slot) -> None:
    backend, places = cache.backend, at.slot.data().reshape(-1)
    indptr, columns = x.pattern.offsets()
    starts, to_columns = to.offsets()
    backend.call(backend.kernels["place_rows"], places, indptr, starts, to.numbers())
    if not cache.reserving:
        counted(x, 0, at, to, to.counts, out.where)
    call = [places, indptr, columns, x.slot.data()[0], starts, to_columns, out.data()[0]]
    backend.run(backend.kernels["copy_rows"], row_bounds(cache, to.rows, to, ENTRY), *call)


@launches("take columns", "cpu")
def _take_columns(cache: MatCache, x: SparseMat, at: Mat, to: PatternSlot, out: Slot) -> None:
    backend, kernels = cache.backend, cache.backend.kernels
    places, (indptr, columns) = at.slot.data().reshape(-1), x.pattern.offsets()
    starts, to_columns = to.offsets()

    def room(what: str, size: int) -> Any:
        return named(cache, f"{what} ({size})", (1, size), np.int32).slot.data()[0]

    first, after = room("first places of columns", x.shape[1]), room("next places", to.columns)
    bounds = row_bounds(cache, to.rows, x.pattern, ENTRY)
    backend.call(kernels["link_columns"], places, first, after, to.numbers())
    backend.run(kernels["count_columns"], bounds, first, after, indptr, columns, starts)
    backend.call(kernels["add_lengths"], starts, to.numbers())
    try:
        if not cache.reserving:
            counted(x, 1, at, to, to.counts, out.where)
        call = [first, after, indptr, columns, x.slot.data()[0], starts, to_columns, out.data()[0]]
        backend.run(kernels["copy_columns"], bounds, *call)
    finally:
        backend.call(kernels["unlink_columns"], places, first)
