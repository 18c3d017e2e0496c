"""Launches of tokens, the sampler, small solves, largest products and steps of single rows.

Their texts are those of `cuda_sources.py`; each says how its work is shared out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cache import MatCache
from ..chunks import turned
from ..cpu_gibbs import CAP
from ..cuda_sources import cholesky_source, gibbs_source, tokens_source, top_source
from ..emit_row_steps_cuda import row_steps_source
from ..lazy import Mat, SparseMat
from ..row_steps import StepsCompiled, number_of
from ..slots import PatternSlot, Slot
from ..table import launches
from .launches import WARPS, c_type
from .order import active_count

PARTS = 1024  # of the entries of a block, whose particles are counted apart
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
def _sample_topics(
    cache: MatCache,
    X: SparseMat,
    phi: Mat,
    alpha: Mat,
    row_ids: Mat,
    key: Mat,
    burn: int,
    container: Callable[[str, int, int, object], Slot],
    first: Slot,
    z: Slot,
) -> None:
    pattern, k, backend = X.pattern, phi.shape[1], cache.backend
    weights = container("weights", 1, CAP, np.float32)
    words = container("words (on the device)", 1, CAP, np.int32)
    topics = container("topics", 1, CAP, np.int32)
    sums = cache.result(("cuda", "particles"), (1, PARTS), np.int64, "particles of parts")
    names = ("count_sums", "count_starts", "count_particles", "sample")
    count, start, particles, sample = (
        _text(cache, name, (k,), lambda: gibbs_source(k)) for name in names
    )
    if cache.reserving:
        return
    entries = [pattern.rows, pattern.indptr, X.slot.array]
    backend.launch(count, PARTS, WARPS, *entries, sums.array)
    backend.launch_blocks(start, 1, sums.array)
    backend.launch(particles, PARTS, WARPS, *entries, sums.array, first.array)
    call = [pattern.rows, *pattern.offsets(), X.slot.array, first.array, row_ids.slot.array]
    call += [key.slot.array, phi.slot.array, alpha.slot.array, burn, z.shape[0], z.shape[1]]
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
    cache: MatCache,
    pattern: PatternSlot,
    weights: Slot,
    table: Slot,
    gram: Slot | None,
    free: Slot | None,
    ridge: Slot,
    rhs: Slot,
    out: Slot,
) -> None:
    text = _cholesky(cache, "solve_rows", out.shape[1], gram, free)
    if cache.reserving:
        return
    call = [out.shape[0], *pattern.offsets(), weights.array, table.array]
    call += [_or_null(gram), _or_null(free), ridge.array, rhs.array, out.array]
    cache.backend.launch(text, out.shape[0], 1, *call)


@launches("add_outer", "cuda")
def _add_outer(
    cache: MatCache, pattern: PatternSlot, weights: Slot, table: Slot, sums: Slot
) -> None:
    text = _cholesky(cache, _turned_name("add_outer", pattern), table.shape[1], None, None)
    index = turned(cache, pattern)
    if cache.reserving:
        return
    call = [active_count(pattern), *index, weights.array, table.array, sums.array]
    cache.backend.launch(text, pattern.columns, 1, *call)


@launches("solve_sums", "cuda")
def _solve_sums(
    cache: MatCache,
    sums: Slot,
    gram: Slot | None,
    free: Slot | None,
    ridge: Slot,
    rhs: Slot,
    out: Slot,
) -> None:
    text = _cholesky(cache, "solve_sums", out.shape[1], gram, free)
    if cache.reserving:
        return
    call = [out.shape[0], sums.array, _or_null(gram), _or_null(free), ridge.array]
    cache.backend.launch(text, out.shape[0], 1, *call, rhs.array, out.array)


def _cholesky(cache: MatCache, name: str, k: int, gram: Slot | None, free: Slot | None) -> Any:
    facts = (k, gram is not None, free is not None)
    return _text(cache, name, facts, lambda: cholesky_source(k, gram=facts[1], masked=facts[2]))


def _or_null(slot: Slot | None) -> Any:
    return 0 if slot is None else slot.array


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
