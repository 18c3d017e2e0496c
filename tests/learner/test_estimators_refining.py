"""`partial_fit` after a fit by full passes refines the coefficients, and never destroys them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl

pytest.importorskip("sklearn", reason="needs scikit-learn")

from sklearn.linear_model import Ridge

from blocklearn.learner.estimators.linear.moments import Moments
from tests.support.often import crossed, first_often, rarely

SCALES = {"size 1": np.ones(6), "1e-3 to 1e4": np.array([1e-3, 0.1, 1.0, 10.0, 1e3, 1e4])}
TRUE = np.array([1.0, -2.0, 0.5, 1.5, -1.0, 0.7])


def rows(count: int, seed: int, true: Any = TRUE) -> tuple[Any, Any]:
    """Return columns of size 1, and a sum of them with noise."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(count, 6))
    return Z, Z @ true + 0.3 * rng.normal(size=count) + 2.0


def targets(loss: str, sums: Any) -> Any:
    if loss in ("log_loss", "squared_hinge", "hinge"):
        return np.where(sums > 2.0, "yes", "no")
    return np.exp(0.3 * sums) if loss in ("poisson", "gamma", "tweedie") else 4.0 * sums


def estimator_of(loss: str, **how: Any) -> Any:
    kind = bl.GLMClassifier if "hinge" in loss or loss == "log_loss" else bl.GLMRegressor
    return kind(loss, alpha=0.0 if kind is bl.GLMRegressor else 1e-3, **how)


@crossed(
    container=[np.asarray, sp.csr_array], scales=SCALES.values(), loss=["squared_error", "log_loss"]
)
def test_fifty_rows_after_a_fit_keep_the_score(loss: str, scales: Any, container: Any) -> None:
    (X, sums), (T, wanted), (further, more) = rows(1000, 0), rows(2000, 1), rows(50, 2)
    found = estimator_of(loss).fit(container(X * scales), targets(loss, sums))
    fitted, before = found.score(container(T * scales), targets(loss, wanted)), found.coef_.copy()
    found.partial_fit(container(further * scales), targets(loss, more))
    assert found.score(container(T * scales), targets(loss, wanted)) > fitted - 0.01
    assert np.abs(found.coef_ - before).max() > 0.0
    assert found.n_samples_seen_ == 1050


@pytest.mark.parametrize(
    "loss",
    first_often(["huber", "poisson", "hinge", "quantile", "gamma", "tweedie", "squared_hinge"], 3),
)
def test_every_loss_keeps_its_score(loss: str) -> None:
    (X, sums), (T, wanted), (further, more) = rows(1000, 0), rows(2000, 1), rows(50, 2)
    solver = "lbfgs" if loss == "hinge" else "auto"
    found = estimator_of(loss, solver=solver).fit(X, targets(loss, sums))
    fitted = found.score(T, targets(loss, wanted))
    found.set_params(solver="auto").partial_fit(further, targets(loss, more))
    assert found.score(T, targets(loss, wanted)) > fitted - 0.01


@pytest.mark.parametrize("solver", first_often(["conjugate-gradient", "dual"]))
def test_a_fit_of_every_solver_by_full_passes_is_refined(solver: str) -> None:
    (X, sums), (T, wanted), (further, more) = rows(1000, 0), rows(2000, 1), rows(50, 2)
    y = np.digitize(sums, [0.0, 4.0])  # three classes
    found = bl.GLMClassifier(solver=solver, alpha=1e-3, class_weight={0: 2.0, 1: 1.0, 2: 1.0})
    found.fit(sp.csr_array(X), y)
    fitted = found.score(T, np.digitize(wanted, [0.0, 4.0]))
    found.set_params(solver="adagrad").partial_fit(further, np.digitize(more, [0.0, 4.0]))
    assert found.score(T, np.digitize(wanted, [0.0, 4.0])) > fitted - 0.01


@crossed(scales=SCALES.values(), loss=["squared_error", "log_loss"])
def test_rows_of_another_kind_displace_those_of_the_fit(loss: str, scales: Any) -> None:
    (X, sums), (T, wanted) = rows(500, 0), rows(2000, 1, -TRUE)
    found = estimator_of(loss).fit(X * scales, targets(loss, sums))
    before = found.score(T * scales, targets(loss, wanted))
    for seed in range(2, 10):
        further, more = rows(200, seed, -TRUE)
        found.partial_fit(further * scales, targets(loss, more))
    after = found.score(T * scales, targets(loss, wanted))
    assert before < 0.2 and after > 0.8


def test_earlier_rows_count_half() -> None:
    """Of orthogonal columns, the optimum with the anchor is the weighted mean of two optima."""
    X = np.kron(np.eye(2), np.ones((100, 1))) * 2.0**0.5
    new = X[::2]
    found = bl.GLMRegressor(alpha=0.0, fit_intercept=False, tol=1e-6).fit(X, X @ [1.0, 2.0])
    for rows_before in (200, 300):
        before = found.coef_.astype(float)
        found.partial_fit(new, new @ [3.0, 0.0])
        share = 100 / (100 + rows_before / 2)
        wanted = before + share * (np.array([3.0, 0.0]) - before)
        np.testing.assert_allclose(found.coef_, wanted, rtol=1e-4)


