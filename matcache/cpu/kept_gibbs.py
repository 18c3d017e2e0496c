"""Collapsed Gibbs sweeps on the CPU over tokens whose topics are kept.

Griffiths, Steyvers (PNAS 2004), eq. 5, given a table of topics that is fixed for a block. Every
token counts 1. See `operations/kept_topics.py`.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np
from numba import njit

from ..errors import ShapeError
from .gibbs import GROUP, LANES, grid_of, sample, uniforms
from .jit import kernel
from .list_vectors import fetch_line

AHEAD = 8  # entries between fetching the topics of one, and moving their counts
_f, _i32 = np.float32, np.int32
_plain = njit(nogil=True, error_model="numpy")


@kernel()
def count_tokens(indptr, rows, values, topics, first, moved, each, counted):
    """Set first[i] to the number of entry i's first token, counting all; set `moved` to zero.

    Adds `each` operations for every token to counted[0]. Raises ShapeError where `topics` has no
    room for all tokens.
    """
    total = np.int64(0)
    for i in range(indptr[0], indptr[rows]):
        first[i] = total
        total += np.int64(values[i])
    if total > topics.size:
        raise ShapeError(
            "redraw_topics: a block has more tokens than `topics` has room for: rows must have the "
            "same counts in each pass."
        )
    for thread in range(moved.shape[0]):
        for k in range(moved.shape[1]):
            moved[thread, k] = 0.0
    counted[0] += each * total


@_plain
def share_left(phi, word, topic, one):
    """Return what is left of phi at a token's present topic without the token, as a share."""
    f, own = phi[word, topic], one[0, topic]
    return max((f - own) / ((_f(1) - own) * f), _f(0))


