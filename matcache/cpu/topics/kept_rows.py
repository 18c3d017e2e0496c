"""Collapsed Gibbs sweeps on the CPU over tokens whose topics are kept: all topics are weighed.

Griffiths, Steyvers (PNAS 2004), eq. 5, given a table of topics that is fixed for a block.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from typing import Any, NamedTuple

import numpy as np

from ..compiling.jit import helper, kernel
from .chains import LEFT, ROW, SWEEP, begin_chains, begin_sweeps, run_chains
from .numbers import begin_counts, grid_of, sum_of
from .tokens import tokens_of
from .vectors import LANES, fetch_line

_f, _i32 = np.float32, np.int32
_plain = helper(places=True)


@_plain
def share_left(phi, own):
    """Return what is left of phi at a token's present topic without the token, as a share."""
    return max((phi - own) / ((_f(1) - own) * phi), _f(0))


class TokensInWork(NamedTuple):
    """Scratch numbers of the tokens of rows in work.

    words: int32, and AHEAD more.
    now, shares: the present topic, -1 for none, and what is left of phi at the old topic without
        the token; int32 and float32.
    """

    words: Any
    now: Any
    shares: Any


@_plain
def begin_row(d, n, at, tokens, indices, phi, alpha_sum, work):
    """Write a row's tokens down, and its counts into n; return its first token and their number.

    n[at : at + padded(k)]: tokens by topic, plus alpha on a grid whose float32 sums are exact.
    """
    alpha, words, topics = phi.alpha, work.words, tokens.topics
    k = alpha.shape[1]
    start, size = tokens_of(d, tokens)
    if size == 0:
        return start, size
    begin_counts(n, at, alpha, grid_of(alpha_sum + _f(size)))
    for i in range(tokens.indptr[d], tokens.indptr[d + 1]):
        for p in range(tokens.first[i], tokens.first[i] + np.int64(tokens.values[i])):
            words[p] = indices[i]
            fetch_line(phi.table, np.int64(indices[i]) * k + np.int64(topics[p]))
    for p in range(start, start + size):
        topic = tokens.old[p] = topics[p]
        known = topic < k
        work.now[p] = _i32(topic) if known else _i32(-1)
        if known:
            n[at + topic] += _f(1)
    for p in range(start, start + size):
        topic = min(_i32(topics[p]), _i32(k - 1))
        whole, own = phi.table[words[p], topic], phi.one[0, topic]
        if phi.counted:
            whole = (whole + phi.extra[words[p], 0]) * own
        left = share_left(whole, own)
        work.shares[p] = left if topics[p] < k else _f(1)
    return start, size


@kernel(places=True)
def redraw_rows(chunk, thread, bounds, tokens, indices, phi, uniform, work, sweeps, again,
                sweep_at, scratch, state):  # fmt: skip
    """Draw new topics for the tokens of a chunk of rows: see `redraw_topics`.

    tokens, phi, uniform, work: records.
    sweep_at: the address of a kernel of `sweep_of`, for the number of topics.
    scratch, state: see `sample_rows`.
    """
    own, chains, k = scratch[thread], state[thread], phi.alpha.shape[1]
    width = (k + LANES - 1) // LANES * LANES
    arrays = work.words, work.now, work.shares, phi.table, phi.extra, tokens.old
    for j in range(width):
        own[j] = (phi.one[0, j] if phi.counted else _f(1)) if j < k else _f(0)
    begin_chains(chains)
    alpha_sum = sum_of(phi.alpha)
    row, end, live = bounds[chunk], bounds[chunk + 1], 1
    while live > 0:
        for c in range(chains.shape[1]):
            if chains[LEFT, c] == 0:
                d, sweep = chains[ROW, c], chains[SWEEP, c]
                start, size = np.int64(0), np.int64(0)
                if d >= 0:
                    start, size = tokens_of(d, tokens)
                    if sweep == (again if tokens.old[start] < k else sweeps):
                        for p in range(start, start + size):
                            tokens.topics[p] = work.now[p]
                        d = -1
                if d < 0:
                    size, sweep = np.int64(0), 0
                    while size == 0 and row < end:
                        start, size = begin_row(
                            row, own, (1 + c) * width, tokens, indices, phi, alpha_sum, work
                        )
                        if size > 0 and again == 0 and tokens.old[start] < k:
                            size = np.int64(0)  # its topics stay
                        d = row if size > 0 else -1
                        row += 1
                chains[ROW, c] = d
                if d >= 0:
                    most = (again if tokens.old[start] < k else sweeps) - sweep
                    begin_sweeps(
                        chains, c, start, size, sweep, most, uniform.row_ids[d, 0], uniform.key,
                        uniform.u, own,
                    )  # fmt: skip
        live = run_chains(sweep_at, chains, own, width, k, arrays)
