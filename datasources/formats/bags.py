"""Rows that are built one by one from words and numbers."""

from array import array
from collections.abc import Iterable

import numpy as np

from .rows import Sparse
from .vocabulary import Vocabulary


class Bags:
    """Sparse rows over a vocabulary.

    >>> bags = Bags(Vocabulary(["to", "be"]))
    >>> bags.add([("be", 1.0), ("or", 3.0), ("be", 1.0)])
    [3.0]
    >>> X = bags.take()
    >>> X.indices.tolist(), X.values.tolist(), len(bags)
    ([1], [2.0], 0)
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """No rows."""
        self._vocabulary = vocabulary
        self._clear()

    def add(self, features: Iterable[tuple[str, float]]) -> list[float]:
        """Add a row, with the sum of the numbers of each column; returns the numbers of words that
        the vocabulary does not know.
        """
        row: dict[int, float] = {}
        unknown: list[float] = []
        for word, value in features:
            column = self._vocabulary.column(word)
            if column < 0:
                unknown.append(value)
            else:
                row[column] = row.get(column, 0.0) + value
        columns = sorted(row)
        self._indices.extend(columns)
        self._values.extend(row[column] for column in columns)
        self._indptr.append(len(self._indices))
        return unknown

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._indptr) - 1

    def take(self) -> Sparse:
        """All rows; there are none then."""
        with np.errstate(over="ignore"):  # found when rows are stored
            values = np.array(self._values).astype(np.float32)
        X = Sparse(np.array(self._indptr), np.array(self._indices, np.int32), values)
        self._clear()
        return X

    def _clear(self) -> None:
        self._indptr, self._indices, self._values = array("q", [0]), array("i"), array("d")
