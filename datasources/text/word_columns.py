"""Turn texts into sparse rows that count words."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .word_table import WordTable

REMEMBERED = 1 << 20  # words whose columns are known, from which on they are forgotten


class CountedTexts(NamedTuple):
    """Texts as rows of a CSR matrix.

    indptr: int64 [texts + 1]. indices: int32 [n], ascending and unique in each row.
    values: float64 [n]. unknown: number of words, with repetitions, that have no column.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]
    unknown: int


class WordColumns:
    """Gives the words of texts their columns.

    >>> columns = WordColumns({"pipe": 0, "socket": 1}.__getitem__)
    >>> rows = columns.rows(["A socket, a pipe, a socket."])
    >>> rows.indices.tolist(), rows.values.tolist()
    ([0, 1], [1.0, 2.0])
    """

    def __init__(self, column: Callable[[str], int]) -> None:
        """column: returns the column of a word, or -1. It is called when a word is first seen."""
        self._column = column
        self._table, self._columns = WordTable(), np.empty(0, np.int32)

    def rows(self, texts: Sequence[str]) -> CountedTexts:
        """Count the words of texts; see `WordTable.count`."""
        if len(self._columns) > REMEMBERED:
            self._table, self._columns = WordTable(), np.empty(0, np.int32)
        found = self._table.count(texts)
        new = self._table.words[len(self._columns) :]
        columns = np.fromiter(map(self._column, new), np.int32, len(new))
        self._columns = np.concatenate([self._columns, columns])
        columns = self._columns[found.numbers]
        known = columns >= 0
        ends = np.concatenate([[0], np.cumsum(known)])[found.ends]
        counts = found.counts[known].astype(np.float64)
        shape = len(texts), int(columns.max(initial=0)) + 1
        X = sparse.csr_array((counts, columns[known], ends), shape=shape)
        X.sum_duplicates()  # and sorts; hashed words may share a column
        unknown = int(found.counts[~known].sum())
        return CountedTexts(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, unknown)
