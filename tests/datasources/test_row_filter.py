"""Holding out rows of any source: those of a matrix, whatever the order and the blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy import sparse

from blocklearn.datasources import (
    DataError,
    DataSource,
    HostBlock,
    MatrixSource,
    Reader,
    Reading,
    RowFilter,
    Samples,
    split_by_contents,
    split_rows,
)
from blocklearn.learner.command_line.cli import main


def rows_of(source: DataSource, pass_: int = 0) -> dict[int, Any]:
    """Contents, targets and weight of every row of a pass, by its number."""
    found = {}
    with Reader(source) as reader:
        for block in reader.blocks(pass_):
            for i, row in enumerate(block.row_ids[: block.rows].tolist()):
                x = np.zeros(source.shape.columns)
                if source.shape.dense:
                    x[:] = block.dense[i]
                else:
                    part = slice(block.indptr[i], block.indptr[i + 1])
                    x[block.indices[part]] = block.values[part]
                assert row not in found
                found[row] = (x.tolist(), block.targets[i].tolist(), float(block.weights[i]))
    return found


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(3, 600),
    block_rows=st.integers(1, 300),
    shuffle=st.sampled_from([False, True, "blocks"]),
    kind=st.sampled_from(["dense", "sparse"]),
    labels=st.booleans(),
    share=st.floats(0.05, 0.9),
    seed=st.integers(0, 2**64 - 1),
)
def test_parts_are_those_of_split_rows(
    rows: int, block_rows: int, shuffle: Any, kind: str, labels: bool, share: float, seed: int
) -> None:
    rng = np.random.default_rng(rows)
    X: Any = rng.integers(0, 3, (rows, 4)).astype(np.float32)
    X = sparse.csr_array(X) if kind == "sparse" else X
    y, weights = (rng.random((rows, 2)), rng.random(rows)) if labels else (None, None)
    source = Samples(X, targets=y, weights=weights).source(Reading(block_rows, shuffle))
    train, held = split_rows(rows, share, seed)
    if not train.size or not held.size:
        with pytest.raises(DataError, match="leaves"):
            RowFilter(source, share, seed, held=True)
        return
    for ids, is_held in ((train, False), (held, True)):
        part = RowFilter(source, share, seed, held=is_held)
        other = Samples(X, targets=y, weights=weights).rows(ids).source(Reading())
        assert part.shape.total_rows == ids.size
        for pass_ in (0, 1):
            assert rows_of(part, pass_) == rows_of(other)


@pytest.mark.parametrize("dense", [False, True])
def test_by_contents_no_order_changes_a_side(dense: bool) -> None:
    """Nor do zeros that are stored, targets, the size of blocks; equal rows are on one side."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (400, 6)).astype(np.float32)
    X[200:] = X[:200]
    order = rng.permutation(400)
    y = rng.random(400)
    sides = []
    for ids, block_rows in ((np.arange(400), 64), (order, 7)):
        matrix: Any = X[ids] if dense else sparse.csr_array(X[ids])
        source = MatrixSource(matrix, block_rows=block_rows, targets=y)
        bits = split_by_contents(source, 0.3, 5)
        held = np.empty(400, bool)
        held[ids] = np.unpackbits(bits, count=400, bitorder="little").astype(bool)
        sides.append(held)
        for is_held in (False, True):
            part = RowFilter(source, 0.3, 5, held=is_held, marks=bits)
            (expected,) = np.nonzero(held[ids] == is_held)
            found = rows_of(part)
            assert [found[i][0] for i in range(len(found))] == X[ids][expected].tolist()
        train, other = Samples(matrix, targets=y).split(0.3, 5, contents=True)
        np.testing.assert_array_equal(other.targets, y[held[ids]])
        assert train.X.shape[0] == 400 - held.sum()
    np.testing.assert_array_equal(*sides)
    np.testing.assert_array_equal(sides[0][:200], sides[0][200:])
    assert 0.2 < sides[0].mean() < 0.4
    assert (split_by_contents(source, 0.3, 6) != bits).any()


