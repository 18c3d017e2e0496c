"""Bring numbers into a cache: matrices by name, from arrays, and the block that is refilled."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .cache import MatCache
from .errors import ShapeError
from .fused import Random
from .lazy import Mat, Scalar, SparseMat
from .slots import PatternSlot, Slot


def named(cache: MatCache, name: str, shape: tuple[int, int], dtype: Any = np.float32) -> Mat:
    """The container called `name`, of this shape: zeros when it is new."""
    slot = cache.result(("named", name), shape, dtype, name)
    return Scalar(cache, slot) if shape == (1, 1) else Mat(cache, slot)


def from_array(cache: MatCache, array: Any, name: str | None = None) -> Mat:
    """A Mat with a copy of a two-dimensional array (a vector is one row)."""
    array = np.atleast_2d(np.asarray(array))
    if array.dtype not in (np.float32, np.float64, np.int32, np.int64):
        array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
    mat = named(cache, name or f"mat {cache.new_guid()}", array.shape, array.dtype)
    mat.set(array)
    return mat


def scalar(cache: MatCache, value: float, name: str | None = None, dtype: Any = np.float64) -> Scalar:
    """A number that may change without changing any key."""
    mat = named(cache, name or f"scalar {cache.new_guid()}", (1, 1), dtype)
    mat.set(value)
    assert isinstance(mat, Scalar)
    return mat


def random(cache: MatCache, shape: tuple[int, int], key: Mat, stream: int = 0) -> Random:
    """Uniform random numbers in (0, 1), by counter: see `Random`."""
    if key.shape != (1, 3) or key.dtype != np.int64:
        raise ShapeError(
            f"random: the key {key.label} is {key.shape} {key.dtype}; it must be int64 of shape (1, 3): "
            "seed, pass, block."
        )
    return Random(cache, shape, key, stream)


class SparseInput:
    """The sparse container of a block: fixed rows and columns, a capacity in non-zeros.

    `bind` points it at a block's arrays without copying; everything computed from it keeps its
    containers, since the GUIDs stay.
    """

    def __init__(self, cache: MatCache, name: str, rows: int, columns: int, capacity: int) -> None:
        self.cache = cache
        capacity = max(capacity, 1)
        self.pattern = PatternSlot(cache.new_guid(), rows, columns, capacity, name)
        self.values = Slot(cache.new_guid(), (1, capacity), np.dtype(np.float32), name)

    def handle(self) -> SparseMat:
        """A handle on the present contents; those of earlier contents become stale."""
        return SparseMat(self.cache, self.values, self.pattern)

    def bind(
        self,
        *,
        indptr: np.ndarray[Any, Any],
        indices: np.ndarray[Any, Any],
        values: np.ndarray[Any, Any],
        active: np.ndarray[Any, Any] | None = None,
        active_count: int = 0,
        starts: np.ndarray[Any, Any] | None = None,
        t_rows: np.ndarray[Any, Any] | None = None,
        t_pos: np.ndarray[Any, Any] | None = None,
    ) -> SparseMat:
        """Use these arrays (see `PatternSlot`) as the contents; returns a handle on them."""
        pattern = self.pattern
        if len(indptr) != pattern.rows + 1:
            raise ShapeError(
                f"{pattern.label}: a block of {len(indptr) - 1} rows; the container has {pattern.rows}."
            )
        nnz = int(indptr[-1])
        if nnz > pattern.capacity:
            self.cache.grow(pattern, nnz)
        pattern.nnz = nnz
        pattern.indptr, pattern.indices = indptr, indices
        pattern.active, pattern.active_count = active, active_count
        pattern.starts, pattern.t_rows, pattern.t_pos = starts, t_rows, t_pos
        self.values.array = values.reshape(1, -1)
        self.values.shape = (1, pattern.capacity)
        pattern.written()
        self.values.written()
        return self.handle()


class DenseInput:
    """The dense container of a block: `bind` points it at a block's array without copying."""

    def __init__(self, cache: MatCache, name: str, shape: tuple[int, int], dtype: Any) -> None:
        self.cache = cache
        self.slot = Slot(cache.new_guid(), shape, np.dtype(dtype), name)

    def handle(self) -> Mat:
        """A handle on the present contents; those of earlier contents become stale."""
        return Mat(self.cache, self.slot)

    def bind(self, array: np.ndarray[Any, Any]) -> Mat:
        """Use `array` (of the container's shape and dtype, C-contiguous) as the contents."""
        if array.shape != self.slot.shape or array.dtype != self.slot.dtype:
            raise ShapeError(
                f"{self.slot.label}: a block of {array.shape} {array.dtype}; the container is "
                f"{self.slot.shape} {self.slot.dtype}."
            )
        self.slot.array = array
        self.slot.written()
        return self.handle()


def from_sparse(cache: MatCache, matrix: Any, name: str | None = None) -> SparseMat:
    """A SparseMat with a copy of a SciPy sparse matrix, with its transposed index."""
    csr = sp.csr_array(matrix, copy=True)
    csr.sum_duplicates()
    csr.sort_indices()
    rows, columns = csr.shape
    csc = sp.csc_array(
        (np.arange(csr.nnz, dtype=np.int64), csr.indices, csr.indptr), shape=csr.shape[::-1]
    ).tocsr()
    counts = np.diff(csc.indptr)
    active = np.flatnonzero(counts).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(counts[active])]).astype(np.int64)
    dtype = np.float64 if csr.dtype == np.float64 else np.float32
    block = SparseInput(cache, name or f"sparse {cache.new_guid()}", rows, columns, csr.nnz)
    block.values.dtype = np.dtype(dtype)
    return block.bind(
        indptr=csr.indptr.astype(np.int64),
        indices=csr.indices.astype(np.int32),
        values=csr.data.astype(dtype),
        active=active,
        active_count=active.size,
        starts=starts,
        t_rows=csc.indices.astype(np.int32),
        t_pos=csc.data.astype(np.int32),
    )
