"""Collapsed Gibbs sampling of topics on the CPU, with a fixed table of topics.

Mimno, Hoffman, Blei (ICML 2012), section 3. A row depends only on its own data, its own key and the
table. An entry of weight x counts as min(ceil(x), CAP) particles of equal weight, each with a
topic.

The number of topics is known when the kernel runs, so one compilation serves all.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import math

import numpy as np

from ...operations.sampling import CAP
from ..jit import helper, kernel
from .draw_vectors import sample
from .numbers import grid_of, uniforms
from .vectors import LANES

GROUP = 4  # rows sampled together: 34 ns per token alone, 19 with 4, since their chains overlap
_f = np.float32
_plain = helper(places=True)


@_plain
def particles(x):
    """Return how many equal particles an entry of weight x has; 0 if x <= 0 or NaN."""
    return min(np.int64(math.ceil(x)), np.int64(CAP)) if x > 0 else np.int64(0)


@kernel(places=True)
def count_particles(indptr, rows, values, first):
    """Set first[i] to the number of entry i's first particle, counting all in order."""
    total = np.int64(0)
    for i in range(indptr[0], indptr[rows]):
        first[i] = total
        total += particles(values[i])


@kernel(places=True)
def count_draws(indptr, rows, values, first, each, counted):
    """Add `each` operations for every particle of the block to counted[0]."""
    end = indptr[rows]
    if end > 0:
        counted[0] += each * (first[end - 1] + particles(values[end - 1]))


@_plain
def share(value, sweeps):
    """Return the weight of each particle of an entry in a sweep."""
    count = particles(value)
    return value / _f(count * sweeps) if count > 0 else _f(0)


@kernel(places=True)
def topic_counts(chunk, thread, bounds, active, starts, t_pos, values, first, z, sums, out, local):
    """Compute out[c] = column c's particle weights by topic, averaged over sweeps.

    local: 1: out[a] is that of the a-th column that occurs; else 0.

    z: uint16 [saved sweeps x particles].
    sums: float64 [threads x k], scratch.
    out: float32 [columns x k].

    Weights are whole multiples of 2^-30 of the column's largest, so their sums are exact in any
    order. Rows of absent columns are zeroed by the chunk that reaches them.
    """
    k, sweeps = out.shape[1], z.shape[0]
    first_column, last_column = bounds[chunk], bounds[chunk + 1]
    begin = first_column
    if first_column and not local:
        begin = active[first_column - 1] + 1
    for a in range(first_column, last_column):
        column = a if local else active[a]
        for c in range(begin, column):
            for j in range(k):
                out[c, j] = 0
        begin = column + 1
        largest = _f(1e-30)
        for e in range(starts[a], starts[a + 1]):
            largest = max(largest, share(values[t_pos[e]], sweeps))
        grid = math.ldexp(1.0, math.frexp(largest)[1] - 31)
        for j in range(k):
            sums[thread, j] = 0
        for e in range(starts[a], starts[a + 1]):
            i = t_pos[e]
            weight = np.rint(share(values[i], sweeps) / grid)
            for p in range(first[i], first[i] + particles(values[i])):
                for s in range(sweeps):
                    sums[thread, z[s, p]] += weight
        for j in range(k):
            out[column, j] = sums[thread, j] * grid
    if last_column == bounds[bounds.size - 1] and (chunk == 0 or first_column < last_column):
        for c in range(begin, out.shape[0]):
            for j in range(k):
                out[c, j] = 0


