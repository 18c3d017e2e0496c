"""Products of sparse matrices, also transposed, with a table of one column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import MatCache, from_array, from_sparse
from blocklearn.matcache.cpu.launches.products import SCATTERING

ROWS, COLUMNS = 90, 40


def matrix(kind: str) -> Any:
    x = sp.random_array((ROWS, COLUMNS), density=0.2, rng=1, format="csr").toarray()
    match kind:
        case "empty rows and columns":
            x[::3], x[:, 5:30], x[:, -1] = 0.0, 0.0, 0.0
        case "one huge row":
            x[:] = 0.0
            x[17] = 1.0 + np.arange(COLUMNS)
        case "nothing":
            x[:] = 0.0
        case "one column":
            x = x[:, :1]
    return sp.csr_array(x)


KINDS = ["plain", "empty rows and columns", "one huge row", "nothing", "one column"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_by_rows_and_by_columns_to_the_same_bits(kind: str, dtype: Any) -> None:
    """Few threads go through the rows, many through the columns."""
    x, found = matrix(kind).astype(dtype), []
    v = np.random.default_rng(0).normal(size=(ROWS, 1)).astype(dtype)
    for threads in (1, SCATTERING, SCATTERING + 1):
        with MatCache(threads=threads) as cache:
            found.append((from_sparse(cache, x).T @ from_array(cache, v)).numpy())
    np.testing.assert_allclose(found[0], x.T @ v, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_rows_of_all_short_lengths() -> None:
    """`S @ v` takes four entries at a time, and the last 0 to 3 without a branch for each."""
    x = np.triu(np.ones((10, 9), np.float32))[::-1]  # 0 to 9 entries a row
    v = 2.0 ** np.arange(9, dtype=np.float32)[:, None]
    v[0] = np.inf  # read for no row that does not have it
    with MatCache(threads=1) as cache:
        found = (from_sparse(cache, sp.csr_array(x)) @ from_array(cache, v)).numpy()
    np.testing.assert_array_equal(found, [[v[x[i] > 0].sum()] for i in range(10)])
