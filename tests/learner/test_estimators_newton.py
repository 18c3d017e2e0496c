"""Linear estimators fit rows in memory by Newton's method: where they do, and what they keep."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl

pytest.importorskip("sklearn", reason="needs scikit-learn")

from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import (
    ElasticNet,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    TweedieRegressor,
)
from sklearn.svm import LinearSVC

from blocklearn.learner.estimators.base import LearnerEstimator
from blocklearn.learner.estimators.linear import hessians
from blocklearn.learner.estimators.linear.dual import DualProblem, may_ascend
from blocklearn.learner.estimators.linear.newton import NewtonProblem
from blocklearn.learner.estimators.linear.seen import Seen

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6)).astype(np.float32)
SCORES = X @ RNG.normal(size=(6, 3)) + 0.5 * RNG.normal(size=(300, 3))
CLASSES = np.array(["ash", "elm", "oak"])[SCORES.argmax(axis=1)]
COUNTS = RNG.poisson(np.exp(SCORES / 4)).astype(float)
WEIGHTS = RNG.integers(0, 4, 300)


@pytest.fixture
def no_learner(monkeypatch: Any) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a learner took part")

    monkeypatch.setattr(LearnerEstimator, "_learner", refuse)


def problem_of(estimator: Any, X: Any, y: Any, weights: Any = None) -> NewtonProblem:
    return NewtonProblem.of(estimator._model(), None, X, y, weights)


ALPHA = 0.01


@cache
def peers(intercept: bool) -> list[tuple[Any, Any]]:
    """Estimators of scikit-learn that are fitted, and their targets."""
    how: dict[str, Any] = {"fit_intercept": intercept, "tol": 1e-10}
    n = WEIGHTS.sum()
    logistic = {"C": 1.0 / (n * ALPHA), "max_iter": 1000, **how}
    log_link = {"alpha": ALPHA, "max_iter": 1000, **how}
    pairs: list[tuple[Any, Any]] = [
        (LogisticRegression(**logistic), CLASSES),
        (LogisticRegression(class_weight="balanced", **logistic), CLASSES),
        (LogisticRegression(max_iter=1000, **how), CLASSES == "ash"),
        (Ridge(alpha=n * ALPHA, **how), SCORES),
        (PoissonRegressor(**log_link), COUNTS[:, 0]),
        (TweedieRegressor(power=1.4, link="log", **log_link), COUNTS[:, 1]),
    ]
    return [(peer.fit(X.astype(float), y, sample_weight=WEIGHTS), y) for peer, y in pairs]


@pytest.mark.usefixtures("no_learner")
@pytest.mark.parametrize(
    ("solver", "intercept", "rows"),
    [
        ("auto", True, np.asarray),
        ("auto", False, sp.csr_array),
        ("newton", True, sp.csr_array),
        ("newton", False, np.asarray),
    ],
)
def test_results_are_those_of_scikit_learn(solver: str, intercept: bool, rows: Any) -> None:
    how: dict[str, Any] = {"solver": solver, "fit_intercept": intercept, "tol": 1e-8}
    estimators = [
        bl.GLMClassifier(alpha=ALPHA, **how),
        bl.GLMClassifier(alpha=ALPHA, class_weight="balanced", **how),
        bl.GLMClassifier(**how),
        bl.GLMRegressor(alpha=ALPHA, **how),
        bl.GLMRegressor("poisson", alpha=ALPHA, **how),
        bl.GLMRegressor("tweedie", shape=1.4, alpha=ALPHA, **how),
    ]
    for found, (wanted, y) in zip(estimators, peers(intercept), strict=True):
        found.fit(rows(X), y, sample_weight=WEIGHTS)
        np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found.intercept_, wanted.intercept_, rtol=1e-3, atol=1e-4)
        assert "optimizers" not in found._stream.position and found.n_samples_seen_ == 300


@pytest.mark.usefixtures("no_learner")
@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_losses_with_corners_in_their_derivatives_need_no_learner(rows: Any) -> None:
    for y in (CLASSES == "ash", CLASSES):
        found = bl.GLMClassifier("squared_hinge", alpha=0.01, tol=1e-7).fit(rows(X), y)
        peer = LinearSVC(C=1.0 / (300 * 0.01), intercept_scaling=100.0, dual=False, tol=1e-8)
        np.testing.assert_allclose(found.coef_, peer.fit(X, y).coef_, atol=2e-3)
    far = SCORES[:, 0] + 50.0 * (np.arange(300) % 9 == 0)
    huber = bl.GLMRegressor("huber", alpha=1e-3, tol=1e-7).fit(rows(X), far)
    near = bl.GLMRegressor(alpha=1e-3).fit(rows(X), SCORES[:, 0])
    np.testing.assert_allclose(huber.coef_, near.coef_, atol=0.1)


@pytest.mark.usefixtures("no_learner")
@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_an_l1_penalty_needs_no_learner(rows: Any, solver: str) -> None:
    how: dict[str, Any] = {"alpha": 0.1, "l1_ratio": 0.5, "solver": solver, "tol": 1e-7}
    found = bl.GLMRegressor(**how).fit(rows(X), SCORES[:, 0])
    peer = ElasticNet(alpha=0.1, l1_ratio=0.5, tol=1e-10).fit(X.astype(float), SCORES[:, 0])
    np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-4)
    of_classes = bl.GLMClassifier(**how).fit(rows(X), CLASSES)
    assert (of_classes.coef_ == 0.0).any() and of_classes.n_iter_ < 30


@pytest.mark.usefixtures("no_learner")
@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_hinge_of_few_or_dense_rows_needs_no_learner(rows: Any) -> None:
    """The objective is that of LinearSVC, which counts the intercept as a weight."""
    y = CLASSES == "ash"
    found = bl.GLMClassifier("hinge", alpha=0.01, max_iter=400, tol=1e-6).fit(rows(X), y)
    how: dict[str, Any] = {"loss": "hinge", "intercept_scaling": 10.0, "max_iter": 100_000}
    peer = LinearSVC(C=1.0 / (300 * 0.01), tol=1e-4, **how).fit(X, y)

    def objective(fitted: Any) -> float:
        margins = np.where(y, 1.0, -1.0) * (X @ fitted.coef_[0] + fitted.intercept_[0])
        penalty = 0.005 * float((fitted.coef_**2).sum())
        return float(np.maximum(0.0, 1.0 - margins).mean()) + penalty

    assert objective(found) < 1.001 * objective(peer)


def test_a_hinge_of_several_weighted_classes_is_left_to_a_learner() -> None:
    """Each class against the rest has weights of its own."""
    how: dict[str, Any] = {"alpha": 0.01, "class_weight": {"ash": 3.0, "elm": 1.0, "oak": 1.0}}
    found = bl.GLMClassifier("squared_hinge", **how).fit(X, CLASSES)
    assert "optimizers" in found._stream.position
    with pytest.raises(ValueError, match="class_weight of two classes only"):
        bl.GLMClassifier("squared_hinge", solver="newton", **how).fit(X, CLASSES)


@pytest.mark.parametrize("wrong", [bl.GLMClassifier("hinge"), bl.GLMRegressor("quantile")])
def test_kinks_need_a_hessian(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = sp.eye_array(300, 200, format="csr"), SCORES[:, 0] > 0.0
    wrong.set_params(solver="newton")
    with pytest.raises(ValueError, match="takes loss=.* of dense rows, of few sparse ones, or of"):
        wrong.fit(rows, y)
    monkeypatch.setattr(hessians, "MOST_HESSIAN", 0)
    with pytest.raises(ValueError, match="takes loss=.* of fewer rows or columns than these"):
        wrong.fit(rows.toarray(), y)


@pytest.mark.usefixtures("no_learner")
@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("q", [0.5, 0.9])
def test_quantiles_are_those_of_linear_programs(rows: Any, q: float) -> None:
    for alpha in (0.0, 0.03):
        peer = QuantileRegressor(quantile=q, alpha=alpha).fit(X, SCORES[:, 0])
        found = bl.GLMRegressor("quantile", shape=q, alpha=alpha, l1_ratio=1.0)
        found.fit(rows(X), SCORES[:, 0])
        np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-4)
        np.testing.assert_allclose(found.intercept_, peer.intercept_, atol=1e-4)
        assert ((found.coef_ == 0.0) == (abs(peer.coef_) < 1e-9)).all()


@pytest.mark.usefixtures("no_learner")
@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_quantiles_of_few_rows_are_those_of_linear_programs(rows: Any) -> None:
    draw = np.random.default_rng(3)
    wide = draw.normal(size=(50, 90)) * (draw.random((50, 90)) < 0.2)
    y = wide[:, 0] - wide[:, 1] + 0.1 * draw.normal(size=50)
    peer = QuantileRegressor(quantile=0.7, alpha=0.02).fit(wide, y)
    found = bl.GLMRegressor("quantile", shape=0.7, alpha=0.02, l1_ratio=1.0).fit(rows(wide), y)
    np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(found.intercept_, peer.intercept_, atol=1e-4)


@pytest.mark.usefixtures("no_learner")
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge"])
def test_sparse_rows_of_few_columns_are_solved_as_dense_ones(loss: str) -> None:
    """The same bits come of any container, and of numbers that occur twice."""
    many = np.repeat(X, 4, axis=0) * (np.arange(1200)[:, None] % 7 > np.arange(6))
    y = np.repeat(CLASSES, 4)
    sparse = sp.coo_array(many)
    halves = sp.coo_array(
        (np.repeat(sparse.data / 2, 2), tuple(np.repeat(at, 2) for at in sparse.coords)),
        shape=sparse.shape,
    )
    for weights in (None, np.repeat(WEIGHTS, 4)):
        wanted = bl.GLMClassifier(loss).fit(many, y, sample_weight=weights)
        for rows in (sparse, sp.csr_array(halves), sp.csc_matrix(sparse)):
            found = bl.GLMClassifier(loss).fit(rows, y, sample_weight=weights)
            np.testing.assert_array_equal(found.coef_, wanted.coef_)
            np.testing.assert_array_equal(found.intercept_, wanted.intercept_)
    assert not isinstance(problem_of(bl.GLMRegressor(), sparse, many[:, 0]).X, sp.sparray)
    penalised = bl.GLMRegressor(l1_ratio=1.0)  # whose coordinate descent skips zeros
    assert isinstance(problem_of(penalised, sparse, many[:, 0]).X, sp.sparray)


@pytest.mark.usefixtures("no_learner")
@pytest.mark.parametrize("loss", ["squared_error", "huber", "quantile"])
def test_sparse_rows_that_are_fewer_than_columns_are_solved_as_square_ones(loss: Any) -> None:
    """To the optimum of dense ones, of any container, and of numbers that occur twice."""
    draw = np.random.default_rng(2)
    sparse = sp.coo_array(draw.normal(size=(40, 400)) * (draw.random((40, 400)) < 0.05))
    halves = sp.coo_array(
        (np.repeat(sparse.data / 2, 2), tuple(np.repeat(at, 2) for at in sparse.coords)),
        shape=sparse.shape,
    )
    y = SCORES[:40] if loss == "squared_error" else SCORES[:40, 0]
    wanted = bl.GLMRegressor(loss, alpha=1e-2, tol=1e-6).fit(sparse.toarray(), y)
    found = bl.GLMRegressor(loss, alpha=1e-2, tol=1e-6).fit(sparse, y)
    np.testing.assert_allclose(found.coef_, wanted.coef_, atol=1e-4)
    np.testing.assert_allclose(found.intercept_, wanted.intercept_, atol=1e-4)
    for rows in (sp.csr_array(halves), sp.csc_matrix(sparse)):
        again = bl.GLMRegressor(loss, alpha=1e-2, tol=1e-6).fit(rows, y)
        np.testing.assert_array_equal(again.coef_, found.coef_)
        np.testing.assert_array_equal(again.intercept_, found.intercept_)


@pytest.mark.parametrize("loss", ["squared_error", "huber", "poisson"])
def test_sparse_rows_of_very_unequal_weights_are_solved_in_few_passes(loss: Any) -> None:
    draw = np.random.default_rng(4)
    sparse = sp.random_array((60, 500), density=0.1, format="csr", rng=draw)
    y = np.exp(sparse @ draw.normal(size=500) / 4)
    weights = 10.0 ** draw.uniform(-3, 6, 60)
    how: dict[str, Any] = {"alpha": 1e-4, "tol": 1e-6, "solver": "newton"}
    wanted = bl.GLMRegressor(loss, **how).fit(sparse.toarray(), y, weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found = bl.GLMRegressor(loss, **how, max_iter=25).fit(sparse, y, weights)
    assert problem_of(found, sparse, y, weights).wide
    assert problem_of(found, sparse, y, np.ones(60)).wide == (loss != "squared_error")
    np.testing.assert_allclose(found.coef_, wanted.coef_, atol=1e-4 * abs(wanted.coef_).max())
    assert found.fit(sparse, y, np.zeros(60) + (np.arange(60) < 2)).n_iter_ <= 25


@pytest.mark.parametrize(
    ("loss", "most"),
    [("quantile", 400), ("poisson", 125), ("huber", 125), ("squared_error", 0), ("gamma", 0)],
)
def test_few_sparse_rows_are_square_ones_where_products_with_x_would_be_many(
    loss: Any, most: int
) -> None:
    X, y = sp.eye_array(401, 400, format="csr"), np.arange(1, 402)
    for rows in 40, 125, 126, 400, 401:
        wide = problem_of(bl.GLMRegressor(loss), X[:rows], y[:rows]).wide
        assert wide == (rows <= most), rows


def test_huber_losses_of_few_sparse_rows_in_units_of_their_own_converge() -> None:
    rng, size = np.random.default_rng(3), (80, 900)
    X = sp.csr_array(
        sp.random_array(size, density=0.02, rng=rng)
        @ sp.diags_array(10.0 ** rng.uniform(-2, 2, 900))
    )
    y = np.asarray(X @ rng.normal(size=900))
    found = bl.GLMRegressor("huber", alpha=1e-3).fit(X, y / y.std())
    W, b = found.coef_.astype(float), float(found.intercept_[0])
    R = np.clip(X @ W + b - y / y.std(), -1.0, 1.0) / 80
    start = np.clip(-y / y.std() + np.median(y / y.std()), -1.0, 1.0) / 80
    assert found.n_iter_ < 20
    assert np.linalg.norm(X.T @ R + 1e-3 * W) < 1e-3 * np.linalg.norm(X.T @ start)


def test_streams_are_refused() -> None:
    y = SCORES[:, 0] > 0.0
    with pytest.raises(ValueError, match="solver='newton' needs all rows in every pass"):
        bl.GLMClassifier(solver="newton").partial_fit(X, y, classes=[False, True])


@pytest.mark.parametrize(
    ("rows", "columns", "suits", "diagonal"),
    [
        (2000, 20, True, False),
        (100_000, 500, True, False),
        (2000, 3000, True, True),
        (20_000, 5000, True, True),
        (10**8, 50, False, False),
        (10, 10**7, True, False),
        (10, 10**8, False, False),
    ],
)
def test_auto_takes_a_hessian_where_it_is_worth_its_time(
    rows: int, columns: int, suits: bool, diagonal: bool
) -> None:
    X = np.broadcast_to(np.float32(1.0), (rows, columns))
    y = np.broadcast_to(np.float32(1.0), rows)
    found = problem_of(bl.GLMRegressor(), X, y)
    assert (found.suits, found.diagonal) == (suits, diagonal)


@pytest.mark.parametrize(
    ("rows", "columns", "labels", "ascends"),
    [
        (100_000, 50, 1, False),
        (100_000, 50, 300, True),
        (100, 50, 8, False),
        (100, 50, 9, True),  # each would take a Hessian in each pass
        (5000, 5000, 1, True),
        (10**8, 50, 1, False),
    ],
)
def test_a_hinge_of_dense_rows_that_is_too_large_for_newton_has_dual_ascent(
    rows: int, columns: int, labels: int, ascends: bool
) -> None:
    X, Y = (np.broadcast_to(np.float32(1.0), (rows, each)) for each in (columns, labels))
    assert may_ascend("hinge", "cpu", X, Y) == ascends
    assert not may_ascend("log_loss", "cpu", X, Y)


@pytest.mark.parametrize(("labels", "ascends"), [(1, False), (300, True)])
@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_sparse_rows_of_few_columns_have_dual_ascent_where_labels_are_many(
    loss: str, labels: int, ascends: bool
) -> None:
    rows, Y = sp.eye_array(100_000, 50, format="csr"), np.broadcast_to(0.0, (100_000, labels))
    assert may_ascend(loss, "cpu", rows, Y) == ascends


@pytest.mark.parametrize(("share", "suits"), [(90.0, True), (110.0, False)])
def test_auto_leaves_dual_ascent_where_it_is_slow(share: float, suits: bool) -> None:
    """share: mean of x'x / (l2 n); from 100 on dual ascent takes classes a hundred passes."""
    rows = sp.csr_array(
        (np.ones(1000), (range(1000), np.arange(1000) // 4 * (np.arange(1000) % 2)))
    )
    y = np.arange(1000) % 2
    assert DualProblem.of(rows, y, np.ones(1000), 1e-3 / share, "logistic").suits == suits


@pytest.mark.parametrize(
    ("share", "targets", "suits"), [(30, 1, True), (34, 1, False), (34, 2, True)]
)
def test_auto_leaves_dual_ascent_sooner_where_columns_are_even(
    share: float, targets: int, suits: bool
) -> None:
    rows = sp.eye_array(1000, format="csr", dtype=np.float32)
    Y = np.ones((1000, targets)) * (np.arange(1000) % 2)[:, None]
    assert DualProblem.of(rows, Y, np.ones(1000), 1e-3 / share, "logistic").suits == suits


@pytest.mark.usefixtures("no_learner")
def test_sparse_rows_with_a_tiny_penalty_need_no_learner() -> None:
    """Dual ascent would need hundreds of passes; columns that occur twice in a row add up."""
    counts = sp.random_array((1500, 400), density=0.02, rng=np.random.default_rng(1), format="coo")
    counts.data[:] = 1 + np.arange(counts.nnz) % 3
    twice = sp.csr_array(counts).astype(np.int64)
    halves = np.repeat(twice.data, 2), np.repeat(twice.indices, 2), 2 * twice.indptr
    twice = sp.csr_array(halves, shape=twice.shape)
    y = np.random.default_rng(2).normal(size=1500)
    for make in (bl.GLMRegressor, bl.GLMClassifier):
        targets = y if make is bl.GLMRegressor else y > 0.0
        found = make(alpha=1e-5, tol=1e-7, max_iter=1000).fit(twice, targets)
        wanted = make(alpha=1e-5, tol=1e-7).fit(2.0 * counts.toarray(), targets)
        np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-2, atol=1e-3)
        assert "optimizers" not in found._stream.position
        assert twice.nnz == 2 * counts.nnz  # as it was


@pytest.mark.usefixtures("no_learner")
def test_a_fit_that_ends_in_its_last_pass_has_converged() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found = bl.GLMRegressor(max_iter=1).fit(X, SCORES)
    assert found.n_iter_ == 1
    with pytest.warns(ConvergenceWarning, match="not converged after max_iter=2 passes"):
        bl.GLMRegressor("poisson", max_iter=2).fit(X, COUNTS)
    for found in (bl.GLMRegressor("quantile", max_iter=2), bl.GLMClassifier("hinge", max_iter=2)):
        with pytest.warns(ConvergenceWarning, match="not converged after max_iter=2 passes"):
            found.fit(X, SCORES[:, 0] > 0.0)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("origin", [0.0, 100.0])
def test_partial_fit_knows_the_rows_of_the_fit(weights: Any, origin: float) -> None:
    other = np.column_stack([X + origin, np.full(300, 7.0)])
    seen = bl.GLMRegressor().fit(other, SCORES, sample_weight=weights)._seen
    wanted = Seen.of(other, SCORES, np.ones(300) if weights is None else weights)
    for found, known in ((seen.columns, wanted.columns), (seen.targets, wanted.targets)):
        assert found.weight == known.weight
        np.testing.assert_allclose(found.mean, known.mean, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.variance, known.variance, rtol=1e-6, atol=1e-9)


def test_intercepts_suit_the_rounded_weights() -> None:
    """Far from 0 a rounded weight moves scores; the intercept takes that back."""
    far = X.astype(float) + 1e5
    found = bl.GLMRegressor(alpha=0.0).fit(far, SCORES[:, 0])
    scores = far @ found.coef_.astype(float) + found.intercept_
    assert abs(scores.mean() - SCORES[:, 0].mean()) < 0.02


class Stops:
    """A callback that ends training after the first pass."""

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        return bool(context.task_name == "pass")


def test_a_fit_that_a_callback_stops_comes_without_warning() -> None:
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    found = bl.GLMRegressor("poisson", tol=1e-8).set_callbacks(Stops())
    assert found.fit(X, COUNTS).n_iter_ == 1
