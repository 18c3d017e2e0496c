"""Compute the area under the ROC curve of one column of scores.

The area is the share of pairs of a positive and a negative row in which the positive one has the
higher score. Ties count half (Hanley, McNeil 1982). A row counts with its weight. A label between 0
and 1 makes that share of the row's weight positive, and the rest negative.

Areas are sums in float64. With whole-number weights and labels of 0 and 1 no term is rounded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.arrays.compiled import kernel

Array = NDArray[np.floating]
Keys = NDArray[np.uint64]


def area(scores: Array, labels: Array, weights: Array, keys: Keys | None = None) -> float:
    """Compute the exact area of one column; NaN where one of the classes is missing.

    scores, labels, weights: [n]; float32 is not copied.
    keys: uint64 [n], memory to sort in; None: allocated here.

    >>> area(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]), np.ones(4))
    0.75
    """
    scores = np.asarray(scores, np.float32)
    if keys is None:
        keys = np.empty(len(scores), np.uint64)
    pack(scores.view(np.uint32), keys)
    keys.sort()
    return float(area_of_order(keys, labels, weights))


@kernel
def pack(bits: NDArray[np.uint32], keys: NDArray[np.uint64]) -> None:
    """Set keys[r] to the score of row r as an ordered integer, with r below it.

    bits: [n], the bits of float32 scores. 0 and -0 are the same score.
    """
    sign = np.uint32(0x80000000)
    for row in range(keys.size):
        found = bits[row]
        if found == sign:
            found = np.uint32(0)
        found = ~found if found & sign else found | sign
        keys[row] = np.uint64(found) << np.uint64(32) | np.uint64(row)


@kernel
def area_of_order(keys: NDArray[np.uint64], labels: Array, weights: Array) -> float:
    """Compute the area of rows in the order of `keys`, see `pack`.

    labels, weights: [n], by row.
    """
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    hits = below = above = 0.0
    at, rows = 0, keys.size
    while at < rows:
        score = keys[at] >> half
        negative = positive = 0.0
        while at < rows and keys[at] >> half == score:  # rows of equal scores
            row = np.intp(keys[at] & low)
            part = labels[row] * weights[row]
            positive += part
            negative += np.float64(weights[row]) - part
            at += 1
        hits += positive * (below + negative / 2)
        below += negative
        above += positive
    pairs = below * above
    return hits / pairs if pairs > 0 else np.nan


@kernel
def area_of_groups(negative: Array, positive: Array) -> float:
    """Compute the area of groups of rows with equal scores, scores ascending.

    negative, positive: [groups], sums of weights.
    """
    hits = below = above = 0.0
    for group in range(negative.size):
        hits += positive[group] * (below + negative[group] / 2)
        below += negative[group]
        above += positive[group]
    pairs = below * above
    return hits / pairs if pairs > 0 else np.nan
