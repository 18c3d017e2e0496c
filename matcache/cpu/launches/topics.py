"""CPU launches of splitting tokens and sampling topics."""

from __future__ import annotations

from math import ceil

import numpy as np

from ...containers.cache import MatCache
from ...containers.chunks import column_bounds, row_bounds, worthwhile
from ...containers.dispatch import launches
from ...containers.slots import PatternSlot, Slot
from ...operations.sampling import CAP, Draws
from ..gibbs import GROUP, count_particles, padded, sample_rows, topic_counts


@launches("topic_counts", "cpu")
def _topic_counts(
    cache: MatCache, pattern: PatternSlot, values: Slot, first: Slot, z: Slot, out: Slot
) -> None:
    active, starts, _, positions = pattern.transposed()
    work = pattern.nnz * z.shape[0] + out.shape[0] * out.shape[1]
    chunks = worthwhile(work, cache.backend.threads)
    call = [column_bounds(cache, pattern, chunks), active, starts, positions, values.data()[0]]
    call += [first.data()[0], z.data(), out.data()]
    if cache.reserving:
        cache.backend.expect(topic_counts, 0, 0, *call)
    else:
        cache.backend.run(topic_counts, chunks, *call)


@launches("sample_topics", "cpu")
def _sample_topics(cache: MatCache, draws: Draws) -> None:
    X, phi, first, z = draws.X, draws.phi, draws.first, draws.z
    pattern, k = X.pattern, phi.shape[1]
    u, weights = (draws.scratch(name, np.float32) for name in ("uniform numbers", "weights"))
    words, topics = draws.scratch("words", np.int64), draws.scratch("topics", np.int32)
    counts = cache.result(
        ("sampler counts", k), (cache.backend.threads, 2 * GROUP * padded(k)), np.float32, "counts"
    )
    state = cache.result(
        ("sampler chains",), (cache.backend.threads, (GROUP + 1) ** 2), np.int64, "chains"
    )
    indptr, indices = pattern.offsets()
    values = X.slot.data()[0]
    call = [row_bounds(cache, X.shape[0], pattern), indptr, indices, values, first.data()[0]]
    call += [mat.slot.data() for mat in (draws.row_ids, draws.key, phi, draws.alpha)]
    chains = state.data().reshape(-1, GROUP + 1, GROUP + 1)
    call += [draws.burn, z.data(), counts.data(), chains]
    call += [slot.data()[0] for slot in (u, weights, words, topics)]
    if cache.reserving:
        cache.backend.expect(count_particles, indptr, X.shape[0], values, first.data()[0])
        cache.backend.expect(sample_rows, 0, 0, *call)
        return
    count_particles(indptr, X.shape[0], values, first.data()[0])
    cache.backend.run(sample_rows, len(call[0]) - 1, *call)
    if pattern.nnz:  # particles before the last entry, plus its own
        last = float(values[pattern.nnz - 1])
        particles = int(first.data()[0, pattern.nnz - 1])
        particles += ceil(min(last, CAP)) if last > 0 else 0
        cache.flops += draws.flops_each * particles


@launches("split_tokens", "cpu")
def _split_tokens(
    cache: MatCache,
    pattern: PatternSlot,
    values: Slot,
    row_ids: Slot,
    key: Slot,
    seen: Slot,
    scored: Slot,
) -> None:
    kernel = cache.backend.kernels["split_tokens"]
    call = [
        row_bounds(cache, pattern.rows, pattern),
        pattern.offsets()[0],
        values.data()[0],
        row_ids.data(),
        key.data(),
        seen.data()[0],
        scored.data()[0],
    ]
    if cache.reserving:
        cache.backend.expect(kernel, 0, 0, *call)
    else:
        cache.backend.run(kernel, len(call[0]) - 1, *call)
