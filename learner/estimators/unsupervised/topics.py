"""Methods of topic models under gensim's names, and input for pyLDAvis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from blocklearn.models.coherence import Measure, coherence_of
from blocklearn.models.topic_quality import distinct_words, topic_closeness

from ..base import Array
from ..scikit import check_is_fitted

LEAST = 1e-8  # listed probabilities are at least this


class TopicTables:
    """Topics and their words, for an estimator with `components_` and `transform`.

    Words are named by `feature_names` (such as a vectorizer's `get_feature_names_out()`), else by
    `feature_names_in_`, else by their numbers.
    """

    components_: Array
    transform: Any

    def get_topics(self) -> Array:
        """Return probabilities of words, float32 [topics x words]; rows sum to 1."""
        check_is_fitted(self)
        found: Array = self.components_ / self.components_.sum(axis=1, keepdims=True)
        return found

    def show_topic(
        self, topicid: int, topn: int = 10, *, feature_names: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        """Return the `topn` most probable words of a topic, with their probabilities."""
        names, topic = self._words(feature_names), self.get_topics()[topicid]
        return largest(topic, topn, names)

    def show_topics(
        self,
        num_topics: int = 10,
        num_words: int = 10,
        formatted: bool = True,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> list[tuple[int, Any]]:
        """Return topics with their most probable words, the largest topic first.

        num_topics: number of topics; -1: all, in order of their numbers.
        num_words: words of each topic.
        formatted: words as text, `0.041*"word" + ...`, not as (word, probability) pairs.
        """
        names, topics = self._words(feature_names), self.get_topics()
        numbers = np.arange(len(topics))
        if 0 <= num_topics < len(topics):
            numbers = np.argsort(-self.components_.sum(axis=1), kind="stable")[:num_topics]
        found: list[tuple[int, Any]] = []
        for number in map(int, numbers):
            words = largest(topics[number], num_words, names)
            text = " + ".join(f'{p:.3f}*"{word}"' for word, p in words)
            found.append((number, text if formatted else words))
        return found

    def get_document_topics(self, bow: Any, minimum_probability: float = 0.01) -> list[Any]:
        """Return topics of a document as (topic, probability) pairs.

        bow: a document as in gensim, [(word, count), ...] with numbers of words, or X
        [documents x words], for which the result is a list for each row.

        minimum_probability: topics below it are left out.
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
        """Return the coherence of each topic, float64 [topics]; the mean is that of the model.

        X: documents [n x words] in which words are counted.
        measure: "u_mass", "c_npmi", "c_uci" or "c_v"; see `coherence_of` for the formulas.
        topn: most probable words of each topic that are compared.
        """
        return coherence_of(self._first(topn).tolist(), X, measure)

    def distinct_words(self, topn: int = 25) -> float:
        """Return the share of distinct words among the first of all topics.

        topn: most probable words of each topic. 1: no word is listed twice.
        """
        return distinct_words(self._first(topn))

    def topic_closeness(self) -> float:
        """Return the mean cosine of every two topics, 0 to 1; NaN for a single topic."""
        return topic_closeness(self.get_topics().T)

    def prepare_pyldavis(
        self, X: Any, *, feature_names: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return the arguments of `pyLDAvis.prepare`.

        Use: `pyLDAvis.prepare(**lda.prepare_pyldavis(X))`.

        X: documents [n x words]. Empty documents, and words that no document has, are left out,
        because pyLDAvis cannot draw them.
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

    def plot_topics(
        self,
        topics: Sequence[int] | None = None,
        *,
        num_words: int = 8,
        feature_names: Sequence[str] | None = None,
        path: str | Path | None = None,
    ) -> Any:
        """Draw the first words of topics as bars; return the Matplotlib figure.

        topics: their numbers; None: the first 12. feature_names: see `show_topics`.
        path: file to write, such as topics.png. Raises ImportError without Matplotlib, of the extra
        `plots`.
        """
        from ...showing.plots import bar_charts

        table, names = self.get_topics(), self._words(feature_names)
        chosen = range(min(12, len(table))) if topics is None else topics
        charts = {f"topic {n}": dict(largest(table[n], num_words, names)) for n in chosen}
        return bar_charts(charts, path)

    def _first(self, count: int) -> Array:
        """Return the numbers of the most probable words of each topic [topics x count]."""
        if count < 1:
            raise ValueError(f"topn={count}: must be 1 or more.")
        return np.argsort(-self.get_topics(), axis=1, kind="stable")[:, :count]

    def _words(self, feature_names: Sequence[str] | None) -> list[str]:
        """Return the name of each word."""
        check_is_fitted(self)
        count = self.components_.shape[1]
        names: Any = feature_names
        if names is None:
            names = getattr(self, "feature_names_in_", range(count))
        if len(names) != count:
            raise ValueError(f"feature_names: {len(names):,} names, but there are {count:,} words.")
        return list(map(str, names))

    def _row(self, bow: list[tuple[int, float]]) -> Any:
        """Return a document as a row [1 x words]."""
        count = self.components_.shape[1]
        words = np.array([word for word, _ in bow])
        if words.size and words.dtype.kind not in "iu":
            raise ValueError(f"bow: {bow[0]}: words must be whole numbers, those of columns.")
        words = words.astype(np.int64)
        if words.size and not 0 <= words.min() <= words.max() < count:
            raise ValueError(
                f"bow: has word {words.max():,}; words must be numbers from 0 to {count - 1:,}."
            )
        amounts = np.array([amount for _, amount in bow], np.float32)
        row = sp.coo_array((amounts, (np.zeros_like(words), words)), shape=(1, count))
        return sp.csr_array(row)


def largest(topic: Array, count: int, names: Sequence[str]) -> list[tuple[str, float]]:
    """Return the most probable words of a topic [words], with their probabilities."""
    best = np.argsort(-topic, kind="stable")[:count]
    return [(names[word], float(topic[word])) for word in best]


def shares(table: Array) -> Array:
    """Return rows scaled to sum to 1, in float64."""
    exact = table.astype(np.float64)
    found: Array = exact / exact.sum(axis=1, keepdims=True)
    return found
