"""Make the transposed index of a pattern that kernels have filled."""

# Numba infers the types of kernels.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiling.jit import kernel
from .transpose import count_columns, plan_digits, transpose_by_counting, transpose_csr

if TYPE_CHECKING:
    from ...containers.cache import MatCache
    from ...containers.slots import PatternSlot

_kernel = kernel()


@_kernel
def index_by_counting(indptr, indices, counts, count, t_rows, t_pos, active, starts):
    """Make the index in O(nnz + columns); counts[1]: the columns that occur."""
    rows = indptr.size - 1
    counts[1] = transpose_by_counting(indptr, indices, rows, count, t_rows, t_pos, active, starts)


@_kernel
def index_by_sorting(
    indptr, indices, passes, counts, count, keys0, rows0, pos0, keys, t_rows, t_pos, active, starts
):
    """Make the same by a radix sort, in O(nnz)."""
    rows = indptr.size - 1
    counts[1] = transpose_csr(
        indptr, indices, rows, passes, count, keys0, rows0, pos0, keys, t_rows, t_pos, active,
        starts,
    )  # fmt: skip


class HostIndex:
    """The transposed index of a pattern, and scratch for sorting; see `Index`."""

    def __init__(self, cache: MatCache, pattern: PatternSlot) -> None:
        """Reserve room in the plan, or allocate it at once if planning is over."""
        self.cache, self.pattern, capacity = cache, pattern, pattern.capacity
        position, columns = pattern.position_type, min(pattern.columns, capacity)

        def room(what: str, size: int, dtype: Any) -> Any:
            key = ("index", what, pattern.guid, capacity)
            return cache.result(key, (1, size), dtype, f"{what} of {pattern.label}")

        self._index = [
            room("active columns", columns, np.int32),
            room("offsets by column", columns + 1, np.int64),
            room("rows by column", capacity, np.int32),
            room("positions by column", capacity, position),
        ]
        self._counting = count_columns(pattern.columns, capacity)
        self._passes, bits = plan_digits(pattern.columns)
        counts = pattern.columns if self._counting else 1 << bits
        self._scratch = [room("counts of columns", counts, position)]
        if not self._counting:
            spares = (("keys", np.int32), ("rows", np.int32), ("positions", position))
            self._scratch += [room(f"spare {what}", capacity, dtype) for what, dtype in spares]
            self._scratch.append(room("columns being sorted", capacity, np.int32))

    def arrays(self) -> list[Any]:
        """Return active, starts, t_rows and t_pos of `PatternSlot`; `build` fills them."""
        return [slot.array[0] for slot in self._index]

    def build(self) -> None:
        """Make the index, unless that of the present entries exists already."""
        backend, pattern = self.cache.backend, self.pattern
        active, starts, t_rows, t_pos = (slot.data()[0] for slot in self._index)
        scratch = [slot.data()[0] for slot in self._scratch]
        call = [*pattern.offsets(), *(() if self._counting else (self._passes,))]
        call += [pattern.numbers(), *scratch, t_rows, t_pos, active, starts]
        kernel = backend.kernels["index_by_counting" if self._counting else "index_by_sorting"]
        if self.cache.reserving:
            backend.expect(kernel, *call)
        elif self.cache.fills(self._index[0], pattern):
            backend.call(kernel, *call)
