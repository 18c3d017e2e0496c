"""Count words of documents: texts, texts split into words, and corpora of gensim."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Literal

import numpy as np
from scipy import sparse

from ..errors import DataError
from ..text.corpus import count_texts, count_words

Documents = Literal["texts", "words", "pairs"]
LOOKED_AT = 1000  # documents, to find one that is not empty


def kind_of_documents(data: Any) -> Documents | None:
    """Return the form of documents in `data`; None: they are none.

    "texts": a list, series or array of texts. "words": a list of lists of words. "pairs": a list,
    or another iterable with a length, of lists of pairs (number of the word, count), as in gensim.
    """
    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        return None
    if not hasattr(data, "__len__") or hasattr(data, "columns") or sparse.issparse(data):
        return None
    if isinstance(data, np.ndarray) and (data.ndim != 1 or data.dtype.kind not in "OSUT"):
        return None
    for document in islice(iter(data), LOOKED_AT):
        if isinstance(document, str):
            return "texts"
        if not isinstance(document, list | tuple):
            return None
        for entry in document[:1]:
            if isinstance(entry, str):
                return "words"
            return "pairs" if isinstance(entry, tuple) and len(entry) == 2 else None
    return None


def counts_of(
    data: Any, kind: Documents, known: Sequence[str] | None = None, columns: int | None = None
) -> tuple[Any, Sequence[str] | None]:
    """Return word counts as SciPy CSR float32 [documents x words], and the words.

    known: the words to count; others are dropped. None: all that occur, sorted.
    columns: the number of words of a corpus of pairs, whose words have no names; None: up to the
        largest number in it.

    Raises:
        DataError: a document is not like the first one, or none has a word that is counted.
    """
    if kind == "pairs":
        return _counts_of_pairs(data, len(known) if known is not None else columns), known
    if known is None and columns is not None:
        raise DataError(
            "X has texts, but the model does not know the words of its columns: it was not trained "
            "on texts. Give it a matrix with the columns of its training data."
        )
    named = ((str(i), _checked(i, document, kind)) for i, document in enumerate(data))
    corpus = count_texts(named, known) if kind == "texts" else count_words(named, known)
    if not corpus.counts.nnz:
        unknown = f"; the model knows none of their {corpus.dropped:,} words" * (known is not None)
        raise DataError(f"X: no words in its {corpus.counts.shape[0]:,} documents{unknown}.")
    return corpus.counts, corpus.vocabulary


def _checked(number: int, document: Any, kind: Documents) -> Any:
    """Return the document. Raises DataError if it is not of this kind."""
    fits = isinstance(document, str) if kind == "texts" else isinstance(document, list | tuple)
    if fits and kind == "words":
        fits = all(isinstance(word, str) for word in document)
    if not fits:
        what = "a text" if kind == "texts" else "a list of words"
        raise DataError(
            f"X: document {number} is {str(document)[:40]!r} ({type(document).__name__}): must be "
            f"{what}, as those before it."
        )
    return document


def _counts_of_pairs(corpus: Any, columns: int | None) -> Any:
    """Return a corpus of pairs as CSR; pairs of a word are summed."""
    indices, counts, indptr = [], [], [0]
    for number, document in enumerate(corpus):
        try:
            pairs = np.array(document, np.float64).reshape(-1, 2)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"X: document {number}: must be a list of pairs (number of the word, count), as "
                "gensim's doc2bow makes them."
            ) from error
        numbers = pairs[:, 0].astype(np.int64)
        if (numbers != pairs[:, 0]).any() or (numbers < 0).any():
            raise DataError(f"X: document {number}: numbers of words must be 0, 1, 2 ...")
        indices.append(numbers)
        counts.append(pairs[:, 1].astype(np.float32))
        indptr.append(indptr[-1] + len(pairs))
    found, values = np.concatenate(indices), np.concatenate(counts)
    most = int(found.max(initial=-1)) + 1
    if columns is None:
        columns = most
    if most > columns:
        raise DataError(
            f"X has the word number {most - 1:,}, but the model knows {columns:,} words. Use the "
            "dictionary of the training data."
        )
    matrix = sparse.csr_array((values, found, np.array(indptr)), shape=(len(indptr) - 1, columns))
    matrix.sum_duplicates()
    return matrix
