"""Measure topics: coherence, distinct words, closeness.

The coherence of lists of words is in coherence.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blocklearn.datasources import HostBlock
from blocklearn.datasources.arrays.compiled import kernel
from blocklearn.matcache import Mat

from .coherence import MEASURES, SCRATCH, Measure, coherences
from .score import Room

COMPARED = 20  # first words of a topic whose coherence is measured, as in gensim
AT_ONCE = 16  # topics
LISTED = 25  # first words of a topic, among which distinct words are counted

DISTINCT, CLOSENESS = "distinct_words", "topic_closeness"
QUALITY = (*MEASURES, DISTINCT, CLOSENESS)
"""Names of all scores of topics, as `evaluate` gives them."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def distinct_words(topics: NDArray[np.integer]) -> float:
    """Return the share of distinct words in lists of first words.

    topics: columns [topics x words], each row a topic's most probable words.

    1: no word is listed twice. 1 / topics: all lists are equal.

    >>> distinct_words(np.array([[0, 1], [1, 2]]))
    0.75
    """
    return np.unique(topics).size / topics.size


def topic_closeness(topics: ArrayLike) -> float:
    """Return the mean cosine of every two topics, 0 to 1; NaN for fewer than two topics.

    topics: [words x topics], not negative, of any scale. A topic without words is at right angles
        to all others.

    >>> topic_closeness([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    0.3333333333333333
    """
    table = np.asarray(topics)
    return closeness(table, np.zeros(table.shape[1]))


class _Memory(NamedTuple):
    """Arrays of `TopicQuality`, for K topics, n compared words and l listed ones."""

    pairs: Ints  # [K x n x n], documents with two words of a topic
    first: Ints  # [K x l], first words of topics
    shares: NDArray[np.float32]  # [K x l], their shares
    starts: Ints  # [words + 1], first entry of a word
    entries: Ints  # [K n], places in topics
    met: Ints  # [K x n], words of a document
    sizes: Ints  # [K], their numbers
    touched: Ints  # [K], topics of a document
    lengths: Floats  # [K], lengths of topics
    shares_of_pairs: Floats  # [t x n x n], of t topics at a time
    scratch: Floats  # [SCRATCH x t x n x n]


class TopicQuality:
    """Scores the topics of a table by the documents of an evaluation.

    Scores are means over topics: coherence of the first `COMPARED` words by all measures, the share
    of distinct words among the first `LISTED`, and the mean cosine of topics. Memory is allocated
    by the first `clear`: int64 [topics x COMPARED x COMPARED] is most of it.
    """

    def __init__(self, topics: Mat) -> None:
        """topics: float32 [words x topics], not negative, of any scale."""
        self._topics = topics
        words, K = topics.shape
        n, listed, at_once = min(COMPARED, words), min(LISTED, words), min(AT_ONCE, K)
        self.rooms = [
            Room("pairs of words of topics", (K, n, n), "int64"),
            Room("first words of topics", (K, listed), "int64"),
            Room("shares of first words", (K, listed), "float32"),
            Room("first place of a word", (words + 1,), "int64"),
            Room("places of words in topics", (K * n,), "int64"),
            Room("words of a document", (K, n), "int64"),
            Room("words of a document in each topic", (K,), "int64"),
            Room("topics of a document", (K,), "int64"),
            Room("lengths of topics", (K,), "float64"),
            Room("shares of pairs of words", (at_once, n, n), "float64"),
            Room("scratch of coherence", (SCRATCH, at_once, n, n), "float64"),
        ]
        self._memory: _Memory | None = None
        self._documents = np.zeros(1, np.int64)

    def clear(self) -> None:
        """Forget all documents, and list the first words of the present topics."""
        if self._memory is None:
            self._memory = _Memory(*(np.zeros(room.shape, room.dtype) for room in self.rooms))
            self._topics.cache.backend.prepare(self.calls())
        own = self._memory
        own.pairs[...] = 0
        self._documents[0] = 0
        first_words(self._topics.shown(), own.first, own.shares)
        index_words(own.first, own.pairs.shape[1], own.starts, own.entries)

    def calls(self) -> Sequence[tuple[object, ...]]:
        """Return the kernels of an evaluation, each with arguments like those it will get."""
        own = _Memory(*(np.zeros((1,) * len(room.shape), room.dtype) for room in self.rooms))
        table, offsets = np.zeros((1, 1), np.float32), np.zeros(1, np.int64)
        rows = offsets, np.zeros(1, np.int32), np.zeros(1, np.float32)
        places, scratch = (own.starts, own.entries), (own.met, own.sizes, own.touched)
        return [
            (first_words, table, own.first, own.shares),
            (index_words, own.first, 1, own.starts, own.entries),
            (count_pairs, rows, places, scratch, own.pairs),
            (closeness, table, own.lengths),
        ]

    def add(self, block: HostBlock) -> None:
        """Count the pairs of listed words in the documents of a block on the host."""
        assert self._memory is not None
        own = self._memory
        rows = (block.indptr[: block.rows + 1], block.indices, block.values)
        scratch = (own.met, own.sizes, own.touched)
        count_pairs(rows, (own.starts, own.entries), scratch, own.pairs)
        self._documents[0] += block.rows

    @property
    def counted(self) -> Sequence[Ints]:
        """Pairs of words in documents, and documents: see `DataScore`."""
        assert self._memory is not None
        return [self._memory.pairs, self._documents]

    def figures(self) -> dict[str, float]:
        """Return the scores by name; those that have no value are left out."""
        assert self._memory is not None
        own = self._memory
        topics = len(own.pairs)
        found: dict[str, float] = {}
        for measure in MEASURES:
            each = self.by_topic(measure)
            if each is not None:
                found[measure] = math.fsum(each) / topics
        found[DISTINCT] = distinct_words(own.first)
        if topics > 1:
            found[CLOSENESS] = closeness(self._topics.shown(), own.lengths)
        return found

    def by_topic(self, measure: Measure) -> Floats | None:
        """Return the coherence of each topic, float64 [topics]; None if there is nothing to count.

        That is so without documents, and for topics of a single word.
        """
        assert self._memory is not None
        own, found = self._memory, np.empty(len(self._memory.pairs))
        if not self._documents or own.pairs.shape[1] < 2:
            return None
        for start in range(0, found.size, AT_ONCE):
            pairs = own.pairs[start : start + AT_ONCE]
            together, scratch = own.shares_of_pairs[: len(pairs)], own.scratch[:, : len(pairs)]
            np.copyto(together, pairs)
            np.divide(together, self._documents, out=together)
            found[start : start + AT_ONCE] = coherences(together, measure, scratch)
        return found


