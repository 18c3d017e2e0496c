"""Scores of sparse rows in memory, X W + b, without a learner."""

from __future__ import annotations

from typing import Any

import numpy as np

from blocklearn.matcache import cpu

from .base import Array
from .parts import run_parts

AT_ONCE = 2**14  # rows of a part, which one thread reads
MOST = 16  # columns of W; more of them suit products in blocks


def sparse_scores(X: Any, W: Array, b: Array, threads: int) -> Array | None:
    """Return X @ W + b, float32 [n x k], from sums in float64.

    None: X is no CSR matrix without faults, shapes do not fit, or some scores are not finite.

    X: SciPy CSR [n x d], whose entries may be in any order.
    W: float32 [d x k].
    b: float32 [1 x k].
    threads: that may take parts of the rows; each row has the same bits on any of them.
    """
    (rows, columns), k = X.shape, W.shape[1]
    if X.format != "csr" or len(W) != columns or b.shape[1] != k or k > MOST:
        return None
    if len(X.indptr) <= rows or not has_no_fault(X.indptr, X.indices, len(X.data), columns):
        return None
    with np.errstate(over="ignore"):
        values = np.require(X.data, np.float32, ["C", "A", "W"])  # as compiled code takes it
    starts = np.require(X.indptr, X.indptr.dtype.newbyteorder("="), ["C", "A", "W"])
    indices = np.require(X.indices, np.int32, ["C", "A", "W"])
    table, found = W.astype(np.float64, order="C"), np.empty((rows, k), np.float32)

    def score(number: int, thread: int) -> None:
        first, last = number * AT_ONCE, min(rows, (number + 1) * AT_ONCE)
        room = np.empty((last - first, k))
        cpu.multiply_rows(first, last, starts, indices, values, table, room)
        with np.errstate(all="ignore"):
            np.add(room, b, out=found[first:last], casting="same_kind")

    run_parts(score, -(-rows // AT_ONCE), threads)
    return found if np.isfinite(found).all() else None


def has_no_fault(starts: Array, indices: Array, numbers: int, columns: int) -> bool:
    """Return whether offsets and columns of a CSR matrix stay within its arrays.

    starts: [n + 1]. indices: of columns. numbers: of values.

    >>> has_no_fault(np.array([0, 2]), np.array([3, 1]), 2, 4)
    True
    >>> has_no_fault(np.array([0, 2]), np.array([3, -1]), 2, 4)
    False
    """
    within = 0 <= starts[0] and starts[-1] <= min(len(indices), numbers)
    if not within or (starts[1:] < starts[:-1]).any():
        return False
    unsigned = indices.view(f"u{indices.itemsize}")  # so that negative ones are large
    return bool(unsigned.max(initial=0) < columns)
