"""CUDA launches of normal equations and of non-negative least squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import turned
from ...containers.dispatch import launches
from ...containers.slots import PatternSlot, Slot
from ...operations.normal_equations import Systems
from ..kernels import cholesky_source, nonnegative_source, solvers
from ..order import active_count, has_teams, length_order, team_blocks
from .common import WARPS, c_type, turned_name


@launches("solve_rows", "cuda")
def _solve_rows(
    cache: MatCache, pattern: PatternSlot, weights: Slot, table: Slot, systems: Systems
) -> None:
    (n, k), backend, shared = systems.out.shape, cache.backend, None
    text = _cholesky(cache, "solve_rows", k, systems, table)
    if has_teams(pattern, by_column=False):
        shared = _cholesky(cache, "solve_rows", k, systems, table, teams=True)
    order = length_order(cache, pattern, by_column=False)
    if cache.reserving:
        return
    call = [n, *order, *pattern.offsets(), weights.array, table.array, *_arrays(systems)]
    if shared is not None:
        backend.launch_blocks(shared, team_blocks(backend.processors), *call)
    backend.launch(text, n, 1, *call)


@launches("add_outer", "cuda")
def _add_outer(
    cache: MatCache, pattern: PatternSlot, weights: Slot, table: Slot, sums: Slot
) -> None:
    name = turned_name("add_outer", pattern)
    text = _cholesky(cache, name, table.shape[1], None, table)
    index = turned(cache, pattern)
    if cache.reserving:
        return
    call = [active_count(pattern), *index, weights.array, table.array, sums.array]
    cache.backend.launch(text, pattern.columns, 1, *call)


@launches("solve_sums", "cuda")
def _solve_sums(cache: MatCache, sums: Slot, systems: Systems) -> None:
    m, k = systems.out.shape
    text = _cholesky(cache, "solve_sums", k, systems, None)
    if cache.reserving:
        return
    cache.backend.launch(text, m, 1, m, sums.array, *_arrays(systems))


@launches("nonnegative_steps", "cuda")
def _nonnegative_steps(cache: MatCache, W: Slot, pull: Slot, G: Slot, rounds: int) -> None:
    (rows, k), backend = W.shape, cache.backend
    text = backend.text(("nonnegative_steps",), nonnegative_source, "nonnegative_steps")
    key = ("nonnegative_steps", rows, k)
    rest = cache.result(key, (rows, k), np.float32, "what is left of the right sides")
    if not cache.reserving:
        call = [rows, k, rounds, W.array, pull.array, G.array, rest.array]
        backend.launch(text, rows, WARPS, *call)


def _cholesky(
    cache: MatCache,
    name: str,
    k: int,
    systems: Systems | None,
    table: Slot | None,
    *,
    teams: bool = False,
) -> Any:
    own = "float" if table is None else c_type(table.dtype)
    shared = (None,) * 4 if systems is None else _shared(systems)
    gram, masked, scaled, _ = (slot is not None for slot in shared)
    facts = (k, gram, masked, scaled, own, teams)

    def source() -> str:
        flags = {"gram": gram, "masked": masked, "scaled": scaled, "teams": teams}
        return cholesky_source(k, **flags, table=own)

    return cache.backend.text((name, *facts), source, name, solvers(k))


def _arrays(systems: Systems) -> list[Any]:
    given = (0 if slot is None else slot.array for slot in _shared(systems))
    return [*given, systems.ridge.array, systems.rhs.array, systems.out.array]


def _shared(systems: Systems) -> tuple[Slot | None, ...]:
    return systems.gram, systems.free, systems.scale, systems.shift
