"""Dense rows without their zeros."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .rows import FIRST, Layout, Place, RowFile, Rows, Sparse


class SparseRows:
    """The rows of a file as sparse ones; what is 0 in a dense row is not stored."""

    def __init__(self, file: RowFile) -> None:
        """file: dense or sparse."""
        self._file = file
        self._layout = replace(file.layout, dense=False)

    @property
    def layout(self) -> Layout:
        """That of the file, but sparse."""
        return self._layout

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """All rows from `start` on."""
        for rows in self._file.chunks(start):
            if isinstance(rows.X, Sparse):
                yield rows
                continue
            places, columns = np.nonzero(rows.X)
            counts = np.bincount(places, minlength=len(rows))
            indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            values = rows.X[places, columns]
            yield replace(rows, X=Sparse(indptr, columns.astype(np.int32), values))
