"""Ratings and factors beyond 2^31 numbers: in files that are holes but for a few pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.datasources.arrays.copy_rows import gather_csr
from blocklearn.matcache import (
    DenseInput,
    MatCache,
    SparseInput,
    add_outer,
    from_array,
    from_sparse,
    packed_columns,
    sddmm,
)
from blocklearn.models.als.rows import Feedback, LeastSquares, Ridge, conjugate_gradients
from tests.support.als_reference import ratings

FAR = 2**31 + 12_345  # entries, before those that count


def holes(path: Path, dtype: Any, numbers: int) -> Any:
    """Zeros in a file without contents, mapped into memory."""
    with path.open("wb") as file:
        file.truncate(numbers * np.dtype(dtype).itemsize)
    if path.stat().st_blocks * 512 > 2**20:
        pytest.skip("this file system has no sparse files")
    return np.memmap(path, dtype, "r+", shape=(numbers,))


def far_matrix(folder: Path) -> Any:
    """The ratings at offsets beyond 2^31: indptr, indices, values."""
    X = ratings()
    indices = holes(folder / "indices", np.int32, FAR + X.nnz)
    values = holes(folder / "values", np.float32, FAR + X.nnz)
    indices[FAR:], values[FAR:] = X.indices, X.data
    return X, X.indptr.astype(np.int64) + FAR, indices, values


def solve(cache: MatCache, R: Any, k: int) -> Any:
    """Factors of the rows of R."""
    rng = np.random.default_rng(0)
    table = from_array(cache, rng.normal(size=(R.shape[1], k)).astype(np.float32))
    u = from_array(cache, np.zeros((R.shape[0], k), np.float32))
    mean = from_array(cache, np.full((1, 1), 3.0, np.float32))
    typical = from_array(cache, np.ones((1, k), np.float32))
    equations = LeastSquares(R, table, None, Ridge(None, 0.0, 0.1, None), Feedback(mean, None))
    conjugate_gradients(equations, u, typical, None, 5, 0.0)
    return u.numpy()


@pytest.mark.parametrize("k", [10, 40])
def test_a_block_whose_offsets_pass_int32(tmp_path: Path, k: int) -> None:
    X, indptr, indices, values = far_matrix(tmp_path)
    with MatCache(threads=2) as cache:
        block = SparseInput(cache, "far", *X.shape, FAR + X.nnz)
        R = block.bind(indptr=indptr, indices=indices, values=values)
        assert np.array_equal(solve(cache, R, k), solve(cache, from_sparse(cache, X), k))


@pytest.mark.slow
def test_sums_over_positions_that_pass_int32(tmp_path: Path) -> None:
    X, indptr, indices, values = far_matrix(tmp_path)
    T = sp.csr_array((np.arange(X.nnz), X.indices, X.indptr), shape=X.shape).T.tocsr()
    counts = np.diff(T.indptr)
    active = np.flatnonzero(counts).astype(np.int32)
    rows = np.random.default_rng(0).normal(size=(X.shape[0], 5)).astype(np.float32)
    with MatCache(threads=2) as cache:
        block = SparseInput(cache, "far", *X.shape, FAR + X.nnz)
        R = block.bind(
            indptr=indptr, indices=indices, values=values, active=active,
            active_count=active.size,
            starts=np.concatenate([[0], np.cumsum(counts[active])]).astype(np.int64),
            t_rows=T.indices.astype(np.int32), t_pos=T.data.astype(np.int64) + FAR,
        )  # fmt: skip
        found = []
        for weights in (R, from_sparse(cache, X)):
            sums = from_array(cache, np.zeros((X.shape[1], packed_columns(5)), np.float32))
            add_outer(sums, weights, from_array(cache, rows))
            found.append((sums.numpy(), (weights.T @ from_array(cache, rows)).numpy()))
    assert np.array_equal(found[0][0], found[1][0]) and np.array_equal(found[0][1], found[1][1])


def test_rows_gathered_from_beyond_int32(tmp_path: Path) -> None:
    X, indptr, indices, values = far_matrix(tmp_path)
    ids = np.array([7, 0, 59], np.int64)
    wanted = X[ids]
    out = np.zeros(4, np.int64), np.zeros(200, np.int32), np.zeros(200, np.float32)
    assert gather_csr(ids, indptr, indices, values, *out) == -1
    assert np.array_equal(out[0], wanted.indptr)
    assert np.array_equal(out[1][: wanted.nnz], wanted.indices)
    assert np.array_equal(out[2][: wanted.nnz], wanted.data)


@pytest.mark.parametrize("k", [16, 64])
def test_a_table_of_more_numbers_than_int32_counts(tmp_path: Path, k: int) -> None:
    n = FAR // k
    table = holes(tmp_path / "table", np.float32, n * k).reshape(n, k)
    items = np.array([0, 1, n - 2, n - 1])
    table[items] = np.arange(1.0, 5.0)[:, None]
    with MatCache(threads=1) as cache:
        mat = DenseInput(cache, "table", (n, k), np.float32).bind(table.view(np.ndarray))
        block = SparseInput(cache, "X", 1, n, 4)
        X = block.bind(
            indptr=np.array([0, 4]), indices=items.astype(np.int32), values=np.ones(4, np.float32)
        )
        ones = from_array(cache, np.ones((1, k), np.float32))
        assert np.array_equal(sddmm(ones, mat, X).numpy(), k * np.arange(1.0, 5.0))
        assert np.array_equal((X @ mat).numpy(), np.full((1, k), 10.0))
