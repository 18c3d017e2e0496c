"""Turns texts into rows of one word each, in the order of the texts."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..errors import DataError
from .corpus import columns_of

_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Sentences:
    """Texts as rows: a row is a word, and an empty row ends a text.

    - X: SciPy `csr_array`, float32 [rows, words], with a 1 in the column of the row's word.
    - vocabulary: the word of each column, frequent words first.
    - texts: their number.
    - dropped: number of words, with repetitions, that have no column.
    """

    X: Any
    vocabulary: Sequence[str]
    texts: int
    dropped: int


def all_words(text: str) -> list[str]:
    """Return the words of a text in lower case: runs of letters of any script.

    >>> all_words("The SOCKET's recv_into(buffer)")
    ['the', 'socket', 's', 'recv', 'into', 'buffer']
    """
    return _WORD.findall(text.lower())


def read_sentences(
    texts: Iterable[Iterable[str]],
    vocabulary: Sequence[str] | None = None,
    *,
    min_count: int = 1,
) -> Sentences:
    """Make rows of the words of texts.

    - texts: each a sequence of words.
    - vocabulary: the words that get a column; None: those that occur `min_count` times at least.

    Words without a column are left out, and their neighbours become neighbours. Raises `DataError`
    if no word is left.

    >>> found = read_sentences([["to", "be"], ["be"]])
    >>> found.vocabulary, found.X.toarray().tolist()
    (['be', 'to'], [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    """
    numbers: dict[str, int] = {}
    codes, number = array("i"), 0
    for number, text in enumerate(texts, 1):
        if isinstance(text, str):
            raise DataError(
                f"sentences: text {number - 1} is a string; must be a list of words, such as "
                "text.split()."
            )
        if isinstance(text, bytes):
            raise DataError(
                f"sentences: text {number - 1} is bytes: must be a list of words. Decode it first: "
                "text.decode()."
            )
        if not isinstance(text, Iterable):
            raise DataError(
                f"sentences: text {number - 1} is {text!r}: must be a list of words. Leave it out, "
                "or give an empty list."
            )
        codes.extend([numbers.setdefault(word, len(numbers)) for word in text])
        codes.append(-1)
    read = np.frombuffer(codes, np.int32) if codes else np.zeros(0, np.int32)
    words = read[read >= 0]
    if vocabulary is None:
        counts = np.bincount(words, minlength=len(numbers))
        kept = [(-int(n), word) for word, n in zip(numbers, counts, strict=True) if n >= min_count]
        vocabulary = [word for _, word in sorted(kept)]
    if not vocabulary:
        raise DataError(
            f"sentences: no word of {number} texts occurs min_count={min_count} times; give more "
            "texts, or a smaller min_count."
        )
    column = columns_of(vocabulary)
    to = np.array([column.get(word, -2) for word in numbers] + [-1], np.int32)  # read[...] = -1
    columns = to[read]
    return Sentences(
        one_word_rows(columns[columns >= -1], len(vocabulary)),
        vocabulary,
        number,
        int((columns == -2).sum()),
    )


def one_word_rows(columns: npt.NDArray[np.int32], width: int) -> Any:
    """Return a `csr_array` [rows, width] with a 1 in each row's column; -1: the row is empty."""
    full = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(full)])
    indices = columns[full]
    values = np.ones(indices.size, np.float32)
    return sparse.csr_array((values, indices, indptr), shape=(columns.size, width))
