"""List the words of topics by relevance.

Sievert, Shirley, Workshop on Interactive Language Learning, Visualization, and Interfaces, ACL
2014.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.arrays.compiled import kernel

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]


def relevant_words(table: Floats, top: int, relevance: float) -> list[list[tuple[int, float]]]:
    """List the `top` words of each topic as (row of the table, share of the topic), best first.

    table: [words x topics], not negative, of any scale.
    relevance: 1 orders words by their share of the topic, 0 by that share over the word's share of
        all topics, and numbers between by log share - (1 - relevance) log share of all. Sievert
        and Shirley (2014) found 0.6 best for readers.

    >>> relevant_words(np.array([[6.0, 9.0], [4.0, 1.0]]), 1, 1.0)
    [[(0, 0.6)], [(0, 0.9)]]
    >>> relevant_words(np.array([[6.0, 9.0], [4.0, 1.0]]), 1, 0.6)
    [[(1, 0.4)], [(0, 0.9)]]
    """
    (found,) = words_by_relevance(table, top, [relevance])
    sums = table.sum(axis=0)
    sums[sums == 0] = 1  # the shares of a topic without words are 0
    return [
        [(int(w), float(table[w, k] / sums[k])) for w in words] for k, words in enumerate(found)
    ]


def words_by_relevance(table: Floats, top: int, relevances: Sequence[float]) -> Ints:
    """Return the `top` words of each topic for each relevance, best first.

    The table is read once for all of them. Of words that are equally relevant, the first in the
    table comes first; so do all words of a topic whose numbers are 0. See `relevant_words` for
    `table` and relevances.

    Returns:
        Rows of the table, int64 [relevances x topics x top]; fewer if the table has fewer words.
    """
    words, topics = table.shape
    common = np.maximum(table.sum(axis=1) / table.sum(), np.finfo(table.dtype).tiny)
    lifts = np.stack([common ** (1.0 - relevance) for relevance in relevances], axis=1)
    shape = (topics, len(relevances), min(top, words))
    found = np.broadcast_to(np.arange(shape[2]), shape).copy()
    scores = np.full(shape, -np.inf, table.dtype)
    list_words(table, table.sum(axis=0), lifts, found, scores, scores[:, :, -1].copy())
    return found.transpose(1, 0, 2)


@kernel
def list_words(
    table: Floats, sums: Floats, lifts: Floats, found: Ints, scores: Floats, least: Floats
) -> None:
    """Set found[k, r] to the words with the largest table[w, k] / sums[k] / lifts[w, r].

    found: [topics x relevances x listed]; topics whose sum is 0 are left as they are.
    scores: of the same shape, -inf; gets the quotients.
    least: [topics x relevances], -inf; gets the last scores, which fit into the processor's cache.
    """
    last = found.shape[2] - 1
    for word in range(table.shape[0]):
        for topic in range(table.shape[1]):
            if sums[topic] == 0:
                continue
            share = table[word, topic] / sums[topic]
            for which in range(found.shape[1]):
                score = share / lifts[word, which]
                if not least[topic, which] < score:
                    continue
                place = last
                while place > 0 and scores[topic, which, place - 1] < score:
                    scores[topic, which, place] = scores[topic, which, place - 1]
                    found[topic, which, place] = found[topic, which, place - 1]
                    place -= 1
                scores[topic, which, place], found[topic, which, place] = score, word
                least[topic, which] = scores[topic, which, last]