@_plain
def prepare(d, at, n, indptr, indices, values, first, alpha, weights, words, topics):
    """Write down the particles of row d and its counts; return the first one and the end."""
    k = alpha.shape[1]
    total = _f(0)
    for j in range(k):
        total += alpha[0, j]
    size = np.int64(0)
    for i in range(indptr[d], indptr[d + 1]):
        count = particles(values[i])
        size += count
        if count > 0:
            total += values[i]
    if size == 0:
        return np.int64(0), size
    grid = grid_of(total)
    start = p = first[indptr[d]]
    for i in range(indptr[d], indptr[d + 1]):
        count = particles(values[i])
        if count > 0:
            weight = max(_f(np.rint(values[i] / _f(count) / grid)), _f(1)) * grid
            for _ in range(count):
                words[p] = np.int64(indices[i]) * k
                weights[p] = weight
                topics[p] = -1
                p += 1
    for j in range((k + LANES - 1) // LANES * LANES):
        n[at + j] = max(_f(np.rint(alpha[0, j] / grid)), _f(1)) * grid if j < k else _f(0)
    return start, start + size


ROW, SWEEP, START, STOP, AT = range(5)  # of a chain: its row, sweep, particles and the next one


@_plain
def next_sweep(
    chains, c, end, n, indptr, indices, values, first, row_ids, key, alpha, burn, z, u, weights,
    words, topics,
):  # fmt: skip
    """Save the sweep of chain c; begin the row's next one, or the next row with particles.

    Its row becomes -1 if no rows before `end` are left.
    """
    row, sweep, start, stop = chains[c, ROW], chains[c, SWEEP], chains[c, START], chains[c, STOP]
    if row >= 0 and sweep >= burn:
        for i in range(start, stop):
            z[sweep - burn, i] = topics[i]
    sweep += 1
    if row < 0 or sweep == burn + z.shape[0]:
        sweep = 0
        start = stop
        while start == stop and chains[GROUP, ROW] < end:
            row = chains[GROUP, ROW]
            chains[GROUP, ROW] += 1
            start, stop = prepare(
                row, c * n.shape[0] // (2 * GROUP), n, indptr, indices, values, first, alpha,
                weights, words, topics,
            )  # fmt: skip
        if start == stop:
            row = -1
    if row >= 0:
        uniforms(u, start, stop - start, sweep, row_ids[row, 0], key)
    chains[c, ROW], chains[c, SWEEP], chains[c, AT] = row, sweep, start
    chains[c, START], chains[c, STOP] = start, stop


@kernel(places=True)
def sample_rows(
    chunk, thread, bounds, indptr, indices, values, first, row_ids, key, phi, alpha, burn, z,
    counts, state, u, weights, words, topics,
):  # fmt: skip
    """Sample the topics of a chunk of rows, for any number of topics k.

    phi: float32 [columns x k], positive, up to a factor per column.
    alpha: [1 x k].
    first: from `count_particles`.
    z: uint16 [saved sweeps x particles], the topics after each saved sweep.
    counts: scratch [threads x 8 padded(k)].
    state: scratch int64 [threads x 5 x 5], of the chains, and the first row that none has.
    u, weights: scratch float32, one per particle of the block.
    words, topics: scratch int64 and int32, one per particle of the block.

    Four chains sample a particle each in turn, since one alone waits for itself. At the end of a
    row, a chain takes the next row that no other has.

    The first sweep draws each particle given those before it. alpha and weights are rounded to a
    grid of 2^-22 of the row's total. float32 sums on this grid are exact, so they do not drift.
    """
    k, n, chains, end = phi.shape[1], counts[thread], state[thread], bounds[chunk + 1]
    b, sums = n.shape[0] // (2 * GROUP), n.shape[0] // 2
    for c in range(GROUP):
        chains[c, ROW] = -1
        chains[c, AT] = chains[c, STOP] = 0
    chains[GROUP, ROW] = bounds[chunk]
    while True:
        running, steps = 0, np.int64(2**62)
        for c in range(GROUP):
            if chains[c, AT] == chains[c, STOP]:
                next_sweep(
                    chains, c, end, n, indptr, indices, values, first, row_ids, key, alpha, burn, z,
                    u, weights, words, topics,
                )  # fmt: skip
            if chains[c, ROW] >= 0:
                running += 1
                steps = min(steps, chains[c, STOP] - chains[c, AT])
        if running == 0:
            break
        if running == GROUP:
            i0, i1, i2, i3 = chains[0, AT], chains[1, AT], chains[2, AT], chains[3, AT]
            for _ in range(steps):
                t0 = sample(n, 0, phi, words[i0], u[i0], topics[i0], weights[i0], sums, k)
                t1 = sample(n, b, phi, words[i1], u[i1], topics[i1], weights[i1], sums + b, k)
                t2 = sample(
                    n, 2 * b, phi, words[i2], u[i2], topics[i2], weights[i2], sums + 2 * b, k
                )
                t3 = sample(
                    n, 3 * b, phi, words[i3], u[i3], topics[i3], weights[i3], sums + 3 * b, k
                )
                topics[i0], topics[i1], topics[i2], topics[i3] = t0, t1, t2, t3
                i0, i1, i2, i3 = i0 + 1, i1 + 1, i2 + 1, i3 + 1
            for c in range(GROUP):
                chains[c, AT] += steps
        else:
            for c in range(GROUP):
                for i in range(chains[c, AT], chains[c, STOP]):
                    topics[i] = sample(
                        n, c * b, phi, words[i], u[i], topics[i], weights[i], sums + c * b, k
                    )
                chains[c, AT] = chains[c, STOP]
