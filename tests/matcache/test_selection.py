"""Rows and columns of sparse matrices by position, against SciPy; results used as blocks are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.matcache import (
    MatCache,
    ShapeError,
    SparseInput,
    SparseMat,
    from_array,
    from_sparse,
    masked_product,
    named,
    rowsum,
    take,
)

KINDS = ["plain", "empty rows", "one huge row", "no entries", "one column"]


def matrix(shape: tuple[int, int], kind: str, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    table = (rng.random(shape) < 0.3) * rng.integers(-4, 5, shape)
    match kind:
        case "empty rows":
            table[:, ::2], table[::3] = 0, 0
        case "one huge row":
            table[:], table[shape[0] // 2] = 0, rng.integers(1, 9, shape[1])
        case "no entries":
            table[:] = 0
        case "one column":
            table[:, 1:] = 0
    return sp.csr_array(table.astype(np.float32))


def dense(found: SparseMat) -> Any:
    """Return a sparse result as an array, and check that its columns ascend."""
    backend, pattern, (rows, columns) = found.cache.backend, found.pattern, found.shape
    starts, at = backend.read(pattern.indptr), backend.read(pattern.indices)[: found.nnz]
    table = np.zeros((rows, columns), np.float32)
    for i in range(rows):
        own = at[starts[i] : starts[i + 1]]
        assert (np.diff(own) > 0).all()
        table[i, own] = found.numpy()[starts[i] : starts[i + 1]]
    assert starts[rows] == found.nnz
    return table


@settings(max_examples=60, deadline=None)
@given(
    sides=st.tuples(st.integers(1, 40), st.integers(1, 300)),
    kind=st.sampled_from(KINDS),
    count=st.integers(0, 90),
    seed=st.integers(0, 99),
)
def test_takes_rows_and_columns_in_any_order_and_repeatedly(
    sides: tuple[int, int], kind: str, count: int, seed: int
) -> None:
    X, rng = matrix(sides, kind, seed), np.random.default_rng(seed)
    rows, columns = (rng.integers(-side, side, count) for side in sides)
    with MatCache(threads=1 + seed % 3) as cache:
        x = from_sparse(cache, X)
        np.testing.assert_array_equal(dense(x[rows]), X.toarray()[rows])
        np.testing.assert_array_equal(dense(x[:, columns]), X.toarray()[:, columns])
        both = X.toarray()[rows][:, columns]
        np.testing.assert_array_equal(dense(x[rows, columns]), both)


def test_what_is_chosen_is_used_as_a_block(memory: MatCache) -> None:
    X = matrix((30, 70), "plain", 1).toarray()
    X[3] = np.arange(1, 71)  # a row longer than a group of lanes
    X = sp.csr_array(X)
    x, k = from_sparse(memory, X), np.arange(70 * 3).reshape(70, 3) % 7.0
    rows, columns = [3, 29, 3, 0, -1], np.random.default_rng(0).permutation(70)[:50]
    table = from_array(memory, k.astype(np.float32))
    some, part = x[rows], x[:, columns]
    np.testing.assert_array_equal(dense(some), X.toarray()[rows])
    np.testing.assert_array_equal(dense(part), X.toarray()[:, columns])
    np.testing.assert_array_equal((some @ table).numpy(), X.toarray()[rows] @ k)
    np.testing.assert_array_equal(
        (part @ table[columns]).numpy(), X.toarray()[:, columns] @ k[columns]
    )
    np.testing.assert_array_equal((some.T @ table[:5]).numpy(), X.toarray()[rows].T @ k[:5])
    np.testing.assert_array_equal((part.T @ table[:30]).numpy(), X.toarray()[:, columns].T @ k[:30])
    np.testing.assert_array_equal((some.T @ table[:5, 0]).numpy(), X.toarray()[rows].T @ k[:5, :1])
    np.testing.assert_array_equal(rowsum(2.0 * some).numpy(), 2 * X.toarray()[rows].sum(1)[:, None])
    found, wanted = masked_product(some, some.T, x[:5, :5]), X.toarray()[rows]
    np.testing.assert_array_equal(found.numpy(), (wanted @ wanted.T)[X.toarray()[:5, :5].nonzero()])
    np.testing.assert_array_equal(dense(x[7:2:-2, 1:9]), X.toarray()[7:2:-2, 1:9])
    np.testing.assert_array_equal(dense(x[4, 5]), X.toarray()[4:5, 5:6])
    np.testing.assert_array_equal(dense(x[2:][1:3]), X.toarray()[3:5])


def bound(container: SparseInput, block: sp.csr_array) -> SparseMat:
    return container.bind(
        indptr=block.indptr.astype(np.int64),
        indices=block.indices.astype(np.int32),
        values=block.data.astype(np.float32),
    )


def test_refilled_blocks_keep_their_containers(memory: MatCache) -> None:
    """Positions and entries change; the index by column is made anew; nothing is allocated."""
    block = SparseInput(memory, "X", 8, 300, capacity=8 * 300, indexed=False)
    at, table = named(memory, "at", (1, 6), np.int64), from_array(memory, np.ones((6, 2)))
    for seed, kind in enumerate(KINDS):
        X, rng = matrix((8, 300), kind, seed), np.random.default_rng(seed)
        x, rows = bound(block, X), rng.permutation(8)[:6]
        at.set(rows[None])
        some = take(x, at)
        np.testing.assert_array_equal(dense(some), X.toarray()[rows])
        np.testing.assert_array_equal((some.T @ table).numpy()[:, 1], X.toarray()[rows].sum(0))
        at.set(rng.integers(0, 300, (1, 6)))
        np.testing.assert_array_equal(dense(x[:, at]), X.toarray()[:, at.numpy()[0]])
        memory.freeze()


def test_a_larger_block_makes_more_room(memory: MatCache) -> None:
    block = SparseInput(memory, "X", 4, 9, capacity=3, indexed=False)
    table = from_array(memory, np.ones((4, 2)))
    for kind in ("no entries", "one huge row"):
        X = matrix((4, 9), kind, 0)
        some = bound(block, X)[[3, 2, 2, 1]]
        np.testing.assert_array_equal(dense(some), X.toarray()[[3, 2, 2, 1]])
        np.testing.assert_array_equal(
            (some.T @ table).numpy()[:, 0], X.toarray()[[3, 2, 2, 1]].sum(0)
        )


def test_what_does_not_fit_is_named(memory: MatCache) -> None:
    X = matrix((5, 6), "one huge row", 0)
    x, at = from_sparse(memory, X), named(memory, "at", (1, 4), np.int64)
    at.set(2)
    with pytest.raises(
        ShapeError, match=r"choose 24 stored entries, and there is room for 6. Make more: take\("
    ):
        x[at]
    np.testing.assert_array_equal(dense(take(x, at, capacity=24)), X.toarray()[[2] * 4])
    at.set(np.array([[0, 1, 7, 1]]))
    for wrong, text in (
        (lambda: x[at], "position 7 on axis 0"),
        (lambda: x[:, at], "position 7 on axis 1"),
        (lambda: x[[0, -6]], "position -6 on axis 0"),
    ):
        with pytest.raises(IndexError, match=text):
            wrong()
    at.set(np.array([[0, 1, 5, 1]]))
    np.testing.assert_array_equal(dense(x[:, at]), X.toarray()[:, [0, 1, 5, 1]])
    with pytest.raises(ShapeError, match="cannot be written"):
        x[1] = 2.0
    with pytest.raises(ShapeError, match="cannot be written"):
        x[:2] <<= x[:2]
    with pytest.raises(ShapeError, match="dense"):
        take(from_array(memory, np.ones((3, 3))), 1)
