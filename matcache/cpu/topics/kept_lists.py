"""Collapsed Gibbs sweeps on the CPU whose cost hardly grows with the number of topics.

The weight of a topic, (n + alpha) phi, is split: n phi is summed over the topics that a document
has, alpha phi once for each word of the block. Yao, Mimno, McCallum, KDD 2009.

A block is swept word by word, so that a word's row of the table stays in the first cache, with the
lists of the documents. Within a document the order of tokens is that of its entries, whichever
rows are swept together: chunks of rows change no bits.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from typing import Any, NamedTuple

import numpy as np

from ..compiling.jit import helper, kernel
from .list_vectors import (
    ALPHA,
    ENDS,
    PHI,
    SCALES,
    SUMS,
    choose,
    count_up_to,
    find,
    sum_word,
)
from .numbers import uniforms
from .tokens import tokens_of
from .vectors import LANES, fetch_first, fetch_line, fetch_second

WORDS_AHEAD = 3  # words between fetching the row of one into the second cache, and summing it
AHEAD = 4  # entries between fetching the tokens and the list of one, and drawing them
SPAN = 4 * LANES  # topics of a group, see `sum_word`
_f, _i32 = np.float32, np.int32
_plain = helper(places=True)


def widened(k: int) -> int:
    """Return k rounded up to whole groups."""
    return -(-k // SPAN) * SPAN


class Lists(NamedTuple):
    """The topics that each document has, and how many of its tokens each of them has.

    held, counts: topics and tokens, int32 and float32; whole vectors of a document hold a topic of
        each token.
    sizes, at: topics in the list of a document, and where it begins.
    due: its sweeps. All are scratch.
    """

    held: Any
    counts: Any
    sizes: Any
    at: Any
    due: Any


class Columns(NamedTuple):
    """The entries of a block by columns that occur.

    numbers: the block's numbers of non-zeros and of these columns.
    active, local: columns; where local, row a of the table is that of the a-th column, else that of
        its number.
    starts: first entry of each.
    rows, entries: of each of them, its document and its number in the order of rows.
    """

    numbers: Any
    active: Any
    local: Any
    starts: Any
    rows: Any
    entries: Any


class Scratch(NamedTuple):
    """Numbers of a thread, in parts of `width`: scales of phi, alpha, and sums of a word."""

    own: Any
    width: Any


@_plain
def begin_scratch(k, phi, scratch):
    """Write down the scales of phi and alpha, zero behind the last topic."""
    own, width = scratch.own, scratch.width
    for j in range(width):
        own[SCALES * width + j] = own[ALPHA * width + j] = _f(0)
    for j in range(k):
        own[SCALES * width + j] = phi.one[0, j] if phi.counted else _f(1)
        own[ALPHA * width + j] = phi.alpha[0, j]


@_plain
def begin_list(d, tokens, k, lists, places):
    """Make the list of a document's topics; return the number of its tokens.

    places: scratch [k].
    """
    start, size = tokens_of(d, tokens)
    at, length = (tokens.first[tokens.indptr[d]] + LANES * d) // LANES * LANES, np.int64(0)
    topics, held, counts = tokens.topics, lists.held, lists.counts
    if size > 0:
        for i in range(at, at + (min(size, k) + LANES - 1) // LANES * LANES):
            held[i], counts[i] = _i32(0), _f(0)
        for p in range(start, start + size):
            tokens.old[p] = topics[p]
            if topics[p] < k:
                topic = _i32(topics[p])
                place = np.int64(places[topic])
                if place >= length or held[at + place] != topic:
                    place = length
                    places[topic] = place
                    held[at + place] = topic
                    length += 1
                counts[at + place] += _f(1)
    lists.at[d], lists.sizes[d] = at, length
    return size


@helper(inline=True, places=True)
def search(t, k, scratch):
    """Return the topic in whose part of a word's sum t lies, how far t is in it, and the part."""
    own, width = scratch.own, scratch.width
    alpha, phi, sums, ends = ALPHA * width, PHI * width, SUMS * width, ENDS * width
    lane = min(count_up_to(own, ends, LANES, t), min(k, LANES) - 1)
    left = t - own[ends + lane - 1] if lane > 0 else t
    group = np.int64(0)
    for n in range((k - 1 - lane) // SPAN):
        group += 1 if own[sums + n * LANES + lane] <= left else 0
    if group > 0:
        left -= own[sums + (group - 1) * LANES + lane]
    topic = group * SPAN + lane
    part = own[alpha + topic] * own[phi + topic]
    while left >= part and topic + LANES < min(k, (group + 1) * SPAN):
        left -= part
        topic += LANES
        part = own[alpha + topic] * own[phi + topic]
    return topic, left, part


@helper(inline=True, places=True)
def draw(p, u, start, length, one, scratch, total, topics, old, lists):
    """Draw the topic of token p anew; return the length of its document's list.

    total: of `sum_word`.
    old: topics before all sweeps, by which the table counts tokens; k or more for none.
    """
    k, held, counts, own, width = one.shape[1], lists.held, lists.counts, scratch.own, scratch.width
    z, share, less = _i32(-1), _f(1), _f(0)
    if topics[p] < k:
        z = _i32(topics[p])
        if topics[p] == old[p]:
            phi, lost = own[PHI * width + z], one[0, z]
            share = max((phi - lost) / ((_f(1) - lost) * phi), _f(0))
            less = own[ALPHA * width + z] * phi * (_f(1) - share)
    rest = max(total - less, _f(0))
    place, t, mine = choose(held, counts, start, length, z, share, rest, u, own, width)
    if place >= 0:
        topic = held[start + place]
    else:
        found, inside, part = search(t, k, scratch)
        if found == z and inside >= part * share:
            # what the token takes from its topic stands for what lies behind the rest of the sum
            t = max(t - inside + part, rest) + (inside - part * share)
            found, inside, part = search(t, k, scratch)
        topic = _i32(found)
        place = find(held, counts, start, length, topic)
    if place != mine:
        if mine >= 0:
            counts[start + mine] -= _f(1)
            if counts[start + mine] == 0:  # the last of the list takes its place
                length -= 1
                held[start + mine] = held[start + length]
                counts[start + mine] = counts[start + length]
                held[start + length], counts[start + length] = _i32(0), _f(0)
                place = mine if place == length else min(place, length)
        if place == length:
            held[start + place] = topic
            length += 1
        counts[start + place] += _f(1)
        topics[p] = topic
    return length


@helper(inline=True, places=True)
def row_of(a, columns):
    """Return the row of the table that belongs to the a-th column that occurs."""
    return np.int64(a if columns.local else columns.active[a])


@_plain
def first_entry(t_rows, begin, end, row):
    """Return the first of a word's entries in `row` or after it; they are in order of rows."""
    while begin < end:
        middle = (begin + end) // 2
        if t_rows[middle] < row:
            begin = middle + 1
        else:
            end = middle
    return begin


@_plain
def sweep_words(begin, end, sweep, tokens, columns, phi, u, scratch, lists):
    """Draw the tokens of documents `begin` to `end`, word by word.

    What tokens need is fetched some entries before they are drawn. Rows of other chunks may have
    no place yet; then something else is fetched.
    """
    k, first, values, many = phi.one.shape[1], tokens.first, tokens.values, columns.numbers[1]
    last = columns.starts[many] - 1
    for a in range(many):
        word = row_of(a, columns)
        stop, total = columns.starts[a + 1], _f(-1)
        more = phi.extra[word, 0] if phi.counted else _f(0)
        if a + 1 < many:
            fetch_first(phi.table, row_of(a + 1, columns) * k, k)
        if a + WORDS_AHEAD < many:
            fetch_second(phi.table, row_of(a + WORDS_AHEAD, columns) * k, k)
        for entry in range(first_entry(columns.rows, columns.starts[a], stop, begin), stop):
            d = columns.rows[entry]
            if d >= end:
                break
            i = columns.entries[min(entry + 2 * AHEAD, last)]
            fetch_line(first, i)
            fetch_line(values, i)
            ahead = min(entry + AHEAD, last)
            p, start = first[columns.entries[ahead]], lists.at[columns.rows[ahead]]
            fetch_line(u, p)
            fetch_line(tokens.topics, p)
            fetch_line(tokens.old, p)
            fetch_line(lists.held, start)
            fetch_line(lists.counts, start)
            if sweep >= lists.due[d]:
                continue
            if total < 0:
                total = sum_word(phi.table, word * k, k, more, scratch.own, scratch.width)
            i = columns.entries[entry]
            start, length = lists.at[d], lists.sizes[d]
            for p in range(first[i], first[i] + np.int64(values[i])):
                length = draw(
                    p,
                    u[p],
                    start,
                    length,
                    phi.one,
                    scratch,
                    total,
                    tokens.topics,
                    tokens.old,
                    lists,
                )
            lists.sizes[d] = length


@kernel(places=True)
def redraw_lists(chunk, thread, bounds, tokens, columns, phi, lists, uniform, sweeps, again,
                 scratch, places):  # fmt: skip
    """Draw new topics for the tokens of a chunk of rows: see `redraw_topics`.

    tokens, columns, phi, lists, uniform: records.
    scratch: float32 [threads x 6 widened(k)]: scales of phi, alpha, phi of a word, its sums of
        lanes, sums of a document, and the word's sums of all lanes up to each.
    """
    own = Scratch(scratch[thread], scratch.shape[1] // 6)
    k, begin, end, due = phi.alpha.shape[1], bounds[chunk], bounds[chunk + 1], lists.due
    begin_scratch(k, phi, own)
    most = np.int64(0)
    for d in range(begin, end):
        size = begin_list(d, tokens, k, lists, places[thread])
        due[d] = again if lists.sizes[d] > 0 else np.int64(sweeps if size > 0 else 0)
        most = max(most, due[d])
    for sweep in range(most):
        for d in range(begin, end):
            if sweep < due[d]:
                start, size = tokens_of(d, tokens)
                uniforms(uniform.u, start, size, sweep, uniform.row_ids[d, 0], uniform.key)
        sweep_words(begin, end, sweep, tokens, columns, phi, uniform.u, own, lists)
