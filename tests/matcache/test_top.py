"""The largest products: against a full sort, exact in ties, the same bits however work is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.matcache import (
    AllocationAfterWarmupError,
    MatCache,
    ShapeError,
    SparseInput,
    from_array,
    from_sparse,
    top_products,
)
from blocklearn.matcache.cpu.kernels.top import TILE


def top(
    U: Any, V: Any, n: int, *, seen: Any = None, unit: bool = False, threads: int = 1
) -> tuple[Any, Any]:
    with MatCache(threads=threads) as cache:
        rows, table = from_array(cache, U, "rows"), from_array(cache, V, "table")
        leave_out = None if seen is None else from_sparse(cache, seen)
        found = top_products(rows, table, n, leave_out=leave_out, unit=unit)
        return found.ids.numpy(), found.scores.numpy()


def by_sorting(U: Any, V: Any, n: int, seen: Any = None) -> tuple[Any, Any]:
    """The definition, in float64."""
    scores = U.astype(np.float64) @ V.T.astype(np.float64)
    if seen is not None:
        scores[seen.toarray() != 0] = -np.inf
    ids = np.full((len(U), n), -1)
    best = np.full((len(U), n), -np.inf)
    for i, row in enumerate(scores):
        order = [j for j in np.argsort(-row, kind="stable") if row[j] > -np.inf][:n]
        ids[i, : len(order)] = order
        best[i, : len(order)] = row[order]
    return ids, best


@settings(max_examples=80, deadline=None)
@given(
    rows=st.integers(1, 70),
    items=st.sampled_from([1, 2, 5, 63, 64, 65, 255, 256, 257, 700]),
    k=st.integers(1, 9),
    n=st.sampled_from([1, 2, 3, 10, 300]),
    values=st.integers(0, 3),
    share=st.sampled_from([0.0, 0.3, 0.97, 1.0]),
    seed=st.integers(0, 99),
)
def test_is_a_full_sort(
    rows: int, items: int, k: int, n: int, values: int, share: float, seed: int
) -> None:
    """Whole numbers have exact products, and many are equal: ties go to the lower number."""
    rng = np.random.default_rng(seed)
    U = rng.integers(-values, values + 1, (rows, k)).astype(np.float32)
    V = rng.integers(-values, values + 1, (items, k)).astype(np.float32)
    seen = sp.csr_array((rng.random((rows, items)) < share).astype(np.float32))
    for left_out in (None, seen):
        ids, scores = top(U, V, n, seen=left_out, threads=1 + seed % 3)
        expected, best = by_sorting(U, V, n, left_out)
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_array_equal(scores, best)


@pytest.mark.parametrize("k", [1, 3, 16, 101])
def test_scores_are_products(k: int) -> None:
    rng = np.random.default_rng(k)
    U, V = rng.normal(size=(30, k)), rng.normal(size=(1000, k))
    ids, scores = top(U.astype(np.float32), V.astype(np.float32), 7)
    expected, best = by_sorting(U, V, 7)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(scores, best, rtol=2e-5)


@pytest.mark.parametrize("k", [5, 32, 100])
def test_a_row_depends_on_itself_alone(k: int) -> None:
    """Threads, the rows beside it, and where table rows stand change no bit."""
    rng = np.random.default_rng(k)
    U = rng.normal(size=(203, k)).astype(np.float32)
    V = rng.normal(size=(3 * TILE + 11, k)).astype(np.float32)
    ids, scores = top(U, V, 20)
    for threads in (2, 5):
        for a, b in zip((ids, scores), top(U, V, 20, threads=threads), strict=True):
            np.testing.assert_array_equal(a, b)
    for part in (slice(0, 1), slice(7, 9), slice(50, 203)):
        np.testing.assert_array_equal(top(U[part], V, 20)[1], scores[part])
    order = rng.permutation(len(V))
    moved, same = top(U, V[order], 20)
    np.testing.assert_array_equal(same, scores)
    np.testing.assert_array_equal(order[moved], ids)


def test_equal_table_rows_tie_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    V = np.repeat(rng.normal(size=(1, 37)), 5 * TILE + 3, axis=0).astype(np.float32)
    U = rng.normal(size=(41, 37)).astype(np.float32)
    U = U * np.sign(U @ V[0])[:, None].astype(np.float32)
    ids, scores = top(U, V, 6)
    np.testing.assert_array_equal(ids, np.tile(np.arange(6), (41, 1)))
    assert (scores == scores[:, :1]).all()


def test_unit_tables_give_cosines() -> None:
    rng = np.random.default_rng(1)
    V = (rng.normal(size=(600, 12)) * rng.uniform(0.01, 100, (600, 1))).astype(np.float32)
    V[17] = 0
    U = V[:40] / np.maximum(np.linalg.norm(V[:40], axis=1, keepdims=True), 1e-30)
    ids, scores = top(U, V, 5, unit=True)
    lengths = np.linalg.norm(V.astype(np.float64), axis=1)
    cosines = U @ (V / np.maximum(lengths, 1e-30)[:, None]).T
    wider = np.concatenate([V, rng.normal(size=(600, 3)).astype(np.float32)], axis=1)
    np.testing.assert_array_equal(top(U, wider, 5, unit=True)[1], scores)
    np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :5], atol=1e-6)
    own = np.delete(np.arange(40), 17)
    np.testing.assert_array_equal(ids[own, 0], own)
    np.testing.assert_array_equal(ids[17], np.arange(5))  # all are 0


def test_what_is_no_number_is_never_among_the_best() -> None:
    V = np.arange(10, dtype=np.float32)[:, None]
    V[3] = np.nan
    V[5] = -np.inf
    ids, scores = top(np.ones((2, 1), np.float32), V, 10)
    assert ids[0].tolist() == [9, 8, 7, 6, 4, 2, 1, 0, -1, -1]
    assert scores[0, -1] == -np.inf


def test_blocks_allocate_nothing_and_are_found_again() -> None:
    rng = np.random.default_rng(2)
    with MatCache(threads=2) as cache:
        rows = from_array(cache, np.ones((8, 3), np.float32))
        table = from_array(cache, np.eye(3, dtype=np.float32))
        seen = SparseInput(cache, "seen", 8, 3, 8)

        def bind(column: int) -> Any:
            csr = sp.csr_array((np.ones(8), (np.arange(8), np.full(8, column))), shape=(8, 3))
            return seen.bind(
                indptr=csr.indptr.astype(np.int64),
                indices=csr.indices.astype(np.int32),
                values=csr.data.astype(np.float32),
            )

        top_products(rows, table, 2, leave_out=bind(0))
        cache.freeze()
        for column in range(3):
            left_out = bind(column)
            rows.set(rng.normal(size=(8, 3)).astype(np.float32))
            found = top_products(rows, table, 2, leave_out=left_out)
            assert not (found.ids.numpy() == column).any()
            before = cache.stats().hits
            top_products(rows, table, 2, leave_out=left_out)
            assert cache.stats().hits == before + 2
        with pytest.raises(AllocationAfterWarmupError):
            top_products(rows, table, 3)


def test_shapes_that_do_not_fit() -> None:
    with MatCache(threads=1) as cache:
        rows = from_array(cache, np.ones((4, 3), np.float32))
        with pytest.raises(ShapeError, match="4 x 3, table 5 x 2"):
            top_products(rows, from_array(cache, np.ones((5, 2), np.float32)), 1)
        table = from_array(cache, np.ones((5, 3), np.float32))
        with pytest.raises(ShapeError, match="n=0"):
            top_products(rows, table, 0)
        with pytest.raises(ShapeError, match="leave_out is"):
            top_products(rows, table, 1, leave_out=from_sparse(cache, sp.eye_array(4)))
        with pytest.raises(ShapeError, match="dense float32"):
            top_products(rows, from_array(cache, np.ones((5, 3))), 1)
