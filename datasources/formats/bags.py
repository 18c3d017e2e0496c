"""Collect rows of words and numbers, and turn them into sparse rows."""

from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..parsing.layout import Sparse
from .vocabulary import Vocabulary


class Bags:
    """Sparse rows over a vocabulary.

    >>> bags = Bags(Vocabulary(["to", "be"]))
    >>> bags.add(["be", "or", "be"], [1.0, 3.0, 1.0])
    >>> X, unknown = bags.take()
    >>> X.indices.tolist(), X.values.tolist(), unknown.tolist(), len(bags)
    ([1], [2.0], [3.0], 0)
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Start without rows."""
        self._column = vocabulary.__getitem__
        self._clear()

    def add(self, words: Iterable[str], values: Iterable[float]) -> None:
        """Add a row.

        words and values have equal lengths; values of the same column are added.
        """
        self._columns.extend(map(self._column, words))
        self._values.extend(values)
        self._ends.append(len(self._columns))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._ends)

    def take(self) -> tuple[Sparse, npt.NDArray[np.float64]]:
        """Return all rows and the values of unknown words, and start again without rows."""
        columns, values = np.array(self._columns, np.int64), np.array(self._values)
        ends, count = np.array([0, *self._ends], np.int64), len(self)
        rows, known = np.repeat(np.arange(count), np.diff(ends)), columns >= 0
        key, place = np.unique((rows[known] << 32) | columns[known], return_inverse=True)
        sums = np.bincount(place, values[known], key.size)
        with np.errstate(over="ignore"):  # overflows are found when rows are stored
            single = sums.astype(np.float32)
        indptr = np.searchsorted(key, np.arange(count + 1) << 32).astype(np.int64)
        self._clear()
        return Sparse(indptr, (key & 0xFFFFFFFF).astype(np.int32), single), values[~known]

    def _clear(self) -> None:
        self._ends, self._columns, self._values = array("q"), array("i"), array("d")
