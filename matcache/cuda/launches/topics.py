"""CUDA launches of splitting tokens and sampling topics."""

from __future__ import annotations

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import turned
from ...containers.dispatch import launches
from ...containers.slots import PatternSlot, Slot
from ...operations.sampling import Draws
from ..kernels import GIBBS_LANES, RESIDENT, gibbs_source, tokens_source
from ..order import active_count, length_order
from .common import WARPS, c_type, kernel, turned_name

PARTS = 1024  # parts of a block's entries with separate particle counts
COUNTING = 2  # blocks of threads for each processor, if counts are in memory
GROUPS = 256 // GIBBS_LANES  # of lanes, in a block of threads
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
    X, phi, first, z = draws.X, draws.phi, draws.first, draws.z
    pattern, k, backend = X.pattern, phi.shape[1], cache.backend
    weights = draws.scratch("weights", np.float32)
    words, topics = draws.scratch("words", np.int32), draws.scratch("topics", np.int32)
    sums = cache.result(("cuda", "particles"), (1, PARTS), np.int64, "particles of parts")
    work = cache.result(("named", WORK), (1, 1), np.int64, WORK)
    names = ("count_sums", "count_starts", "count_particles", "sample")
    table = c_type(phi.dtype)
    count, start, particles, sample = (
        kernel(cache, name, (k, table), lambda: gibbs_source(k, table)) for name in names
    )
    memory = _counts(cache, pattern.rows, k)
    by_length = length_order(cache, pattern, by_column=False)
    if cache.reserving:
        return
    entries = [pattern.rows, pattern.indptr, X.slot.array]
    backend.launch(count, PARTS, WARPS, *entries, sums.array)
    backend.launch_blocks(start, 1, sums.array, draws.flops_each, work.array)
    backend.tally.counted_in(work.array)
    backend.launch(particles, PARTS, WARPS, *entries, sums.array, first.array)
    call = [pattern.rows, by_length[0], *pattern.offsets(), X.slot.array, first.array]
    call += [mat.slot.array for mat in (draws.row_ids, draws.key, phi, draws.alpha)]
    call += [draws.burn, *z.shape]
    call += [z.array, weights.array, words.array, topics.array]
    if memory is None:
        backend.launch(sample, pattern.rows, WARPS, *call, 0)
    else:
        backend.launch_blocks(sample, memory.shape[0] // GROUPS, *call, memory.array)


def _counts(cache: MatCache, rows: int, k: int) -> Slot | None:
    """Return room for the counts of each group of lanes; None: they are in registers."""
    if k <= RESIDENT:
        return None
    blocks = min(-(-rows // GROUPS), COUNTING * cache.backend.processors)
    shape = blocks * GROUPS, -(-k // GIBBS_LANES) * GIBBS_LANES
    return cache.result(("cuda", "counts", shape), shape, np.float32, "counts of topics (sampler)")


@launches("topic_counts", "cuda")
def _topic_counts(
    cache: MatCache, pattern: PatternSlot, values: Slot, first: Slot, z: Slot, out: Slot
) -> None:
    k = out.shape[1]
    text = kernel(cache, turned_name("topic_counts", pattern), (k,), lambda: gibbs_source(k))
    active, starts, _, positions = turned(cache, pattern)
    if cache.reserving:
        return
    call = [active_count(pattern), pattern.columns, active, starts, positions, values.array]
    call += [first.array, z.shape[0], z.shape[1], z.array, out.array]
    cache.backend.launch(text, pattern.columns, 1, *call)
