"""Collapsed Gibbs sampling of topics on the CPU, with a fixed table of topics.

Mimno, Hoffman, Blei (ICML 2012), section 3. A row depends only on its own data, its own key and the
table. An entry of weight x counts as min(ceil(x), CAP) particles of equal weight, each with a
topic.

With few topics, their counts stay in registers: see `row_vectors`.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from typing import Any, NamedTuple

import numpy as np

from ...operations.sampling import CAP
from ..compiling.jit import helper, kernel
from .chains import LEFT, ROW, SWEEP, begin_chains, begin_sweeps, run_chains
from .draws import COLUMN, START, STOP
from .numbers import begin_counts, grid_of, power_up_to, sum_of
from .vectors import LANES

_f, _i32 = np.float32, np.int32
_plain = helper(places=True)


@_plain
def particles(x):
    """Return how many equal particles an entry of weight x has; 0 if x <= 0 or NaN."""
    return np.int64(np.ceil(min(x, _f(CAP)))) if x > 0 else np.int64(0)


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

    z: uint16 [particles x saved sweeps].
    sums: float64 [threads x 2 k], scratch.
    out: float32 [columns x k].

    Weights are whole multiples of 2^-30 of the column's largest, so their sums are exact in any
    order. Sweeps take turns at two sums, since an addition waits for the one before to the same
    number. Rows of absent columns are zeroed by the chunk that reaches them.
    """
    k, sweeps, own = out.shape[1], z.shape[1], sums[thread]
    first_column, last_column = bounds[chunk], bounds[chunk + 1]
    begin = first_column
    if first_column and not local:
        begin = active[first_column - 1] + 1
    for j in range(2 * k):
        own[j] = 0
    for a in range(first_column, last_column):
        column = a if local else active[a]
        for c in range(begin, column):
            for j in range(k):
                out[c, j] = 0
        begin = column + 1
        largest = _f(1e-30)
        for e in range(starts[a], starts[a + 1]):
            largest = max(largest, share(values[t_pos[e]], sweeps))
        grid = np.float64(power_up_to(largest)) * 2.0**-30
        for e in range(starts[a], starts[a + 1]):
            i = t_pos[e]
            weight = np.rint(share(values[i], sweeps) / grid)
            for p in range(first[i], first[i] + particles(values[i])):
                for s in range(0, sweeps - 1, 2):
                    own[z[p, s]] += weight
                    own[k + z[p, s + 1]] += weight
                if sweeps % 2:
                    own[z[p, sweeps - 1]] += weight
        for j in range(k):
            out[column, j] = (own[j] + own[k + j]) * grid
            own[j] = own[k + j] = 0
    if last_column == bounds[bounds.size - 1] and (chunk == 0 or first_column < last_column):
        for c in range(begin, out.shape[0]):
            for j in range(k):
                out[c, j] = 0


class InWork(NamedTuple):
    """Scratch numbers of the particles of rows in work.

    words, topics: int32, two rows of one array, since up to AHEAD numbers behind words are read.
    weights, u: float32, the weight and a uniform number.
    """

    words: Any
    topics: Any
    weights: Any
    u: Any


@_plain
def prepare(d, n, at, indptr, indices, values, first, alpha, alpha_sum, work):
    """Write down the particles of row d, and its counts; return the first one and the end.

    n[at : at + padded(k)]: alpha, on a grid whose float32 sums are exact.
    """
    words, weights, total, size = work.words, work.weights, alpha_sum, np.int64(0)
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
                words[p] = indices[i]
                weights[p] = weight
                work.topics[p] = _i32(-1)
                p += 1
    begin_counts(n, at, alpha, grid)
    return start, start + size


@kernel(places=True)
def sample_rows(
    chunk, thread, bounds, indptr, indices, values, first, row_ids, key, phi, alpha, burn, save, z,
    theta, summed, work, sweep_at, scratch, state,
):  # fmt: skip
    """Sample the topics of a chunk of rows.

    phi: float32 [columns x k], positive, up to a factor per column.
    alpha: [1 x k].
    first: from `count_particles`.
    save: later sweeps, which give a result.
    z: uint16 [particles x save], the topics after each of them; if summed, scratch that has a row
        for each thread.
    theta: float32 [rows x k], the counts of rows plus alpha, added up; alpha of rows without any.
    summed: 1: theta is wanted; 0: z is.
    work: a record.
    sweep_at: the address of a kernel of `sweep_of`, for the number of topics.
    scratch: float32 [threads x PARTS x padded(k)], see `run_sweep`, and behind the parts of a
        thread ROOM x chains numbers, see `begin_sweeps`.
    state: scratch int64 [threads x STATE x chains], see `chains.py`.

    The first sweep draws each particle given those before it. alpha and weights are rounded to a
    grid of 2^-22 of the row's total. float32 sums on this grid are exact, so they do not drift.
    """
    own, chains, k = scratch[thread], state[thread], phi.shape[1]
    width = (k + LANES - 1) // LANES * LANES
    each = np.int64(0) if summed else np.int64(z.shape[1])
    arrays = work.words, work.topics, work.weights, phi, z, each
    begin_chains(chains)
    alpha_sum = sum_of(alpha)
    row, end, live = bounds[chunk], bounds[chunk + 1], 1
    while live > 0:
        for c in range(chains.shape[1]):
            if chains[LEFT, c] == 0:
                d, sweep, start, stop = (
                    chains[ROW, c], chains[SWEEP, c], chains[START, c], chains[STOP, c]
                )  # fmt: skip
                if summed and d >= 0 and sweep > burn:
                    for j in range(k):
                        theta[d, j] += own[(1 + c) * width + j]
                if d < 0 or sweep == burn + save:
                    d, sweep, start, stop = -1, 0, np.int64(0), np.int64(0)
                    while start == stop and row < end:
                        start, stop = prepare(
                            row, own, (1 + c) * width, indptr, indices, values, first, alpha,
                            alpha_sum, work,
                        )  # fmt: skip
                        if summed:
                            for j in range(k):
                                theta[row, j] = _f(0) if start < stop else alpha[0, j]
                        d = row if start < stop else -1
                        row += 1
                chains[ROW, c] = d
                if d >= 0:
                    most = 1 if summed else burn + save - sweep
                    chains[COLUMN, c] = thread * z.shape[1] if summed else sweep - burn
                    begin_sweeps(
                        chains, c, start, stop - start, sweep, most, row_ids[d, 0], key, work.u, own
                    )
        live = run_chains(sweep_at, chains, own, width, k, arrays)
