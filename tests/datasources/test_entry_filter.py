"""Entries of a source that are held out: every entry is in one part, in both orientations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.datasources import (
    DataError,
    EntryFilter,
    MatrixSource,
    Reader,
    blocks_of_entries,
    entry_filter,
    write_blocks,
)
from blocklearn.datasources.blocks import BlockSource

ROWS, COLUMNS = 45, 30


def matrix() -> Any:
    """Random entries; empty rows, one full row, an empty column."""
    rng = np.random.default_rng(0)
    X = (rng.random((ROWS, COLUMNS)) < 0.2) * rng.normal(3, 1, (ROWS, COLUMNS))
    X[[3, 17, 44]] = 0.0
    X[20] = 1.0
    X[:, 7] = 0.0
    return sp.csr_array(X.astype(np.float32))


def whole(source: Any) -> Any:
    """All entries of a source as a dense matrix."""
    found = np.zeros((source.shape.total_rows, source.shape.columns), np.float32)
    for ids, rows in blocks_of_entries(source):
        found[ids] = rows.toarray()
    return found


def parts_of(source: Any, seed: int = 5) -> list[Any]:
    return [entry_filter(source, 0.3, seed, held=held) for held in (False, True)]


@pytest.mark.parametrize("shuffle", [False, True])
def test_parts_are_disjoint_and_complete_in_both_orientations(shuffle: bool) -> None:
    X = matrix()
    source = MatrixSource(X, block_rows=16, shuffle=shuffle)
    kept, held = (whole(part) for part in parts_of(source))
    np.testing.assert_array_equal(kept + held, X.toarray())
    assert not (kept * held).any()
    assert 0.2 < np.count_nonzero(held) / X.nnz < 0.4
    for part, here in zip(parts_of(source), (kept, held), strict=True):
        np.testing.assert_array_equal(whole(part.transposed()), here.T)


def test_parts_depend_on_the_seed_alone(tmp_path: Path) -> None:
    X = matrix()
    write_blocks(MatrixSource(X, block_rows=8), [tmp_path / "blocks"])
    sources = [MatrixSource(X, block_rows=16), BlockSource([tmp_path / "blocks"])]
    first, second = (whole(parts_of(source)[1]) for source in sources)
    np.testing.assert_array_equal(first, second)
    assert (whole(parts_of(sources[0], 6)[1]) != first).any()
    prints = {part.fingerprint for seed in (5, 6) for part in parts_of(sources[0], seed)}
    assert len(prints) == 4


def test_blocks_are_refilled_after_those_of_another_source() -> None:
    """A block that showed rows of the matrix itself is written to, never that matrix."""
    X = matrix()
    before = X.data.copy()
    part = parts_of(MatrixSource(X, block_rows=16))[0]
    with Reader(part) as reader:
        for pass_ in range(3):
            assert sum(block.nnz for block in reader.blocks(pass_)) < X.nnz
    np.testing.assert_array_equal(X.data, before)


def test_targets_and_names() -> None:
    X, names = matrix(), [f"c{i}" for i in range(COLUMNS)]
    rows = [f"r{i}" for i in range(ROWS)]
    source = MatrixSource(X, targets=np.ones(ROWS), names=names, row_names=rows, block_rows=16)
    part = EntryFilter(source, 0.3, 0, held=True)
    assert part.shape.targets == 0 and part.names == names and part.row_names == rows
    assert part.blocks == source.blocks == 3
    assert whole(part).any()


def test_dense_sources_and_shares_are_refused() -> None:
    with pytest.raises(DataError, match="MatrixSource is dense"):
        EntryFilter(MatrixSource(np.ones((3, 2))), 0.1, 0, held=True)
    with pytest.raises(DataError, match="share=1.0"):
        EntryFilter(MatrixSource(matrix()), 1.0, 0, held=True)
