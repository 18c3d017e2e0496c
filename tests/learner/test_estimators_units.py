"""Units of columns and targets do not decide how well a linear estimator fits."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.linear_model import LogisticRegression, QuantileRegressor, Ridge

import blocklearn as bl
from blocklearn.learner.estimators.linear.units import Units
from tests.support.often import crossed, first_often

RNG = np.random.default_rng(3)
X = RNG.normal(size=(600, 4))
y = X @ [3.0, 2.0, -1.0, 0.5] + RNG.standard_t(3, 600) + 5.0
COLUMNS = {
    "around 10,000": (np.array([100.0, 1.0, 1.0, 1.0]), np.array([10_000.0, 0.0, 0.0, 0.0])),
    "as far as 10,000": (np.array([1e4, 1.0, 1.0, 1e-3]), np.zeros(4)),
}


def pinball(errors: Any, q: float) -> float:
    return float(np.maximum(q * errors, (q - 1.0) * errors).mean())


@crossed(columns=COLUMNS.values(), q=[0.5, 0.9])
def test_a_quantile_of_columns_in_any_unit_is_the_optimum(columns: Any, q: float) -> None:
    wanted = pinball(y - QuantileRegressor(alpha=0.0, quantile=q).fit(X, y).predict(X), q)
    other, targets = X * columns[0] + columns[1], 1e5 * y + 1e7
    found = bl.GLMRegressor("quantile", shape=q, alpha=0.0).fit(other, targets)
    assert pinball(targets - found.predict(other), q) < 1e5 * wanted * 1.005


@crossed(columns=COLUMNS.values(), loss=["squared_error", "huber"])
def test_means_of_columns_in_any_unit_are_those_of_usual_ones(columns: Any, loss: str) -> None:
    wanted = bl.GLMRegressor(loss, shape=None, alpha=0.0, tol=1e-6).fit(X, y)
    other = X * columns[0] + columns[1]
    found = bl.GLMRegressor(loss, alpha=0.0, tol=1e-6).fit(other, y)
    np.testing.assert_allclose(found.predict(other), wanted.predict(X), atol=2e-3)
    np.testing.assert_allclose(found.coef_ * columns[0], wanted.coef_, atol=2e-3)


@crossed(container=[np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array], intercept=[True, False])
def test_the_penalty_is_that_of_the_data_as_they_are(container: Any, intercept: bool) -> None:
    """Two targets of different size, with weights of rows, 0 among them."""
    other = X * [50.0, 1.0, 0.3, 1.0] + [20.0, 0.0, 0.0, 0.0]
    both = np.column_stack([y, 30.0 * y])
    weights = RNG.integers(0, 3, len(y))
    wanted = Ridge(alpha=0.2 * weights.sum(), fit_intercept=intercept)
    wanted.fit(other, both, sample_weight=weights)
    found = bl.GLMRegressor(alpha=0.2, tol=1e-7, fit_intercept=intercept)
    found.fit(container(other), both, sample_weight=weights)
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=2e-3, atol=2e-4)
    if intercept:
        np.testing.assert_allclose(found.intercept_, wanted.intercept_, rtol=1e-3)


@pytest.mark.parametrize(
    ("loss", "shape", "grown"),
    [("quantile", 0.3, 0.3), ("huber", 0.5, 25.0)],  # of targets 50 times as large
)
def test_penalty_and_shape_follow_the_loss(loss: str, shape: float, grown: float) -> None:
    """With x = 1,000 x', y = 50 y' the same penalty weighs 50 / 1,000^2 or 1 / 1,000^2 as much."""
    small = bl.GLMRegressor(loss, shape=shape, alpha=0.3, tol=1e-6, max_iter=200).fit(X, y)
    weight = 0.3 * 1000.0**2 / (50.0 if loss == "quantile" else 1.0)
    large = bl.GLMRegressor(loss, shape=grown, alpha=weight, tol=1e-6, max_iter=200)
    large.fit(1000.0 * X, 50.0 * y)
    np.testing.assert_allclose(large.coef_ * 20.0, small.coef_, atol=5e-3)
    np.testing.assert_allclose(large.predict(1000.0 * X), 50.0 * small.predict(X), atol=0.5)


@pytest.mark.parametrize(
    ("loss", "scale"), [("quantile", 1e-3), ("quantile", 1e4), ("huber", 1.0), ("huber", 100.0)]
)
def test_the_usual_penalty_suits_targets_of_any_size(loss: str, scale: float) -> None:
    usual = bl.GLMRegressor(loss).fit(X, scale * y)
    free = bl.GLMRegressor(loss, alpha=0.0).fit(X, scale * y)
    np.testing.assert_allclose(usual.predict(X), free.predict(X), atol=0.02 * scale * y.std())


def test_the_usual_penalty_follows_the_deviation_of_the_rows_that_count() -> None:
    twice, once = np.repeat([2.0, 0.0], 300), slice(0, 300)
    d = float(y[once].std())
    for fitted, wanted in [
        (bl.GLMRegressor("quantile").fit(X, y, twice), 1e-4 / d),
        (bl.GLMRegressor("quantile").partial_fit(X[once], y[once]), 1e-4 / d),
        (bl.GLMRegressor("huber", shape=0.5).fit(X, y, twice), 1e-4 * 0.5 / d),
        (bl.GLMRegressor("huber", shape=99.0).fit(X, y), 1e-4),
        (bl.GLMRegressor().fit(X, 1e4 * y), 1e-4),
        (bl.GLMRegressor("quantile", alpha=0.3).fit(X, 1e4 * y), 0.3),
    ]:
        assert fitted.to_learner().model.l2 == pytest.approx(wanted, rel=1e-6)


@crossed(container=[np.asarray, sp.csr_array], intercept=[True, False])
def test_machines_do_not_feel_the_units_of_targets(container: Any, intercept: bool) -> None:
    """Two targets, weights of rows; further rows move what was learned little."""
    both, weights = np.column_stack([X[:, 0] * X[:, 1], y - 5.0]), RNG.integers(0, 3, len(y))
    scale, shift = np.array([1e5, 1e-3]), np.array([1e6, 0.0]) * intercept
    machine = bl.FMRegressor(2, fit_intercept=intercept, random_state=0, max_iter=20)
    wanted = machine.fit(container(X), both, weights).predict(X)
    found = machine.fit(container(X), both * scale + shift, weights).predict(X)
    np.testing.assert_allclose((found - shift) / scale, wanted, atol=1e-3 * np.abs(wanted).max())
    assert np.corrcoef(wanted[:, 0], both[:, 0])[0, 1] > 0.9  # a product of two features
    again = machine.partial_fit(container(X), both * scale + shift).predict(X)
    assert (np.std(again - found, axis=0) < 0.5 * np.std(found, axis=0))[0]


@crossed(solver=["adagrad", "adam"], container=[np.asarray, sp.csr_array])
def test_further_rows_of_machines_are_in_the_units_of_the_first(
    solver: str, container: Any
) -> None:
    """Whatever the units of targets, dense or sparse later: a stream, and rows after `fit`."""

    def found(scale: float, later: Any) -> list[Any]:
        targets = scale * np.column_stack([X[:, 0] * X[:, 1] + 3.0, X[:, 2]])
        stream, after = (bl.FMRegressor(2, random_state=0, solver=solver) for _ in range(2))
        for rows in (slice(0, 300), slice(300, 600)) * 3:
            stream.partial_fit(X[rows], targets[rows])
        after.fit(X, targets).partial_fit(X[:100], later(targets[:100]))
        return [each.predict(X) / scale for each in (stream, after)]

    for some, others in zip(found(1.0, np.asarray), found(1e5, container), strict=True):
        np.testing.assert_allclose(others, some, atol=1e-3 * np.abs(some).max())


def test_the_usual_penalty_of_sparse_targets_is_that_of_dense_ones() -> None:
    Y = np.column_stack([np.round(y), np.zeros(600)])
    dense, sparse = (bl.GLMRegressor("quantile").fit(X, each) for each in (Y, sp.csr_array(Y)))
    assert sparse.to_learner().model.l2 == pytest.approx(dense.to_learner().model.l2, rel=1e-6)


def test_constant_and_empty_columns_and_targets_have_a_unit() -> None:
    other = np.column_stack([X[:, :2], np.full(600, 1e4), np.zeros(600)])
    for container in (np.asarray, sp.csr_array):
        found = bl.GLMRegressor("quantile").fit(container(other), np.full(600, 7.0))
        np.testing.assert_allclose(found.predict(container(other)), 7.0, rtol=1e-5)
    one = bl.GLMRegressor("huber").fit(other[:1] * 100.0, [3.0])
    np.testing.assert_allclose(one.predict(other[:1] * 100.0), 3.0, rtol=1e-4)


def test_units_there_and_back_are_the_same_scores() -> None:
    other = X * [1e4, 1.0, 1e-4, 3.0] + [5e4, 0.0, 0.0, 7.0]
    units = Units.of(other, y, None, centred=True, of_targets=True, l2=0.0)
    columns = units.columns(other)
    np.testing.assert_allclose(columns.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(columns.std(axis=0), 1.0, rtol=1e-5)
    W, b = RNG.normal(size=(4, 1)), RNG.normal(size=1)
    V, c = units.original(W, b)
    wanted = (columns @ W + b) * units.spread + units.middle
    np.testing.assert_allclose(other @ V + c, wanted, rtol=1e-4, atol=1e-3)


def test_a_result_worse_than_a_constant_says_so() -> None:
    other = X * [1e4, 1.0, 1.0, 1.0]
    with pytest.warns(ConvergenceWarning, match="no better than a constant.*scale X and y"):
        bl.GLMRegressor("quantile", solver="adagrad", random_state=0).fit(other, y)


@pytest.mark.parametrize(
    "model",
    [
        bl.GLMRegressor(l1_ratio=0.5, solver="adagrad"),
        bl.GLMRegressor(solver="adagrad"),
    ],
)
def test_steps_that_do_not_suit_the_target_say_so(model: Any) -> None:
    with pytest.warns(ConvergenceWarning, match="no better than a constant.*targets of size 1"):
        model.fit(X, 1e6 + 1e5 * y)


@pytest.mark.parametrize(
    "model",
    first_often(
        [
            bl.GLMRegressor(),
            bl.GLMRegressor("quantile", shape=0.99, alpha=0.0, max_iter=300),
            bl.GLMRegressor(l1_ratio=0.5, alpha=1e-4),
        ],
        1,
    ),
)
def test_what_is_learned_comes_without_warning(model: Any) -> None:
    weights = np.arange(len(y)) % 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, (y - y.mean()) / y.std(), sample_weight=weights)
        model.fit(X, np.full(len(y), 2.0))  # a constant is the best


def test_true_and_false_are_numbers() -> None:
    table, target = X > 0.0, y > y.mean()
    whole = bl.GLMRegressor().fit(table.astype(np.float32), target.astype(np.float32))
    for each in (table, sp.csr_array(table)):
        found = bl.GLMRegressor().fit(each, target)
        np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("of_X", "of_y"), first_often([(1e-8, 1.0), (1.0, 1e-8), (1e-8, 1e-8)]))
def test_tiny_columns_and_targets_are_learned(of_X: float, of_y: float) -> None:
    known = bl.GLMRegressor(alpha=0.0).fit(X, y)
    found = bl.GLMRegressor(alpha=0.0).fit(of_X * X, of_y * y)
    np.testing.assert_allclose(found.coef_ * of_X / of_y, known.coef_, rtol=0.05, atol=0.01)


@crossed(
    container=[np.asarray, sp.csr_array],
    scales=[[1e6, 1.0, 1.0, 1.0], [1e6, 1.0, 1e-3, 1e-8]],
    intercept=[True, False],
)
def test_classes_of_columns_in_any_unit_are_at_the_optimum(
    scales: Any, container: Any, intercept: bool
) -> None:
    """The penalty is that of the data as they are: a tiny column hardly has a weight."""
    other, classes = X * scales, np.where(y > y.mean(), "high", "low")
    wanted = LogisticRegression(
        C=1.0, fit_intercept=intercept, tol=1e-8, max_iter=1000, solver="newton-cholesky"
    ).fit(other, classes)
    found = bl.GLMClassifier(fit_intercept=intercept, tol=1e-6).fit(container(other), classes)
    scores = found.decision_function(container(other))
    np.testing.assert_allclose(scores, wanted.decision_function(other), rtol=0.01, atol=0.01)


def test_classes_of_tiny_columns_are_learned_and_several_classes_too() -> None:
    classes = np.digitize(y, [3.0, 7.0])
    known = bl.GLMClassifier(alpha=0.0).fit(X, classes)
    for of_X in (1e-8, 1e6):
        for container in (np.asarray, sp.csr_array):
            found = bl.GLMClassifier(alpha=0.0).fit(container(of_X * X), classes)
            assert found.score(container(of_X * X), classes) > known.score(X, classes) - 0.01


@pytest.mark.parametrize("name", ["X", "targets"])
def test_numbers_that_float32_cannot_hold_are_refused(name: str) -> None:
    data = {"X": (X * [1e39, 1.0, 1.0, 1.0], y), "targets": (X, y * 1e39)}[name]
    with pytest.raises(bl.datasources.DataError, match=f"{name}: row .* finite float32"):
        bl.GLMRegressor().fit(*data)


@pytest.mark.parametrize("targets", [y.astype(str), np.full(600, np.datetime64("2020-01-01"))])
def test_targets_that_are_no_numbers_are_refused(targets: Any) -> None:
    with pytest.raises(ValueError, match="y has dtype .* must be numbers"):
        bl.GLMRegressor().fit(X, targets)


@pytest.mark.parametrize("weights", [[1.0, 2.0], np.ones((600, 1)), "a"])
@pytest.mark.parametrize("kind", [bl.GLMRegressor, bl.GLMClassifier])
def test_weights_that_are_not_of_the_rows_are_refused(kind: Any, weights: Any) -> None:
    with pytest.raises(ValueError, match="sample_weight has (shape|dtype)"):
        kind().fit(X, y > 0.0, sample_weight=weights)


@pytest.mark.parametrize(
    "wrong", [{"solver": None}, {"solver": 1.5}, {"l1_ratio": "x"}, {"l1_ratio": None}]
)
@pytest.mark.parametrize("kind", [bl.GLMRegressor, bl.GLMClassifier, bl.FMClassifier])
def test_parameters_of_a_wrong_type_are_named(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__}: {next(iter(wrong))}=.*: must be"):
        kind(**wrong).fit(X, y > 0.0)


@pytest.mark.parametrize("where", ["X", "y"])
def test_numbers_that_float32_does_not_tell_apart_are_told(where: str) -> None:
    data = {"X": X, "y": y}
    data[where] = data[where] + 1e8
    with pytest.warns(DataConversionWarning, match=rf"{where} has numbers up to 1e\+08.* next 8"):
        bl.GLMRegressor().fit(**data)


def test_numbers_that_float32_tells_apart_are_not_told() -> None:
    for shift in (0.0, 1e4):
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataConversionWarning)
            bl.GLMRegressor().fit(X + shift, y - shift)
            bl.GLMClassifier().fit((X + 1e9).astype(np.float32), y > 5.0)  # nothing is lost here
            bl.GLMClassifier().fit(np.full((600, 2), 1e9 + 1), 10**9 + (y > 5.0))
            rounded = np.where(y > 5.0, 0.1 + 0.2, 0.3)[:, None]  # differ by rounding of float64
            bl.GLMClassifier().fit(rounded, y > 5.0)
