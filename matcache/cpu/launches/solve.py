"""CPU launches of normal equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import ROW_CHUNKS, column_bounds, even_bounds, row_bounds
from ...containers.dispatch import launches
from ...containers.slots import PatternSlot, Slot
from ...operations.normal_equations import Systems
from ..cholesky import add_outer, scratch_length, solve_rows, solve_sums


@launches("solve_rows", "cpu")
def _solve_rows(
    cache: MatCache, pattern: PatternSlot, weights: Slot, table: Slot, systems: Systems
) -> None:
    n, k = systems.out.shape
    call = [row_bounds(cache, n, pattern), *pattern.offsets(), weights.data()[0], table.data()]
    _run(cache, solve_rows, [*call, *_arrays(systems), _scratch(cache, k)])


@launches("add_outer", "cpu")
def _add_outer(
    cache: MatCache, pattern: PatternSlot, weights: Slot, table: Slot, sums: Slot
) -> None:
    call = [column_bounds(cache, pattern), *pattern.transposed(), weights.data()[0]]
    _run(cache, add_outer, [*call, table.data(), sums.data()])


@launches("solve_sums", "cpu")
def _solve_sums(cache: MatCache, sums: Slot, systems: Systems) -> None:
    m, k = systems.out.shape
    call = [even_bounds(cache, m, min(ROW_CHUNKS, m)), sums.data()]
    _run(cache, solve_sums, [*call, *_arrays(systems), _scratch(cache, k)])


def _arrays(systems: Systems) -> list[Any]:
    none = np.empty((0, 0), np.float32)
    shared = systems.gram, systems.free, systems.scale, systems.shift
    given = (none if slot is None else slot.data() for slot in shared)
    return [*given, systems.ridge.data(), systems.rhs.data(), systems.out.data()]


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
