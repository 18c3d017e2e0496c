"""Batches of any size from a function, as blocks: the same as from a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import BlockShape, DataError, HostBlock, IterableSource, MatrixSource


def same(a: HostBlock, b: HostBlock) -> None:
    """Two blocks with the same rows."""
    assert (a.rows, a.nnz, a.index, a.pass_) == (b.rows, b.nnz, b.index, b.pass_)
    for name in ("row_ids", "indptr", "dense", "targets", "weights"):
        assert (getattr(a, name) == getattr(b, name)).all()
    assert (a.indices[: a.nnz] == b.indices[: b.nnz]).all()
    assert (a.values[: a.nnz] == b.values[: b.nnz]).all()


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=9).filter(any),
    block_rows=st.integers(1, 12),
    kind=st.sampled_from(["dense", "sparse"]),
    labels=st.integers(0, 2),
    visits=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 99)), max_size=8),
)
def test_the_same_as_a_matrix(
    sizes: list[int], block_rows: int, kind: str, labels: int, visits: list[tuple[int, int]]
) -> None:
    rng = np.random.default_rng(sum(sizes))
    rows = sum(sizes)
    X: Any = rng.integers(0, 3, (rows, 5)).astype(np.float32)
    X = sparse.csr_array(X) if kind == "sparse" else X
    Y, w = (rng.random((rows, 2)), rng.random(rows)) if labels else (None, None)
    w = w if labels == 2 else None

    def batches(pass_: int) -> Iterator[Any]:
        start = 0
        for size in sizes:
            part = slice(start, start + size)
            start += size
            yield (
                (X[part], Y[part])
                if Y is not None and w is None
                else (X[part], Y[part], w[part])
                if Y is not None and w is not None
                else X[part]
            )

    source = IterableSource(batches, block_rows=block_rows)
    matrix = MatrixSource(X, targets=Y, weights=w, block_rows=block_rows)
    assert source.shape == matrix.shape and source.blocks == matrix.blocks
    mine, other = HostBlock(source.shape), HostBlock(matrix.shape)
    in_order = [(pass_, index) for pass_ in (0, 1) for index in range(source.blocks)]
    for pass_, index in in_order + [(p, i % source.blocks) for p, i in visits]:
        source.read(pass_, index, mine)
        matrix.read(pass_, index, other)
        same(mine, other)


def test_training_on_an_iterator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits as from the matrix, and passes that the function orders as it likes."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.2, (300, 20)).astype(np.float32))
    seen: list[int] = []

    def batches(pass_: int) -> Iterator[Any]:
        seen.append(pass_)
        for start in range(0, 300, 70):
            yield X[start : start + 70]

    source = IterableSource(batches, block_rows=64, names=[f"w{i}" for i in range(20)])
    found = [
        bl.Learner(bl.models.SVD(components=3), train, passes=3, threads=1).fit().state().tensors
        for train in (source, MatrixSource(X, block_rows=64))
    ]
    assert all((found[0][name] == found[1][name]).all() for name in found[0])
    assert seen == [0, 0, 1, 2]  # counted, then trained on


def test_sizes_that_are_known_are_not_counted() -> None:
    calls = []

    def batches(pass_: int) -> Iterator[Any]:
        calls.append(pass_)
        yield np.ones((5, 2))

    shape = BlockShape(rows=4, columns=2, nnz=0, total_rows=5, dense=True)
    source = IterableSource(batches, shape, fingerprint="mine")
    assert not calls and source.fingerprint == "mine" and source.blocks == 2
    block = HostBlock(shape)
    source.read(7, 1, block)
    assert calls == [7] and block.rows == 1
    assert IterableSource(batches, shape).fingerprint == ""
    counted = [IterableSource(batches).fingerprint for _ in range(2)]
    assert counted[0] == counted[1] != ""


def test_arrow_batches() -> None:
    batch = pa.record_batch({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]})
    for item in (batch, pa.table(batch), (pa.table(batch), [0, 1, 1])):
        source = IterableSource(lambda _, item=item: [item], block_rows=4)
        block = HostBlock(source.shape)
        source.read(0, 0, block)
        assert block.dense[:3].tolist() == [[1, 0.5, 1], [2, 1.5, 0], [3, 2.5, 1]]


ONE = np.ones((2, 2))


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "pass 0 has no rows"),
        ([np.ones((0, 2))], "pass 0 has no rows"),
        ([ONE, np.ones((2, 3))], "batch 1 of pass 0 makes blocks of .*columns=3.*columns=2"),
        ([ONE, sparse.csr_array(ONE)], "batch 1 of pass 0 makes blocks of .*dense=False"),
        ([ONE, (ONE, [0, 1])], "batch 1 of pass 0 makes blocks of .*targets=1"),
        ([ONE, (ONE, None, [0, 1])], "batch 1 of pass 0 makes blocks of .*weighted=True"),
        ([ONE, ONE * np.nan], "batch 1 of pass 0: X: row 0, column 0 is nan"),
        ([ONE, None], "batch 1 of pass 0: X is a NoneType"),
        ([(ONE, [0, 1], [1, 1], 3)], "a tuple of 4: must be"),
        ([(ONE, [0, 1, 2])], "targets have 3 rows and X has 2"),
        ([pa.table({"a": [1, None]})], "batch 0 of pass 0: column 'a' has missing values"),
        ([pa.table({"a": ["x"]})], "batch 0 of pass 0: column 'a' is of type string"),
        ([pa.table({})], "pass 0 has no rows"),
    ],
)
def test_faults_name_the_batch(items: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        source = IterableSource(lambda _: items, block_rows=2)
        block = HostBlock(source.shape)
        for index in range(source.blocks):
            source.read(0, index, block)


def test_passes_that_differ() -> None:
    rows = {0: 6, 1: 7, 2: 4}

    def batches(pass_: int) -> list[Any]:
        return [sparse.csr_array(np.ones((rows[pass_], 1)))]

    source = IterableSource(batches, block_rows=3)
    block = HostBlock(source.shape)
    source.read(1, 0, block)
    with pytest.raises(DataError, match="pass 1 has more than the 6 rows that were announced"):
        source.read(1, 1, block)
    with pytest.raises(DataError, match="pass 2 has 4 rows, but 6 were announced"):
        source.read(2, 1, block)
    source.read(0, 1, block)
    assert block.rows == 3
    with pytest.raises(DataError, match="block 2 of pass 0, but blocks are 0 to 1"):
        source.read(0, 2, block)
    wide = IterableSource(
        lambda p: [sparse.csr_array(np.eye(3) if p == 0 else np.ones((3, 3)))], block_rows=3
    )
    with pytest.raises(DataError, match="block 0 of pass 1 has more than 3 non-zeros; pass shape="):
        wide.read(1, 0, HostBlock(wide.shape))
    with pytest.raises(DataError, match="names has 2 names, but must have 1"):
        IterableSource(batches, names=["a", "b"])


def test_a_function_that_fails_stops_the_run_with_its_cause() -> None:
    def batches(pass_: int) -> Iterator[Any]:
        yield sparse.csr_array(np.eye(4))
        if pass_:
            raise OSError("the tape is torn")
        yield sparse.csr_array(np.eye(4))

    train = IterableSource(batches, block_rows=4)
    learner = bl.Learner(bl.models.KMeans(clusters=3), train, passes=2, threads=1)
    with pytest.raises(DataError, match="block 1 of pass 1 could not be read: the tape is torn"):
        learner.fit()
