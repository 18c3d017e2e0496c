"""Adapt the rows of a file: make them sparse, add targets, or drop labels."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..errors import DataError
from ..parsing.layout import FIRST, Place, RowFile, Rows, Sparse


class SparseRows:
    """The rows of a file as sparse rows; zeros of dense rows are not stored."""

    def __init__(self, file: RowFile) -> None:
        """Wrap `file`, dense or sparse."""
        self._file = file
        self.layout = replace(file.layout, dense=False)

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        for rows in self._file.chunks(start):
            if isinstance(rows.X, Sparse):
                yield rows
                continue
            places, columns = np.nonzero(rows.X)
            counts = np.bincount(places, minlength=len(rows))
            indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            values = rows.X[places, columns]
            yield replace(rows, X=Sparse(indptr, columns.astype(np.int32), values))


class TargetJoin:
    """Joins rows with the rows of `targets`, one for each, as their targets.

    Reading can only begin at the start.
    """

    def __init__(self, rows: RowFile, targets: RowFile, name: Any) -> None:
        """Join two files. name: of the file with the targets, in messages."""
        if rows.layout.targets:
            raise DataError(
                f"{name}: targets for rows that have targets of their own. Leave out one of them."
            )
        self._rows, self._targets, self._name = rows, targets, name
        found = targets.layout
        self.layout = replace(rows.layout, targets=found.columns, target_names=found.names)

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows."""
        assert start == FIRST
        pieces = (table(chunk, self.layout.targets) for chunk in self._targets.chunks())
        waiting, done = np.empty((0, self.layout.targets), np.float32), 0
        for rows in self._rows.chunks():
            parts = [waiting]
            while sum(map(len, parts)) < len(rows):
                piece = next(pieces, None)
                if piece is None:
                    count = done + sum(map(len, parts))
                    raise DataError(
                        f"{self._name}: targets for {count:,} rows, but the data have more rows: "
                        "must be one for each row."
                    )
                parts.append(piece)
            waiting = np.concatenate(parts)
            yield replace(rows, targets=waiting[: len(rows)], next=None)
            waiting, done = waiting[len(rows) :], done + len(rows)
        if len(waiting) or next(pieces, None) is not None:
            raise DataError(
                f"{self._name}: targets for more than the {done:,} rows of the data: must be one "
                "for each row."
            )


def table(rows: Rows, columns: int) -> npt.NDArray[np.float32]:
    """Return rows as a table, float32 [n, columns]."""
    if not isinstance(rows.X, Sparse):
        return rows.X
    found = np.zeros((len(rows), columns), np.float32)
    found[np.repeat(np.arange(len(rows)), np.diff(rows.X.indptr)), rows.X.indices] = rows.X.values
    return found


def as_csr(rows: Rows, columns: int) -> Any:
    """Return sparse rows as a SciPy matrix."""
    assert isinstance(rows.X, Sparse)
    indptr, indices, values = rows.X
    return sparse.csr_array((values, indices, indptr), shape=(len(rows), columns))


class Unlabelled:
    """The rows of a file without their labels, for prediction."""

    def __init__(self, file: RowFile) -> None:
        """Wrap `file`, which may have labels or not."""
        self._file = file
        self.layout = replace(file.layout, targets=0, target_names=None, weighted=False)

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        for rows in self._file.chunks(start):
            yield replace(rows, targets=None, weights=None)