@_plain
def begin_row(d, at, n, indptr, indices, values, first, topics, phi, one, alpha, sweeps, old, words,
              now, shares):  # fmt: skip
    """Write a row's tokens down, and its counts into n; return its first token, size and sweeps.

    n[at : at + padded(k)]: tokens by topic, plus alpha on a grid whose float32 sums are exact.
    """
    k = alpha.shape[1]
    start = size = np.int64(0)
    if indptr[d + 1] > indptr[d]:
        last = indptr[d + 1] - 1
        start = first[indptr[d]]
        size = first[last] + np.int64(values[last]) - start
    if size == 0:
        return start, size, np.int64(0)
    total = _f(size)
    for j in range(k):
        total += alpha[0, j]
    grid = grid_of(total)
    for j in range((k + LANES - 1) // LANES * LANES):
        n[at + j] = max(_f(np.rint(alpha[0, j] / grid)), _f(1)) * grid if j < k else _f(0)
    p = start
    for i in range(indptr[d], indptr[d + 1]):
        word = np.int64(indices[i])
        for _ in range(np.int64(values[i])):
            topic = old[p] = topics[p]
            words[p] = word * k
            now[p], shares[p] = _i32(-1), _f(1)
            if topic < k:
                now[p] = topic
                n[at + topic] += _f(1)
                shares[p] = share_left(phi, word, topic, one)
            p += 1
    return start, size, np.int64(1) if topics[start] < k else np.int64(sweeps)


@_plain
def redraw(p, n, at, sums, phi, words, u, now, shares):
    """Draw the topic of token p anew.

    Its share of phi multiplies the row's count while it is drawn: only their product matters.
    """
    before, left = now[p], _f(0)
    if before >= 0:
        left = n[at + before] - _f(1)
        n[at + before] = left * shares[p]
    topic = sample(n, at, phi, words[p], u[p], _i32(-1), _f(1), sums, phi.shape[1])
    if before >= 0:
        n[at + before] = left + _f(1) if topic == before else left
    now[p] = topic


@_plain
def end_row(start, size, topics, old, now, moved, thread):
    """Store a row's topics, and add to moved[thread] what each topic gains."""
    for p in range(start, start + size):
        before, after = old[p], now[p]
        if before != after:
            topics[p] = after
            moved[thread, after] += 1.0
            if before < moved.shape[1]:
                moved[thread, before] -= 1.0


START, SIZE, DUE = range(3)  # of a row: its first token, their number, and its sweeps


@kernel()
def redraw_rows(chunk, thread, bounds, indptr, values, first, row_ids, key, indices, topics, phi,
                one, alpha, sweeps, old, moved, counts, state, u, words, now, shares):  # fmt: skip
    """Draw new topics for the tokens of a chunk of rows: see `redraw_topics`.

    counts: scratch float32 [threads x 8 padded(k)].
    state: scratch int64 [threads x 4 x 3], of the rows in work.
    u, words, now, shares: scratch float32, int64, int32 and float32, one number per token.

    Four rows take turns, since one alone waits for itself. A row that has all its sweeps, or is
    longer than the others, is finished alone.
    """
    n, rows, end = counts[thread], state[thread], bounds[chunk + 1]
    a, sums = n.shape[0] // (2 * GROUP), n.shape[0] // 2
    for r in range(bounds[chunk], end, GROUP):
        most = np.int64(0)
        for c in range(GROUP):
            start = size = due = np.int64(0)
            if r + c < end:
                start, size, due = begin_row(
                    r + c, c * a, n, indptr, indices, values, first, topics, phi, one, alpha,
                    sweeps, old, words, now, shares,
                )  # fmt: skip
            rows[c, START], rows[c, SIZE], rows[c, DUE] = start, size, due
            most = max(most, due)
        for sweep in range(most):
            together = np.int64(2**62)
            for c in range(GROUP):
                live = rows[c, SIZE] if sweep < rows[c, DUE] else np.int64(0)
                together = min(together, live)
                if live > 0:
                    uniforms(u, rows[c, START], live, sweep, row_ids[r + c, 0], key)
            p0, p1, p2, p3 = rows[0, START], rows[1, START], rows[2, START], rows[3, START]
            for i in range(together):
                redraw(p0 + i, n, 0, sums, phi, words, u, now, shares)
                redraw(p1 + i, n, a, sums + a, phi, words, u, now, shares)
                redraw(p2 + i, n, 2 * a, sums + 2 * a, phi, words, u, now, shares)
                redraw(p3 + i, n, 3 * a, sums + 3 * a, phi, words, u, now, shares)
            for c in range(GROUP):
                if sweep < rows[c, DUE]:
                    start = rows[c, START]
                    for p in range(start + together, start + rows[c, SIZE]):
                        redraw(p, n, c * a, sums + c * a, phi, words, u, now, shares)
        for c in range(GROUP):
            end_row(rows[c, START], rows[c, SIZE], topics, old, now, moved, thread)


@kernel()
def move_counts(chunk, thread, bounds, active, starts, t_pos, values, first, old, new, counts):
    """Move the tokens of columns from their old topics to the new ones.

    old, new: [tokens], k or more for none.
    counts: float32 [columns x k], changed in place.
    """
    last = starts[bounds[bounds.size - 1]] - 1
    for a in range(bounds[chunk], bounds[chunk + 1]):
        word = active[a]
        for e in range(starts[a], starts[a + 1]):
            i = t_pos[min(e + 2 * AHEAD, last)]
            fetch_line(first, i)
            fetch_line(values, i)
            p = first[t_pos[min(e + AHEAD, last)]]
            fetch_line(old, p)
            fetch_line(new, p)
            i = t_pos[e]
            for p in range(first[i], first[i] + np.int64(values[i])):
                before, after = old[p], new[p]
                if before != after:
                    counts[word, after] += _f(1)
                    if before < counts.shape[1]:
                        counts[word, before] -= _f(1)


@kernel()
def add_moved(moved, totals):
    """Add what threads counted: totals[k] += moved[:, k]."""
    for thread in range(moved.shape[0]):
        for k in range(moved.shape[1]):
            totals[0, k] += moved[thread, k]
