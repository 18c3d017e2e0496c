"""Compute statistics of rows: number, density, skew and ranges."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..parsing.layout import Layout, Rows, Sparse

TOP = 5  # rows and columns that are named
MOST_COLUMNS = 1 << 26  # columns for which counts are kept, at most


class Named(NamedTuple):
    """A row or column: its number, its name (if it has one) and its non-zeros."""

    number: int
    name: str | None
    nnz: int


@dataclass
class Range:
    """The numbers seen so far: how many, the smallest and largest, and their kind."""

    count: int = 0
    zeros: int = 0
    negatives: int = 0
    least: float = float("inf")
    largest: float = float("-inf")
    whole: bool = True

    def add(self, numbers: npt.NDArray[np.float32]) -> None:
        """Add numbers."""
        if not numbers.size:
            return
        self.count += numbers.size
        self.zeros += int(np.count_nonzero(numbers == 0))
        self.negatives += int(np.count_nonzero(numbers < 0))
        self.least = min(self.least, float(numbers.min()))
        self.largest = max(self.largest, float(numbers.max()))
        self.whole = self.whole and bool((numbers == np.rint(numbers)).all())


@dataclass
class Profile:
    """Statistics of rows; the memory is one count per column.

    lengths: number of rows by number of non-zeros.
    columns: non-zeros of each column, int64, up to the last column that occurred; None if there
        are too many columns.
    values: range of stored values; of all values in dense rows.
    targets: range of each target.
    remarks: see `Rows`.
    """

    layout: Layout
    rows: int = 0
    nnz: int = 0
    lengths: dict[int, int] = field(default_factory=dict)
    longest: list[Named] = field(default_factory=list)
    columns: npt.NDArray[np.int64] | None = None
    values: Range = field(default_factory=Range)
    targets: list[Range] = field(default_factory=list)
    weights: Range = field(default_factory=Range)
    remarks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Allocate counts."""
        if self.layout.columns <= MOST_COLUMNS:
            self.columns = np.zeros(0, np.int64)
        self.targets = [Range() for _ in range(self.layout.targets)]

    def add(self, rows: Rows) -> None:
        """Add rows."""
        if isinstance(rows.X, Sparse):
            lengths, values = np.diff(rows.X.indptr), rows.X.values
            indices: npt.NDArray[Any] = rows.X.indices
        else:
            lengths, values = np.count_nonzero(rows.X, axis=1), rows.X.ravel()
            indices = np.nonzero(rows.X)[1]
        self.values.add(values)
        self._add_lengths(lengths, rows)
        if self.columns is not None:
            largest = int(indices.max(initial=-1))
            if largest >= self.columns.size:
                grown = np.zeros(max(largest + 1, 2 * self.columns.size), np.int64)
                grown[: self.columns.size] = self.columns
                self.columns = grown
            np.add.at(self.columns, indices, 1)
        if rows.targets is not None:
            for i, seen in enumerate(self.targets):
                seen.add(rows.targets[:, i])
        if rows.weights is not None:
            self.weights.add(rows.weights)
        for what, count in rows.remarks.items():
            self.remarks[what] = self.remarks.get(what, 0) + count

    def _add_lengths(self, lengths: npt.NDArray[Any], rows: Rows) -> None:
        for length, count in zip(*np.unique(lengths, return_counts=True), strict=True):
            self.lengths[int(length)] = self.lengths.get(int(length), 0) + int(count)
        for i in np.argsort(-lengths, kind="stable")[:TOP].tolist():
            name = None if rows.ids is None else rows.ids[i]
            self.longest.append(Named(self.rows + i, name, int(lengths[i])))
        self.longest = nlargest(TOP, self.longest, key=lambda row: row.nnz)
        self.rows += len(rows)
        self.nnz += int(lengths.sum())

    @property
    def empty_rows(self) -> int:
        """The number of rows without non-zeros."""
        return self.lengths.get(0, 0)

    @property
    def empty_columns(self) -> int | None:
        """The number of columns that never occur; None if not counted."""
        if self.columns is None:
            return None
        return self.layout.columns - int(np.count_nonzero(self.columns))

    @property
    def fullest(self) -> list[Named]:
        """The columns with the most non-zeros."""
        if self.columns is None:
            return []
        names, order = self.layout.names, np.argsort(-self.columns, kind="stable")[:TOP].tolist()
        return [Named(i, None if names is None else names[i], int(self.columns[i])) for i in order]

    @property
    def share_of_longest_rows(self) -> float:
        """Share of the non-zeros that the longest 1 % of the rows have."""
        return share_of_top(sorted(self.lengths.items(), reverse=True), self.rows)

    @property
    def share_of_fullest_columns(self) -> float | None:
        """Share of the non-zeros in the fullest 1 % of all columns; None if not counted."""
        if self.columns is None:
            return None
        found, counts = np.unique(self.columns[self.columns > 0], return_counts=True)
        pairs = zip(found[::-1].tolist(), counts[::-1].tolist(), strict=True)
        return share_of_top(pairs, self.layout.columns)


def share_of_top(groups: Iterable[tuple[int, int]], count: int) -> float:
    """Return the share of the largest 1 % of `count` summands (at least one).

    groups: (size, number of summands of this size), the largest first; missing summands are 0.

    >>> share_of_top([(60, 1), (1, 40)], 100)
    0.6
    """
    top, inside, total = max(1, count // 100), 0, 0
    for size, many in groups:
        taken = min(many, top)
        inside, total, top = inside + size * taken, total + size * many, top - taken
    return inside / total if total else 0.0
