"""Counts the words of documents."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..arrays.feature_hashing import HashedWords
from ..errors import DataError
from ..holdout.samples import Samples


@dataclass(frozen=True)
class Corpus:
    """Word counts of documents, with names and optional targets.

    - counts: SciPy `csr_array`, float32 [documents, words], indices ascending in a row.
    - vocabulary: the word of each column, or `HashedWords`.
    - documents: the name of each row.
    - dropped: number of words, with repetitions, that were not in a given vocabulary.
    - targets: array or `csr_array` [documents, targets]; None without targets.
    - target_names: the name of each target; None if unknown.
    """

    counts: Any
    vocabulary: Sequence[str]
    documents: list[str]
    dropped: int = 0
    targets: Any = None
    target_names: list[str] | None = None

    def rows(self, ids: npt.NDArray[np.int64]) -> "Corpus":
        """Return the documents `ids`, in that order, with the same vocabulary."""
        return replace(
            self,
            counts=self.counts[ids],
            documents=[self.documents[i] for i in ids],
            dropped=0,
            targets=None if self.targets is None else self.targets[ids],
        )

    def samples(self) -> Samples:
        """Return the counts as rows to train on."""
        return Samples(
            self.counts,
            self.vocabulary,
            self.targets,
            self.target_names,
            row_names=self.documents,
        )

    def limit(self, *, min_df: int = 1, max_df: float = 1.0) -> "Corpus":
        """Keep words in at least `min_df` documents and at most a share `max_df`.

        `max_df` is a share of the documents. Documents stay even without words. Raises `DataError`
        if no word remains.

        >>> c = count_words([("a", ["x", "y"]), ("b", ["y"]), ("c", ["y", "z", "z"])])
        >>> c.limit(max_df=0.9).vocabulary, c.limit(min_df=2).vocabulary
        (['x', 'z'], ['y'])
        """
        check_limits(min_df, max_df)
        documents, columns = self.counts.shape
        df = np.bincount(self.counts.indices, minlength=columns)
        keep = np.flatnonzero((df >= min_df) & (df <= max_df * documents))
        if keep.size == columns:
            return self
        if keep.size == 0:
            raise DataError(
                f"Corpus: of {columns} words in {documents} documents none is in at least "
                f"min_df={min_df} and at most max_df={max_df:.0%} of them; relax one of the two."
            )
        counts = sparse.csr_array(self.counts[:, keep])
        counts.sort_indices()
        return replace(self, counts=counts, vocabulary=[self.vocabulary[int(i)] for i in keep])

    def over(self, vocabulary: Sequence[str]) -> "Corpus":
        """Return the documents with the words of `vocabulary` as columns; drop others.

        >>> c = count_words([("a", ["x", "y", "y"])]).over(["z", "x"])
        >>> c.counts.toarray().tolist(), c.dropped
        ([[0.0, 1.0]], 2)
        """
        if isinstance(vocabulary, HashedWords):
            to = np.array([vocabulary.column(word) for word in self.vocabulary], np.int64)
        else:
            column = columns_of(vocabulary)
            to = np.array([column.get(word, -1) for word in self.vocabulary], np.int64)
        old = self.counts.tocoo()
        known = to[old.col] >= 0
        counts = sparse.csr_array(
            (old.data[known], (old.row[known], to[old.col[known]])),
            shape=(len(self.documents), len(vocabulary)),
        )
        counts.sum_duplicates()
        dropped = self.dropped + int(old.data[~known].sum())
        return replace(self, counts=counts, vocabulary=listed(vocabulary), dropped=dropped)


def listed(vocabulary: Sequence[str]) -> Sequence[str]:
    """Return the words as a list; `HashedWords` stay as they are."""
    return vocabulary if isinstance(vocabulary, HashedWords) else list(vocabulary)


def columns_of(vocabulary: Sequence[str]) -> dict[str, int]:
    """Return the column of each word. Raises `DataError` if a word occurs twice."""
    column = {word: i for i, word in enumerate(vocabulary)}
    if len(column) != len(vocabulary):
        twice = next(word for i, word in enumerate(vocabulary) if column[word] != i)
        raise DataError(
            f"Corpus: the vocabulary has {twice!r} twice, but each column must have its own word."
        )
    return column


def check_limits(min_df: int, max_df: float) -> None:
    """Raise `DataError` unless `min_df` is a count from 1 on and `max_df` a share."""
    if min_df < 1 or not 0.0 < max_df <= 1.0:
        raise DataError(
            f"Corpus: min_df={min_df}, max_df={max_df}: min_df must be a number of documents, at "
            "least 1, and max_df a share of them, above 0 and at most 1."
        )


def count_words(
    documents: Iterable[tuple[str, Iterable[str]]], vocabulary: Sequence[str] | None = None
) -> Corpus:
    """Count the words of `(name, words)` pairs.

    vocabulary: the words of the columns; other words are dropped. `HashedWords` have a column for
    every word. None: the columns are all words that occur, sorted.

    >>> corpus = count_words([("a", ["to", "be", "to"]), ("b", [])])
    >>> corpus.vocabulary, corpus.counts.toarray().tolist()
    (['be', 'to'], [[1.0, 2.0], [0.0, 0.0]])
    >>> count_words([("a", ["to", "be", "to"])], ["be"]).dropped
    2
    """
    hashed = vocabulary if isinstance(vocabulary, HashedWords) else None
    column: dict[str, int] = {} if hashed is not None else columns_of(vocabulary or ())
    names: list[str] = []
    indptr, indices, counts = array("q", [0]), array("i"), array("f")
    dropped = 0
    for name, found in documents:
        names.append(name)
        for word, count in Counter(found).items():
            if vocabulary is None:
                indices.append(column.setdefault(word, len(column)))
            elif hashed is not None:
                indices.append(hashed.column(word))
            elif word in column:
                indices.append(column[word])
            else:
                dropped += count
                continue
            counts.append(count)
        indptr.append(len(indices))
    columns = np.frombuffer(indices, np.int32) if indices else np.zeros(0, np.int32)
    data = np.frombuffer(counts, np.float32) if counts else np.zeros(0, np.float32)
    if vocabulary is None:  # columns are numbered as first seen: sort them
        vocabulary = sorted(column)
        rank = np.empty(len(column), np.int32)
        rank[[column[word] for word in vocabulary]] = np.arange(len(column), dtype=np.int32)
        columns = rank[columns]
    offsets = np.array(indptr, sparse.get_index_dtype(maxval=len(counts)))  # columns have its type
    matrix = sparse.csr_array(
        (data.copy(), columns.copy(), offsets), shape=(len(names), len(vocabulary))
    )
    matrix.sum_duplicates()  # and sorts; hashed words may share a column
    return Corpus(matrix, listed(vocabulary), names, dropped)
