"""Products of sparse matrices at the entries of a mask, against SciPy in float64."""

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
    rowsum,
)

SHAPES = ["plain", "empty rows", "one huge row", "no entries", "one column"]


def matrix(shape: tuple[int, int], kind: str, seed: int, dtype: Any = np.float32) -> sp.csr_array:
    """Positive and negative whole numbers, whose products and sums are exact."""
    rng = np.random.default_rng(seed)
    table = (rng.random(shape) < 0.3) * rng.integers(-4, 5, shape)
    match kind:
        case "empty rows":
            table[:, ::2], table[::3] = 0, 0
        case "one huge row":
            table[:], table[shape[0] // 2], table[:, 0] = 0, 3, rng.integers(0, 2, shape[0])
        case "no entries":
            table[:] = 0
        case "one column":
            table[:, 1:] = 0
    return sp.csr_array(table.astype(dtype))


def wanted(A: Any, B: Any, mask: Any) -> Any:
    """The products at the entries of the mask, from dense matrices in float64."""
    rows = np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr))
    whole = A.toarray().astype(np.float64) @ B.toarray().astype(np.float64)
    return whole[rows, mask.indices]


@settings(max_examples=40, deadline=None)
@given(
    sides=st.tuples(*[st.integers(1, 40)] * 3),
    kinds=st.tuples(*[st.sampled_from(SHAPES)] * 3),
    seed=st.integers(0, 99),
)
def test_is_the_product_at_the_entries_of_the_mask(
    sides: tuple[int, int, int], kinds: tuple[str, str, str], seed: int
) -> None:
    n, m, k = sides
    A, B = matrix((n, m), kinds[0], seed), matrix((m, k), kinds[1], seed + 1)
    mask = matrix((n, k), kinds[2], seed + 2)
    mask.data[::2] = 0.0  # stored zeros are entries
    with MatCache(threads=1 + seed % 3) as cache:
        a, b, at = from_sparse(cache, A), from_sparse(cache, B), from_sparse(cache, mask)
        turned = from_sparse(cache, sp.csr_array(B.T))
        for right in (b, turned.T):
            found = masked_product(a, right, at)
            np.testing.assert_array_equal(found.numpy(), wanted(A, B, mask))
        assert found.pattern is at.pattern


def test_both_devices_agree_and_results_are_used_as_others(memory: MatCache) -> None:
    A, mask = matrix((30, 20), "plain", 0), matrix((30, 30), "plain", 1)
    long = sp.csr_array(np.ones((30, 20), np.float32))  # looked up in, entry by entry
    short = sp.csr_array(sp.eye_array(30, 20, dtype=np.float32))
    at = from_sparse(memory, mask)
    for left, right in ((A, A), (short, long), (long, short)):
        x, y = from_sparse(memory, left), from_sparse(memory, right)
        other = from_sparse(memory, sp.csr_array(right.T))
        exact = wanted(left, right.T, mask)
        for factor in (y.T, other):
            found = masked_product(x, factor, at)
            np.testing.assert_array_equal(found.numpy(), exact)
        sums = sp.csr_array((exact, mask.indices, mask.indptr), mask.shape).sum(axis=1)
        np.testing.assert_array_equal(rowsum(2.0 * found).numpy()[:, 0], 2 * sums)


def test_the_number_of_threads_changes_no_bit() -> None:
    rng = np.random.default_rng(0)
    A = sp.random_array((3000, 800), density=0.01, format="csr", rng=rng, dtype=np.float32)
    mask, found = sp.csr_array(sp.random_array((3000, 3000), density=0.002, rng=rng)), []
    for threads in (1, 2, 5):
        with MatCache(threads=threads) as cache:
            a = from_sparse(cache, A)
            found.append(masked_product(a, a.T, from_sparse(cache, mask)).numpy())
    assert np.count_nonzero(found[0]) > 100
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.slow
def test_doubles_are_kept(memory: MatCache) -> None:
    A = matrix((9, 9), "plain", 3, np.float64)
    A.data += 1e-9
    a = from_sparse(memory, A)
    found = masked_product(a, a, a)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found.numpy(), wanted(A, A, A), rtol=1e-15)


def bound(container: SparseInput, block: sp.csr_array) -> SparseMat:
    return container.bind(
        indptr=block.indptr.astype(np.int64),
        indices=block.indices.astype(np.int32),
        values=block.data.astype(np.float32),
    )


def test_blocks_that_are_refilled_keep_their_containers() -> None:
    """Blocks with padding rows, of which the second has other entries, in a frozen cache."""
    table = matrix((40, 25), "plain", 5)
    with MatCache(threads=2) as cache:
        held = from_sparse(cache, table)
        block = SparseInput(cache, "X", 16, 25, capacity=16 * 25, indexed=False)
        mask = SparseInput(cache, "mask", 16, 40, capacity=16 * 40, indexed=False)
        for first, rows in ((0, 16), (16, 16), (32, 8)):
            part, at = table[first : first + rows], matrix((16, 40), "plain", first)
            part = sp.vstack([part, sp.csr_array((16 - rows, 25))], format="csr")
            at = sp.csr_array(at.toarray() * (np.arange(16)[:, None] < rows))
            X, entries = bound(block, part), bound(mask, at)
            found = masked_product(X, held.T, entries)
            np.testing.assert_array_equal(found.numpy(), wanted(part, table.T, at))
            cache.freeze()


def test_what_does_not_fit_is_named(memory: MatCache) -> None:
    a, b = (from_sparse(memory, matrix((4, 5), "plain", seed)) for seed in (0, 1))
    for right, mask, text in (
        (b, a, "left 4 x 5, right 4 x 5, mask 4 x 5; expected n x m, m x k, n x k"),
        (b.T, a, "left 4 x 5, right 5 x 4, mask 4 x 5"),
        (from_array(memory, np.ones((5, 5))), a, r"right must be a sparse matrix or its .T"),
        (b.T, from_array(memory, np.ones((4, 4))), "mask must be a sparse matrix"),
    ):
        with pytest.raises(ShapeError, match=text):
            masked_product(a, right, mask)
