"""CUDA launches of splitting tokens and sampling topics."""

from __future__ import annotations

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import turned
from ...containers.dispatch import launches
from ...containers.slots import PatternSlot, Slot
from ...operations.sampling import Draws
from ..kernels import gibbs_source, tokens_source
from ..order import active_count, length_order
from .common import WARPS, c_type, kernel, turned_name

PARTS = 1024  # parts of a block's entries with separate particle counts
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
    backend.launch(sample, pattern.rows, WARPS, *call)


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
