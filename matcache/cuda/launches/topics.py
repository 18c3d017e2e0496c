"""CUDA launches of splitting tokens and sampling topics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import turned
from ...containers.dispatch import launches
from ...containers.local import LocalPattern
from ...containers.matrices import Mat, SparseMat
from ...containers.slots import PatternSlot, Slot, type_name
from ...errors import ShapeError
from ...operations.kept_topics import Redraws, gains
from ...operations.sampling import Draws
from ..kernels import (
    GIBBS_LANES,
    IN_MEMORY,
    gibbs_source,
    kept_source,
    lists_source,
    moves_source,
    tokens_source,
    topic_counts_source,
    where_counts,
)
from ..order import active_count, length_order
from .common import THREADS, WARPS, c_type, kernel, turned_name

PARTS = 1024  # parts of a block's entries with separate particle counts
COUNTING = 2  # blocks of threads for each processor, if counts are in memory
GROUPS = THREADS // GIBBS_LANES  # of lanes, in a block of threads
WARP = 32  # threads
SPAN = 64  # topics of a group; as in `lists.cu`
WORK = "operations of samplers"


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
    text = kernel(cache, "split_tokens", (value,), lambda: tokens_source(value))
    if not cache.reserving:
        call = [pattern.rows, pattern.indptr, values.array, row_ids.array, key.array]
        cache.backend.launch(text, pattern.rows, WARPS, *call, seen.array, scored.array)


@launches("sample_topics", "cuda")
def _sample_topics(cache: MatCache, draws: Draws) -> None:
    X, phi, alpha, row_ids, key = draws.of
    pattern, k, backend = X.pattern, phi.shape[1], cache.backend
    first, result = draws.first, draws.result
    weights = draws.scratch("weights", np.float32)
    words, topics = draws.scratch("words", np.int32), draws.scratch("topics", np.int32)
    table = c_type(phi.dtype)
    facts = ("sampler", k, table, draws.summed)
    module = partial(gibbs_source, k, table, summed=draws.summed)
    where, threads = where_counts(k, kept=False)
    sample = kernel(cache, "sample", facts, module, threads)
    _number(cache, X, first, draws.flops_each, facts, module, threads)
    memory = _counts(cache, pattern.rows, k, where)
    by_length = length_order(cache, pattern, by_column=False)
    if cache.reserving:
        return
    call = [pattern.rows, by_length[0], *pattern.offsets(), X.slot.array, first.array]
    call += [mat.slot.array for mat in (row_ids, key, phi, alpha)]
    call += [draws.burn, draws.save, result.shape[1], result.array]
    call += [weights.array, words.array, topics.array]
    if memory is None:
        backend.launch(sample, pattern.rows, threads // WARP, *call, 0)
    else:
        backend.launch_blocks(sample, memory.shape[0] // GROUPS, *call, memory.array)


def _number(
    cache: MatCache, X: SparseMat, first: Slot, each: int, facts: tuple[Any, ...],
    module: Callable[[], str], threads: int = THREADS,
) -> None:  # fmt: skip
    """Give particles or tokens their numbers, and count `each` operations for all of them.

    facts: everything that the text which `module` makes depends on. threads: see `kernel`.
    """
    pattern, backend = X.pattern, cache.backend
    sums = cache.result(("cuda", "particles"), (1, PARTS), np.int64, "particles of parts")
    work = cache.result(("named", WORK), (1, 1), np.int64, WORK)
    names = ("count_sums", "count_particles")
    count, number = (kernel(cache, name, facts, module, threads) for name in names)
    if cache.reserving:
        return
    entries = [pattern.rows, pattern.indptr, X.slot.array]
    backend.launch(count, PARTS, WARPS, *entries, sums.array)
    call = [*entries, sums.array, each, work.array, first.array]
    backend.launch(number, PARTS, WARPS, *call)
    backend.tally.counted_in(work.array)


def _counts(cache: MatCache, rows: int, k: int, where: int) -> Slot | None:
    """Return room for the counts of each group of lanes, if they are in the device's memory."""
    if where != IN_MEMORY:
        return None
    blocks = min(-(-rows // GROUPS), COUNTING * cache.backend.processors)
    shape = blocks * GROUPS, -(-k // GIBBS_LANES) * GIBBS_LANES
    return cache.result(("cuda", "counts", shape), shape, np.float32, "counts of topics (sampler)")


@launches("topic_counts", "cuda")
def _topic_counts(
    cache: MatCache, pattern: PatternSlot, values: Slot, first: Slot, z: Slot, out: Slot
) -> None:
    k = out.shape[1]
    text = kernel(cache, turned_name("topic_counts", pattern), (k,), lambda: topic_counts_source(k))
    active, starts, _, positions = turned(cache, pattern)
    if cache.reserving:
        return
    call = [active_count(pattern), pattern.columns, active, starts, positions, values.array]
    call += [first.array, z.shape[0], z.shape[1], z.array, out.array]
    call += [int(isinstance(pattern, LocalPattern))]
    cache.backend.launch(text, pattern.columns, 1, *call)


@launches("redraw_topics", "cuda")
def _redraw_topics(cache: MatCache, draws: Redraws) -> None:
    X, k, backend = draws.X, draws.table.shape[1], cache.backend
    if draws.extra is not None:
        raise ShapeError("redraw_topics: extra: must be with lists=True on a GPU; or make phi.")
    pattern, facts, module = X.pattern, ("kept", k), partial(kept_source, k)
    where, threads = where_counts(k, kept=True)
    redraw = kernel(cache, "redraw_topics", facts, module, threads)
    words = draws.scratch("words", np.int32)
    memory = _counts(cache, pattern.rows, k, where)
    _number(cache, X, draws.first, draws.flops_each, facts, module, threads)
    by_length = length_order(cache, pattern, by_column=False)
    if cache.reserving:
        return
    call = [*_rows(draws, by_length[0]), draws.topics.slot.array]
    call += [mat.slot.array for mat in (draws.table, draws.one, draws.alpha)]
    call += [draws.sweeps, draws.again, draws.old.array, words.array]
    if memory is None:
        backend.launch(redraw, pattern.rows, threads // WARP, *call, 0)
    else:
        backend.launch_blocks(redraw, memory.shape[0] // GROUPS, *call, memory.array)


@launches("redraw_lists", "cuda")
def _redraw_lists(cache: MatCache, draws: Redraws) -> None:
    X, (columns, k), backend = draws.X, draws.table.shape, cache.backend
    pattern, module, rows = X.pattern, partial(lists_source, k), draws.X.shape[0]
    facts = ("lists", type_name(draws.old.dtype))
    add, redraw = (kernel(cache, name, facts, module) for name in ("sum_words", "redraw_lists"))
    words = draws.scratch("words", np.int32)
    lists = [
        draws.scratch(f"{name} of lists", dtype, GIBBS_LANES * rows)
        for name, dtype in (("topics", np.int32), ("counts", np.float32), ("sums", np.float32))
    ]
    shape = (columns, GIBBS_LANES * (-(-k // SPAN) + 1))
    label = "sums of words (sampler)"
    sums = cache.result(("cuda", label, shape), shape, np.float32, label)
    _number(cache, X, draws.first, draws.flops_each, facts, module)
    by_length = length_order(cache, pattern, by_column=False)
    active = turned(cache, pattern)
    if cache.reserving:
        return
    extra = 0 if draws.extra is None else draws.extra.slot.array
    tables = [k, *(mat.slot.array for mat in (draws.table, draws.one, draws.alpha))]
    tables += [extra, int(draws.extra is not None)]
    local = int(isinstance(pattern, LocalPattern))
    call = [active_count(pattern), active[0], local, *tables, sums.array]
    backend.launch(add, columns, GROUPS, *call)
    call = [*_rows(draws, by_length[0]), draws.topics.slot.array, *tables]
    call += [draws.sweeps, draws.again, draws.old.array, sums.array, words.array]
    backend.launch(redraw, rows, GROUPS, *call, *(slot.array for slot in lists))


def _rows(draws: Redraws, order: Any) -> list[Any]:
    """Return the first arguments of both samplers."""
    X, pattern = draws.X, draws.X.pattern
    call = [pattern.rows, order, *pattern.offsets(), X.slot.array, draws.first.array]
    return [*call, draws.topics.shape[1], draws.row_ids.slot.array, draws.key.slot.array]


@launches("begin_topics", "cuda")
def _begin_topics(
    cache: MatCache, X: SparseMat, topics: Mat, key: Mat, first: Slot, old: Slot, many: int
) -> None:
    kind, pattern = type_name(old.dtype), X.pattern
    begin = kernel(cache, "begin_topics", (kind,), partial(moves_source, many))
    _number(cache, X, first, 0, ("lists", kind), partial(lists_source, many))
    if cache.reserving:
        return
    call = [pattern.rows, pattern.indptr, X.slot.array, first.array, old.shape[1], many]
    call += [key.slot.array, topics.slot.array, old.array]
    cache.backend.launch(begin, pattern.rows, WARPS, *call)


@launches("move_counts", "cuda")
def _move_counts(
    cache: MatCache, pattern: PatternSlot, values: Slot, first: Slot, old: Slot, topics: Slot,
    counts: Slot, totals: Slot,
) -> None:  # fmt: skip
    k, backend, module = totals.shape[1], cache.backend, partial(moves_source, totals.shape[1])
    facts = (type_name(old.dtype),)
    move, add = (kernel(cache, name, facts, module) for name in ("move_counts", "add_moved"))
    moved = gains(cache, old, (1, k), np.int64)
    if cache.reserving:
        return
    indptr, indices = pattern.offsets()
    backend.clear(moved.array)
    call = [pattern.rows, indptr, indices, values.array, first.array, old.shape[1], k]
    call += [old.array, topics.array, counts.array, moved.array]
    backend.launch_blocks(move, COUNTING * backend.processors, *call)
    call = [pattern.rows, indptr, values.array, first.array, old.shape[1], k]
    backend.launch(add, k, THREADS, *call, moved.array, totals.array)
