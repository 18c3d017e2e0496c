"""Keep all rows of the training data on a device, where blocks take theirs by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blocklearn.datasources import DataSource, HostBlock, MatrixSource
from blocklearn.matcache import MatCache
from blocklearn.matcache.containers.backend import Held
from blocklearn.matcache.containers.slots import aligned


class AllRows:
    """The rows of a matrix in memory: features, weights and targets, or targets alone.

    shape: of the matrix.
    features: whether features and weights lie there, too.
    weights, X, Y: where they lie; X of a dense matrix. None: they do not.
    matrix: where the features of a sparse matrix lie, or None.
    """

    def __init__(self, cache: MatCache, source: MatrixSource, side: int, *, features: bool) -> None:
        """Reserve the room in the plan."""
        self.shape, self.features, self._cache, self._side = source.shape, features, cache, side
        self._brought = False
        dense, sparse = features and self.shape.dense, features and not self.shape.dense
        self.weights = self._table("weights", 1) if features else None
        self.X = self._table("X", self.shape.columns) if dense else None
        self.Y = self._table("Y", self.shape.targets) if self.shape.targets else None
        self.matrix = None
        if sparse:
            rows, label = self.shape.total_rows, self._label("X")
            self.matrix = cache.backend.hold_matrix(cache, label, rows, source.nnz)

    def _label(self, name: str) -> str:
        return f"{name}{' (transposed)' if self._side else ''}, all rows"

    def _table(self, name: str, columns: int) -> Held | None:
        shape, label = (self.shape.total_rows, columns), self._label(name)
        store = self._cache.result(("held", label), shape, np.float32, f"{label} (on the device)")
        held: Held | None = self._cache.backend.hold(self._cache, store)
        return held

    def others(self, source: DataSource) -> DataSource:
        """Return a source of what blocks must still bring."""
        assert isinstance(source, MatrixSource)
        return source.row_numbers() if self.features else source.without_targets()

    def bring(self, source: DataSource, check: Callable[[HostBlock], None]) -> None:
        """Copy all rows to the device, unless they are there. check: is called with them first."""
        if self._brought:
            return
        assert isinstance(source, MatrixSource)
        for part in source.in_order():
            check(part)
            self._send(part, part.index * part.shape.rows)
        self._brought = True

    def _send(self, part: HostBlock, first: int) -> None:
        """Copy rows to the device: the first one has that number."""
        rows = part.rows
        tables: list[tuple[Held | None, Any]] = [
            (self.weights, part.weights), (self.X, part.dense), (self.Y, part.targets)
        ]  # fmt: skip
        for held, array in tables:
            if held is not None:
                held.send(array[:rows], first)
        if self.matrix is not None:
            indices, values = part.indices[: part.nnz], part.values[: part.nnz]
            self.matrix.send(first, part.indptr[: rows + 1], indices, values)


def bytes_of(source: MatrixSource, *, features: bool) -> int:
    """Return the bytes that `AllRows` takes."""
    shape, entries = source.shape, source.nnz
    rows = shape.total_rows
    sizes = [4 * rows * shape.targets]
    if features:
        sizes.append(4 * rows)
        sizes += [4 * rows * shape.columns] if shape.dense else [8 * (rows + 1), 4 * entries]
        sizes += [] if shape.dense else [4 * entries]
    return sum(map(aligned, sizes))
