"""Linear models with an L1 penalty, in memory: the optimum, and the same bits on any threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

import blocklearn as bl
from blocklearn.models.glm.solvers.proximal import Penalties, ProximalSolver
from blocklearn.models.glm.sums.curves import Loss

RNG = np.random.default_rng(5)
X = RNG.normal(size=(300, 8)) + 3.0  # no column is centred
X[RNG.random(X.shape) < 0.3] = 0.0
SCORES = X[:, 0] - 2.0 * X[:, 1] + 0.5 * RNG.normal(size=300) + 3.0
WEIGHTS = RNG.uniform(0.0, 2.0, size=300)
DENSE_SPARSE = pytest.mark.parametrize("rows", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def solve(X: Any, Y: Any, link: Any = "linear", *, threads: int = 1, **how: Any) -> ProximalSolver:
    how = {"weights": None, "penalties": Penalties(0.05, 0.02), "intercept": True} | how
    loss = Loss(link, how.pop("shape", 0.0))
    found = ProximalSolver(X, Y, loss=loss, **how)
    for _ in found.passes(100, 1e-9, threads):
        if found.converged:
            break
    assert found.converged
    return found


@DENSE_SPARSE
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squares_end_where_those_of_scikit_learn_do(rows: Any, intercept: bool, dtype: Any) -> None:
    x = X.astype(dtype)
    found = solve(rows(x), SCORES[:, None], weights=WEIGHTS, intercept=intercept)
    peer = ElasticNet(alpha=0.07, l1_ratio=5 / 7, tol=1e-12, fit_intercept=intercept)
    peer.fit(x.astype(np.float64), SCORES, WEIGHTS)
    np.testing.assert_allclose(found.W[:, 0], peer.coef_, atol=1e-5)
    np.testing.assert_allclose(found.b[0], peer.intercept_, atol=1e-4)
    assert (found.W[:, 0] == 0.0).tolist() == (peer.coef_ == 0.0).tolist()


@DENSE_SPARSE
@pytest.mark.parametrize("classes", [2, 3])
def test_classes_end_where_those_of_scikit_learn_do(rows: Any, classes: int) -> None:
    """Of an even number the optimum is not unique: a constant may be added to a feature's."""
    y = np.digitize(SCORES, np.quantile(SCORES, np.arange(1, classes) / classes))
    how: dict[str, Any] = {"alpha": 0.02, "l1_ratio": 1.0, "class_weight": {0: 2.0}}
    found = bl.GLMClassifier(tol=1e-8, **how).fit(rows(X), y, WEIGHTS)
    peer = LogisticRegression(
        C=1.0 / (0.02 * WEIGHTS.sum()), l1_ratio=1.0, solver="saga", tol=1e-8, max_iter=20_000,
        class_weight={0: 2.0},
    ).fit(X, y, WEIGHTS)  # fmt: skip
    np.testing.assert_allclose(found.coef_, peer.coef_, atol=2e-3)
    assert ((found.coef_ == 0.0) == (abs(peer.coef_) < 1e-6)).all()


@pytest.mark.parametrize("link", ["poisson", "gamma", "tweedie", "huber", "squared_hinge"])
def test_no_weight_alone_betters_the_objective(link: Any) -> None:
    y = np.exp(0.2 * SCORES) * RNG.uniform(0.5, 1.5, size=300)
    y = (SCORES > 0.0).astype(float) if link == "squared_hinge" else y
    penalties, shape = Penalties(0.02, 0.01), {"tweedie": 1.5, "huber": 1.0}.get(link, 0.0)
    how = {"weights": WEIGHTS, "penalties": penalties, "shape": shape}
    (problem,) = solve(X, y[:, None], link, **how)._problems

    def objective(W: Any, b: Any) -> float:
        return problem._at(X @ W + b)[0] + penalties.of(W.ravel())

    W, b = problem.W, problem.b
    best = objective(W, b)
    for feature in range(8):
        for step in (-1e-3, 1e-3):
            moved = W.copy()
            moved[feature] += step
            assert objective(moved, b) > best
    assert min(objective(W, b + 1e-3), objective(W, b - 1e-3)) > best
    assert (W == 0.0).any() and (W != 0.0).any()


def test_more_columns_than_a_step_moves() -> None:
    wide = RNG.normal(size=(100, 400))
    y = wide[:, ::40].sum(axis=1)
    found = solve(wide, y[:, None], penalties=Penalties(0.1, 0.0))
    peer = Lasso(0.1, tol=1e-12).fit(wide, y)
    np.testing.assert_allclose(found.W[:, 0], peer.coef_, atol=1e-5)


@DENSE_SPARSE
def test_targets_are_problems_of_their_own_on_any_number_of_threads(rows: Any) -> None:
    Y = np.column_stack([SCORES, -(SCORES**2), np.sin(SCORES)])
    one, three = (solve(rows(X), Y, threads=threads) for threads in (1, 3))
    np.testing.assert_array_equal(one.W, three.W)
    np.testing.assert_array_equal(one.b, three.b)
    for target in range(3):
        alone = solve(rows(X), Y[:, [target]])
        np.testing.assert_array_equal(one.W[:, [target]], alone.W)


@DENSE_SPARSE
@pytest.mark.parametrize("link", ["linear", "logistic"])
def test_moments_of_columns_are_those_of_weighted_rows(rows: Any, link: Any) -> None:
    found = solve(rows(X), (SCORES > 0.0)[:, None], link, weights=WEIGHTS)
    mean = np.average(X, axis=0, weights=WEIGHTS)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    variance = np.average((X - mean) ** 2, axis=0, weights=WEIGHTS)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-9)


def test_a_constant_column_has_no_weight() -> None:
    x = np.column_stack([X, np.full(300, 7.0)])
    assert solve(x, SCORES[:, None]).W[-1, 0] == 0.0
    assert solve(x, SCORES[:, None], intercept=False).W[-1, 0] != 0.0


@pytest.mark.parametrize("link", ["linear", "logistic", "poisson", "gamma", "squared_hinge"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_start_at_the_optimum_has_converged(link: Any, offset: float) -> None:
    """Where the penalty leaves no weight, what is left of the gradient is rounding."""
    y = (SCORES > 0.0) + (0.0 if link in ("logistic", "squared_hinge") else 1.0 + offset)
    penalties = Penalties(1e9, 0.0)
    found = ProximalSolver(X, y[:, None], None, Loss(link), penalties, intercept=True)
    next(found.passes(1, 1e-4, 1))
    assert found.converged == (link != "logistic")  # half a row more of each class is no optimum
    assert not found.W.any()
