"""`bl.PCA` and `bl.TruncatedSVD` beside scikit-learn's."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.errors import DivergedError
from blocklearn.learner.estimators.base import LearnerEstimator
from tests.support.often import first_often

decomposition = pytest.importorskip("sklearn.decomposition", reason="needs scikit-learn")

X = np.random.default_rng(0).normal(size=(90, 20)) * 0.7 ** np.arange(20) + 2.0


def test_whitened_coordinates_are_scikit_learns() -> None:
    ours = bl.PCA(3, whiten=True, max_iter=8, random_state=0).fit(X)
    theirs = decomposition.PCA(3, whiten=True).fit(X)
    Z = ours.transform(X)
    np.testing.assert_allclose(np.abs(Z), np.abs(theirs.transform(X)), atol=2e-2)
    np.testing.assert_allclose(Z.std(axis=0, ddof=1), 1.0, atol=1e-3)
    plain = bl.PCA(3, max_iter=8, random_state=0).fit(X)
    back = plain.inverse_transform(plain.transform(X))
    np.testing.assert_allclose(ours.inverse_transform(Z), back, atol=1e-4)


def test_exact_components_are_scikit_learns() -> None:
    ours, theirs = bl.PCA(3, exact=True).fit(X), decomposition.PCA(3).fit(X)
    assert ours.n_iter_ <= 2
    np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=1e-4)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-4)
    short = bl.TruncatedSVD(3, exact=True).fit(X)
    assert short.n_iter_ == 1
    lengths = np.linalg.svd(X, compute_uv=False)[:3]
    np.testing.assert_allclose(short.singular_values_, lengths, rtol=1e-4)


def test_directions_without_variance_are_whitened_to_numbers() -> None:
    found = bl.PCA(3, whiten=True, random_state=0).fit_transform(
        np.outer(np.arange(9.0), [1, 2, 3])
    )
    assert np.isfinite(found).all()


@pytest.mark.parametrize("kind", [bl.PCA, bl.TruncatedSVD])
def test_more_components_than_features_are_named(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"n_components=21: must be at most .* n_features=20"):
        kind(21).fit(X)


@pytest.mark.parametrize("far", [0.0, 1e4])
def test_few_columns_of_dense_rows_need_no_learner(
    far: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(LearnerEstimator, "_learner")
    rows = (X + far).astype(np.float32)
    ours, theirs = bl.PCA(3).fit(rows), decomposition.PCA(3).fit(rows.astype(float))
    assert ours.n_iter_ == 1 and ours.n_samples_seen_ == 90
    np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=2e-6)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-6)
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=2e-6)
    short = bl.TruncatedSVD(3).fit(rows)
    lengths = np.linalg.svd(rows.astype(float), compute_uv=False)[:3]
    np.testing.assert_allclose(short.singular_values_, lengths, rtol=1e-5)
    largest = np.take_along_axis(short.components_, abs(short.components_).argmax(1)[:, None], 1)
    assert (largest > 0.0).all()


def test_directions_beyond_the_rank_have_length_0() -> None:
    found = bl.PCA(3).fit(np.outer(np.arange(9.0), [1, 2, 3]) + 5.0)
    assert found.singular_values_[0] > 1.0 and not found.singular_values_[1:].any()
    np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(3), atol=1e-6)


def test_threads_do_not_change_the_bits_of_few_columns() -> None:
    rows = np.random.default_rng(0).normal(size=(50_000, 100)).astype(np.float32)
    one, two = (bl.PCA(2, n_jobs=threads).fit(rows).components_ for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_exact_components_of_rows_far_from_0() -> None:
    far = X + 3e4
    ours, theirs = bl.PCA(3, exact=True).fit(far), decomposition.PCA(3).fit(far)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-3)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_shares_of_variance_of_rows_far_from_0(kind: Any) -> None:
    far = (X + 300.0).astype(np.float32)
    ours = bl.TruncatedSVD(3, random_state=0, n_jobs=1).fit(kind(far))
    theirs = decomposition.TruncatedSVD(3, algorithm="arpack").fit(far.astype(np.float64))
    for name in ("explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-3)


def test_equal_rows_have_no_variance_to_share() -> None:
    found = bl.TruncatedSVD(2, random_state=0, n_jobs=1).fit(np.full((120, 7), 3.1, np.float32))
    np.testing.assert_allclose(found.explained_variance_ratio_, 0.0, atol=1e-6)


def test_sparse_rows_far_from_0_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="Sparse rows are not centred"):
        bl.PCA(3, random_state=0).fit(sp.csr_array(X + 1e4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bl.PCA(3, random_state=0).fit(sp.csr_array(X))
        bl.PCA(3, random_state=0).fit(X + 1e4)


@pytest.mark.parametrize("container", first_often([np.asarray, sp.csr_array]))
def test_a_saved_model_whitens_as_the_estimator_does(container: Any, tmp_path: Path) -> None:
    found = bl.PCA(2, whiten=True, random_state=0).fit(container(X))
    coordinates = found.transform(container(X))
    np.testing.assert_allclose(coordinates.std(axis=0, ddof=1), 1.0, rtol=1e-3)
    bl.save(found.to_learner(), tmp_path / "saved")
    saved = bl.load(tmp_path / "saved").predict(container(X))
    np.testing.assert_array_equal(saved, coordinates)


def test_threads_of_blas_do_not_change_the_bits() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    counts = sp.random_array((400, 3000), density=0.02, rng=0, dtype=np.float32)
    found = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads, "blas"):
            found.append(bl.TruncatedSVD(10, random_state=0).fit(counts.tocsr()).components_)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", [bl.PCA, bl.TruncatedSVD])
def test_squares_beyond_float32_say_to_scale_the_data(kind: Any) -> None:
    """There is no rate to lower, and no penalty."""
    with pytest.raises(DivergedError, match=r"the model has diverged\. Scale the data"):
        kind(3, random_state=0).fit(X * 1e30)
