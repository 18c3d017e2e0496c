"""Compute the area under the ROC curve of scores, column by column: see `areas.py`.

| class | memory | area |
|---|---|---|
| `KeptRanking` | 8 bytes a score, 12 where weights differ by column | exact |
| `BinnedRanking` | 64 KiB a column, any number of rows | of scores in bins |
| `BlockRanking` | none: it reads the arrays of one block | exact |

The exact ones need 8 more bytes a row, to sort by. The first `clear` takes all memory, once.

The bins are `BINS` of equal width over [-SPAN, SPAN]: 1/128 of log odds. Scores outside count in
the outermost bins. Scores of one bin are ties. The error of an area is therefore at most half the
share of pairs with both scores in one bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.arrays.compiled import kernel

from ...score import Room
from .areas import Array, Keys, area, area_of_groups
from .precisions import calibration_error, precisions, precisions_of_groups

MOST_KEPT = 2**24  # scores: 128 MiB with their labels
BINS = 2**12
SPAN = 16.0  # of log odds: probabilities from 1e-7 to 1 - 1e-7


class Ranking(Protocol):
    """Ranks the rows of the blocks that are added, in some of their columns."""

    exact: bool
    """Whether areas are exact; if not, they come from scores in bins."""

    @property
    def rooms(self) -> Sequence[Room]:
        """The memory that `clear` takes."""

    def clear(self) -> None:
        """Forget all rows. The first call takes the memory."""

    def add(self, scores: Array, labels: Array, weights: Array, rows: int) -> None:
        """Add the first `rows` rows of a block.

        scores, labels: float32 [block rows x columns of the block].
        weights: float32 of the same shape, or [block rows x 1].
        """

    def areas(self) -> Array:
        """Return the area of each ranked column, float64; NaN where a class is missing."""

    def more(self, most: int, logs: Sequence[bool]) -> Array:
        """Return three figures of each ranked column, float64 [columns x 3]: see `precisions.py`.

        They are average precision, top precision of `most` rows, calibration error.

        logs: of each column, whether its scores are logarithms of probabilities, not log odds.
        """


def ranking_of(rows: int, columns: Sequence[int], *, own_weights: bool) -> Ranking:
    """Return an exact ranking, or a binned one if that takes too much memory.

    It is exact for up to `MOST_KEPT` scores, and where scores take no more memory than bins.

    rows: the most that will be added.
    columns: of a block, to rank.
    own_weights: whether each column has weights of its own.
    """
    if rows * len(columns) <= MOST_KEPT or rows <= 2 * BINS:
        return KeptRanking(rows, columns, own_weights=own_weights)
    return BinnedRanking(columns)


class KeptRanking:
    """Keeps the scores of up to `rows` rows and sorts them, column by column."""

    exact = True

    def __init__(self, rows: int, columns: Sequence[int], *, own_weights: bool) -> None:
        """See `ranking_of`."""
        self._columns = np.array(columns, np.int64)
        self._weight_columns = self._columns if own_weights else np.zeros(1, np.int64)
        self._capacity, self._rows = rows, 0
        self._taken = False

    @property
    def rooms(self) -> Sequence[Room]:
        """See `Ranking`."""
        rows, columns = self._capacity, len(self._columns)
        return (
            Room("scores to rank", (columns, rows), "float32"),
            Room("labels to rank", (columns, rows), "float32"),
            Room("weights to rank", (len(self._weight_columns), rows), "float32"),
            Room("order of ranked rows", (1, rows), "uint64"),
        )

    def clear(self) -> None:
        """See `Ranking`."""
        if not self._taken:
            self._scores, self._labels, self._weights, (self._keys,) = (
                np.empty(room.shape, room.dtype) for room in self.rooms
            )
            self._taken = True
        self._rows = 0

    def add(self, scores: Array, labels: Array, weights: Array, rows: int) -> None:
        """See `Ranking`. Raises ValueError for more rows in all than it has room for."""
        if self._rows + rows > self._capacity:
            raise ValueError(
                f"rows={self._rows + rows:,}: must be at most {self._capacity:,}, the total_rows "
                "of the data that are scored. Let the source's shape state all rows of a pass."
            )
        turn(scores[:rows], self._columns, self._scores, self._rows)
        turn(labels[:rows], self._columns, self._labels, self._rows)
        turn(weights[:rows], self._weight_columns, self._weights, self._rows)
        self._rows += rows

    def areas(self) -> Array:
        """See `Ranking`."""
        rows = self._rows
        return np.array(
            [
                area(scores[:rows], labels[:rows], weights[:rows], self._keys[:rows])
                for scores, labels, weights in zip(
                    self._scores, self._labels, _each(self._weights, len(self._scores)), strict=True
                )
            ]
        )

    def more(self, most: int, logs: Sequence[bool]) -> Array:
        """See `Ranking`."""
        n, weights = self._rows, _each(self._weights, len(self._scores))
        return np.array(
            [
                of_rows(scores[:n], labels[:n], own[:n], most, self._keys[:n], logs=log)
                for scores, labels, own, log in zip(
                    self._scores, self._labels, weights, logs, strict=True
                )
            ]
        )


class BinnedRanking:
    """Adds up the weights of negative and of positive rows by bin of their scores."""

    exact = False

    def __init__(self, columns: Sequence[int]) -> None:
        """columns: of a block, to rank."""
        self._columns = np.array(columns, np.int64)
        self._counts: Array | None = None

    @property
    def rooms(self) -> Sequence[Room]:
        """See `Ranking`."""
        return (Room("weights by bin of score", (2, len(self._columns), BINS), "float64"),)

    def clear(self) -> None:
        """See `Ranking`."""
        if self._counts is None:
            (room,) = self.rooms
            self._counts = np.empty(room.shape, room.dtype)
        self._counts.fill(0.0)

    def add(self, scores: Array, labels: Array, weights: Array, rows: int) -> None:
        """See `Ranking`."""
        assert self._counts is not None
        count_bins(scores[:rows], labels[:rows], weights[:rows], self._columns, self._counts)

    def areas(self) -> Array:
        """See `Ranking`."""
        assert self._counts is not None
        negative, positive = self._counts
        return np.array([area_of_groups(*pair) for pair in zip(negative, positive, strict=True)])

    def more(self, most: int, logs: Sequence[bool]) -> Array:
        """See `Ranking`. A row's probability is that of the middle of its bin."""
        assert self._counts is not None
        middles = (np.arange(BINS) + 0.5) * (2 * SPAN / BINS) - SPAN
        return np.array(
            [
                (
                    *precisions_of_groups(negative, positive, most),
                    calibration_error(middles, positive, negative + positive, logs=log),
                )
                for negative, positive, log in zip(*self._counts, logs, strict=True)
            ]
        )


