"""The nearest centres of dense rows in memory, without a learner."""

from __future__ import annotations

from typing import Any

import numpy as np

from blocklearn.matcache import cpu

from ..base import Array
from ..dense_scores import products


def nearest(X: Any, centres: Array, threads: int, *, directions: bool) -> Array:
    """Return the number of the nearest centre of each row, int32 [n], the first of several.

    X: numbers [n x d].
    centres: float32 [k x d].
    threads: that may take parts of the rows.
    directions: whether centres have length 1, and the smallest angle counts.

    Distances are differences of squares, and numbers around 0 keep more digits of them. So rows and
    centres are taken without the mean of the centres.
    """
    found, half = np.empty(len(X), np.int32), np.zeros(len(centres), np.float32)
    origin = None
    if not directions:
        origin = centres.mean(axis=0, dtype=np.float64).astype(np.float32)
        centres = centres - origin
        half[:] = 0.5 * np.einsum("kd,kd->k", centres, centres, dtype=np.float64)

    def number(first: int, scores: Array) -> None:
        cpu.number_nearest(scores, half, found[first : first + len(scores)])

    products(X, np.ascontiguousarray(centres.T), number, threads, origin)
    return found
