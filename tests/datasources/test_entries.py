"""Entries of single rows of a source: found at once, or by reading all blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.datasources import (
    EntriesSource,
    MatrixSource,
    RowFilter,
    blocks_of_entries,
    entries_of,
)

RNG = np.random.default_rng(0)
DENSE = (RNG.random((29, 11)) * (RNG.random((29, 11)) < 0.3)).astype(np.float32)
DENSE[4] = 0
WANTED = np.array([28, 3, 4, 0, 17])


def stored_zero() -> Any:
    matrix = sp.csr_array(DENSE)
    matrix.data[5] = 0
    return matrix


def wide() -> Any:
    matrix = sp.csr_array(DENSE.astype(np.float64))
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


@pytest.mark.parametrize("X", [DENSE, stored_zero(), wide(), sp.coo_array(DENSE)], ids=type)
@pytest.mark.parametrize("shuffle", [False, True, "blocks"])
def test_rows_of_a_matrix(X: Any, shuffle: Any) -> None:
    source = MatrixSource(X, block_rows=4, shuffle=shuffle)
    assert isinstance(source, EntriesSource)
    found = entries_of(source, WANTED)
    expected = sp.csr_array(X)[WANTED]
    np.testing.assert_array_equal(found.toarray(), expected.toarray().astype(np.float32))
    assert (found.nnz, found.dtype) == (expected.nnz, np.float32)
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert entries_of(source, WANTED[:0]).shape == (0, 11)


@pytest.mark.parametrize("X", [DENSE, sp.csr_array(DENSE)], ids=type)
def test_rows_of_a_source_that_only_reads(X: Any) -> None:
    source = RowFilter(MatrixSource(X, block_rows=4, shuffle=True), 0.3, 0, held=False)
    assert not isinstance(source, EntriesSource)
    rows, parts = zip(*blocks_of_entries(source), strict=True)
    whole = sp.vstack(parts).toarray()[np.argsort(np.concatenate(rows))]
    assert len(whole) == source.shape.total_rows < len(DENSE)
    wanted = np.array([9, 0, 13])
    np.testing.assert_array_equal(entries_of(source, wanted).toarray(), whole[wanted])
