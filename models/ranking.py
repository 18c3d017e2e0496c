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
            return np.array(
                [area_of_groups(*pair) for pair in zip(negative, positive, strict=True)]
            )
        scores, labels, weights = (np.concatenate(parts) for parts in zip(*self.kept, strict=True))
        weights = np.broadcast_to(weights, scores.shape)
        columns = range(scores.shape[1])
        return np.array([area(scores[:, c], labels[:, c], weights[:, c]) for c in columns])


def area(scores: Array, labels: Array, weights: Array) -> float:
    """The area of one column, exactly.

    >>> area(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]), np.ones(4))
    0.75
    """
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    positive = (labels[order] * weights[order]).astype(np.float64)
    negative = weights[order].astype(np.float64) - positive
    if not scores.size:
        return float("nan")
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return area_of_groups(np.add.reduceat(negative, starts), np.add.reduceat(positive, starts))


def area_of_groups(negative: Array, positive: Array) -> float:
    """The area where groups of rows with equal scores ascend; weights of each group."""
    pairs = float(negative.sum()) * float(positive.sum())
    below = np.cumsum(negative) - negative
    return float((positive * (below + negative / 2)).sum()) / pairs if pairs else float("nan")
