"""Scores of sparse rows by one kernel: those of float64, for any number of rows and threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError
from blocklearn.learner.estimators import sparse_scores as module
from blocklearn.learner.estimators.sparse_scores import sparse_scores

COLUMNS = 40
ALONE = {"random_state": 0, "n_jobs": 1}


def rows(count: int, dtype: Any = np.float32) -> Any:
    """Make rows of which some are empty, and one has every column."""
    table = np.random.default_rng(count).poisson(0.3, (count, COLUMNS)).astype(dtype)
    table[:: max(1, count // 7)] = 0
    if count > 1:
        table[1] = np.arange(COLUMNS) + 1
    return sp.csr_array(table)


def weights(k: int, size: float = 1.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(k)
    W, b = rng.normal(size=(COLUMNS, k)) * size, rng.normal(size=(1, k))
    return W.astype(np.float32), b.astype(np.float32)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 12, 13])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_scores_are_those_of_float64(k: int, dtype: Any, count: int) -> None:
    X, (W, b) = rows(count, dtype), weights(k)
    found = sparse_scores(X, W, b, 1)
    assert found is not None and found.dtype == np.float32
    wanted = X.toarray().astype(np.float64) @ W.astype(np.float64) + b
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_row_has_the_same_bits_among_others(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, (W, b) = rows(300), weights(3, 1e3)
    whole = sparse_scores(X, W, b, 1)
    assert whole is not None
    monkeypatch.setattr(module, "AT_ONCE", 32)
    for first, last in ((0, 300), (7, 8), (40, 299)):
        found = sparse_scores(X[first:last], W, b, threads)
        assert found is not None and found.tobytes() == whole[first:last].tobytes()


def test_entries_may_be_in_any_order_and_lie_in_memory_that_is_read_only() -> None:
    X, (W, b) = rows(9), weights(1)
    wanted = sparse_scores(X, W, b, 1)
    assert wanted is not None
    for start, stop in zip(X.indptr, X.indptr[1:], strict=False):
        X.indices[start:stop] = X.indices[start:stop][::-1].copy()
        X.data[start:stop] = X.data[start:stop][::-1].copy()
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    found = sparse_scores(X, W, b, 1)
    assert found is not None
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("part", "place", "number"),
    [("indices", 2, COLUMNS), ("indices", 2, -1), ("indptr", 2, 99), ("indptr", 0, -1)],
)
def test_a_matrix_with_faults_is_not_read(part: str, place: int, number: int) -> None:
    X, (W, b) = rows(3), weights(1)
    assert sparse_scores(X, W, b, 1) is not None
    getattr(X, part)[place] = number
    assert sparse_scores(X, W, b, 1) is None


@pytest.mark.parametrize("count", [0, 1, 3])
def test_rows_without_offsets_are_not_read(count: int) -> None:
    X, (W, b) = rows(3), weights(1)
    X.indptr = X.indptr[:count]
    assert sparse_scores(X, W, b, 1) is None


def test_offsets_may_be_of_another_byte_order() -> None:
    X, (W, b) = rows(3), weights(1)
    wanted = sparse_scores(X, W, b, 1)
    X.indptr = X.indptr.astype(X.indptr.dtype.newbyteorder())
    found = sparse_scores(X, W, b, 1)
    assert wanted is not None and found is not None and found.tobytes() == wanted.tobytes()


def test_what_a_learner_has_to_read_or_refuse() -> None:
    X, (W, b) = rows(3), weights(1)
    assert sparse_scores(X.tocsc(), W, b, 1) is None
    assert sparse_scores(X, W[1:], b, 1) is None
    assert sparse_scores(X, *weights(module.MOST + 1), 1) is None
    X.data[0] = np.inf
    assert sparse_scores(X, W, b, 1) is None


@pytest.mark.parametrize("classes", [2, 3])
def test_an_estimator_predicts_as_its_learner(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = rows(300)
    found = bl.GLMClassifier(**ALONE).fit(X, np.arange(300) % classes)
    learner = found.to_learner()
    learner.model.output = "score"
    wanted = learner.predict(X)
    made: list[Any] = []
    monkeypatch.setattr(bl, "Learner", lambda *given, **named: made.append(given))
    scores = found.decision_function(X)
    assert not made
    np.testing.assert_allclose(scores, wanted.reshape(scores.shape), rtol=1e-4, atol=1e-5)


def test_numbers_beyond_float32_are_refused() -> None:
    found = bl.GLMClassifier(**ALONE).fit(rows(60), np.arange(60) % 2)
    with pytest.raises(DataError, match=r"row 3, column 2 is 1e\+39"):
        found.predict(sp.csr_array(([1e39], ([3], [2])), shape=(5, COLUMNS)))


def test_coordinates_of_sparse_rows_need_no_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(90, np.float64)
    found = bl.TruncatedSVD(3, **ALONE).fit(X)
    learner = found.to_learner().predict(X)
    monkeypatch.setattr(bl.Learner, "predict", None)
    Z = found.transform(X)
    wanted = X.toarray() @ found.components_.T.astype(np.float64)
    np.testing.assert_allclose(Z, wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(Z, learner, rtol=1e-4, atol=1e-5)
    assert found.transform(X[5:6]).tobytes() == Z[5:6].tobytes()
