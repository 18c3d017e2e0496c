"""Dual ascent finds the optimum of plain NumPy, and the estimator uses it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.matcache.cpu.kernels import dual_ascent as kernels
from blocklearn.models.glm.rows import Labels, Links, dual_variables
from blocklearn.models.glm.solvers import dual
from blocklearn.models.glm.solvers.dual import DualSolver, Problem
from blocklearn.optimizers import dual_programs

pytest.importorskip("sklearn", reason="needs scikit-learn")

from blocklearn.learner.estimators.linear.dual import DualProblem
from tests.support.often import crossed, first_often, paired

RNG = np.random.default_rng(0)
N = 1200
X = sp.random_array((N, 20), density=0.3, rng=RNG, format="csr").astype(np.float32)
SCORES = X @ RNG.normal(size=(20, 3)) + 0.3 * RNG.normal(size=(N, 3)) - 0.4
LABELS = (SCORES > 0.0).astype(np.float32)
CLASSES = np.eye(3, dtype=np.float32)[SCORES.argmax(axis=1)]
ONES = np.ones(N, np.float32)


def solved(Y: Any, weights: Any = ONES, link: dual.Link = "logistic", **how: Any) -> DualSolver:
    problem = Problem(X, Y, weights, 1e-3, link, how.get("shapes"))
    found = DualSolver(problem, intercept=how.get("intercept", True))
    tolerance = how.get("tolerance", 1e-9)
    for _ in found.passes(how.get("most", 60), tolerance, 0, how.get("threads", 1)):
        pass
    return found


def slopes(found: DualSolver, Y: Any, weights: Any, softmax: bool) -> tuple[Any, Any]:
    """The gradient by W and by b, in float64: both are 0 at the optimum."""
    eta = X.astype(np.float64) @ found.W + found.b
    if softmax:
        means = np.exp(eta - eta.max(axis=1, keepdims=True))
        means /= means.sum(axis=1, keepdims=True)
    else:
        means = 1 / (1 + np.exp(-eta))
    rest = (means - Y) * weights[:, None] / weights.sum()
    return X.T @ rest + 1e-3 * found.W, rest.sum(axis=0)


@crossed(columns=[1, 3, 2 * dual.LINE - 1, dual.WIDTH], link=dual.LOSSES)
def test_kernels_step_as_links_define(link: dual.Link, columns: int) -> None:
    """One visit of rows that share no feature, from any dual variables within their bounds."""
    draw = np.random.default_rng(0)
    Y = np.eye(columns)[draw.integers(columns, size=N)]
    if link != "softmax":
        Y = draw.integers(2, size=(N, columns)).astype(float)
    if link in dual.NUMBERS:
        Y = draw.normal(size=(N, columns))
    shapes = draw.uniform(0.2, 0.8, columns)
    x, weights = draw.normal(size=N).astype(np.float32), draw.integers(1, 4, N).astype(np.float32)
    X = sp.csr_array(sp.diags_array(x))
    problem = Problem(X, Y.astype(np.float32), weights, 1e-3, link, shapes)
    found = DualSolver(problem, intercept=False)
    (group,) = found._groups
    group.W[:], group.b[:] = draw.normal(size=(N, columns)), draw.normal(size=columns)
    a = draw.random((N, columns)) * (1.0 - 2.0 * Y)
    if link in dual.NUMBERS:
        a = draw.uniform(-shapes, 1.0 - shapes if link == "quantile" else shapes, (N, columns))
    group._A[:, :columns] = a
    s = (x.astype(float) ** 2 * weights / (1e-3 * weights.sum()))[:, None]
    eta = x[:, None] * group.W.astype(float) + group.b
    wanted = dual_variables.reference(eta, a, s, Labels(Y), Links((link,), shapes=shapes[None]))
    assert list(found.passes(1, 1e-3, 0, 1)) == [1]
    np.testing.assert_allclose(group._A[:, :columns], wanted, rtol=1e-4, atol=1e-5)
    assert (abs(wanted - a).max(axis=0) > 0.1).all()


def test_rows_of_the_optimizer_rest_no_longer_than_those_of_the_kernels() -> None:
    assert dual_programs.LONGEST == kernels.LONGEST


@pytest.mark.parametrize("softmax", [False, True])
def test_the_gradient_is_zero(softmax: bool) -> None:
    Y = CLASSES if softmax else LABELS
    for weights in (ONES, RNG.integers(0, 4, N).astype(np.float32)):
        found = solved(sp.csr_array(Y), weights, "softmax" if softmax else "logistic")
        by_W, by_b = slopes(found, Y, weights, softmax)
        assert found.converged
        assert abs(by_W).max() < 1e-5 and abs(by_b).max() < 1e-5


def hinge_objective(W: Any, b: Any, Y: Any, weights: Any) -> Any:
    """The objective of each column, in float64."""
    losses = np.maximum(0.0, 1.0 - (2.0 * Y - 1.0) * (X.astype(np.float64) @ W + b))
    return weights @ losses / weights.sum() + 5e-4 * (W.astype(np.float64) ** 2).sum(axis=0)


@crossed(intercept=[False, True], columns=[1, 3, 7, dual.WIDTH])
def test_hinges_end_at_the_optimum(columns: int, intercept: bool) -> None:
    """Weak duality bounds the optimum from below: b is free, so sum c_i a_i must be 0."""
    Y = np.tile(LABELS, dual.WIDTH // 3 + 1)[:, :columns]
    for weights in (ONES, RNG.integers(0, 4, N).astype(np.float32)):
        found = solved(Y, weights, "hinge", intercept=intercept, most=3000, tolerance=3e-5)
        assert found.converged
        (group,) = found._groups
        duals = group._A[:, :columns]
        A = duals.astype(np.float64) * weights[:, None] / weights.sum()  # c_i a_i l2
        assert ((duals >= -Y - 1e-6) & (duals <= 1 - Y + 1e-6)).all()
        assert not group._A[:, columns:].any()  # columns without ones
        np.testing.assert_allclose(found.W, -(X.T @ A) / 1e-3, rtol=1e-3, atol=1e-3)
        if intercept:
            assert abs(A.sum(axis=0)).max() < 1e-5
        else:
            assert not found.b.any()
        below = -((2 * Y - 1) * A).sum(axis=0) - 5e-4 * (found.W.astype(np.float64) ** 2).sum(
            axis=0
        )
        above = hinge_objective(found.W, found.b, Y, weights)
        assert (above - below < 1e-4).all() and (above - below > -1e-6).all()


@pytest.mark.parametrize("columns", [1, 3, 7, dual.WIDTH])
def test_rows_of_hinges_rest_but_the_last_pass_visits_all(columns: int) -> None:
    Y = np.tile(LABELS[:, :1], columns)
    found = DualSolver(Problem(X, Y, ONES, 1e-3, "hinge"), intercept=True)
    (group,) = found._groups
    visited = [N]
    for number in found.passes(3000, 3e-5, 0, 1):
        visited.append(int(group.due(number + 1).sum()))
    assert found.converged and visited[-2] == N and min(visited) < N // 2
    duals = group._A[:, 0] * (2 * Y[:, 0] - 1)
    margins = (2 * Y[:, 0] - 1) * (X @ found.W[:, 0] + found.b[0])
    assert (margins[duals == 0.0] > 0.99).all() and (margins[duals == -1.0] < 1.01).all()


def test_the_estimator_solves_hinges_of_classes_and_labels() -> None:
    """As scikit-learn's LinearSVC without an intercept, whose C is 1 / (alpha n)."""
    from sklearn.svm import LinearSVC

    how = {"loss": "hinge", "fit_intercept": False}
    classes = CLASSES.argmax(axis=1)
    wanted = LinearSVC(C=1e3 / N, tol=1e-7, max_iter=10**6, **how).fit(X, classes)
    more = {"alpha": 1e-3, "tol": 1e-5, "max_iter": 1000, "random_state": 0}
    of_classes = bl.GLMClassifier(**how, **more).fit(X, classes)
    of_labels = bl.GLMClassifier(**how, **more).fit(X, CLASSES)
    for found in (of_classes, of_labels):
        np.testing.assert_allclose(found.coef_, wanted.coef_, atol=0.03)
        assert not found._stream.tensors  # no learner took part
    np.testing.assert_array_equal(of_classes.coef_, of_labels.coef_)


