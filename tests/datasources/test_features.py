"""Hashed features: the same everywhere, unbiased, and at a cost that ignores the columns."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from blocklearn.datasources import (
    DataError,
    HashedWords,
    HostBlock,
    MatrixSource,
    hash_features,
    interactions,
)

COLUMNS = {"city": ["Rome", "Oslo", None, "Rome"], "day": [3, 1, 3, 3]}
KNOWN = [
    (20805, -1.0),
    (31995, -1.0),
    (3545, 1.0),
    (24778, -1.0),
    (20805, -1.0),
    (20805, -1.0),
    (31995, -1.0),
]


def test_columns_are_known_forever() -> None:
    """A trained model lives on them: these numbers must never change."""
    X = hash_features(COLUMNS, 16)
    found = [(int(i), float(v)) for i, v in zip(X.indices, X.data, strict=True)]
    assert found == KNOWN
    program = (
        "from blocklearn.datasources import hash_features\n"
        f"X = hash_features({COLUMNS!r}, 16)\n"
        "print(list(zip(X.indices.tolist(), X.data.tolist())))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str(KNOWN), done.stderr


def test_rows_with_the_same_values_are_the_same() -> None:
    X = hash_features(COLUMNS, 16).toarray()
    assert (X[0] == X[3]).all() and (X[0] != X[1]).any()
    assert [np.count_nonzero(row) for row in X] == [2, 2, 1, 2]
    assert set(np.unique(X)) <= {-1.0, 0.0, 1.0}
    assert (hash_features(COLUMNS, 16, signed=False).toarray() == np.abs(X)).all()
    other = hash_features({"town": COLUMNS["city"], "day": COLUMNS["day"]}, 16).toarray()
    assert (X != other).any() and (X[2] == other[2]).all()  # the same value in another column
    assert (hash_features(COLUMNS, 16, seed=1).toarray() != X).any()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "bool"])
def test_kinds_of_numbers_agree(dtype: str) -> None:
    values = np.array([1, 0, 1], dtype)
    assert (hash_features({"a": values}, 12) != hash_features({"a": [1, 0, 1]}, 12)).nnz == 0
    text = hash_features({"a": np.array(["x", "y", "x"])}, 12)
    assert (text != hash_features({"a": np.array(["x", "y", "x"], object)}, 12)).nnz == 0


def test_signed_sums_are_unbiased() -> None:
    """Sums of hashed vectors, and their inner products, are right on average over seeds; without
    signs those of vectors that share no feature are too large.
    """
    a, b = {"x": [f"a{i}" for i in range(40)]}, {"x": [f"b{i}" for i in range(40)]}
    products: dict[bool, list[float]] = {True: [], False: []}
    sums = []
    for seed in range(400):
        for signed, found in products.items():
            u, v = (
                hash_features(c, 6, seed=seed, signed=signed).sum(axis=0).ravel() for c in (a, b)
            )
            found.append(float(u @ v))
            sums += [float(u.sum())] if signed else []
    error = np.std(products[True]) / np.sqrt(400)
    assert abs(np.mean(products[True])) < 4 * error < 10
    assert abs(np.mean(sums)) < 4 * np.std(sums) / np.sqrt(400)
    assert np.mean(products[False]) == pytest.approx(40 * 40 / 64, rel=0.1)


def test_columns_are_used_evenly() -> None:
    for values in (np.arange(50_000), [f"word{i}" for i in range(50_000)]):
        X = hash_features({"a": values}, 8, signed=False)
        counts = np.asarray(X.sum(axis=0)).ravel()
        chi2 = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
        assert 150 < chi2 < 380  # 255 degrees of freedom
        signs = hash_features({"a": values}, 8).sum()
        assert abs(signs) < 4 * np.sqrt(50_000)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_interactions_are_products(rows: int, a: int, b: int, seed: int) -> None:
    """In 2**24 columns nothing collides here, so each product is found as it is."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-2, 3, (rows, a)).astype(np.float32)
    B = rng.integers(-2, 3, (rows, b)).astype(np.float32)
    X = interactions(sparse.csr_array(A), sparse.csc_matrix(B), 24, signed=False)
    assert X.shape == (rows, 2**24) and X.has_canonical_format and X.dtype == np.float32
    for row in range(rows):
        inside = X.data[X.indptr[row] : X.indptr[row + 1]]
        pairs = np.outer(A[row], B[row])
        assert sorted(inside.tolist()) == sorted(pairs[pairs != 0].tolist())
    signed = interactions(sparse.csr_array(A), sparse.csr_array(B), 24)
    np.testing.assert_array_equal(np.abs(signed.data), np.abs(X.data))


