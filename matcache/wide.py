"""Transposed products of dense float32 matrices, added up in float64.

For sums over a whole pass: what the order of the rows changes is then far below float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .blas import CHUNK_ROWS, add_turned
from .cache import MatCache
from .errors import ShapeError
from .lazy import Lazy, Mat
from .slots import Slot, source_line
from .table import launch, launches


def add_wide_product(total: Mat, X: Lazy, table: Lazy, weights: Lazy) -> None:
    """total += X.T @ (table * weights), computed in float64.

    total: float64 [n x k]. X: [rows x n], table: [rows x k], weights: [rows x 1]; dense, float32.
    """
    X, table, weights = X.mat(), table.mat(), weights.mat()
    (rows, n), k = X.shape, table.shape[1]
    given = [(m.shape, m.dtype.name) for m in (total, table, weights)]
    wanted = [((n, k), "float64"), ((rows, k), "float32"), ((rows, 1), "float32")]
    if X.pattern is not None or X.dtype != np.float32 or given != wanted:
        raise ShapeError(
            f"add_wide_product at {source_line()}: X is {X.dtype} {X.shape}, total, table and "
            f"weights are {given}; X must be dense and float32, and the others {wanted}."
        )
    where = source_line()
    total.slot.written(where)
    total.version, total.where = total.slot.version, where
    launch(X.cache, "add_wide_product", X.slot, table.slot, weights.slot, total.slot)
    if not X.cache.reserving:
        X.cache.flops += 2 * rows * n * k


@launches("add_wide_product", "cpu")
def _add(cache: MatCache, X: Slot, table: Slot, weights: Slot, total: Slot) -> None:
    (rows, n), k, threads = X.shape, table.shape[1], cache.backend.threads

    def room(name: str, height: int, width: int) -> Any:
        label = f"{name} of a sum in float64"
        return cache.result(("wide", name, height, width), (height, width), np.float64, label)

    weighted, parts = room("weighted table", rows, k), room("parts", n, k)
    wide = room("columns", threads * rows, CHUNK_ROWS)
    if cache.reserving:
        return
    np.multiply(table.data(), weights.data(), out=weighted.data(), dtype=np.float64)
    columns = wide.data().reshape(threads, rows, CHUNK_ROWS)
    add_turned(cache.backend.pool, X.data(), weighted.data(), columns, parts.data(), total.data())