@kernel
def first_words(table: NDArray[np.float32], first: Ints, shares: NDArray[np.float32]) -> None:
    """Set first[k] to the words of the largest numbers in column k, the largest first.

    Of equal numbers, that of the lower word is first. shares: scratch, as large as `first`.
    """
    listed = first.shape[1]
    for word in range(table.shape[0]):
        for topic in range(table.shape[1]):
            value = table[word, topic]
            place = min(word, listed)
            while place > 0 and not shares[topic, place - 1] >= value:
                place -= 1
            if place < listed:
                for other in range(min(word, listed - 1), place, -1):
                    shares[topic, other] = shares[topic, other - 1]
                    first[topic, other] = first[topic, other - 1]
                shares[topic, place], first[topic, place] = value, word


@kernel
def index_words(first: Ints, compared: int, starts: Ints, entries: Ints) -> None:
    """Index places of words: entries[starts[w]:starts[w + 1]] are those of word w.

    A place is topic * compared + rank. The first `compared` words of each topic have one.
    """
    starts[:] = 0
    for topic in range(first.shape[0]):
        for rank in range(compared):
            starts[first[topic, rank] + 1] += 1
    for word in range(starts.size - 1):
        starts[word + 1] += starts[word]
    for topic in range(first.shape[0] - 1, -1, -1):
        for rank in range(compared):
            word = first[topic, rank]
            starts[word + 1] -= 1
            entries[starts[word + 1]] = topic * compared + rank
    for word in range(starts.size - 1):
        starts[word] = starts[word + 1]
    starts[starts.size - 1] = entries.size


@kernel
def count_pairs(
    rows: tuple[Ints, NDArray[np.int32], NDArray[np.float32]],
    places: tuple[Ints, Ints],
    scratch: tuple[Ints, Ints, Ints],
    pairs: Ints,
) -> None:
    """Add to pairs[k, i, j] the documents with words i and j of topic k.

    rows: indptr, indices and values of the documents; a word occurs where its value is positive.
    places: starts and entries of `index_words`.
    scratch: [topics x compared], [topics], which is 0 before and after, and [topics].
    """
    indptr, indices, values = rows
    starts, entries = places
    met, sizes, touched = scratch
    compared = pairs.shape[1]
    for row in range(indptr.size - 1):
        topics = 0
        for i in range(indptr[row], indptr[row + 1]):
            if values[i] > 0:
                for entry in range(starts[indices[i]], starts[indices[i] + 1]):
                    topic = entries[entry] // compared
                    if sizes[topic] == 0:
                        touched[topics] = topic
                        topics += 1
                    met[topic, sizes[topic]] = entries[entry] % compared
                    sizes[topic] += 1
        for place in range(topics):
            topic = touched[place]
            for one in range(sizes[topic]):
                for other in range(sizes[topic]):
                    pairs[topic, met[topic, one], met[topic, other]] += 1
            sizes[topic] = 0


@kernel
def closeness(table: NDArray[np.floating], lengths: Floats) -> float:
    """Return the mean cosine of every two columns, from the length of the sum of unit vectors.

    lengths: scratch [columns].
    """
    count = table.shape[1]
    lengths[:] = 0.0
    for word in range(table.shape[0]):
        for topic in range(count):
            share = float(table[word, topic])
            lengths[topic] += share * share
    own = 0.0
    for topic in range(count):
        lengths[topic] = np.sqrt(lengths[topic])
        own += 1.0 if lengths[topic] > 0 else 0.0
    total = 0.0
    for word in range(table.shape[0]):
        both = 0.0
        for topic in range(count):
            if lengths[topic] > 0:
                both += table[word, topic] / lengths[topic]
        total += both * both
    return (total - own) / (count * (count - 1)) if count > 1 else np.nan
