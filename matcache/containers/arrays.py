"""Make matrices in a cache: by name, from a number, and from arrays of NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import ShapeError, source_line
from .cache import MatCache
from .inputs import SparseInput
from .matrices import Mat, Scalar, SparseMat, handle


def named(cache: MatCache, name: str, shape: tuple[int, int], dtype: Any = np.float32) -> Mat:
    """Return the container called `name`; a new one is filled with zeros.

    Raises ShapeError unless both sides are whole numbers, such as `columns // 2`.
    """
    if any(not isinstance(side, int | np.integer) or side < 0 for side in shape):
        raise ShapeError(
            f"{name} at {source_line()}: {shape[0]} x {shape[1]}; must be whole numbers from 0."
        )
    return handle(cache, cache.result(("named", name), shape, dtype, name))


def from_array(cache: MatCache, array: Any, name: str | None = None) -> Mat:
    """Copy a two-dimensional array into a Mat; a vector becomes one row.

    float32, float64, int32 and int64 are kept. float16 becomes float32, and longer floats float64.
    Booleans and other integers become int64. Arithmetic on integers gives float64, which is exact
    for integers up to 2^53.

    Raises ShapeError for anything else.
    """
    array = np.atleast_2d(np.asarray(array))
    if array.ndim > 2 or array.dtype.kind not in "fiub":
        raise ShapeError(
            f"from_array at {source_line()}: an array of {array.dtype} with {array.ndim} "
            "dimensions; must have two, and real numbers."
        )
    if array.dtype not in (np.float32, np.float64, np.int32, np.int64):
        floating = np.float32 if array.dtype.itemsize < 4 else np.float64
        array = array.astype(floating if array.dtype.kind == "f" else np.int64)
    mat = named(cache, name or f"mat {cache.new_guid()}", array.shape, array.dtype)
    mat.set(array)
    return mat


def on_arrays(cache: MatCache, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Mat]:
    """Return Mats that lie in these arrays [rows x columns], by name.

    cache: on the CPU, new, and `reserving`; it is committed.
    arrays: copied only if they are read-only or not C-contiguous.
    """
    found = {name: named(cache, name, array.shape, array.dtype) for name, array in arrays.items()}
    cache.commit({mat.guid: partial(np.zeros, mat.shape, mat.dtype) for mat in found.values()})
    for name, mat in found.items():
        mat.lie_in(np.require(arrays[name], requirements=["C", "W"]))
    return found


def scalar(
    cache: MatCache, value: float, name: str | None = None, dtype: Any = np.float64
) -> Scalar:
    """Return a 1 x 1 Mat whose number may change without changing any key."""
    mat = named(cache, name or f"scalar {cache.new_guid()}", (1, 1), dtype)
    mat.set(value)
    assert isinstance(mat, Scalar)
    return mat


def from_sparse(cache: MatCache, matrix: Any, name: str | None = None) -> SparseMat:
    """Copy a SciPy sparse matrix into a SparseMat, with its transposed index.

    float64 values are kept; others become float32.
    """
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
    name = name or f"sparse {cache.new_guid()}"
    block = SparseInput(cache, name, rows, columns, csr.nnz, dtype)
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
