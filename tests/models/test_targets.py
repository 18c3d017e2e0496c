"""Targets and weights: each row keeps its own, whatever the order; padding rows never count."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from blocklearn.datasources import (
    BlockShape,
    DataError,
    HostBlock,
    LabelledSource,
    MatrixSource,
    target_names,
)

SHUFFLES: list[Any] = [False, True, "blocks"]


def read_labels(
    source: MatrixSource, pass_: int = 0
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Row ids, targets and weights of a pass, read into one block; padding is checked."""
    block, parts = HostBlock(source.shape), []
    for index in range(source.blocks):
        source.read(pass_, index, block)
        rows = block.rows
        assert (block.weights[rows:] == 0).all() and (block.targets[rows:] == 0).all()
        parts.append((block.row_ids[:rows].copy(), block.targets[:rows].copy(),
                      block.weights[:rows].copy()))  # fmt: skip
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]


@st.composite
def labelled(draw: st.DrawFn) -> tuple[Any, npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """X (row i holds i + 1), a table Y with many zeros, weights with zeros."""
    rows, targets = draw(st.integers(1, 50)), draw(st.sampled_from([1, 2, 17]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    X = np.zeros((rows, 3), np.float32)
    X[np.arange(rows), rng.integers(0, 3, rows)] = np.arange(rows) + 1
    Y = rng.integers(0, 3, (rows, targets)).astype(np.float32)
    return X, Y * (rng.random((rows, targets)) < 0.3), rng.integers(0, 3, rows).astype(np.float32)


@settings(deadline=None, max_examples=60)
@given(labelled(), st.integers(1, 60), st.sampled_from(SHUFFLES), st.booleans(), st.booleans())
def test_rows_keep_their_targets_and_weights(
    data: Any, block_rows: int, shuffle: Any, dense_X: bool, dense_Y: bool
) -> None:
    X, Y, weights = data
    source = MatrixSource(
        X if dense_X else sparse.csr_array(X),
        targets=Y if dense_Y else sparse.csr_array(Y),
        weights=weights,
        block_rows=block_rows,
        shuffle=shuffle,
    )
    assert source.shape.targets == Y.shape[1] and source.shape.weighted
    block = HostBlock(source.shape)
    for pass_ in range(3):
        ids, targets, found = read_labels(source, pass_)
        np.testing.assert_array_equal(np.sort(ids), np.arange(len(X)))
        np.testing.assert_array_equal(targets, Y[ids])  # sparse ones as toarray() has them
        np.testing.assert_array_equal(found, weights[ids])
        source.read(pass_, 0, block)  # and stand beside the right row of X
        values = block.dense[: block.rows].sum(axis=1) if dense_X else block.values[: block.rows]
        np.testing.assert_array_equal(values, block.row_ids[: block.rows] + 1)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
@pytest.mark.parametrize("dtype", ["bool", "int8", "float64"])
def test_kinds_of_targets(make: Any, dtype: str) -> None:
    Y = (np.arange(20).reshape(5, 4) % 3).astype(dtype)
    X = np.ones((5, 2))
    for targets in (Y, make(Y), Y.tolist(), np.asfortranarray(Y)):
        found = read_labels(MatrixSource(X, targets=targets, block_rows=2))[1]
        np.testing.assert_array_equal(found, Y.astype(np.float32))
    for targets in (Y[:, 1], Y[:, 1].tolist(), make(Y[:, [1]])):
        found = read_labels(MatrixSource(X, targets=targets))[1]
        np.testing.assert_array_equal(found, Y[:, [1]].astype(np.float32))


def test_without_labels_rows_weigh_one() -> None:
    source = MatrixSource(np.ones((5, 2)), block_rows=3)
    assert source.shape.targets == 0 and not source.shape.weighted
    _, targets, weights = read_labels(source)
    assert targets.shape == (5, 0) and weights.tolist() == [1.0] * 5
    block = HostBlock(source.shape)
    source.read(0, 1, block)
    assert block.weights.tolist() == [1.0, 1.0, 0.0]


class Five:
    """A source with the five members that every source has, and nothing else."""

    shape = BlockShape(rows=2, columns=1, nnz=2, total_rows=3)
    blocks = 2
    names = None
    fingerprint = "0" * 16

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        rows = 2 - index
        into.indptr[: rows + 1] = range(rows + 1)
        into.indices[:rows], into.values[:rows] = 0, 1
        into.finish(pass_=pass_, index=index, rows=rows)


def test_names_of_targets() -> None:
    X = np.ones((3, 2))
    source = MatrixSource(X, targets=np.eye(3), target_names=["a", "b", "c"])
    assert target_names(source) == source.target_names == ["a", "b", "c"]
    assert isinstance(source, LabelledSource) and not isinstance(Five(), LabelledSource)
    assert target_names(Five()) is None and target_names(MatrixSource(X)) is None
    block = HostBlock(Five.shape)
    Five().read(0, 1, block)
    assert block.weights.tolist() == [1.0, 0.0] and block.targets.shape == (2, 0)


def test_a_block_refuses_bad_labels_of_any_source() -> None:
    block = HostBlock(BlockShape(2, 1, 2, 2, targets=2, weighted=True))
    block.row_ids[:] = [7, 8]
    block.weights[:] = [1, -1]
    with pytest.raises(DataError, match=r"block 3 of pass 2: row 8 has the weight -1"):
        block.finish(pass_=2, index=3, rows=2)
    block.weights[1] = np.nan
    with pytest.raises(DataError, match="row 8 has the weight nan"):
        block.finish(pass_=2, index=3, rows=2)
    block.weights[:] = 1
    block.targets[0, 1] = np.inf
    with pytest.raises(DataError, match="targets: row 7, column 1 is inf"):
        block.finish(pass_=2, index=3, rows=2)


NAN = float("nan")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"targets": [1, 2]}, "targets have 2 rows and X has 3"),
        ({"targets": np.ones((2, 3))}, r"targets have 2 rows and X has 3.*pass Y\.T"),
        ({"targets": sparse.csr_array(np.ones((4, 3)))}, "targets have 4 rows"),
        ({"targets": 3.0}, "targets have no rows"),
        ({"targets": [0, NAN, 1]}, "targets: row 1, column 0 is nan"),
        ({"targets": sparse.csr_array([[0, 1], [0, 1], [1, NAN]])}, "targets: row 2, column 1"),
        ({"targets": ["a", "b", "a"]}, "the first one is .*a.*numpy.unique"),
        ({"targets": np.ones((3, 0))}, "at least one row and one column"),
        ({"targets": np.ones((3, 1, 1))}, "two dimensions"),
        ({"weights": [1, 2]}, "weights have 2 rows and X has 3"),
        ({"weights": [1, -0.5, 1]}, "row 1 has the weight -0.5"),
        ({"weights": [1, 1, NAN]}, "row 2 has the weight nan"),
        ({"weights": [1, 1, 1e300]}, r"row 2 has the weight 1e\+300"),
        ({"weights": np.ones((3, 1))}, r"weights have the shape \(3, 1\)"),
        ({"weights": ["a", "b", "c"]}, "one real number per row"),
        ({"targets": np.eye(3), "target_names": ["a"]}, "3 targets and 1 target_names"),
        ({"target_names": ["a"]}, "0 targets and 1 target_names"),
        ({"targets": np.eye(3), "target_names": ["a", "b", "a"]}, "target_names has 'a' twice"),
    ],
)
def test_faults_are_named(labels: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"MatrixSource: .*{message}"):
        MatrixSource(np.ones((3, 2)), **labels)


