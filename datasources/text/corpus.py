"""Counts the words of documents."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..arrays.hashed_names import HashedWords
from ..errors import DataError
from ..holdout.samples import Samples
from .word_columns import WordColumns

CHUNK = 1 << 22  # characters of texts that are counted at a time

Entries = tuple[npt.NDArray[np.float32], npt.NDArray[np.int32], npt.NDArray[np.int64]]


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

    def limit(self, *, min_df: int = 1, max_df: float = 1.0, name: str = "Corpus") -> "Corpus":
        """Keep words in at least `min_df` documents and at most a share `max_df`.

        `max_df` is a share of the documents. Documents stay even without words. An error calls the
        documents `name`, such as their file. Raises `DataError` if no word remains.

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
                f"{name}: none of {columns} words is in at least min_df={min_df} and at most "
                f"max_df={max_df:.0%} of its {documents} documents; relax one of the two."
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
    column, first_seen = columns_by(vocabulary)
    names: list[str] = []
    indptr, indices, counts = array("q", [0]), array("i"), array("f")
    dropped = 0
    for name, found in documents:
        names.append(name)
        for word, count in Counter(found).items():
            number = column(word)
            if number < 0:
                dropped += count
                continue
            indices.append(number)
            counts.append(count)
        indptr.append(len(indices))
    data, columns = np.array(counts, np.float32), np.array(indices, np.int32)
    return corpus_of(names, (data, columns, np.array(indptr)), vocabulary, first_seen, dropped)


def count_texts(
    documents: Iterable[tuple[str, str]], vocabulary: Sequence[str] | None = None
) -> Corpus:
    """Count the words of `(name, text)` pairs, as `count_words` does of their `words`."""
    column, first_seen = columns_by(vocabulary)
    counter, names, dropped = WordColumns(column), list[str](), 0
    lengths: list[npt.NDArray[np.int64]] = []
    indices: list[npt.NDArray[np.int32]] = []
    counts: list[npt.NDArray[np.float32]] = []
    for chunk in chunks(documents):
        names += (name for name, _ in chunk)
        rows = counter.rows([text for _, text in chunk])
        lengths.append(np.diff(rows.indptr))
        indices.append(rows.indices)
        counts.append(rows.values.astype(np.float32))
        dropped += rows.unknown
    offsets = np.concatenate([[0], *lengths]).cumsum()
    entries = np.concatenate(counts), np.concatenate(indices), offsets
    return corpus_of(names, entries, vocabulary, first_seen, dropped)


def chunks(documents: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Yield the documents in lists of about `CHUNK` characters."""
    found, size = list[tuple[str, str]](), 0
    for document in documents:
        found.append(document)
        size += len(document[1])
        if size >= CHUNK:
            yield found
            found, size = [], 0
    yield found


def columns_by(
    vocabulary: Sequence[str] | None,
) -> tuple[Callable[[str], int], dict[str, int] | None]:
    """Return what gives a word its column or -1, and where it notes words without a vocabulary."""
    if isinstance(vocabulary, HashedWords):
        return vocabulary.column, None
    if vocabulary is None:
        seen: dict[str, int] = {}
        return lambda word: seen.setdefault(word, len(seen)), seen
    known = columns_of(vocabulary)
    return lambda word: known.get(word, -1), None


def corpus_of(
    names: list[str], entries: Entries, vocabulary: Sequence[str] | None,
    first_seen: dict[str, int] | None, dropped: int,
) -> Corpus:  # fmt: skip
    """Return the corpus.

    entries: counts, columns and offsets, as of CSR.
    first_seen: words that were numbered as they were seen first; their columns get sorted.
    """
    counts, columns, offsets = entries
    if first_seen is not None:
        vocabulary = sorted(first_seen)
        rank = np.empty(len(vocabulary), np.int32)
        numbers = np.fromiter(map(first_seen.__getitem__, vocabulary), np.int64, len(vocabulary))
        rank[numbers] = np.arange(len(vocabulary), dtype=np.int32)
        columns = rank[columns]
    assert vocabulary is not None
    offsets = offsets.astype(sparse.get_index_dtype(maxval=len(counts)))  # columns have its type
    matrix = sparse.csr_array((counts, columns, offsets), shape=(len(names), len(vocabulary)))
    matrix.sum_duplicates()  # and sorts; hashed words may share a column
    return Corpus(matrix, listed(vocabulary), names, dropped)
