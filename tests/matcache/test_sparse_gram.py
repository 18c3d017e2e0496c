"""Products X.T @ X and dense @ sparse of a sparse X, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.matcache import MatCache, ShapeError, from_array, from_sparse, gram
from tests.matcache.test_selection import KINDS, matrix


@settings(max_examples=30, deadline=None)
@given(
    sides=st.tuples(st.integers(1, 50), st.integers(1, 70)),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 99),
)
def test_of_any_shape(sides: tuple[int, int], kind: str, seed: int) -> None:
    X = matrix(sides, kind, seed)
    left = np.random.default_rng(seed).integers(-3, 4, (3, sides[0])).astype(np.float32)
    with MatCache(threads=1 + seed % 3) as cache:
        x = from_sparse(cache, X)
        np.testing.assert_array_equal(gram(x).numpy(), X.toarray().T @ X.toarray())
        np.testing.assert_array_equal((x.T @ x).numpy(), X.toarray().T @ X.toarray())
        np.testing.assert_array_equal((from_array(cache, left) @ x).numpy(), left @ X.toarray())


def test_on_both_devices(memory: MatCache) -> None:
    for kind in ("plain", "one huge row"):
        X = matrix((60, 45), kind, 3)
        x, rows = from_sparse(memory, X), [7, 7, 30, 59]
        np.testing.assert_array_equal(gram(x).numpy(), X.toarray().T @ X.toarray())
        some = X.toarray()[rows]
        np.testing.assert_array_equal(gram(x[rows]).numpy(), some.T @ some)
    with pytest.raises(ShapeError, match="one side must be dense"):
        x.T @ from_sparse(memory, X)


def test_the_number_of_threads_changes_no_bit() -> None:
    X = matrix((3000, 60), "plain", 0)
    X.data += np.random.default_rng(0).normal(size=X.nnz).astype(np.float32)
    found = []
    for threads in (1, 2, 5):
        with MatCache(threads=threads) as cache:
            found.append(gram(from_sparse(cache, X)).numpy())
    np.testing.assert_allclose(found[0], X.toarray().T @ X.toarray(), rtol=1e-3, atol=1e-2)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