def test_targets_changed_under_way_are_noticed() -> None:
    Y = sparse.csr_array(np.eye(4, dtype=np.float32))
    source = MatrixSource(np.ones((4, 2)), targets=Y, block_rows=2)
    block = HostBlock(source.shape)
    Y.indices[3] = 99
    with pytest.raises(DataError, match="the targets of row 3 are not what they were"):
        source.read(0, 1, block)


def test_labels_are_part_of_the_fingerprint() -> None:
    X, y = np.ones((3, 2)), [0.0, 1.0, 0.0]
    sources = [
        MatrixSource(X),
        MatrixSource(X, targets=y),
        MatrixSource(X, targets=[1.0, 1.0, 0.0]),
        MatrixSource(X, weights=y),
        MatrixSource(X, targets=y, weights=y),
    ]
    assert len({source.fingerprint for source in sources}) == len(sources)
    again = MatrixSource(X, targets=np.array([0, 1, 0], np.int8), block_rows=2, shuffle=True)
    assert again.fingerprint == sources[1].fingerprint


def whole(array: Any) -> Any:
    """The array that it is a part of."""
    return array if array.base is None else whole(array.base)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("targets", [0, 5])
def test_bytes_of_a_block_are_known_before_it_is_made(targets: int, weighted: bool) -> None:
    for dense, columns in [(True, 7), (False, 7), (False, 70_000)]:
        nnz = 0 if dense else 50
        shape = BlockShape(9, columns, nnz, 30, dense, targets, weighted)
        block = HostBlock(shape)
        arrays: list[np.ndarray[Any, Any]] = []
        parts = {id(value): value for value in vars(block).values()}.values()
        for value in parts:
            if isinstance(value, np.ndarray):
                arrays.append(value)
            elif isinstance(value, tuple):
                arrays += value
        pieces = {id(piece): piece.nbytes for piece in map(whole, arrays)}
        assert shape.nbytes == block.nbytes == sum(pieces.values())
    with pytest.raises(DataError, match="targets=-1"):
        BlockShape(1, 1, 1, 1, targets=-1)
