"""Launches of tokens, the sampler, small solves, largest products and steps of single rows.

Their texts are those of `cuda_sources.py`; each says how its work is shared out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.chunks import turned
from ..containers.dispatch import launches
from ..containers.matrices import Mat, SparseMat
from ..containers.slots import PatternSlot, Slot
from ..emit.cuda_row_steps import row_steps_source
from ..operations.normal_equations import Systems
from ..operations.row_steps import StepsCompiled, number_of
from ..operations.sampling import Draws
from .kernels import cholesky_source, gibbs_source, tokens_source, top_source
from .launches import WARPS, c_type
from .order import active_count

PARTS = 1024  # of the entries of a block, whose particles are counted apart
WORK = "operations of samplers"
TOP_ROWS = 32  # rows of a block of threads, of `top_products`


def _text(cache: MatCache, name: str, facts: tuple[Any, ...], source: Callable[[], str]) -> Any:
    return cache.backend.text((name, *facts), source, name)


def _turned_name(name: str, pattern: PatternSlot) -> str:
    return f"{name}_32" if pattern.capacity < 2**31 else f"{name}_64"


@launches("split_tokens", "cuda")
def _split_tokens(
    cache: MatCache,
    pattern: PatternSlot,
    values: Slot,
    row_ids: Slot,
    key: Slot,
    seen: Slot,
    scored: Slot,
) -> None:
    value = c_type(values.dtype)
    text = _text(cache, "split_tokens", (value,), lambda: tokens_source(value))
    if not cache.reserving:
        call = [pattern.rows, pattern.indptr, values.array, row_ids.array, key.array]
        cache.backend.launch(text, pattern.rows, WARPS, *call, seen.array, scored.array)


@launches("sample_topics", "cuda")
def _sample_topics(cache: MatCache, draws: Draws) -> None:
    X, phi, first, z = draws.X, draws.phi, draws.first, draws.z
    pattern, k, backend = X.pattern, phi.shape[1], cache.backend
    weights = draws.scratch("weights", np.float32)
    words, topics = draws.scratch("words", np.int32), draws.scratch("topics", np.int32)
    sums = cache.result(("cuda", "particles"), (1, PARTS), np.int64, "particles of parts")
    work = cache.result(("named", WORK), (1, 1), np.int64, WORK)
    names = ("count_sums", "count_starts", "count_particles", "sample")
    table = c_type(phi.dtype)
    count, start, particles, sample = (
        _text(cache, name, (k, table), lambda: gibbs_source(k, table)) for name in names
    )
    if cache.reserving:
        return
    entries = [pattern.rows, pattern.indptr, X.slot.array]
    backend.launch(count, PARTS, WARPS, *entries, sums.array)
    backend.launch_blocks(start, 1, sums.array, draws.flops_each, work.array)
    backend.tally.counted_in(work.array)
    backend.launch(particles, PARTS, WARPS, *entries, sums.array, first.array)
    call = [pattern.rows, *pattern.offsets(), X.slot.array, first.array]
    call += [mat.slot.array for mat in (draws.row_ids, draws.key, phi, draws.alpha)]
    call += [draws.burn, *z.shape]
    call += [z.array, weights.array, words.array, topics.array]
    backend.launch(sample, pattern.rows, WARPS, *call)


@launches("topic_counts", "cuda")
def _topic_counts(
    cache: MatCache, pattern: PatternSlot, values: Slot, first: Slot, z: Slot, out: Slot
) -> None:
    k = out.shape[1]
    text = _text(cache, _turned_name("topic_counts", pattern), (k,), lambda: gibbs_source(k))
    active, starts, _, positions = turned(cache, pattern)
    if cache.reserving:
        return
    call = [active_count(pattern), pattern.columns, active, starts, positions, values.array]
    call += [first.array, z.shape[0], z.shape[1], z.array, out.array]
    cache.backend.launch(text, pattern.columns, 1, *call)


@launches("solve_rows", "cuda")
def _solve_rows(
    cache: MatCache, pattern: PatternSlot, weights: Slot, table: Slot, systems: Systems
) -> None:
    n, k = systems.out.shape
    text = _cholesky(cache, "solve_rows", k, systems, table)
    if cache.reserving:
        return
    call = [n, *pattern.offsets(), weights.array, table.array, *_arrays(systems)]
    cache.backend.launch(text, n, 1, *call)


@launches("add_outer", "cuda")
def _add_outer(
    cache: MatCache, pattern: PatternSlot, weights: Slot, table: Slot, sums: Slot
) -> None:
    name = _turned_name("add_outer", pattern)
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


def _cholesky(
    cache: MatCache, name: str, k: int, systems: Systems | None, table: Slot | None
) -> Any:
    own = "float" if table is None else c_type(table.dtype)
    gram, free = (None, None) if systems is None else (systems.gram, systems.free)
    facts = (k, gram is not None, free is not None, own)

    def source() -> str:
        return cholesky_source(k, gram=facts[1], masked=facts[2], table=own)

    return _text(cache, name, facts, source)


def _arrays(systems: Systems) -> list[Any]:
    given = (0 if slot is None else slot.array for slot in (systems.gram, systems.free))
    return [*given, systems.ridge.array, systems.rhs.array, systems.out.array]


@launches("top_products", "cuda")
def _top_products(
    cache: MatCache,
    rows: Slot,
    table: Slot,
    unit: bool,
    leave_out: PatternSlot | None,
    scores: Slot,
    ids: Slot,
) -> None:
    backend, (r, k), (m, columns) = cache.backend, rows.shape, table.shape
    lengths, top = (
        _text(cache, name, (), top_source) for name in ("inverse_lengths", "top_products")
    )
    inverse = cache.result(("cuda", "inverse", m), (1, m), np.float32, "lengths of table rows")
    if cache.reserving:
        return
    if unit:
        backend.launch(lengths, m, 256, m, columns, k, table.array, inverse.array)
    call = [r, m, columns, k, scores.shape[1], rows.array, table.array]
    call += [inverse.array if unit else 0]
    call += [0, 0] if leave_out is None else leave_out.offsets()
    backend.launch(top, r, TOP_ROWS, *call, scores.array, ids.array)


@launches("row_steps", "cuda")
def _row_steps(
    cache: MatCache,
    found: StepsCompiled,
    X: SparseMat,
    fixed: list[Mat],
    given: list[Any],
    tables: list[Mat],
) -> None:
    plan, own = found.plan, np.dtype(found.plan.dtype).type
    names = ["weights", "rate_", "pace", "clock_", *(["seen"] if plan.seen else [])]
    arrays = [*plan.step.arrays(), *([] if plan.bias is None else plan.bias.arrays())]
    named = {"values": X, **dict(zip(names, fixed, strict=True))}
    named |= {f"a{n}": arg for n, arg in enumerate(given, 1) if isinstance(arg, Mat)}
    named |= dict(zip(arrays, tables, strict=True))
    types = {name: c_type(mat.dtype) for name, mat in named.items()}
    facts = (found, *sorted(types.items()))
    text = cache.backend.text(("row_steps", *facts), lambda: row_steps_source(plan, types))
    if cache.reserving:
        return
    call: list[Any] = [X.shape[0], *X.pattern.offsets(), X.slot.array]
    call += [mat.slot.array for mat in fixed]
    call.append(found.scores.array)
    call += [a.slot.array if isinstance(a, Mat) else own(number_of(a)) for a in given]
    call += [found.residuals.array, *(mat.slot.array for mat in tables)]
    cache.backend.launch_blocks(text, 1, *call, found.strips.shape[1], found.strips.array)