def test_by_contents_zeros_do_not_count() -> None:
    """Those that are stored, and those below 0."""
    X = np.random.default_rng(1).integers(0, 2, (100, 5)).astype(np.float32)
    stored = sparse.csr_array(np.ones_like(X))
    stored.data[:] = np.where(X.ravel(), 1, -0.0)
    bits = [
        split_by_contents(MatrixSource(matrix, block_rows=32), 0.5)
        for matrix in (X, np.where(X, X, np.float32(-0.0)), sparse.csr_array(X), stored)
    ]
    assert all((b == bits[0]).all() for b in bits)


def test_names_and_fingerprints() -> None:
    source = MatrixSource(
        np.eye(30), names=[f"x{i}" for i in range(30)], targets=np.arange(30.0), target_names=["y"]
    )
    parts = [RowFilter(source, 0.3, 0, held=held) for held in (False, True)]
    assert all(part.names == source.names for part in parts)
    assert all(part.target_names == ["y"] for part in parts)
    again = RowFilter(source, 0.3, 0, held=True)
    assert parts[0].fingerprint != parts[1].fingerprint == again.fingerprint != source.fingerprint
    assert "of MatrixSource(30 rows" in repr(parts[1])


@pytest.mark.parametrize("contents", [False, True])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_rows_keep_their_names(contents: bool, share: float) -> None:
    """Of both parts, one by one, in slices and all of them."""
    rows = 1000
    names = [f"row-{i}" for i in range(rows)]
    source = MatrixSource(np.arange(float(rows))[:, None], block_rows=37, row_names=names)
    marks = split_by_contents(source, share, 4) if contents else None
    seen = set()
    for held in (False, True):
        part = RowFilter(source, share, 4, held=held, marks=marks)
        found = part.row_names
        assert found is not None and len(found) == part.shape.total_rows
        expected = [f"row-{x[0]:.0f}" for _, (x, _, _) in sorted(rows_of(part).items())]
        assert list(found) == expected == found[:]
        assert found[-1] == expected[-1] and found[3:40:5] == expected[3:40:5]
        with pytest.raises(IndexError):
            found[len(found)]
        seen |= set(expected)
    assert seen == set(names)


def test_rows_without_names_have_none() -> None:
    assert RowFilter(MatrixSource(np.eye(9)), 0.4, 0, held=True).row_names is None


def test_blocks_without_rows_are_read() -> None:
    source = MatrixSource(sparse.csr_array(np.eye(20)), block_rows=1)
    held = RowFilter(source, 0.2, 1, held=True)
    assert held.blocks == 20 and sorted(rows_of(held)) == [0, 1, 2]


def test_many_threads_may_read() -> None:
    """As many calls of `read` at once as the source stands."""

    class Wide(MatrixSource):
        readers = 3

    from concurrent.futures import ThreadPoolExecutor

    X = np.random.default_rng(0).random((3000, 3)).astype(np.float32)
    part = RowFilter(Wide(X, block_rows=10), 0.5, 3, held=False)
    assert part.readers == 3
    expected = X[split_rows(3000, 0.5, 3)[0]]

    def read(index: int) -> bool:
        block = HostBlock(part.shape)
        part.read(0, index, block)
        ids = block.row_ids[: block.rows]
        return bool((block.dense[: block.rows] == expected[ids]).all())

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(read, range(part.blocks)))


def test_empty_parts_are_refused() -> None:
    with pytest.raises(DataError, match="share=0.01 of 2 rows leaves 2 to train on and 0"):
        RowFilter(MatrixSource(np.eye(2)), 0.01, 0, held=True)
    with pytest.raises(DataError, match="share=0.01 of 2 rows leaves 2 to train on and 0"):
        Samples(np.eye(2)).split(0.01, 0)


def test_notes_of_data_are_said_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the source come through the filter, once."""
    monkeypatch.chdir(tmp_path)
    x = [None if i == 3 else i / 50 for i in range(50)]
    parquet.write_table(pa.table({"x": x, "y": [i % 2 for i in range(50)]}), "t.parquet")
    Path("g.yaml").write_text(
        "model: {kind: glm}\n"
        "data:\n"
        "  train: {kind: parquet, path: t.parquet, features: [x], targets: [y], nulls: zero}\n"
        "  eval: {kind: holdout, share: 0.3}\n"
    )
    with pytest.raises(SystemExit) as stop:
        main(["--config", "g.yaml"])
    err = capsys.readouterr().err
    assert not stop.value.code, err
    assert err.count("have a null in 'x'") == 1
