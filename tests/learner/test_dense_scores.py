"""Scores of dense rows by a plain product: the bits of a learner, for any number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError
from blocklearn.learner.estimators import dense_scores as module
from blocklearn.learner.estimators.dense_scores import dense_scores
from blocklearn.learner.estimators.unsupervised.nearest import distances, nearest
from tests.support.often import first_often, paired

Array = np.ndarray[Any, Any]


def data(rows: int = 300, columns: int = 20) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    return X, np.argmax(X[:, :3] + rng.normal(size=(rows, 3)), axis=1)


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_have_the_bits_of_a_learner(classes: int) -> None:
    X, y = data()
    found = bl.GLMClassifier(n_jobs=1).fit(X, np.minimum(y, classes - 1))
    scores = found.decision_function(X)
    learner = found.to_learner()
    learner.model.output = "score"
    np.testing.assert_array_equal(scores, learner.predict(X).reshape(scores.shape))
    wanted = X @ np.atleast_2d(found.coef_).T.astype(np.float64) + found.intercept_
    np.testing.assert_allclose(scores, wanted.reshape(scores.shape), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", first_often(["squared_error", "quantile", "huber", "poisson"], 2))
def test_means_of_a_regressor_are_those_of_a_learner(loss: str) -> None:
    X, y = data()
    found = bl.GLMRegressor(loss, n_jobs=1).fit(X, y.astype(np.float64))
    learner = found.to_learner()
    np.testing.assert_array_equal(found.predict(X).astype(np.float32), learner.predict(X).ravel())


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("columns", [1, 20])
def test_a_row_has_the_same_bits_among_others(
    k: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(k)
    X = rng.normal(size=(1000, columns))
    W, b = rng.normal(size=(columns, k)).astype(np.float32), np.ones((1, k), np.float32)
    whole = dense_scores(X, W, b, 1)
    assert whole is not None and whole.dtype == np.float32
    np.testing.assert_allclose(whole, X @ W + b, rtol=1e-3, atol=1e-5)
    one = dense_scores(X[:1], W, b, 1)
    assert one is not None and one.tobytes() == whole[:1].tobytes()
    monkeypatch.setattr(module, "AT_ONCE", 1)  # a chunk at a time
    for threads in (1, 3):
        parts = dense_scores(X, W, b, threads)
        assert parts is not None and parts.tobytes() == whole.tobytes()
    centre = X[7].astype(np.float32)
    shifted, wanted = dense_scores(X, W, None, 2, centre), (X - centre) @ W
    assert shifted is not None
    np.testing.assert_allclose(shifted, wanted, rtol=1e-3, atol=1e-4)


@paired(2, rows=[1, 128, 300], k=[1, 3])
def test_float32_rows_have_the_bits_of_their_copy(rows: int, k: int) -> None:
    rng = np.random.default_rng(rows)
    X = rng.normal(size=(rows + 1, 7)).astype(np.float32)
    W, b = rng.normal(size=(7, k)).astype(np.float32), np.ones((1, k), np.float32)
    for part in (X[:-1], X[1:], np.asfortranarray(X[1:])):  # the second is not aligned as the first
        found, copied = dense_scores(part, W, b, 1), dense_scores(part.astype(np.float64), W, b, 1)
        assert found is not None and copied is not None
        assert found.tobytes() == copied.tobytes()


def test_numbers_beyond_float32_and_other_coefficients_are_refused() -> None:
    X, y = data()
    found = bl.GLMClassifier().fit(X, y > 0)
    X[1, 2] = 1e39
    with pytest.raises(DataError, match=r"row 1, column 2 is 1e\+39"):
        found.predict(X)
    found.coef_ = found.coef_[:, :7]
    with pytest.raises(ValueError, match="does not fit its parameters"):
        found.predict(data()[0])


def test_coordinates_have_the_bits_of_a_learner() -> None:
    X = data()[0].astype(np.float32) + 3.0
    for found in (bl.PCA(3, max_iter=2, n_jobs=1).fit(X), bl.TruncatedSVD(3, n_jobs=1).fit(X)):
        np.testing.assert_array_equal(found.transform(X), found.to_learner().predict(X))
        np.testing.assert_array_equal(found.transform(X[5:6]), found.transform(X)[5:6])


@pytest.mark.parametrize("directions", [False, True])
@pytest.mark.parametrize(("rows", "k"), [(0, 3), (1, 1), (300, 1), (300, 5)])
def test_nearest_centres_are_those_of_float64(rows: int, k: int, directions: bool) -> None:
    rng = np.random.default_rng(k)
    X, centres = rng.normal(size=(rows, 6)) + 100.0, rng.normal(size=(k, 6)) + 100.0
    wide, centres = X.astype(np.float32).astype(np.float64), centres.astype(np.float32)
    found = nearest(X.astype(np.float32), centres, 1, directions=directions)
    products = wide @ centres.T.astype(np.float64)
    apart = np.square(wide[:, None] - centres).sum(axis=2)
    wanted = products.argmax(axis=1) if directions else apart.argmin(axis=1)
    assert found.dtype == np.int32
    if directions:  # float32 does not tell near ones apart
        best = products[np.arange(rows), found]
        np.testing.assert_allclose(best, products.max(axis=1, initial=-np.inf), rtol=1e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


def test_the_first_of_equal_centres_counts() -> None:
    centres = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], np.float32)
    X = np.array([[2.0, 0.0], [0.0, 2.0]], np.float32)
    assert nearest(X, centres, 1, directions=False).tolist() == [0, 1]


def test_angles_of_a_row_have_the_same_bits_among_others() -> None:
    X = data(100, 50)[0].astype(np.float32)
    X[1], X[2] = 0.0, X[0] * 1e-30
    found = bl.KMeans(8, spherical=True, max_iter=1, random_state=0, n_jobs=1).fit(X)
    whole = found.transform(X)
    for first in range(0, 100, 7):
        assert found.transform(X[first : first + 1]).tobytes() == whole[first].tobytes()
    assert found.transform(np.asfortranarray(X)).tobytes() == whole.tobytes()
    lengths = np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    cosines = X / np.where(lengths, lengths, 1.0) @ found.cluster_centers_.T.astype(np.float64)
    np.testing.assert_allclose(whole, 1.0 - cosines, atol=1e-6)
    assert whole[1].tolist() == [1.0] * 8 and whole.min() >= 0.0


def test_distances_of_a_row_have_the_same_bits_among_others() -> None:
    rng = np.random.default_rng(0)
    X = (100 + rng.normal(size=(400, 200))).astype(np.float32)
    centres = X[:100].copy()
    found = distances(X, centres, 1)
    wide = X.astype(np.float64)
    wanted = np.sqrt(((wide[:, None] - wide[None, :100]) ** 2).sum(axis=2))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-5)
    for first, count in ((0, 1), (3, 7), (390, 10)):
        part = slice(first, first + count)
        assert distances(X[part], centres, 3).tobytes() == found[part].tobytes()


def test_short_sparse_rows_have_the_distances_of_long_ones() -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_array(np.abs(rng.normal(size=(30, 6))).astype(np.float32))
    means = bl.KMeans(n_clusters=2, spherical=True, max_iter=1, random_state=0, n_jobs=1).fit(X)
    short = X.copy()
    short.data[: short.indptr[15]] *= np.float32(1e-25)  # whose squares are 0
    np.testing.assert_allclose(means.transform(short), means.transform(X), atol=1e-6)
    assert means.transform(short)[15:].tobytes() == means.transform(X)[15:].tobytes()
    assert -1.0 <= means.score(short) <= 0.0
