"""Scores of dense rows in memory, X W + b, without a learner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from blocklearn.matcache.cpu.algebra.blas import CHUNK_ROWS, one_thread

from ..base import Array

AT_ONCE = 2**17  # numbers of X that become float32 at a time, at most, beyond one chunk


@one_thread
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
    found, start = np.empty((rows, k), np.float32), 0
    with np.errstate(all="ignore"):
        for part in parts_of(X):
            into = found[start : start + len(part)]
            scores = (part.reshape(-1, CHUNK_ROWS, columns) @ W).reshape(-1, k)
            np.add(scores[: len(into)], b, out=into)
            start += len(part)
    return found if np.isfinite(found).all() else None


def parts_of(X: Array) -> Iterator[Array]:
    """Yield the rows of X as float32, in whole chunks; zeros follow the last row.

    Rows of X that are so already are yielded as they are. Others lie in the same memory.
    """
    rows, columns = X.shape
    done, each = 0, CHUNK_ROWS * max(1, AT_ONCE // (CHUNK_ROWS * columns))
    if X.dtype == np.float32 and X.flags.c_contiguous and X.flags.aligned:
        done = rows - rows % CHUNK_ROWS
        for start in range(0, done, each):
            yield X[start : min(start + each, done)]
    room = np.empty((min(each, rows - done + CHUNK_ROWS), columns), np.float32)
    for start in range(done, rows, each):
        some = X[start : start + each]
        part = room[: CHUNK_ROWS * -(-len(some) // CHUNK_ROWS)]
        part[: len(some)] = some
        part[len(some) :] = 0.0
        yield part
