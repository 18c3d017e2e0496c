"""Negatives of implicit feedback: what is drawn, with which weights, and what decides it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.datasources import DataError, MatrixSource, Reader, entries_of
from blocklearn.datasources.arrays.hashing import GOLDEN, mix
from blocklearn.datasources.sampling.negatives import NegativeSource

ROWS, COLUMNS, DRAWS = 30, 12, 7


def matrix() -> Any:
    """Positives of falling popularity; empty rows, a full row, stored zeros, negative values."""
    rng = np.random.default_rng(0)
    X = sp.lil_array((ROWS, COLUMNS), dtype=np.float32)
    for row in range(ROWS):
        for column in range(COLUMNS):
            if rng.random() < 0.6 / (1 + 0.3 * column):
                X[row, column] = rng.integers(1, 4)
    X[5] = 0
    X[6] = 1.0
    found = sp.csr_array(X)
    found.eliminate_zeros()
    found.data[[3, 8]] = 0.0  # stored, but not positive
    found.data[10] = -2.0
    return found


def rows_of(source: NegativeSource, pass_: int = 0) -> dict[int, dict[int, float]]:
    """Value of each column of each row."""
    found = {}
    with Reader(source) as reader:
        for block in reader.blocks(pass_):
            for place in range(block.rows):
                part = slice(block.indptr[place], block.indptr[place + 1])
                columns = block.indices[part].tolist()
                assert columns == sorted(set(columns))
                found[int(block.row_ids[place])] = dict(
                    zip(columns, block.values[part].tolist(), strict=True)
                )
    return found


def drawn(X: Any, power: float, pass_: int, row: int, seed: int) -> dict[int, float]:
    """The definition: SplitMix64 by seed, pass, row and draw; inverse of the distribution."""
    counts = np.maximum((X > 0).sum(axis=0), 1.0)
    shares = counts**power / (counts**power).sum()
    number = np.arange(1, DRAWS + 1, dtype=np.uint64)
    start = mix(np.array([seed], np.uint64))
    of_pass = mix(start + np.array([pass_ + 2], np.uint64) * GOLDEN)
    of_row = mix(of_pass + np.array([row + 1], np.uint64) * GOLDEN)
    places = mix(of_row + number * GOLDEN).astype(np.float64) * 2.0**-64
    columns = np.searchsorted(np.cumsum(shares), places, side="right")
    often = np.bincount(columns, minlength=COLUMNS)
    return {int(c): float(-often[c] / (DRAWS * shares[c])) for c in np.flatnonzero(often)}


@pytest.mark.parametrize("power", [0.0, 0.7])
@pytest.mark.parametrize("shuffle", [False, True])
def test_rows_have_their_positives_and_the_draws_of_the_definition(
    power: float, shuffle: bool
) -> None:
    X = matrix()
    source = MatrixSource(X, block_rows=8, shuffle=shuffle)
    negatives = NegativeSource(source, DRAWS, power, seed=3)
    for pass_ in (0, 4):
        found = rows_of(negatives, pass_)
        assert sorted(found) == list(range(ROWS))
        for row, values in found.items():
            own = X[[row]].toarray()[0]
            wanted = drawn(X, power, pass_, row, 3) | {
                int(c): float(own[c]) for c in np.flatnonzero(own > 0)
            }
            assert values == pytest.approx(wanted, rel=1e-5)
    assert found[6] == dict.fromkeys(range(COLUMNS), 1.0)  # it has every column


def test_blocks_change_nothing_and_seeds_and_passes_do() -> None:
    X = matrix()

    def found(block_rows: int, seed: int = 3, pass_: int = 0) -> Any:
        return rows_of(
            NegativeSource(MatrixSource(X, block_rows=block_rows), DRAWS, 0.5, seed), pass_
        )

    assert found(8) == found(30)
    assert found(8) != found(8, seed=4) and found(8) != found(8, pass_=1)


def test_weights_estimate_sums_over_all_other_columns() -> None:
    X = matrix()
    f = np.random.default_rng(1).random(COLUMNS)
    for power in (0.0, 1.0):
        source = NegativeSource(MatrixSource(X, block_rows=30), DRAWS, power, seed=0)
        sums = np.zeros(ROWS)
        for pass_ in range(400):
            for row, values in rows_of(source, pass_).items():
                sums[row] += sum(-v * f[c] for c, v in values.items() if v < 0) / 400
        truth = ((X.toarray() <= 0) * f).sum(axis=1)
        np.testing.assert_allclose(sums, truth, rtol=0.15, atol=1e-6)


def test_the_same_draws_for_every_row_and_pass() -> None:
    empty = sp.csr_array((4, COLUMNS), dtype=np.float32)
    source = NegativeSource(MatrixSource(empty, block_rows=3), DRAWS, 0.0, seed=1, same=True)
    first, later = rows_of(source), rows_of(source, 9)
    assert first == later and len({str(values) for values in first.values()}) == 1
    assert sum(first[0].values()) == pytest.approx(-COLUMNS, rel=1e-5)


def test_more_draws_than_columns_fit_into_blocks() -> None:
    X = sp.csr_array(np.eye(3, dtype=np.float32))
    source = NegativeSource(MatrixSource(X, block_rows=2), 500, 0.0, seed=0)
    assert source.shape.nnz == 6
    assert all(len(values) == 3 for values in rows_of(source).values())
    wide = MatrixSource(sp.csr_array((2, 99), dtype=np.float32), block_rows=2)
    for draws, most in ((4, 7), (9, 9)):
        source = NegativeSource(wide, draws, 0.0, seed=0, room=7)
        assert source.shape.nnz == wide.shape.nnz + 2 * most


def test_what_a_source_says_of_itself() -> None:
    X, names = matrix(), [f"c{i}" for i in range(COLUMNS)]
    inner = MatrixSource(X, targets=np.ones(ROWS), names=names, row_names=list(map(str, range(30))))
    source = NegativeSource(inner, DRAWS, 0.5, seed=0)
    assert source.names == names and source.row_names == inner.row_names
    assert source.shape.targets == 0 and source.blocks == inner.blocks
    assert source.value_sums() == ((X > 0).sum(), (X > 0).sum())
    assert source.fingerprint != NegativeSource(inner, DRAWS, 0.5, seed=1).fingerprint
    rows = np.array([4, 20])
    assert (entries_of(source, rows) != X[rows]).nnz == 0
    with pytest.raises(DataError, match="MatrixSource is dense"):
        NegativeSource(MatrixSource(np.ones((2, 2))), 1, 0.0, 0)
    with pytest.raises(DataError, match="draws=0: must be at least 1"):
        NegativeSource(inner, 0, 0.0, 0)
