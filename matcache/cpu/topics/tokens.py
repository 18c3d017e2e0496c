"""Number the tokens of a block whose topics are kept, and move their counts.

Every token counts 1. See `operations/kept_topics.py`.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from typing import Any, NamedTuple

import numpy as np

from ...errors import ShapeError
from ..compiling.jit import helper, kernel
from .vectors import fetch_line

BESIDE = 16  # columns that stay together
MOVE_AHEAD = 12  # tokens between fetching the counts of one, and moving it
MOVED = 512  # tokens that are listed at a time
_f, _i32 = np.float32, np.int32
_plain = helper(places=True)


class Tokens(NamedTuple):
    """The tokens of a block, row after row and entry after entry.

    indptr, values: entries of the rows, and how many tokens each has.
    first: each entry's first token, from `count_tokens`.
    topics, old: topic of each token, and that before the sweep; k or more for none.
    """

    indptr: Any
    values: Any
    first: Any
    topics: Any
    old: Any


class Phi(NamedTuple):
    """What the weights of topics are made of.

    table, extra, counted: where counted, phi = (table + extra) one, with extra [columns x 1]; else
        phi = table.
    one: [1 x k], what a token adds to phi.
    alpha: [1 x k].
    """

    table: Any
    one: Any
    alpha: Any
    extra: Any
    counted: Any


class Uniform(NamedTuple):
    """Uniform numbers, and what they are made of.

    u: scratch float32, one number per token.
    row_ids, key: see `uniforms`.
    """

    u: Any
    row_ids: Any
    key: Any


@kernel(places=True)
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
def tokens_of(d, tokens):
    """Return a document's first token, and their number."""
    begin, end = tokens.indptr[d], tokens.indptr[d + 1]
    if begin == end:
        return np.int64(0), np.int64(0)
    last, start = end - 1, tokens.first[begin]
    return start, tokens.first[last] + np.int64(tokens.values[last]) - start


@kernel(places=True)
def begin_topics(chunk, thread, bounds, tokens, key, rows, topics):
    """Put the tokens of row i of a pass into topic i, if they have none and there are so many.

    rows: of a block.
    topics: their number.
    """
    for d in range(bounds[chunk], bounds[chunk + 1]):
        topic = key[0, 2] * rows + d
        start, size = tokens_of(d, tokens)
        for p in range(start, start + size):
            tokens.old[p] = tokens.topics[p]
            if topic < topics and tokens.old[p] >= topics:
                tokens.topics[p] = topic


@kernel(places=True)
def move_counts(chunk, thread, bounds, indptr, rows, indices, values, first, old, new, counts,
                moved, places):  # fmt: skip
    """Move the tokens of a part of the columns from their old topics to the new ones.

    bounds: [parts + 1], a power of two parts; columns take turns by BESIDE.
    old, new: [tokens], k or more for none.
    counts: float32 [columns x k], changed in place.
    moved: float64 [threads x k], to which it adds what each topic gains.
    places: scratch int32 [threads x 2 x MOVED], tokens and their words.

    Each part reads all tokens in the order of rows. It first lists some that moved and are its own,
    without a branch, since a processor guesses half of them wrong. Their counts are far apart, and
    are fetched ahead.
    """
    k, others, gained = counts.shape[1], bounds.size - 2, moved[thread]
    listed, words = places[thread, 0], places[thread, 1]
    i, last = indptr[0], indptr[rows]
    p, end = np.int64(0), np.int64(0)  # of the tokens of entry i - 1
    while p < end or i < last:
        found = 0
        while found < MOVED and (p < end or i < last):
            if p == end:
                p = first[i]
                end = p + np.int64(values[i])
                i += 1
            word = indices[i - 1]
            own = (np.int64(word) // BESIDE) & others == chunk
            stop = min(end, p + MOVED - found)
            while p < stop:
                listed[found], words[found] = _i32(p), word
                found += own & (old[p] != new[p])
                p += 1
        for a in range(found):
            ahead = min(a + MOVE_AHEAD, found - 1)
            at, coming = np.int64(words[ahead]) * k, listed[ahead]
            fetch_line(counts, at + np.int64(new[coming]))
            fetch_line(counts, at + np.int64(old[coming]))
            word, before, after = np.int64(words[a]), old[listed[a]], new[listed[a]]
            counts[word, after] += _f(1)
            gained[after] += 1.0
            if before < k:
                counts[word, before] -= _f(1)
                gained[before] -= 1.0


@kernel(places=True)
def add_moved(moved, totals):
    """Add what threads counted: totals[k] += moved[:, k]."""
    for thread in range(moved.shape[0]):
        for k in range(moved.shape[1]):
            totals[0, k] += moved[thread, k]
