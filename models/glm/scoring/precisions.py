"""Score the best-ranked rows of one column, and its probabilities.

- Average precision: the mean, over the positives, of the precision among all rows that score at
  least as high. Manning, Raghavan, Schütze (2008), chapter 8; rows of equal scores count together.
- Top precision: the share of positives among the k rows of the highest scores. Of rows of equal
  scores, of which only some fit, each counts in part.
- Calibration error: rows are put into ten bins of equal width by their probability p; the mean of
  |sum of (y - p)| over the bins. Guo, Pleiss, Sun, Weinberger, ICML 2017.

Rows count with their weights. Labels between 0 and 1 make a part of a row positive.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.arrays.compiled import kernel

from .areas import Array, Keys, pack

WIDTHS = 10  # bins of probabilities
STATE = 4  # numbers of `add_group`


def precisions(
    scores: Array, labels: Array, weights: Array, most: int, keys: Keys
) -> tuple[float, float]:
    """Return average precision and top precision at `most`; NaN without positives or rows.

    scores, labels, weights: [n]. keys: uint64 [n], memory to sort in.

    >>> scores = np.array([0.1, 0.4, 0.35, 0.8], np.float32)
    >>> keys = np.empty(4, np.uint64)
    >>> precisions(scores, np.array([0, 0, 1, 1]), np.ones(4), 2, keys)
    (0.8333333333333333, 0.5)
    """
    pack(np.ascontiguousarray(scores, np.float32).view(np.uint32), keys)
    keys.sort()
    state = np.zeros(STATE)
    walk_order(keys, labels, weights, most, state)
    return ended(state, most)


def precisions_of_groups(negative: Array, positive: Array, most: int) -> tuple[float, float]:
    """Return the same of groups of rows with equal scores, scores ascending.

    negative, positive: [groups], sums of weights.
    """
    state = np.zeros(STATE)
    walk_groups(negative, positive, most, state)
    return ended(state, most)


def calibration_error(scores: Array, positive: Array, weights: Array, *, logs: bool) -> float:
    """Return the calibration error; NaN without rows.

    scores: [n], log odds; with `logs`, logarithms of probabilities.
    positive, weights: [n], the positive part of each row's weight, and its weight.
    """
    sums = np.zeros((2, WIDTHS))
    add_calibration(scores, positive, weights, logs, sums)
    rows = sums[1].sum()
    return float(np.abs(sums[0]).sum() / rows) if rows > 0 else math.nan


def ended(state: NDArray[np.float64], most: int) -> tuple[float, float]:
    """Return the figures of a walk that has seen all rows."""
    positives, rows, precision, top = state.tolist()
    first = min(rows, most)
    return (
        precision / positives if positives > 0 else math.nan,
        top / first if first > 0 else math.nan,
    )


@kernel
def add_group(negative: float, positive: float, most: int, state: NDArray[np.float64]) -> None:
    """Add rows of equal scores, after those of higher scores.

    state: weights of positives and of rows so far, sum of precisions, positives among the first.
    """
    rows = negative + positive
    if rows <= 0.0:
        return
    fit = min(1.0, max(0.0, (most - state[1]) / rows))
    state[0] += positive
    state[1] += rows
    state[2] += positive * state[0] / state[1]
    state[3] += positive * fit


@kernel
def walk_order(
    keys: Keys, labels: Array, weights: Array, most: int, state: NDArray[np.float64]
) -> None:
    """Add all rows, those of the highest scores first; keys: see `pack`."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    at = keys.size - 1
    while at >= 0:
        score = keys[at] >> half
        negative = positive = 0.0
        while at >= 0 and keys[at] >> half == score:
            row = np.intp(keys[at] & low)
            part = np.float64(labels[row]) * weights[row]
            positive += part
            negative += np.float64(weights[row]) - part
            at -= 1
        add_group(negative, positive, most, state)


@kernel
def walk_groups(negative: Array, positive: Array, most: int, state: NDArray[np.float64]) -> None:
    """Add all groups, those of the highest scores first."""
    for group in range(negative.size - 1, -1, -1):
        add_group(negative[group], positive[group], most, state)


@kernel
def add_calibration(
    scores: Array, positive: Array, weights: Array, logs: bool, sums: NDArray[np.float64]
) -> None:
    """Add y - p and the weight of each row to the bins of its p, [2 x WIDTHS]."""
    for row in range(scores.size):
        score = np.float64(scores[row])
        p = np.exp(min(score, 0.0)) if logs else 1.0 / (1.0 + np.exp(-score))
        place = min(int(p * WIDTHS), WIDTHS - 1)
        sums[0, place] += positive[row] - p * weights[row]
        sums[1, place] += weights[row]
