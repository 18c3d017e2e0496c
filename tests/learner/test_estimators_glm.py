"""GLMClassifier and GLMRegressor: the optimum that scikit-learn finds, weights, classes, labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from tests.support.often import first_often, rarely

pytest.importorskip("sklearn", reason="needs scikit-learn")

from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 8))
SCORES = X @ RNG.normal(size=(8, 3)) + 0.5 * RNG.normal(size=(300, 3))
THREE = np.array(["ash", "elm", "oak"])[SCORES.argmax(axis=1)]
TWO = np.where(SCORES[:, 0] > 0, "yes", "no")
LABELS = (SCORES > 0.3).astype(int)
WEIGHTS = RNG.integers(0, 4, 300)
FOUND = {"rtol": 2e-3, "atol": 2e-3}


# ---- the optimum ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "y, container", [(THREE, np.asarray), (TWO, sp.csr_array), *rarely((THREE, sp.csr_array))]
)
def test_classes_as_logistic_regression_finds_them(y: Any, container: Any) -> None:
    wanted = LogisticRegression(C=1 / (300 * 0.01), tol=1e-8, max_iter=1000).fit(X, y)
    found = bl.GLMClassifier(alpha=0.01, tol=1e-6).fit(container(X), y)
    np.testing.assert_allclose(found.coef_, wanted.coef_, **FOUND)
    np.testing.assert_allclose(found.intercept_, wanted.intercept_, **FOUND)
    np.testing.assert_allclose(found.predict_proba(X), wanted.predict_proba(X), **FOUND)
    np.testing.assert_allclose(
        found.predict_log_proba(X), np.log(found.predict_proba(X)), rtol=1e-6
    )
    assert found.classes_.tolist() == wanted.classes_.tolist()
    assert found.predict(X).tolist() == found.classes_[found.predict_proba(X).argmax(1)].tolist()


@pytest.mark.slow
def test_class_weights_as_logistic_regression_has_them() -> None:
    for weights in ("balanced", {"ash": 3.0, "elm": 1.0, "oak": 0.5}):
        wanted = LogisticRegression(C=1 / 3, tol=1e-8, max_iter=1000, class_weight=weights)
        found = bl.GLMClassifier(alpha=0.01, tol=1e-6, class_weight=weights)
        np.testing.assert_allclose(found.fit(X, THREE).coef_, wanted.fit(X, THREE).coef_, **FOUND)


@pytest.mark.slow
def test_regression_as_ridge_and_poisson_find_it() -> None:
    wanted = Ridge(alpha=300 * 0.1).fit(X, SCORES)
    found = bl.GLMRegressor(alpha=0.1, tol=1e-6).fit(X, SCORES)
    np.testing.assert_allclose(found.coef_, wanted.coef_, **FOUND)
    np.testing.assert_allclose(found.predict(X), wanted.predict(X), **FOUND)
    one = bl.GLMRegressor(alpha=0.1, tol=1e-6).fit(sp.csr_array(X), SCORES[:, 0])
    np.testing.assert_allclose(one.coef_, wanted.coef_[0], **FOUND)
    counts = RNG.poisson(np.exp(SCORES[:, 0] / 4))
    poisson = PoissonRegressor(alpha=0.1, tol=1e-8, max_iter=1000).fit(X, counts)
    found = bl.GLMRegressor("poisson", alpha=0.1, tol=1e-6).fit(X, counts)
    np.testing.assert_allclose(found.coef_, poisson.coef_, **FOUND)
    np.testing.assert_allclose(found.predict(X), poisson.predict(X), **FOUND)
    gamma = GammaRegressor(alpha=0.1, tol=1e-8, max_iter=1000).fit(X, counts + 0.5)
    found = bl.GLMRegressor("gamma", alpha=0.1, tol=1e-6).fit(X, counts + 0.5)
    np.testing.assert_allclose(found.coef_, gamma.coef_, **FOUND)


@pytest.mark.slow
def test_the_median_is_found_with_outliers() -> None:
    y = X[:, 0] - 2 * X[:, 1]
    y[::8] += 20.0
    squares = bl.GLMRegressor(alpha=1e-4).fit(X, y)
    assert abs(squares.coef_[:3] - [1.0, -2.0, 0.0]).max() > 0.3
    for loss, shape in (("quantile", 0.5), ("huber", 0.1)):
        found = bl.GLMRegressor(loss, shape=shape, alpha=1e-4, max_iter=400, random_state=0)
        np.testing.assert_allclose(found.fit(X, y).coef_[:3], [1.0, -2.0, 0.0], atol=0.1)


def test_an_l1_penalty_leaves_features_out() -> None:
    y = X[:, 0] - 2 * X[:, 1] + 0.1 * RNG.normal(size=300)
    wanted = ElasticNet(alpha=0.2, l1_ratio=0.9, tol=1e-8).fit(X, y)
    found = bl.GLMRegressor(alpha=0.2, l1_ratio=0.9, max_iter=300, random_state=0).fit(X, y)
    np.testing.assert_allclose(found.coef_, wanted.coef_, atol=5e-3)
    assert (found.coef_ == 0).sum() == (wanted.coef_ == 0).sum() == 6


@pytest.mark.slow
def test_solvers_reach_the_same() -> None:
    wanted = bl.GLMClassifier(alpha=0.05).fit(X, TWO)
    for solver in ("conjugate-gradient", "adagrad", bl.optimizers.Adam(rate=0.05), "sgd"):
        found = bl.GLMClassifier(alpha=0.05, solver=solver, batch_size=300, max_iter=300)
        np.testing.assert_allclose(found.fit(X, TWO).coef_, wanted.coef_, atol=0.03)


def test_a_fit_that_has_not_converged_says_so() -> None:
    with pytest.warns(ConvergenceWarning, match="not converged after max_iter=3 passes"):
        bl.GLMClassifier(max_iter=3).fit(X, TWO)


# ---- weights of rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("container", first_often([np.asarray, sp.csr_array]))
def test_weights_are_repetitions(container: Any) -> None:
    """0 is as if the row were absent, 2 as if it were there twice; weights of classes, too."""
    for estimator, y in [
        (bl.GLMClassifier(alpha=0.01, class_weight="balanced"), THREE),
        (bl.GLMRegressor(alpha=0.01), SCORES),
    ]:
        rows = np.repeat(np.arange(300), WEIGHTS)
        repeated = estimator.fit(container(X[rows]), y[rows])
        other = type(estimator)(**estimator.get_params())
        weighted = other.fit(container(X), y, sample_weight=WEIGHTS)
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-5, atol=1e-6)


def test_a_weight_for_all_is_no_weight() -> None:
    one = bl.GLMRegressor().fit(X, SCORES, sample_weight=2.0)
    two = bl.GLMRegressor().fit(X, SCORES)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="weight"):
        bl.GLMRegressor().fit(X, SCORES, sample_weight=-np.ones(300))


# ---- classes and labels --------------------------------------------------------------------------


def test_hinge_tells_each_class_from_the_rest() -> None:
    found = bl.GLMClassifier("hinge", alpha=1e-3, random_state=0).fit(X, THREE)
    assert found.coef_.shape == (3, 8) and found.score(X, THREE) > 0.85
    assert not hasattr(found, "predict_proba")
    tilted = bl.GLMClassifier("hinge", class_weight={"ash": 50, "elm": 1, "oak": 1}, random_state=0)
    assert (tilted.fit(X, THREE).predict(X) == "ash").sum() > (found.predict(X) == "ash").sum()


@pytest.mark.parametrize("container", first_often([np.asarray, sp.csr_array]))
def test_labels_are_one_problem_each(container: Any) -> None:
    found = bl.GLMClassifier(alpha=0.01, tol=1e-6).fit(X, container(LABELS))
    assert found.coef_.shape == (3, 8)
    probabilities = found.predict_proba(X)
    for label in range(3):
        alone = bl.GLMClassifier(alpha=0.01, tol=1e-6).fit(X, LABELS[:, label])
        np.testing.assert_allclose(found.coef_[label], alone.coef_[0], **FOUND)
        np.testing.assert_allclose(probabilities[:, label], alone.predict_proba(X)[:, 1], **FOUND)
    np.testing.assert_array_equal(found.predict(X), (probabilities > 0.5).astype(int))
    assert found.score(X, LABELS) > 0.5
    with pytest.raises(ValueError, match="class_weight is for classes"):
        bl.GLMClassifier(class_weight="balanced").fit(X, LABELS)


def test_what_is_no_class_is_refused() -> None:
    with pytest.raises(ValueError, match="one class only"):
        bl.GLMClassifier().fit(X, np.zeros(300))
    with pytest.raises(ValueError, match="Unknown label type"):
        bl.GLMClassifier().fit(X, SCORES[:, 0])
    with pytest.raises(ValueError, match="Unknown label type: multiclass-multioutput"):
        bl.GLMClassifier().fit(X, LABELS + [0, 1, 2])
    with pytest.raises(ValueError, match="y has -1"):
        bl.GLMRegressor("poisson").fit(X, -np.ones(300))
    with pytest.raises(ValueError, match="y has 0, but targets of loss 'gamma' must be positive"):
        bl.GLMRegressor("gamma").fit(X, np.arange(300))
    with pytest.raises(ValueError, match="GLMRegressor: shape=2: must be None, for loss='squared"):
        bl.GLMRegressor(shape=2.0).fit(X, np.ones(300))
    with pytest.raises(ValueError, match="FMRegressor: shape=1: must be between 1 and 2"):
        bl.FMRegressor(loss="tweedie", shape=1.0).fit(X, np.ones(300))


# ---- streams -------------------------------------------------------------------------------------


def test_classes_of_a_stream_are_all_told_at_first() -> None:
    found = bl.GLMClassifier(alpha=0.0, random_state=0)
    with pytest.raises(ValueError, match="the first call of partial_fit needs `classes`"):
        found.partial_fit(X, THREE)
    for start in range(0, 300, 60):  # the first part has one class only
        part = slice(start, start + 60)
        order = np.argsort(THREE)
        found.partial_fit(X[order][part], THREE[order][part], classes=["oak", "elm", "ash"])
    assert found.classes_.tolist() == ["ash", "elm", "oak"]
    with pytest.raises(ValueError, match="y has the class 'fir'"):
        found.partial_fit(X[:1], ["fir"])
    with pytest.raises(ValueError, match="at first they were"):
        found.partial_fit(X, THREE, classes=["ash", "elm"])
    for _ in range(20):
        found.partial_fit(X, THREE)
    assert found.score(X, THREE) > 0.9


def test_streams_of_labels_and_of_targets() -> None:
    found = bl.GLMClassifier(random_state=0)
    targets = bl.GLMRegressor(random_state=0)
    for _ in range(30):
        found.partial_fit(X, sp.csr_array(LABELS))
        targets.partial_fit(X, SCORES, sample_weight=WEIGHTS)
    assert found.score(X, LABELS) > 0.5 and targets.score(X, SCORES) > 0.9
    with pytest.raises(ValueError, match="3 labels"):
        found.partial_fit(X, LABELS[:, :2])


def test_what_has_no_stream_says_so() -> None:
    with pytest.raises(ValueError, match="has no partial_fit"):
        bl.GLMRegressor(solver="lbfgs").partial_fit(X, SCORES)
    with pytest.raises(ValueError, match="needs all rows at once"):
        bl.GLMClassifier(class_weight="balanced").partial_fit(X, TWO, classes=["no", "yes"])


def test_a_stream_may_follow_a_fit() -> None:
    """What L-BFGS kept is of no use to AdaGrad; the coefficients are."""
    found = bl.GLMClassifier(alpha=0.01, random_state=0).fit(X, TWO)
    before = found.coef_.copy()
    assert not found._stream.tensors
    found.set_params(solver=bl.optimizers.AdaGrad(rate=1e-3)).partial_fit(X, TWO)
    assert 0 < np.abs(found.coef_ - before).max() < 2e-3
    assert "optimizer.W.G" in found._stream.tensors


def test_what_ftrl_would_forget_it_refuses() -> None:
    """Its coefficients follow from sums that other solvers do not keep."""
    found = bl.GLMClassifier(alpha=0.01, random_state=0).fit(X, TWO).set_params(solver="ftrl")
    with pytest.raises(ValueError, match="ftrl starts from zero"):
        found.partial_fit(X, TWO)
    stream = bl.GLMClassifier(alpha=0.01, solver="ftrl", random_state=0, max_iter=2)
    for _ in range(2):
        stream.partial_fit(X, TWO, classes=["no", "yes"])
    np.testing.assert_array_equal(stream.coef_, stream.fit(X, TWO).coef_)
    stream.partial_fit(X, TWO)


def test_coefficients_may_be_set_by_hand() -> None:
    found = bl.GLMRegressor().fit(X, SCORES[:, 0])
    found.coef_ = np.arange(8.0)
    found.intercept_ = 1.0
    np.testing.assert_allclose(found.predict(X), X @ np.arange(8.0) + 1.0, rtol=1e-4, atol=1e-4)


def test_blocks_that_only_carry_rows_are_larger_and_change_no_bit() -> None:
    def fitted(X: Any, solver: Any = "adagrad", **how: Any) -> Any:
        return bl.GLMClassifier(solver=solver, max_iter=2, random_state=0, **how).fit(X, y)

    def steps(found: Any) -> int:
        return int(found.to_learner().state().position["optimizers"][0]["steps"])

    counts = sp.random_array((3000, 20), density=0.2, rng=np.random.default_rng(0), format="csr")
    y = np.asarray(counts.sum(axis=1)) > 2.0
    found, told = fitted(counts), fitted(counts, batch_size=1024)
    assert (steps(found), steps(told)) == (2, 6)  # a block in each pass, or three
    assert steps(fitted(counts.toarray())) == 6  # which steps by blocks
    assert steps(fitted(counts, bl.optimizers.AdaGrad(step_per="row"))) == 6  # might count them
    np.testing.assert_array_equal(found.coef_, told.coef_)


def test_weights_are_drawn_with_names_and_signs(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = np.where(X[:, 0] - X[:, 2] > 0, "yes", "no")
    model = bl.GLMClassifier(alpha=1e-3, n_jobs=1).fit(X, y)
    names = ["up", "flat", "down"]
    figure = model.plot_weights(2, feature_names=names, path=tmp_path / "w.png")
    (axes,) = figure.axes
    assert axes.get_title() == "yes" and (tmp_path / "w.png").stat().st_size > 1000
    assert [label.get_text() for label in axes.get_yticklabels()] == ["up", "down"]
    first, last = (bar.get_width() for bar in axes.patches)
    assert first > 0 > last
    with pytest.raises(ValueError, match=r"2 names, but there are 3 features"):
        model.plot_weights(feature_names=names[:2])


@pytest.mark.parametrize("weights", [{"no": 1.0, "yes": 10.0}, {"no": 100.0, "yes": 1.0}])
def test_the_hinge_with_class_weights_is_not_stuck_at_zero(weights: Any) -> None:
    """The best constant lies at the kink of all rows of the heavy class."""

    def objective(**how: Any) -> float:
        found = bl.GLMClassifier(
            "hinge", alpha=1e-3, class_weight=weights, random_state=0, max_iter=300, **how
        ).fit(X, TWO)
        margins = np.where(TWO == "yes", 1.0, -1.0) * found.decision_function(X)
        losses = [weights[y] for y in TWO] * np.maximum(0.0, 1.0 - margins)
        return float(losses.mean() + 1e-3 / 2 * np.square(found.coef_).sum())

    wanted = objective(solver="dual")
    assert objective(solver="lbfgs") < 1.05 * wanted
    with pytest.warns(ConvergenceWarning, match="conjugate gradients stop at kinks"):
        assert objective(solver="conjugate-gradient") < 2.0 * wanted  # zeros: 2.8 or 5 times


@pytest.mark.parametrize(
    "loss", first_often(["squared_error", "huber", "quantile", "poisson", "gamma"], 2)
)
def test_a_penalty_of_absolute_weights_ends_near_its_optimum(loss: str) -> None:
    """AdaGrad's rate for texts is 10 times too long for columns of size 1."""
    sums = X @ [1.0, -0.5, 0.5, 0, 0, 0, 0, 0]
    y = np.exp(sums / 2) if loss in ("poisson", "gamma") else sums + np.sin(np.arange(300)) / 2

    def objective(found: Any) -> float:
        score = X @ found.coef_ + found.intercept_
        error = np.abs(score - y)
        losses = {
            "squared_error": error**2 / 2,
            "huber": np.where(error < 1.0, error**2 / 2, error - 0.5),
            "quantile": error / 2,
            "poisson": np.exp(score) - y * score,
            "gamma": score + y * np.exp(-score),
        }
        return float(losses[loss].mean() + 0.01 * np.abs(found.coef_).sum())

    found, wanted = (
        bl.GLMRegressor(loss, alpha=0.01, l1_ratio=1.0, random_state=0, **how).fit(X, y)
        for how in ({}, {"solver": "ftrl", "max_iter": 1000})
    )
    assert objective(found) < objective(wanted) + 0.004