class BlockRanking:
    """Ranks one block in place: its arrays must not change before `areas`."""

    exact = True

    def __init__(self, block_rows: int, columns: Sequence[int]) -> None:
        """columns: of the block, to rank."""
        self._rows, self._columns = block_rows, columns
        self._keys: Keys | None = None

    @property
    def rooms(self) -> Sequence[Room]:
        """See `Ranking`."""
        return (Room("order of the rows of a block", (1, self._rows), "uint64"),)

    def clear(self) -> None:
        """See `Ranking`."""
        if self._keys is None:
            self._keys = np.empty(self._rows, np.uint64)
        self._block: tuple[Array, Array, Array] | None = None

    def add(self, scores: Array, labels: Array, weights: Array, rows: int) -> None:
        """See `Ranking`. Called once after each `clear`."""
        assert self._block is None
        self._block = scores[:rows], labels[:rows], weights[:rows]

    def areas(self) -> Array:
        """See `Ranking`."""
        assert self._block is not None and self._keys is not None
        scores, labels, weights = self._block
        keys, single = self._keys[: len(scores)], weights.shape[1] == 1
        return np.array(
            [
                area(scores[:, c], labels[:, c], weights[:, 0 if single else c], keys)
                for c in self._columns
            ]
        )

    def more(self, most: int, logs: Sequence[bool]) -> Array:
        """See `Ranking`."""
        assert self._block is not None and self._keys is not None
        scores, labels, weights = self._block
        keys, single = self._keys[: len(scores)], weights.shape[1] == 1
        return np.array(
            [
                of_rows(
                    scores[:, c], labels[:, c], weights[:, 0 if single else c], most, keys, logs=log
                )
                for c, log in zip(self._columns, logs, strict=True)
            ]
        )


def of_rows(
    scores: Array, labels: Array, weights: Array, most: int, keys: Keys, *, logs: bool
) -> tuple[float, float, float]:
    """Return the three figures of `Ranking.more` of one column."""
    error = calibration_error(scores, labels * weights, weights, logs=logs)
    return (*precisions(scores, labels, weights, most, keys), error)


def _each(rows: Array, count: int) -> Sequence[Array]:
    """Return the rows of a table; if it has only one, `count` times that one."""
    return [rows[0]] * count if len(rows) == 1 else list(rows)


@kernel
def turn(block: Array, columns: NDArray[np.int64], into: Array, first: int) -> None:
    """Copy `columns` of a block [rows x n] to rows of `into`, from `first` on."""
    rows, tile = block.shape[0], 64  # a tile of rows stays in the cache for all columns
    for begin in range(0, rows, tile):
        for place in range(columns.size):
            column = columns[place]
            for row in range(begin, min(begin + tile, rows)):
                into[place, first + row] = block[row, column]


@kernel
def count_bins(
    scores: Array, labels: Array, weights: Array, columns: NDArray[np.int64], counts: Array
) -> None:
    """Add the weights of negative and positive rows to counts [2 x columns x BINS]."""
    scale, most = np.float32(BINS / (2 * SPAN)), np.float32(BINS - 1)
    one, span, none = np.float32(1), np.float32(SPAN), np.float32(0)
    single = weights.shape[1] == 1
    for row in range(scores.shape[0]):
        for place in range(columns.size):
            column = columns[place]
            found = (scores[row, column] + span) * scale
            bin_ = np.intp(min(max(found, none), most))
            weight, label = weights[row, 0 if single else column], labels[row, column]
            counts[0, place, bin_] += (one - label) * weight
            counts[1, place, bin_] += label * weight
