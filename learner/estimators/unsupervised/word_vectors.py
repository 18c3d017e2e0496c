"""Vectors of words as an estimator in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from blocklearn.datasources import all_words, read_sentences
from blocklearn.models import Model
from blocklearn.models import WordVectors as WordVectorsModel

from ..base import Array, LearnerEstimator, Tensors
from ..constructor import estimator
from ..parameters import configured, whole
from ..scikit import (
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    check_is_fitted,
    with_callbacks,
)

if TYPE_CHECKING:
    from ...learner import Learner


@estimator
class WordVectors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LearnerEstimator):
    """Learn a vector for each word from the words around it: skip-gram (word2vec).

    Data are texts: strings, whose words are runs of letters in lower case, or lists of words.

    Parameters
    ----------
        n_components: length of a vector.
        window: farthest word to both sides.
        negatives: weight of random words for each word of a window.
        sample: thin out words of a larger share of the text; 0: none.
        learning_rate: of the first steps; it falls to 0.
        min_count: words that occur less often are left out.
        max_iter: passes.
        batch_size: words of a block, at most. None: 2048.
        random_state: seed.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto"; used by training and predictions.

    Attributes
    ----------
        vectors_: float32 [words x components], frequent words first.
        contexts_: float32 [words x components], vectors of words as neighbours of others.
        vocabulary_: dict, the row of each word.
        n_iter_: number of passes.

    >>> import blocklearn as bl
    >>> texts = ["sun and moon and sun and moon", "salt or pepper or salt or pepper"] * 50
    >>> options = {"n_components": 4, "sample": 0, "learning_rate": 0.2, "random_state": 0}
    >>> model = bl.WordVectors(window=2, **options).fit(texts)
    >>> sorted(word for word, _ in model.most_similar("sun", topn=2))
    ['and', 'moon']
    """

    n_components: int = 100
    _: KW_ONLY
    window: int = 5
    negatives: float = 5
    sample: float = 1e-3
    learning_rate: float = 0.05
    min_count: int = 5
    max_iter: int = 5

    @with_callbacks
    def fit(self, X: Iterable[str | Sequence[str]], y: Any = None) -> Self:
        """Train on texts, from scratch; y is ignored.

        Raises:
            DataError: no word occurs `min_count` times.
        """
        found = read_sentences(words_of(X), min_count=whole(self, "min_count"))
        self.vocabulary_ = {word: row for row, word in enumerate(found.vocabulary)}
        return self._fit(found.X, {"X": X})

    def transform(self, X: Iterable[str | Sequence[str]]) -> Array:
        """Return the mean of the vectors of each text's words, float32 [n x components].

        Unknown words are left out; a text without known words becomes 0.
        """
        check_is_fitted(self)
        found = read_sentences(words_of(X), list(self.vocabulary_))
        words, ends = found.X, np.flatnonzero(np.diff(found.X.indptr) == 0)
        if not ends.size:
            return np.empty((0, self.n_components), np.float32)
        starts = np.concatenate([[0], words.indptr[ends]])
        counts = type(words)((words.data, words.indices, starts), (ends.size, words.shape[1]))
        counts.sum_duplicates()
        return self._predictions(counts)

    def most_similar(
        self,
        positive: str | Sequence[str],
        negative: str | Sequence[str] = (),
        topn: int = 10,
    ) -> list[tuple[str, float]]:
        """Return the words that are nearest to some words, and their cosines.

        Args:
            positive: a word, or words.
            negative: words whose directions are subtracted: `most_similar(["sons", "daughter"],
                "son")` asks what daughter is to as sons is to son.
            topn: length of the list. The given words are not in it.

        Raises:
            KeyError: a word has no vector.
        """
        check_is_fitted(self)
        lengths = np.linalg.norm(self.vectors_, axis=1, keepdims=True)
        unit = self.vectors_ / np.maximum(lengths, np.finfo(np.float32).tiny)
        more, less = (self._rows(words) for words in (positive, negative))
        wanted = unit[more].sum(axis=0) - unit[less].sum(axis=0)
        cosines = unit @ (wanted / np.linalg.norm(wanted))
        cosines[more + less] = -np.inf
        words = list(self.vocabulary_)
        nearest = np.argsort(-cosines, kind="stable")[: min(topn, len(words) - len({*more, *less}))]
        return [(words[row], float(cosines[row])) for row in nearest]

    def to_learner(self) -> Learner:
        """Return a learner with the learned state, whose columns have the words as names."""
        learner = super().to_learner()
        learner.data.names = list(self.vocabulary_)
        return learner

    # ------------------------------------------------------------- details

    def _predictor(self, block_rows: int, model: Model | None) -> Learner:
        learner = super()._predictor(block_rows, model)
        learner.data.targets = 1  # the words of windows
        return learner

    def _rows(self, words: str | Sequence[str]) -> list[int]:
        """Return the rows of words."""
        asked = [words] if isinstance(words, str) else list(words)
        if unknown := [word for word in asked if word not in self.vocabulary_]:
            raise KeyError(
                f"{unknown[0]!r} has no vector: it occurred less than min_count={self.min_count} "
                "times in the texts. See vocabulary_."
            )
        return [self.vocabulary_[word] for word in asked]

    def _model(self) -> WordVectorsModel:
        names = {"dimensions": "n_components", "rate": "learning_rate"}
        same = ("window", "negatives", "sample")
        return configured(self, WordVectorsModel, names | {name: name for name in same})

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        return {
            "vectors_": tensors("vectors"),
            "contexts_": tensors("contexts"),
            "_counts": tensors("counts"),
        }

    def _tensors(self, rows: int) -> dict[str, Array]:
        return {"vectors": self.vectors_, "contexts": self.contexts_, "counts": self._counts}

    @property
    def _n_features_out(self) -> int:
        return int(self.vectors_.shape[1])

    def __sklearn_tags__(self) -> Any:
        """Declare that data are texts, and the output is float32."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        tags.transformer_tags.preserves_dtype = []
        return tags


def words_of(texts: Iterable[str | Sequence[str]]) -> Iterable[Sequence[str]]:
    """Return the words of each text.

    Raises:
        TypeError: there is one text only, not a list of texts; or a frame, whose rows are no texts.
    """
    if isinstance(texts, str | bytes):
        raise TypeError("texts: one string: must be a list of texts. Use [text].")
    if hasattr(texts, "columns"):
        raise TypeError("texts: a frame: must be a list of texts. Pass the column that has them.")
    return (all_words(text) if isinstance(text, str) else text for text in texts)
