"""What gensim's users look for in a topic model, and what pyLDAvis draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .base import Array
from .coherence import Measure, coherence_of
from .scikit import check_is_fitted

LEAST = 1e-8  # of the probabilities that are listed


class TopicTables:
    """Topics and their words, for an estimator that has `components_` [topics x words] and
    `transform`. Words are called as in `feature_names_in_`, or as `feature_names` says (a
    vectorizer's `get_feature_names_out()`), or else by their numbers.
    """

    components_: Array
    transform: Any

    def get_topics(self) -> Array:
        """Probabilities of words: float32 [topics x words], rows sum to 1."""
        check_is_fitted(self)
        found: Array = self.components_ / self.components_.sum(axis=1, keepdims=True)
        return found

    def show_topic(
        self, topicid: int, topn: int = 10, *, feature_names: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        """The `topn` most probable words of a topic, with their probabilities."""
        names, topic = self._words(feature_names), self.get_topics()[topicid]
        return [(names[w], float(topic[w])) for w in np.argsort(-topic, kind="stable")[:topn]]

    def show_topics(
        self,
        num_topics: int = 10,
        num_words: int = 10,
        formatted: bool = True,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> list[tuple[int, Any]]:
        """The topics that most words are of, the largest first (-1: all, by number), with their
        most probable words: as text, `0.041*"word" + ...`, or (word, probability) pairs.
        """
        names, topics = self._words(feature_names), self.get_topics()
        numbers = np.arange(len(topics))
        if 0 <= num_topics < len(topics):
            numbers = np.argsort(-self.components_.sum(axis=1), kind="stable")[:num_topics]
        found: list[tuple[int, Any]] = []
        for number in map(int, numbers):
            topic = topics[number]
            best = np.argsort(-topic, kind="stable")[:num_words]
            words = [(names[w], float(topic[w])) for w in best]
            text = " + ".join(f'{p:.3f}*"{word}"' for word, p in words)
            found.append((number, text if formatted else words))
        return found

    def get_document_topics(self, bow: Any, minimum_probability: float = 0.01) -> list[Any]:
        """Topics of a document as (topic, probability), those below the minimum left out.

        bow: a document as gensim has it, [(word, count), ...] with numbers of words; or X
        [documents x words], and the result is a list for each row.
        """
        check_is_fitted(self)
        single = isinstance(bow, list) and all(isinstance(pair, tuple) for pair in bow)
        X = self._row(bow) if single else bow
        least = max(minimum_probability, LEAST)
        found = [
            [(int(k), float(row[k])) for k in np.flatnonzero(row >= least)]
            for row in self.transform(X)
        ]
        return found[0] if single else found

    def coherence(self, X: Any, measure: Measure = "u_mass", topn: int = 20) -> Array:
        """Of each topic's `topn` most probable words, float64 [topics]; its mean is the model's.

        X: documents [n x words] whose words are counted; measure: "u_mass" or "c_npmi": see
        `coherence_of` for the formulas.
        """
        tops = np.argsort(-self.get_topics(), axis=1, kind="stable")[:, :topn]
        return coherence_of(tops.tolist(), X, measure)

    def prepare_pyldavis(
        self, X: Any, *, feature_names: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """What `pyLDAvis.prepare` takes: `pyLDAvis.prepare(**lda.prepare_pyldavis(X))`.

        X: documents [n x words]. Empty ones, and words that none of them has, are left out: they
        have no place in what is drawn.
        """
        counts = sp.csr_array(X)
        rows = np.flatnonzero(counts.sum(axis=1))
        words = np.flatnonzero(counts.sum(axis=0))
        names = self._words(feature_names)
        return {
            "topic_term_dists": shares(self.get_topics()[:, words]),
            "doc_topic_dists": shares(self.transform(counts[rows])),
            "doc_lengths": counts.sum(axis=1)[rows],
            "vocab": [names[w] for w in words],
            "term_frequency": counts.sum(axis=0)[words],
        }

    def _words(self, feature_names: Sequence[str] | None) -> list[str]:
        """What each word is called."""
        check_is_fitted(self)
        count = self.components_.shape[1]
        names: Any = feature_names
        if names is None:
            names = getattr(self, "feature_names_in_", range(count))
        if len(names) != count:
            raise ValueError(f"feature_names: {len(names):,} names, but there are {count:,} words.")
        return list(map(str, names))

    def _row(self, bow: list[tuple[int, float]]) -> Any:
        """A document as a row [1 x words]."""
        count = self.components_.shape[1]
        words = np.array([word for word, _ in bow], np.int64)
        if words.size and not 0 <= words.min() <= words.max() < count:
            raise ValueError(
                f"bow: a word's number is 0 to {count - 1:,}, but {words.max():,} is there."
            )
        amounts = np.array([amount for _, amount in bow], np.float32)
        row = sp.coo_array((amounts, (np.zeros_like(words), words)), shape=(1, count))
        return sp.csr_array(row)


def shares(table: Array) -> Array:
    """Rows that sum to 1, as exactly as float64 can."""
    exact = table.astype(np.float64)
    found: Array = exact / exact.sum(axis=1, keepdims=True)
    return found
