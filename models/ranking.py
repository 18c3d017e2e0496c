"""Area under the ROC curve, by column, of scores that arrive block by block.

The share of pairs of a positive and a negative row in which the positive one has the higher score;
ties count half (Hanley, McNeil 1982). A row counts with its weight; a label between 0 and 1 makes a
row positive with that part of its weight. Exact while the scores kept are at most `MOST_KEPT`, rows
times columns; beyond, of scores in `BINS` bins of equal width over [-SPAN, SPAN].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_KEPT = 2**24  # 130 MB with their labels
BINS = 2**12
AT_ONCE = 2**15  # scores that are ranked at once: what is made of them stays in the caches
SPAN = 16.0  # of log odds: probabilities from 1e-7 to 1 - 1e-7

Array = NDArray[Any]


@dataclass(frozen=True)
class Ranking:
    """Rows to rank: either `kept`, blocks of (scores, labels, weights), or `counts` by bin.

    scores, labels: [n x columns], weights: the same or [n x 1]. counts: weights of negative and of
    positive rows, float64 [2 x columns x BINS]. `most`: kept at most, before bins take over.
    """

    kept: tuple[tuple[Array, Array, Array], ...] = ()
    counts: Array | None = None
    most: int = MOST_KEPT

    @classmethod
    def of(cls, scores: Array, labels: Array, weights: Array, most: int = MOST_KEPT) -> Ranking:
        """One block; rows of weight 0 are left out."""
        real = np.flatnonzero(weights.any(axis=1))
        return cls(((scores[real], labels[real], weights[real]),), most=most).bounded()

    @property
    def exact(self) -> bool:
        """Whether scores are kept, not binned."""
        return self.counts is None

    def __add__(self, other: Ranking) -> Ranking:
        if self.counts is None and other.counts is None:
            return Ranking(self.kept + other.kept, most=self.most).bounded()
        return Ranking(counts=self.binned() + other.binned(), most=self.most)

    def bounded(self) -> Ranking:
        """The same, in bins if too much is kept."""
        if sum(scores.size for scores, _, _ in self.kept) <= self.most:
            return self
        return Ranking(counts=self.binned(), most=self.most)

    def binned(self) -> Array:
        """Weights by bin."""
        if self.counts is not None:
            return self.counts
        columns = self.kept[0][0].shape[1]
        counts = np.zeros((2, columns, BINS))
        for scores, labels, weights in self.kept:
            place = np.clip((scores + SPAN) * (BINS / (2 * SPAN)), 0, BINS - 1).astype(np.int64)
            place += np.arange(columns) * BINS
            for side, share in enumerate((1.0 - labels, labels)):
                found = np.bincount(place.ravel(), (share * weights).ravel(), columns * BINS)
                counts[side] += found.reshape(columns, BINS)
        return counts

    def areas(self) -> Array:
        """The area of each column; NaN where one of the classes is missing."""
        if self.counts is not None:
            negative, positive = self.counts
            return areas_of_groups(
                negative.ravel(), positive.ravel(), np.arange(len(negative)) * BINS
            )
        scores, labels, weights = (np.concatenate(parts) for parts in zip(*self.kept, strict=True))
        return areas(scores, labels, np.broadcast_to(weights, scores.shape))


def areas(scores: Array, labels: Array, weights: Array) -> Array:
    """The area of each column, exactly; all arguments [n x columns].

    >>> scores = np.array([[0.1, 1.0], [0.4, 1.0], [0.35, 1.0], [0.8, 2.0]])
    >>> labels = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> areas(scores, labels, np.ones((4, 2))).tolist()
    [0.75, 0.75]
    """
    rows, columns = scores.shape
    if not rows:
        return np.full(columns, np.nan)
    step = max(1, AT_ONCE // rows)
    if columns > step:
        parts = [slice(c, c + step) for c in range(0, columns, step)]
        return np.concatenate([areas(scores[:, p], labels[:, p], weights[:, p]) for p in parts])
    scores = np.ascontiguousarray(scores.T)
    order = np.argsort(scores, axis=1)
    order += np.arange(columns)[:, None] * rows
    ordered = scores.ravel()[order]
    weight, label = (np.ascontiguousarray(x.T).ravel()[order] for x in (weights, labels))
    positive = (label * weight).astype(np.float64)
    negative = weight - positive
    first = np.ones((columns, rows), bool)  # of the rows of a column with equal scores
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=first[:, 1:])
    starts = np.flatnonzero(first)
    negative, positive = (np.add.reduceat(x.ravel(), starts) for x in (negative, positive))
    return areas_of_groups(negative, positive, np.flatnonzero(starts % rows == 0))


def area(scores: Array, labels: Array, weights: Array) -> float:
    """The area of one column, exactly; all arguments [n]."""
    return float(areas(scores[:, None], labels[:, None], weights[:, None])[0])


def areas_of_groups(negative: Array, positive: Array, columns: Array) -> Array:
    """The area of each column, whose groups of rows with equal scores ascend.

    negative, positive: weights of each group, column after column; columns: where each begins.
    """
    below = np.cumsum(negative) - negative
    below -= np.repeat(below[columns], np.diff(columns, append=negative.size))
    hits, *sums = (
        np.add.reduceat(x, columns) for x in (positive * (below + negative / 2), negative, positive)
    )
    pairs = sums[0] * sums[1]
    found = np.full(columns.size, np.nan)
    np.divide(hits, pairs, out=found, where=pairs > 0)
    return found