def test_a_pair_has_one_column_and_one_sign() -> None:
    A = sparse.csr_array(np.array([[1.0, 0, 0], [5.0, 0, 0], [0, 1.0, 0]]))
    B = sparse.csr_array(np.array([[0, 1.0], [0, 2.0], [0, 1.0]]))
    X = interactions(A, B, 20)
    assert X.indices[0] == X.indices[1] != X.indices[2]
    assert abs(X.data[0]) == 1 and X.data[1] == 10 * X.data[0]
    assert (interactions(A, B, 20, seed=1) != X).nnz > 0
    assert interactions(B, A, 20).indices[0] != X.indices[0]  # (i, j) is not (j, i)


def test_millions_of_columns() -> None:
    """16 million hashed columns: memory follows the non-zeros."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 10**9, 20_000), rng.integers(0, 10**6, 20_000)
    X = hash_features({"user": users, "item": items}, 24)
    pairs = interactions(hash_features({"user": users}, 24), hash_features({"item": items}, 24), 24)
    source = MatrixSource(sparse.hstack([X, pairs], format="csr"), block_rows=256, shuffle=True)
    assert source.shape.columns == 2**25
    assert source.shape.nbytes < 256 * 3 * 60 + 100_000
    block = HostBlock(source.shape)
    source.read(0, 0, block)
    block.transpose()
    for index in range(source.blocks):
        source.read(0, index, block)
        block.transpose()
    assert block.n_active == len(np.unique(block.indices[: block.nnz]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "at least one column"),
        ({"a": ["x"], "b": ["x", "y"]}, "column 'b' has 2 rows: must have 1, as many as the first"),
        ({"a": [0.5]}, "column 'a' has the dtype float64"),
        ({"a": ["x", 3.5, None]}, "column 'a'.*dtype <U|row 1 of column 'a' is 3.5"),
        ({"a": [None, 3]}, "row 1 of column 'a' is 3, but must be text"),
        ({"a": [["x"]]}, r"column 'a' has the shape \(1, 1\)"),
    ],
)
def test_faults_are_named(columns: Any, message: str) -> None:
    if columns.get("a") == ["x", 3.5, None]:
        columns = {"a": np.array(columns["a"], object)}
    with pytest.raises(DataError, match=f"hash_features: .*{message}"):
        hash_features(columns)


def test_faults_of_settings_and_matrices() -> None:
    X = sparse.csr_array(np.eye(2))
    for bits in (0, 31):
        with pytest.raises(DataError, match=f"hash_bits={bits}: must be 1 to 30"):
            hash_features({"a": ["x"]}, bits)
        with pytest.raises(DataError, match=f"hash_bits={bits}"):
            HashedWords(bits)
    with pytest.raises(DataError, match="A and B must be sparse"):
        interactions(np.eye(2), X)
    with pytest.raises(DataError, match="A has 2 rows, but B has 3"):
        interactions(X, sparse.csr_array(np.eye(3)))
    with pytest.raises(DataError, match="interactions: B: row 0, column 0 is nan"):
        interactions(X, X * np.nan)


def test_hashed_words_are_a_vocabulary() -> None:
    words = HashedWords(4)
    assert len(words) == 16 and words[-1] == "#15" and words[2:4] == ["#2", "#3"]
    assert list(words)[:2] == ["#0", "#1"] and len(list(words)) == 16
    assert words == HashedWords(4) != HashedWords(5) and hash(words) == hash(HashedWords(4))
    assert all(0 <= words.column(word) < 16 for word in ("socket", "über", ""))


def test_interactions_of_columns() -> None:
    """A pair has a feature of its own where both columns have a value, in either order."""
    alone = hash_features(COLUMNS, 20)
    pairs = [
        hash_features(COLUMNS, 20, interactions=[p]) for p in (("city", "day"), ("day", "city"))
    ]
    assert (pairs[0] != pairs[1]).nnz == 0
    extra = (pairs[0] - alone).toarray()
    assert [np.flatnonzero(row).size for row in extra] == [1, 1, 0, 1]  # row 2 has no city
    columns = [int(np.flatnonzero(row)[0]) for row in extra[[0, 1, 3]]]
    assert columns[0] == columns[2] != columns[1]
    masked = {"a": np.ma.MaskedArray([1, 2, 3], [False, True, False]), "b": [1, 1, 1]}
    found = hash_features(masked, 20, interactions=[("a", "b")])
    assert np.diff(found.indptr).tolist() == [3, 1, 3]
    with pytest.raises(DataError, match="'town': must be one of the columns city, day"):
        hash_features(COLUMNS, interactions=[("town", "day")])
    with pytest.raises(DataError, match="'day' with itself: must be two different columns"):
        hash_features(COLUMNS, interactions=[("day", "day")])


def test_hashed_words_behind_others() -> None:
    words = HashedWords(3, ["price", "age"])
    assert len(words) == 10 and words[:3] == ["price", "age", "#0"] and words[-1] == "#7"
    assert words.column("x") == HashedWords(3).column("x") + 2
    assert words != HashedWords(3) and words == HashedWords(3, ("price", "age"))
