"""Squares of few dense rows, by products of float32: the optimum is that of float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from blocklearn.learner.estimators import GLMRegressor
from blocklearn.models.glm.solvers.rough_rows import RoughRows
from blocklearn.models.glm.solvers.tried import TriedSolver
from blocklearn.models.glm.solvers.wide_rows import WideSolver
from blocklearn.models.glm.sums.curves import Loss
from tests.support.often import crossed

N, FEATURES = 40, 90
RNG = np.random.default_rng(0)
PLAIN = RNG.normal(size=(N, FEATURES))
FACTORS = RNG.normal(size=(N, 3)) @ RNG.normal(size=(3, FEATURES))
DATA = {
    "plain": PLAIN,
    "float32": PLAIN.astype(np.float32),
    "by columns": np.asfortranarray(PLAIN),
    "whole numbers": (99.0 * PLAIN + 1e3).astype(np.int16),
    "float16": (PLAIN + 3.0).astype(np.float16),
    "far from 0, with a constant": np.hstack([PLAIN + 1e3, np.full((N, 1), 7.0)]),
    "units of their own": PLAIN * 10.0 ** RNG.uniform(-1, 1, FEATURES),
    "square": PLAIN[:, :N],
    "correlated": FACTORS + 0.1 * PLAIN,
}
Y = RNG.normal(size=(N, 2)) + 3.0
WEIGHTS = RNG.uniform(0.5, 2.0, N)


def optimum(X: Any, weights: Any, l2: float, intercept: bool) -> tuple[Any, Any]:
    """W and b by normal equations of float64 rows, with b eliminated."""
    X = X.astype(np.float64)
    shares = np.ones(N) / N if weights is None else weights / weights.sum()
    centre, mean = (shares @ X, shares @ Y) if intercept else (np.zeros(X.shape[1]), np.zeros(2))
    roots = np.sqrt(shares)[:, None]
    rows, targets = roots * (X - centre), roots * (Y - mean)
    W = rows.T @ np.linalg.solve(rows @ rows.T + l2 * np.eye(N), targets)
    return W, mean - centre @ W


def solved(X: Any, weights: Any = None, *, l2: float, intercept: bool, threads: int = 1) -> Any:
    """The solver at its end."""
    found = RoughRows(X, Y, weights, l2=l2, intercept=intercept)
    for _ in found.passes(100, 1e-4, threads):
        pass
    return found


@crossed(
    data=DATA, weights={"none": None, "some": WEIGHTS}, intercept=(True, False), l2=(1e-2, 1e-4)
)
def test_the_optimum_is_that_of_float64(
    data: str, weights: Any, intercept: bool, l2: float
) -> None:
    X, weights = DATA[data], {"none": None, "some": WEIGHTS}[weights]
    found = solved(X, weights, l2=l2, intercept=intercept)
    W, b = optimum(X, weights, l2, intercept)
    assert found.converged and not found.spent
    np.testing.assert_allclose(found.W, W, rtol=1e-5, atol=1e-6 * np.abs(W).max())
    scores = X @ found.W.astype(np.float64) + found.b
    np.testing.assert_allclose(scores, X @ W + b, rtol=0.0, atol=1e-4)


def test_moments_are_those_of_the_columns() -> None:
    X = DATA["far from 0, with a constant"]
    found = solved(X, WEIGHTS, l2=1e-2, intercept=True)
    mean = WEIGHTS @ X / WEIGHTS.sum()
    variance = WEIGHTS @ (X - mean) ** 2 / WEIGHTS.sum()
    np.testing.assert_allclose(found.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-8, atol=1e-20)
    assert not found.W[-1].any()


def test_threads_change_no_bits() -> None:
    X = np.random.default_rng(1).normal(size=(300, 400)).astype(np.float32)
    found = []
    for threads in (1, 2, 8):
        one = RoughRows(X, X[:, :2], None, l2=1e-3, intercept=True)
        assert [*one.passes(100, 1e-4, threads)][-1] <= 3
        found.append(np.vstack([one.W, one.b]))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("scale", [1.0, 1e100])
def test_another_solver_takes_over_where_float32_tells_too_little(scale: float) -> None:
    X, l2 = scale * (FACTORS + 1e-3 * PLAIN), scale**2 * 1e-8
    rough = RoughRows(X, Y, None, l2=l2, intercept=True)
    assert not rough.promising
    last = partial(WideSolver, X, Y, None, Loss("linear"), l2=l2, intercept=True)
    tried = TriedSolver(rough, last)
    alone = last()
    for solver in (tried, alone):
        next(n for n in solver.passes(100, 1e-4, 1) if solver.converged or n == 100)
    assert rough.spent and tried.converged
    np.testing.assert_array_equal(tried.W, alone.W)


def test_a_penalty_above_the_rounding_of_products_is_enough() -> None:
    """Rows that lie along three directions are not independent."""
    assert RoughRows(FACTORS, Y, None, l2=1e-3, intercept=True).promising
    assert not RoughRows(FACTORS, Y, None, l2=1e-9, intercept=True).promising
    assert RoughRows(PLAIN, Y, None, l2=1e-9, intercept=True).promising


def test_one_row_has_the_best_constant() -> None:
    found = GLMRegressor(alpha=1e-2).fit(PLAIN[:1], [3.0])
    assert found.intercept_ == 3.0 and not found.coef_.any()