@pytest.mark.parametrize("columns", [1, 3, 7, dual.WIDTH])
def test_squared_hinges_end_where_the_gradient_is_zero(columns: int) -> None:
    Y = np.tile(LABELS, dual.WIDTH // 3 + 1)[:, :columns]
    draws = np.random.default_rng(0)  # of other draws one in ten misses the bound for b
    for weights in (ONES, draws.integers(0, 4, N).astype(np.float32)):
        found = solved(Y, weights, "squared_hinge", most=300)
        assert found.converged
        signs = 2.0 * Y - 1.0
        short = np.maximum(0.0, 1.0 - signs * (X.astype(np.float64) @ found.W + found.b))
        rest = -2.0 * signs * short * weights[:, None] / weights.sum()
        assert abs(X.T @ rest + 1e-3 * found.W).max() < 1e-5
        assert abs(rest.sum(axis=0)).max() < 1e-5


def test_squared_hinges_are_those_of_liblinear_by_either_solver() -> None:
    """LinearSVC's default loss; C = 1 / (alpha n), 1/2 in its penalty alone."""
    from sklearn.svm import LinearSVC

    classes = CLASSES.argmax(axis=1)
    wanted = LinearSVC(C=1e3 / N, tol=1e-8, max_iter=10**5, fit_intercept=False).fit(X, classes)
    for solver in ("dual", "lbfgs"):
        found = bl.GLMClassifier("squared_hinge", alpha=1e-3, fit_intercept=False, solver=solver)
        found.set_params(tol=1e-7, max_iter=400, random_state=0).fit(X, classes)
        np.testing.assert_allclose(found.coef_, wanted.coef_, atol=2e-3)


def test_hinges_weigh_two_classes() -> None:
    y, factors = LABELS[:, 0].astype(int), {0: 1.0, 1: 3.0}
    found = bl.GLMClassifier("hinge", alpha=1e-3, class_weight=factors, tol=1e-5, max_iter=1000)
    found.fit(X, y)
    by_rows = bl.GLMClassifier("hinge", alpha=1e-3 * N / (1.0 + 2.0 * y).sum(), tol=1e-5)
    by_rows.set_params(max_iter=1000).fit(X, y, sample_weight=1.0 + 2.0 * y)
    np.testing.assert_allclose(found.coef_, by_rows.coef_, atol=0.03)


def test_without_an_intercept_it_stays_zero() -> None:
    found = solved(LABELS[:, :1], intercept=False)
    assert found.b.tolist() == [0.0]
    assert abs(slopes(found, LABELS[:, :1], ONES, False)[0]).max() < 1e-5


def test_labels_are_solved_in_groups_on_any_threads() -> None:
    few = solved(LABELS, most=3)
    many = np.tile(LABELS, dual.WIDTH)[:, : dual.WIDTH + 1]  # a group and a label
    found = [solved(many, most=3, threads=threads) for threads in (1, 2)]
    for number in range(dual.WIDTH + 1):
        same = number % 3
        np.testing.assert_allclose(found[0].W[:, number], few.W[:, same], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[0].b[number], few.b[same], rtol=1e-4, atol=1e-5)
    assert np.array_equal(found[0].W, found[1].W) and np.array_equal(found[0].b, found[1].b)


def test_rows_of_hinges_rest_alike_on_any_threads() -> None:
    many = np.tile(LABELS, dual.WIDTH // 3 + 1)
    found = [solved(many, link="hinge", most=9, threads=threads) for threads in (1, 2)]
    assert np.array_equal(found[0].W, found[1].W) and np.array_equal(found[0].b, found[1].b)
    assert not found[0]._groups[0].due(10).all()


def test_a_label_that_no_row_has_is_no_obstacle() -> None:
    found = solved(np.zeros((N, 1), np.float32))
    assert np.isfinite(found.W).all() and found.b[0] < -5


def test_the_estimator_weighs_rows_and_classes() -> None:
    """As a learner does: factors of classes are in the numerator of the mean loss alone."""
    weights, factors = RNG.integers(0, 3, N), np.array([1.0, 2.0, 0.5])
    how = {"alpha": 1e-3, "tol": 1e-8, "random_state": 0}
    classes, two = CLASSES.argmax(axis=1), LABELS[:, 0].astype(int)
    of_classes = bl.GLMClassifier(class_weight=dict(enumerate(factors)), **how)
    of_two = bl.GLMClassifier(class_weight={0: 1.0, 1: 3.0}, **how)
    for found, y, Y, each in (
        (of_classes, classes, CLASSES, factors[classes]),
        (of_two, two, LABELS[:, :1], 1.0 + 2.0 * two),
    ):
        found.fit(X, y, sample_weight=weights)
        eta = X @ found.coef_.T.astype(np.float64) + found.intercept_
        if Y.shape[1] == 1:
            means = 1 / (1 + np.exp(-eta))
        else:
            means = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
        rest = (means - Y) * (weights * each / weights.sum())[:, None]
        assert abs(X.T @ rest + 1e-3 * found.coef_.T).max() < 1e-4
        assert abs(rest.sum(axis=0)).max() < 1e-4
        assert not found._stream.tensors  # no learner took part


def test_the_penalty_is_that_of_logistic_regression() -> None:
    """C = 1, which is alpha = 1 / n; also with weights, of rows and of classes."""
    from sklearn.linear_model import LogisticRegression

    y, weights = LABELS[:, 0].astype(int), RNG.integers(0, 3, N)
    for more in ({}, {"class_weight": {0: 1.0, 1: 3.0}}):
        wanted = LogisticRegression(tol=1e-8, **more).fit(X, y, weights)
        found = bl.GLMClassifier(tol=1e-8, random_state=0, **more).fit(X, y, weights)
        np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("largest", [1e25, 1e39])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_numbers_whose_squares_are_too_large_are_no_obstacle(largest: float) -> None:
    X = sp.csr_array([[largest], [-1.0], [1.0], [2.0]])
    problem = DualProblem.of(X, np.array([1, 0, 1, 0]), np.ones(4), 1.0, "logistic")
    why = problem.obstacle(0.0, None, "cpu")
    assert why == (None if largest == 1e25 else "takes X of float32, and X has larger values")
    assert not problem.suits


def test_what_dual_ascent_cannot_solve_says_so() -> None:
    y = LABELS[:, 0]
    hinge = {"loss": "hinge", "solver": "dual", "class_weight": {0: 1.0, 1: 2.0, 2: 1.0}}
    with pytest.raises(ValueError, match='two classes only.* Use solver="adagrad"'):
        bl.GLMClassifier(**hinge).fit(X, CLASSES.argmax(axis=1))
    for how, why in (
        ({"alpha": 0.0}, "alpha > 0"),
        ({"l1_ratio": 0.5}, "l1_ratio=0"),
    ):
        with pytest.raises(ValueError, match=f'solver="dual" .*{why}.* Use solver="lbfgs"'):
            bl.GLMClassifier(solver="dual", **how).fit(X, y)
    with pytest.raises(ValueError, match="solver='dual' needs all rows"):
        bl.GLMClassifier(solver="dual").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match='solver="dual" does not take this loss'):
        bl.GLMRegressor("poisson", solver="dual").fit(X, y)
    with pytest.raises(ValueError, match="must be auto, sgd"):
        bl.FMRegressor(solver="dual").fit(X, y)


NUMBERS = np.column_stack([SCORES[:, 0], 1e6 * SCORES[:, 1] + 5e6, 1e-6 * SCORES[:, 2]])


@paired(2, intercept=[False, True], weights=[None, RNG.integers(0, 4, N)])
def test_numbers_end_at_the_optimum_of_ridge_regression(intercept: bool, weights: Any) -> None:
    """Targets of any units at once: scikit-learn's alpha is n times ours."""
    from sklearn.linear_model import Ridge

    total = N if weights is None else weights.sum()
    how = {"fit_intercept": intercept}
    wanted = Ridge(alpha=1e-2 * total, solver="cholesky", **how)
    wanted.fit(X.toarray().astype(float), NUMBERS, sample_weight=weights)
    found = bl.GLMRegressor(alpha=1e-2, tol=1e-9, random_state=0, **how)
    found.fit(X, NUMBERS, sample_weight=weights)
    assert not found._stream.tensors  # no learner took part
    for of_found, of_wanted in zip(found.coef_, wanted.coef_, strict=True):
        np.testing.assert_allclose(of_found, of_wanted, atol=1e-3 * abs(of_wanted).max())
    np.testing.assert_allclose(found.intercept_, wanted.intercept_, rtol=1e-3)
    single = bl.GLMRegressor(alpha=1e-2, random_state=0, **how)
    single.fit(X, NUMBERS[:, 1], sample_weight=weights)
    np.testing.assert_allclose(single.coef_, wanted.coef_[1], rtol=0.1)
    assert single.coef_.shape == (20,)


@crossed(intercept=[False, True], link=dual.NUMBERS)
def test_losses_of_errors_end_at_the_optimum(link: dual.Link, intercept: bool) -> None:
    """Weak duality bounds the optimum from below: b is free, so sum w_i a_i must be 0."""
    Y, shapes = SCORES - SCORES.mean(axis=0), np.array([0.2, 0.5, 0.9])
    for weights in (ONES, RNG.integers(0, 4, N).astype(np.float32)):
        how = {"intercept": intercept, "most": 1000, "tolerance": 1e-4, "shapes": shapes}
        found = solved(Y, weights, link, **how)
        assert found.converged
        A = found._groups[0]._A.astype(float)
        w = weights[:, None] / weights.sum()
        np.testing.assert_allclose(found.W, -(X.T @ (w * A)) / 1e-3, rtol=1e-3, atol=1e-3)
        error = X.astype(float) @ found.W + found.b - Y
        inside = np.minimum(abs(error), shapes if link == "huber" else np.inf)
        losses, conjugates = inside * (abs(error) - inside / 2), A**2 / 2
        if link == "quantile":
            losses = np.maximum((1 - shapes) * error, -shapes * error)
            conjugates = 0.0 * A
            assert (A >= -shapes - 1e-6).all() and (A <= 1 - shapes + 1e-6).all()
        squares = 5e-4 * (found.W.astype(float) ** 2).sum(axis=0)
        above = (w * losses).sum(axis=0) + squares
        below = -(w * (conjugates + A * Y)).sum(axis=0) - squares
        if intercept:
            assert abs((w * A).sum(axis=0)).max() < 1e-4
        else:
            assert not found.b.any()
        assert (above - below < 1e-3 * above).all() and (above - below > -1e-5).all()


def test_rows_of_quantiles_rest_on_any_threads_alike() -> None:
    Y = np.tile(SCORES - SCORES.mean(axis=0), dual.WIDTH)[:, : dual.WIDTH + 1]
    how = {"shapes": np.full(dual.WIDTH + 1, 0.5), "most": 30}
    first, second = (solved(Y, link="quantile", threads=t, **how) for t in (1, 2))
    np.testing.assert_array_equal(first.W, second.W)
    assert (first._groups[1]._rests[:, 1] > 0).any()


@pytest.mark.parametrize("loss", first_often(["squared_error", "huber", "quantile"]))
def test_units_of_targets_do_not_matter(loss: str) -> None:
    """The penalty has the unit of y in quantiles, and of its square elsewhere."""
    y = SCORES[:, 0]
    wanted = bl.GLMRegressor(loss, alpha=1e-2, random_state=0).fit(X, y)
    for unit in (1e-12, 1e12):
        how = {"huber": {"shape": unit, "alpha": 1e-2}, "quantile": {"alpha": 1e-2 / unit}}
        found = bl.GLMRegressor(loss, random_state=0, **how.get(loss, {"alpha": 1e-2}))
        found.fit(X, unit * y)
        assert not found._stream.tensors  # no learner took part
        np.testing.assert_allclose(found.coef_ / unit, wanted.coef_, rtol=1e-2, atol=1e-3)


def test_a_fit_by_dual_ascent_may_go_on_as_a_stream_and_to_a_learner() -> None:
    y = LABELS[:, 0].astype(int)
    found = bl.GLMClassifier(solver="dual", random_state=0, alpha=1e-2).fit(X.toarray(), y)
    learner = found.to_learner()
    np.testing.assert_allclose(
        learner.predict(X).ravel(), found.predict_proba(X)[:, 1], rtol=1e-4, atol=1e-5
    )
    passes = found.n_iter_
    found.set_params(solver="auto").partial_fit(X, y)
    assert found.n_iter_ == passes + 1


def test_callbacks_hear_of_its_passes_and_may_stop_it() -> None:
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    heard = []

    class Listener:
        def setup(self, estimator: Any, context: Any) -> None:
            pass

        def teardown(self, estimator: Any, context: Any) -> None:
            pass

        def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
            pass

        def on_fit_task_end(
            self, estimator: Any, context: Any, *, X: Any = None, fitted_estimator: Any = None
        ) -> bool:
            heard.append(context.task_name)
            if context.task_name == "pass":
                assert fitted_estimator.predict(X).shape == (N,)
            return len(heard) == 2

    found = bl.GLMClassifier(solver="dual", random_state=0).set_callbacks(Listener())
    found.fit(X, LABELS[:, 0])
    assert found.n_iter_ == 2 and heard == ["pass", "pass", "fit"]
