"""CPU launches of normal equations and of non-negative least squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import ROW_CHUNKS, turned
from ...containers.dispatch import launches
from ...containers.slots import PatternSlot, Slot
from ...operations.normal_equations import Systems
from ..kernels import nonnegative
from ..kernels.bounds import Work, column_bounds, even_bounds, row_bounds
from ..kernels.cholesky import Equations, add_outer, scratch_length, solve_rows, solve_sums


@launches("solve_rows", "cpu", only_calls=True)
def _solve_rows(
    cache: MatCache, pattern: PatternSlot, weights: Slot, table: Slot, systems: Systems
) -> None:
    n, k = systems.out.shape
    call = [*pattern.offsets(), weights.data()[0], table.data(), _equations(systems)]
    cache.backend.run(solve_rows, row_bounds(cache, n, pattern), *call, _scratch(cache, k))


@launches("add_outer", "cpu", only_calls=True)
def _add_outer(
    cache: MatCache, pattern: PatternSlot, weights: Slot, table: Slot, sums: Slot
) -> None:
    call = [*turned(cache, pattern), weights.data()[0], table.data(), sums.data()]
    cache.backend.run(add_outer, column_bounds(cache, pattern), *call)


@launches("solve_sums", "cpu", only_calls=True)
def _solve_sums(cache: MatCache, sums: Slot, systems: Systems) -> None:
    m, k = systems.out.shape
    bounds = even_bounds(cache, m, min(ROW_CHUNKS, m))
    cache.backend.run(solve_sums, bounds, sums.data(), _equations(systems), _scratch(cache, k))


@launches("nonnegative_steps", "cpu", only_calls=True)
def _nonnegative_steps(cache: MatCache, W: Slot, pull: Slot, G: Slot, rounds: int) -> None:
    (rows, k), backend = W.shape, cache.backend
    bounds = row_bounds(cache, rows, None, Work(row=(rounds + 1) * k * k // 16))
    shape = (backend.threads, nonnegative.scratch_length(k))
    own = cache.result(("nonnegative", k), shape, np.float32, "turned rows of threads").data()
    call = [W.data(), pull.data(), G.data(), rounds, own]
    backend.run(nonnegative.nonnegative_steps, bounds, *call)


def _equations(systems: Systems) -> Equations:
    none = np.empty((0, 0), np.float32)
    shared = systems.gram, systems.free, systems.scale, systems.shift
    given = (none if slot is None else slot.data() for slot in shared)
    return Equations(*given, *(slot.data() for slot in (systems.ridge, systems.rhs, systems.out)))


def _scratch(cache: MatCache, k: int) -> Any:
    shape = (cache.backend.threads, scratch_length(k))
    slot = cache.result(("normal equations", k), shape, np.float32, "normal equations of threads")
    return slot.data()
