"""Blocks that are the same in every pass are kept: what is shown is what would be made anew."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import DataError, HostBlock, MatrixSource
from blocklearn.datasources.arrays.block_shape import CsrArrays, IndexArrays
from blocklearn.datasources.memory.order import RowOrder
from tests.support.often import crossed


def contents(block: HostBlock) -> dict[str, Any]:
    """Copies of everything in a block that counts."""
    n = block.n_active
    ends = {"indptr": len(block.indptr), "active": n, "starts": n + 1}
    arrays = {
        name: getattr(block, name)[: ends.get(name, block.nnz)].copy()
        for name in CsrArrays._fields + IndexArrays._fields
    }
    numbers = {name: getattr(block, name) for name in ("pass_", "index", "rows", "nnz", "n_active")}
    labels = {name: getattr(block, name).copy() for name in ("row_ids", "targets", "weights")}
    return arrays | numbers | labels


def passes(source: MatrixSource, block: HostBlock, count: int) -> list[dict[str, Any]]:
    """Contents of all blocks of `count` passes, all read into the same host block."""
    found = []
    for pass_ in range(count):
        for index in range(source.blocks):
            source.read(pass_, index, block)
            block.transpose()
            found.append(contents(block))
    return found


def same(a: dict[str, Any], b: dict[str, Any]) -> None:
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name)
        assert np.asarray(value).dtype == np.asarray(b[name]).dtype


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 40),
    st.sampled_from([1, 3, 400, 5000]),
    st.sampled_from([0.0, 0.05, 0.5]),
    st.integers(1, 45),
    st.sampled_from([False, "blocks"]),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from([0, 700, 3000, 2**30]),
)
def test_kept_blocks_are_those_made_anew(
    rows: int,
    columns: int,
    density: float,
    block_rows: int,
    shuffle: Any,
    dtype: str,
    keep_bytes: int,
) -> None:
    """At any budget: everything, nothing or some of the blocks fit."""
    rng = np.random.default_rng(rows)
    X = sparse.random_array((rows, columns), density=density, rng=rng, format="csr", dtype=dtype)
    y = rng.random((rows, 2))
    settings: Any = {"targets": y, "block_rows": block_rows, "shuffle": shuffle, "seed": 3}
    kept = MatrixSource(X, keep_bytes=keep_bytes, **settings)
    anew = MatrixSource(X, keep_bytes=0, **settings)
    assert kept.shape == anew.shape and kept.keeps() <= keep_bytes and anew.keeps() == 0
    block, other = HostBlock(kept.shape), HostBlock(anew.shape)
    for a, b in zip(passes(kept, block, 3), passes(anew, other, 3), strict=True):
        same(a, b)


def matrix(rows: int = 100, columns: int = 500, dtype: Any = np.float32) -> Any:
    rng = np.random.default_rng(0)
    return sparse.random_array((rows, columns), density=0.1, rng=rng, format="csr", dtype=dtype)


def test_unshuffled_csr_is_shown_without_a_copy() -> None:
    X = matrix()
    source = MatrixSource(X, block_rows=30)
    block = HostBlock(source.shape)
    first = passes(source, block, 1)
    passes(source, block, 1)
    assert np.shares_memory(block.values, X.data) and np.shares_memory(block.indices, X.indices)
    same(contents(block), first[-1])
    assert source.keeps() < MatrixSource(X, block_rows=30, shuffle="blocks").keeps()
    for other in (X.astype(np.float64), matrix()):
        other.data.flags.writeable = False  # compiled code would see another type
        source = MatrixSource(other, block_rows=30)
        passes(source, block, 2)
        assert not np.shares_memory(block.values, other.data) and block.values.flags.writeable


@pytest.mark.usefixtures("no_block_is_small")
def test_without_an_index_rows_are_gathered_anew() -> None:
    """A copy of them would cost as much memory as they do, and save next to nothing."""
    source = MatrixSource(matrix(), block_rows=30, shuffle="blocks")
    block = HostBlock(source.shape, indexed=False)
    first, again = passes(source, block, 1), passes(source, block, 1)
    for a, b in zip(first, again, strict=True):
        same(a, b)
    assert source.keeps(indexed=False) == 0 < source.keeps()
    assert not any(source.kept(0, index) for index in range(source.blocks))
    passes(source, HostBlock(source.shape), 1)
    assert all(source.kept(0, index) for index in range(source.blocks))


def test_a_source_writes_into_its_own_arrays_after_a_kept_block() -> None:
    """A block shown from the shelf must not be written through."""
    X = matrix()
    source = MatrixSource(X, block_rows=30, keep_bytes=20_000)  # room for some blocks only
    block = HostBlock(source.shape)
    before = X.data.copy(), X.indices.copy()
    first = passes(source, block, 2)
    again = passes(source, block, 2)
    for a, b in zip(first, again, strict=True):
        same(a, b)
    np.testing.assert_array_equal(X.data, before[0])
    np.testing.assert_array_equal(X.indices, before[1])


def test_a_fault_in_the_first_pass_is_found_before_anything_is_kept() -> None:
    X = matrix()
    source = MatrixSource(X, block_rows=30)
    block = HostBlock(source.shape)
    X.data[-1] = np.nan
    for _ in range(2):
        with pytest.raises(DataError, match="row 99, column"):
            source.read(0, 3, block)


def test_rows_are_dealt_to_blocks_once() -> None:
    order = RowOrder(103, 10, "blocks", seed=5)
    ids = np.empty(10, np.int64)
    seen = []
    for pass_ in range(4):
        blocks = [tuple(ids[: order.rows_of(pass_, i, ids)]) for i in range(order.blocks)]
        assert sorted(sum(blocks, ())) == list(range(103))
        assert {order.number(pass_, i) for i in range(order.blocks)} == set(range(11))
        seen.append(blocks)
    assert {frozenset(blocks) for blocks in seen} == {frozenset(seen[0])}  # the same blocks
    assert len({tuple(blocks) for blocks in seen}) == 4  # in other orders
    assert all(list(block) != sorted(block) for block in seen[0] if len(block) == 10)
    again, other = RowOrder(103, 10, "blocks", seed=5), RowOrder(103, 10, "blocks", seed=6)
    assert tuple(ids[: again.rows_of(2, 4, ids)]) == seen[2][4]
    assert tuple(ids[: other.rows_of(2, 4, ids)]) != seen[2][4]


def test_shuffle_is_checked() -> None:
    for wrong in ("rows", 2, None):
        with pytest.raises(DataError, match="shuffle="):
            MatrixSource(np.ones((3, 2)), shuffle=wrong)  # type: ignore[arg-type]


@crossed(inference=["vb", "cvb0", "gibbs"], shuffle=[False, "blocks"])
def test_a_model_learns_the_same_from_kept_blocks(inference: Any, shuffle: Any) -> None:
    """To the last bit: nothing that a model does to a block is left in what was kept."""
    X = sparse.csr_array(np.ceil(matrix().toarray() * 3).astype(np.float32))
    found = []
    for keep_bytes in (0, 2**30):
        source = MatrixSource(X, block_rows=30, shuffle=shuffle, keep_bytes=keep_bytes)
        model = bl.models.LDA(topics=3, inference=inference)
        learner = bl.Learner(model, source, source, passes=4, threads=1).fit()
        found.append((learner.state().tensors, learner.progress.scores))
        learner.close()
    assert found[0][1] == found[1][1]
    for name, array in found[0][0].items():
        np.testing.assert_array_equal(array, found[1][0][name])
