"""Scores of dense rows in memory, X W + b, without a learner."""

from __future__ import annotations

from typing import Any

import numpy as np

from blocklearn.matcache.cpu.algebra.blas import CHUNK_ROWS, one_thread

from ..base import Array

AT_ONCE = 2**20  # numbers of X that are float32 at a time, at most, beyond one chunk


@one_thread()
def dense_scores(X: Any, W: Array, b: Array) -> Array | None:
    """Return X @ W + b, float32 [n x k], in the bits of a learner with up to 4,096 rows a block.

    None: X is sparse, shapes do not fit, or some scores are not finite.

    X: numbers [n x d].
    W: float32 [d x k].
    b: float32 [1 x k].

    BLAS gets chunks of equally many rows, so the bits of a row do not depend on the others.
    """
    (rows, columns), k = X.shape, W.shape[1]
    if not isinstance(X, np.ndarray) or len(W) != columns or b.shape[1] != k:
        return None
    chunks = max(1, min(AT_ONCE // (CHUNK_ROWS * columns), -(-rows // CHUNK_ROWS)))
    part = np.zeros((chunks * CHUNK_ROWS, columns), np.float32)
    by_chunk = part.reshape(chunks, CHUNK_ROWS, columns)
    found = np.empty((rows, k), np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, rows, len(part)):
            some = X[start : start + len(part)]
            part[: len(some)] = some
            scores = (by_chunk @ W).reshape(-1, k)[: len(some)]
            np.add(scores, b, out=found[start : start + len(some)])
    return found if np.isfinite(found).all() else None