def test_a_column_that_is_new_learns_from_its_rows() -> None:
    (X, sums), (further, more) = rows(600, 0), rows(200, 1)
    known = X.copy()
    known[:, 0] = 0.0
    found = bl.GLMRegressor(alpha=0.0).fit(sp.csr_array(known), sums - X[:, 0])
    found.partial_fit(sp.csr_array(further), more)
    assert found.coef_[0] == pytest.approx(1.0, abs=0.1)


def test_weights_and_several_targets_are_refined() -> None:
    X, sums = rows(400, 0)
    Y = np.column_stack([sums, 1000.0 * sums])
    weights = np.where(np.arange(400) < 200, 2.0, 0.0)
    wanted = Ridge(alpha=1e-6).fit(X[:200], Y[:200])
    found = bl.GLMRegressor(alpha=0.0, tol=1e-6).fit(X, Y, sample_weight=weights)
    Y[200:] = 1e6
    found.partial_fit(X, Y, sample_weight=weights)  # the same optimum
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-3)
    found.partial_fit(
        X, -Y, sample_weight=weights
    )  # as many rows as twice before, which count half
    np.testing.assert_allclose(
        found.coef_, 0.0 * wanted.coef_, atol=0.1 * np.abs(wanted.coef_).max()
    )


def test_moments_of_parts_merge_into_those_of_all() -> None:
    X = np.random.default_rng(0).normal(size=(9000, 3)) + [0.0, 1e4, -3.0]
    X[X[:, 0] < 0.5] *= [0.0, 1.0, 1.0]
    w = np.random.default_rng(1).integers(0, 3, 9000).astype(float)
    mean = np.average(X, axis=0, weights=w)
    variance = np.average((X - mean) ** 2, axis=0, weights=w)
    parts = Moments.of(X[:4000], w[:4000]).merged(Moments.of(X[4000:], w[4000:]))
    for found in (Moments.of(X, w), parts):
        assert found.weight == w.sum()
        np.testing.assert_allclose(found.mean, mean)
        np.testing.assert_allclose(found.variance, variance)
    sparse = Moments.of(sp.csr_array(X), w)
    np.testing.assert_allclose(sparse.about(0.0 * mean), variance + mean**2)


@pytest.mark.parametrize("before, after", [(1, 2), (2, 1), (2, 3)])
def test_another_number_of_targets_is_refused(before: int, after: int) -> None:
    X, sums = rows(200, 0)
    Y = np.column_stack([sums, sums, sums])
    found = bl.GLMRegressor().fit(X, Y[:, :before])
    kept = found.coef_.copy()
    with pytest.raises(ValueError, match=f"y has {after} targets, but had {before} before"):
        found.partial_fit(X[:50], Y[:50, :after])
    assert np.array_equal(found.coef_, kept)


def test_classes_do_not_become_labels_nor_labels_classes() -> None:
    X, sums = rows(200, 0)
    y = (sums > 2.0).astype(int)
    found = bl.GLMClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"y has the shape \(50, 2\), but must have a class for"):
        found.partial_fit(X[:50], np.column_stack([y, 1 - y])[:50])
    labels = np.column_stack([y, 1 - y, y])
    found = bl.GLMClassifier().fit(X, labels)
    with pytest.raises(ValueError, match=r"classes=\[0, 1, 2\], but at first they were"):
        found.partial_fit(X[:50], labels[:50], classes=[0, 1, 2])


@pytest.mark.parametrize("most", [1, *rarely(2)])
def test_a_limit_of_the_fit_is_none_of_refining(most: int) -> None:
    (X, sums), (T, wanted) = rows(500, 0), rows(2000, 1)
    found = estimator_of("log_loss").fit(X, targets("log_loss", sums))
    found.set_params(max_iter=most)
    for seed in range(2, 10):
        further, more = rows(200, seed, -TRUE)
        found.partial_fit(further, targets("log_loss", more))
    assert found.score(T, targets("log_loss", -(wanted - 2.0) + 2.0)) > 0.8


def test_moments_of_small_integers_do_not_overflow() -> None:
    X = np.random.default_rng(0).integers(0, 200, (50, 3)).astype(np.uint8)
    ones = np.ones(50)
    found, wanted = Moments.of(sp.csr_array(X), ones), Moments.of(X, ones)
    np.testing.assert_allclose(found.variance, wanted.variance)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared_error", "huber"])
def test_single_rows_of_a_stream_undo_nothing(loss: str) -> None:
    (X, sums), (T, wanted) = rows(310, 0), rows(2000, 1)
    found = bl.GLMRegressor(loss, alpha=0.0)
    for start in range(0, 300, 10):
        found.partial_fit(30.0 * X[start : start + 10], sums[start : start + 10])
    before = found.score(30.0 * T, wanted)
    for row in range(300, 310):
        found.partial_fit(30.0 * X[row : row + 1], sums[row : row + 1])
    assert before > 0.8 and found.score(30.0 * T, wanted) > before - 0.1


def test_rows_of_other_solvers_count_when_refining_goes_on() -> None:
    X, sums = rows(400, 0)
    found = bl.GLMRegressor(alpha=0.0).fit(X[:200], sums[:200])
    found.set_params(solver="sgd").partial_fit(X[200:300], sums[200:300])
    found.set_params(solver="auto").partial_fit(X[300:], sums[300:])
    assert found._seen.columns.weight == found.n_samples_seen_ == 400
