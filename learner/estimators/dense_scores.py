"""Scores of dense rows in memory, X W + b, without a learner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blocklearn.matcache.cpu.algebra.blas import CHUNK_ROWS, one_thread

from .base import Array
from .parts import run_parts

AT_ONCE = 2**17  # numbers of X in a part, at most, beyond one chunk

Take = Callable[[int, Array], None]
"""Takes the scores [r x k] of the rows from a number on; they are overwritten later."""


def dense_scores(
    X: Any, W: Array, b: Array | None, threads: int, centre: Array | None = None
) -> Array | None:
    """Return (X - centre) @ W + b, float32 [n x k], in the bits of a learner with short blocks.

    None: X is sparse, shapes do not fit, or some scores are not finite.

    X: numbers [n x d].
    W: float32 [d x k].
    b: float32 [1 x k]; None: 0.
    threads: that may take parts of the rows.
    centre: float32 [d]; None: 0.
    """
    k = W.shape[1]
    if not isinstance(X, np.ndarray) or len(W) != X.shape[1] or (b is not None and b.shape[1] != k):
        return None
    found = np.empty((len(X), k), np.float32)
    each = None if b is None else np.tile(b, (CHUNK_ROWS, 1))

    def keep(first: int, scores: Array) -> None:
        into = found[first : first + len(scores)]
        if each is None:
            into[:] = scores
            return
        whole = len(into) // CHUNK_ROWS * CHUNK_ROWS  # NumPy adds long rows faster
        long = -1, each.size
        if whole:
            np.add(scores[:whole].reshape(long), each.ravel(), out=into[:whole].reshape(long))
        np.add(scores[whole:], each[: len(into) - whole], out=into[whole:])

    products(X, W, keep, threads, centre)
    return found if np.isfinite(found).all() else None


def products(X: Array, W: Array, take: Take, threads: int, centre: Array | None = None) -> None:
    """Let `take` have (X - centre) @ W, a part of the rows at a time: see `dense_scores`.

    They are as precise as W. BLAS gets chunks of equally many rows, so the bits of a row do not
    depend on the others.
    """
    (rows, columns), k = X.shape, W.shape[1]
    each = min(max(1, AT_ONCE // (CHUNK_ROWS * columns)), -(-rows // CHUNK_ROWS))  # chunks
    plain = X.dtype == W.dtype and X.flags.c_contiguous and X.flags.aligned and centre is None
    whole = rows - rows % CHUNK_ROWS if plain else rows  # rows that are multiplied where they lie
    size = each * CHUNK_ROWS
    shift = None if centre is None else np.tile(centre, CHUNK_ROWS)  # of a chunk: long rows
    rooms = [np.empty((size, columns), W.dtype) for _ in range(threads)]
    results = [np.empty((each, CHUNK_ROWS, k), W.dtype) for _ in range(threads)]

    def multiply(number: int, thread: int) -> None:
        one_thread.lower_here()
        first = min(number * size, whole)
        part = X[first : min(first + size, whole) if first < whole else rows]
        chunks, count = -(-len(part) // CHUNK_ROWS), len(part)
        if not plain or count % CHUNK_ROWS:
            room = rooms[thread][: chunks * CHUNK_ROWS]
            with np.errstate(all="ignore"):
                room[:count], room[count:] = part, 0.0
                if shift is not None:
                    room.reshape(chunks, -1)[:] -= shift
            part = room
        scores = results[thread][:chunks]
        with np.errstate(all="ignore"):
            np.matmul(part.reshape(chunks, CHUNK_ROWS, columns), W, out=scores)
            take(first, scores.reshape(-1, k)[:count])

    with one_thread:
        run_parts(multiply, -(-whole // size) + (rows > whole) if rows else 0, threads)
