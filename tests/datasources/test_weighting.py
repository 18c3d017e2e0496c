"""Weighed entries: scikit-learn's tf-idf, plain NumPy, hostile rows, weights of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.datasources import DataError, HostBlock, MatrixSource, WeightedSource

KINDS: Any = ["idf", "tf-idf", "pmi"]


def read(source: Any, pass_: int = 0) -> np.ndarray[Any, Any]:
    """All rows in the order of their numbers."""
    block, found = (
        HostBlock(source.shape),
        np.zeros((source.shape.total_rows, source.shape.columns)),
    )
    for index in range(source.blocks):
        source.read(pass_, index, block)
        parts = (block.values[: block.nnz], block.indices[: block.nnz], block.indptr)
        rows = sp.csr_array(parts, shape=(source.shape.rows, source.shape.columns)).toarray()
        found[block.row_ids[: block.rows]] = rows[: block.rows]
    return found


def reference(X: np.ndarray[Any, Any], kind: str, of: np.ndarray[Any, Any]) -> Any:
    """The definition in float64; of: the rows of the training data."""
    if kind == "pmi":
        positive, all_ = np.maximum(X, 0), np.maximum(of, 0)
        joint = positive / np.maximum(positive.sum(axis=1, keepdims=True), 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = np.log(all_.sum() / all_.sum(axis=0))
            weights[~np.isfinite(weights)] = 0.0
            return np.where(joint > 0, np.maximum(np.log(joint) + weights, 0), 0)
    found = X * (np.log((1 + len(of)) / (1 + (of != 0).sum(axis=0))) + 1)
    if kind == "idf":
        return found
    length = np.sqrt((found**2).sum(axis=1, keepdims=True))
    return found / np.where(length > 0, length, 1)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_entries_are_those_of_the_definition(kind: Any, data: st.DataObject) -> None:
    """Empty rows and columns, one huge row, zeros that are stored, a ragged last block."""
    rows, columns = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 5))
    cell = st.sampled_from([0.0, 0.0, 1.0, 2.0, 0.25, 1e6, -1.0])
    rest = st.lists(cell, min_size=rows * columns, max_size=rows * columns)
    X = np.array(data.draw(rest)).reshape(rows, columns)
    matrix = sp.csr_array(X.astype(np.float32))
    source = MatrixSource(matrix, block_rows=3)
    weighted = WeightedSource(source, kind)
    np.testing.assert_allclose(read(weighted), reference(X, kind, X), rtol=1e-5, atol=1e-6)
    new = X[::-1].copy()
    other = WeightedSource(MatrixSource(sp.csr_array(new)), kind, weighted.weights)
    np.testing.assert_allclose(read(other), reference(new, kind, X), rtol=1e-5, atol=1e-6)


def test_tf_idf_is_that_of_scikit_learn() -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text", reason="needs scikit-learn")
    X = sp.random_array((50, 20), density=0.2, rng=np.random.default_rng(0), dtype=np.float32)
    X = sp.csr_array(X)
    source = MatrixSource(X, block_rows=16)
    for kind, norm in (("idf", None), ("tf-idf", "l2")):
        wanted = text.TfidfTransformer(norm=norm).fit_transform(X).toarray()
        np.testing.assert_allclose(read(WeightedSource(source, kind)), wanted, rtol=1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_weight_two_is_two_rows(kind: Any) -> None:
    X = np.random.default_rng(1).poisson(0.8, (20, 6)).astype(np.float32)
    twice = np.concatenate([X, X[:5]])
    weights = np.ones(20)
    weights[:5] = 2.0
    heavy = MatrixSource(sp.csr_array(X), weights=weights, block_rows=8)
    found = WeightedSource(heavy, kind).weights
    np.testing.assert_array_equal(
        found, WeightedSource(MatrixSource(sp.csr_array(twice)), kind).weights
    )


def test_targets_names_and_order_are_those_of_the_source() -> None:
    X = sp.csr_array(np.random.default_rng(1).poisson(0.8, (20, 3)).astype(np.float32))
    source = MatrixSource(
        X, targets=np.arange(40.0).reshape(20, 2), names=["a", "b", "c"], target_names=["s", "t"],
        weights=np.arange(20) % 3, block_rows=8, row_names=[f"r{i}" for i in range(20)],
    )  # fmt: skip
    weighted = WeightedSource(source, "idf")
    assert (weighted.names, weighted.target_names) == (source.names, source.target_names)
    assert weighted.row_names == source.row_names and weighted.fingerprint != source.fingerprint
    one, other = HostBlock(source.shape), HostBlock(weighted.shape)
    for index in range(source.blocks):
        source.read(1, index, one)
        weighted.read(1, index, other)
        for name in ("row_ids", "targets", "weights", "indptr"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_dense_data_are_refused() -> None:
    with pytest.raises(DataError, match="tf-idf: the data are dense: must be a sparse matrix"):
        WeightedSource(MatrixSource(np.eye(3)), "tf-idf")
