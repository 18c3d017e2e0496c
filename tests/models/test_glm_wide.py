"""Rows of more columns than rows, dense or sparse.

The optimum is SciPy's, and of squares it takes two passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from blocklearn.learner.estimators import GLMClassifier, GLMRegressor
from blocklearn.learner.estimators.linear.newton import NewtonProblem
from blocklearn.matcache.cpu.algebra.lapack import pivoted_cholesky
from blocklearn.models.glm.solvers.newton import NewtonSolver
from blocklearn.models.glm.solvers.tried import TriedSolver
from blocklearn.models.glm.solvers.wide_rows import WideSolver
from blocklearn.models.glm.sums.choice import sums_of
from blocklearn.models.glm.sums.curves import CURVES, Loss
from tests.support.often import crossed, first_often

RNG = np.random.default_rng(0)
N, FEATURES, SHAPE = 12, 30, 1.4
PLAIN = RNG.normal(size=(N, FEATURES))
DATA = {
    "plain": PLAIN,
    "one row": PLAIN[:1],
    "square": PLAIN[:, :N],
    "rows that occur twice": np.vstack([PLAIN[:6], PLAIN[:6]]),
    "constant columns, far from 0": np.hstack([PLAIN + 30.0, np.full((N, 2), 1e4)]),
    "constant columns alone": np.ones((N, FEATURES)),
    "units of their own": PLAIN * 10.0 ** RNG.uniform(-2, 2, FEATURES),
    "correlated": RNG.normal(size=(N, 3)) @ RNG.normal(size=(3, FEATURES)) + 0.01 * PLAIN,
    "float32 of tiny units": (1e-6 * PLAIN).astype(np.float32),
    "whole numbers by columns": np.asfortranarray((9.0 * PLAIN).astype(np.int16)),
}
SCORES = RNG.normal(size=(N, 3)) + 0.3
TARGETS: dict[str, Any] = {
    "linear": SCORES,
    "logistic": (SCORES > 0.0).astype(float),
    "softmax": np.eye(3)[SCORES.argmax(axis=1)],
    "poisson": RNG.poisson(np.exp(SCORES)).astype(float),
    "huber": 3.0 * SCORES,
    "squared_hinge": (SCORES > 0.0).astype(float),
}
WEIGHTS = np.array([1.0, 0.0, 2.0, 0.5] * 3)

ROWS, MORE = 24, 70  # of sparse rows
FEW = RNG.normal(size=(ROWS, MORE)) * (RNG.random((ROWS, MORE)) < 0.06)  # numbers of a column
FAR = np.hstack([FEW, RNG.normal(size=(ROWS, 3)) + 30.0, np.full((ROWS, 1), 1e4)])
GAPS = FEW * (np.arange(ROWS) % 5 > 0)[:, None]


def with_zeros(X: Any) -> sp.csr_array:
    """Rows some of whose numbers are stored, and 0."""
    found = sp.csr_array(X)
    found.data[::5] = 0.0
    return found


def with_long_indices(X: Any) -> sp.csr_array:
    found = sp.csr_array(X)
    long = found.indices.astype(np.int64), found.indptr.astype(np.int64)
    return sp.csr_array((found.data, *long), shape=X.shape)


SPARSE = {
    "few numbers": sp.csr_array(FEW),
    "one row": sp.csr_array(FEW[:1]),
    "columns of many numbers, far from 0": sp.csr_array(FAR),
    "columns of many numbers alone": sp.csr_array(RNG.normal(size=(ROWS, 30))),
    "rows and columns without numbers": sp.csr_array(GAPS * (np.arange(MORE) % 3 > 0)),
    "rows that occur twice": sp.csr_array(np.vstack([FEW[:12], FEW[:12]])),
    "numbers of 0": with_zeros(FAR),
    "no number": sp.csr_array((ROWS, MORE)),
    "float32 of tiny units": sp.csr_array((1e-6 * FEW).astype(np.float32)),
    "long indices": with_long_indices(FAR),
}


def solved(X: Any, Y: Any, link: Any, weights: Any = None, **how: Any) -> tuple[WideSolver, int]:
    """The solver at its end, and the number of its passes."""
    threads, l2, intercept = how.get("threads", 1), how["l2"], how.get("intercept", True)
    found = WideSolver(X, Y, weights, Loss(link, SHAPE), l2=l2, intercept=intercept)
    passes = found.passes(400, 1e-7, threads)
    return found, next(number for number in passes if found.converged or number == 400)


def objective(
    X: Any, Y: Any, weights: Any, link: Any, l2: float, W: Any, b: Any
) -> tuple[Any, Any, Any]:
    """The objective of all columns, and its gradients by W and b."""
    shares = np.ones(len(X)) if weights is None else weights
    shares = (shares / shares.sum())[:, None]
    losses, residuals = CURVES[link].losses(X @ W + b, Y, SHAPE)
    R = shares * residuals
    total = (shares * losses).sum() + l2 / 2.0 * (W * W).sum()
    return total, X.T @ R + l2 * W, R.sum(axis=0)


def by_scipy(X: Any, Y: Any, weights: Any, link: Any, l2: float, intercept: bool) -> float:
    """The least objective that SciPy finds, in float64.

    It takes few steps in coordinates in which squares of these rows have the same slope all around.
    """
    n, size = X.shape
    rows = np.column_stack([X, np.full(n, float(intercept))])
    shares = np.ones(n) if weights is None else weights
    bends = rows.T @ ((shares / shares.sum())[:, None] * rows)
    bends[np.diag_indices(size + 1)] += [*[l2] * size, 1e-9 if intercept else 1.0]
    units = np.linalg.inv(np.linalg.cholesky(bends)).T

    def at(theta: Any) -> tuple[float, Any]:
        theta = units @ theta.reshape(size + 1, -1)
        f, by_W, by_b = objective(X, Y, weights, link, l2, theta[:-1], theta[-1] * intercept)
        return f, (units.T @ np.vstack([by_W, by_b * intercept])).ravel()

    how = {"maxiter": 20_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-10}
    start = np.zeros((size + 1) * Y.shape[1])
    with threadpool_limits(1, "blas"):  # threads would wait for each other: the products are small
        return float(minimize(at, start, jac=True, method="L-BFGS-B", options=how).fun)


@crossed(link=TARGETS, data=DATA)
def test_the_objective_is_that_of_scipy(data: str, link: str) -> None:
    X = DATA[data]
    for l2, weights, intercept in (
        (1e-2, None, True),
        (1e-2, WEIGHTS, False),
        (1e-4, WEIGHTS, True),
        (1e4, None, True),
    ):
        Y, weights = TARGETS[link][: len(X)], None if weights is None else weights[: len(X)]
        found, passes = solved(X, Y, link, weights, l2=l2, intercept=intercept)
        assert found.converged and (passes <= 5 or link != "linear")
        wide = X.astype(float)
        f = objective(wide, Y, weights, link, l2, found.W.astype(float), found.b.astype(float))[0]
        best = by_scipy(wide, Y, weights, link, l2, intercept)
        assert f <= best + 1e-5 * abs(best) + 1e-7
        assert intercept or not found.b.any()


@crossed(link=TARGETS, data=SPARSE)
def test_sparse_rows_have_the_objective_of_scipy(data: str, link: str) -> None:
    X = SPARSE[data]
    for l2, weights, intercept in ((1e-2, None, False), (1e-4, np.resize(WEIGHTS, ROWS), True)):
        Y = np.resize(TARGETS[link], (ROWS, 3))[: X.shape[0]]
        weights = None if weights is None else weights[: X.shape[0]]
        found, passes = solved(X, Y, link, weights, l2=l2, intercept=intercept)
        assert found.converged and (passes <= 8 or link != "linear")
        wide = X.toarray().astype(float)
        f = objective(wide, Y, weights, link, l2, found.W.astype(float), found.b.astype(float))[0]
        best = by_scipy(wide, Y, weights, link, l2, intercept)
        assert f <= best + 1e-5 * abs(best) + 1e-7
        assert intercept or not found.b.any()


def test_sparse_rows_without_a_penalty_have_the_shortest_weights() -> None:
    """Of scores that columns without an intercept cannot tell, too."""
    Y = np.resize(SCORES, (ROWS, 3))
    for data, X in SPARSE.items():
        found, _ = solved(X, Y[: X.shape[0]], "linear", l2=0.0)
        wide, y = X.toarray().astype(float), Y[: X.shape[0]]
        shortest = np.linalg.pinv(wide - wide.mean(axis=0), rcond=1e-9) @ y
        atol = 1e-4 * max(1.0, abs(shortest).max())
        np.testing.assert_allclose(found.W, shortest, atol=atol, err_msg=data)


@pytest.mark.parametrize("data", ["plain", "correlated", "units of their own"])
def test_one_column_takes_few_passes(data: str) -> None:
    """Squares two, and classes no more than Newton's method."""
    for link, most in (("linear", 2), ("logistic", 15)):
        for l2 in (1e-1, 1e-3):
            assert solved(DATA[data], TARGETS[link][:, :1], link, WEIGHTS, l2=l2)[1] <= most


@pytest.mark.parametrize("link", first_often(TARGETS, 2))
def test_no_penalty_still_has_an_end(link: str) -> None:
    for X in DATA.values():
        for l2 in (0.0, 1e-300):
            found, passes = solved(X, TARGETS[link][: len(X)], link, l2=l2)
            assert np.isfinite(found.W).all() and np.isfinite(found.b).all()
    found, passes = solved(PLAIN, SCORES, "linear", l2=0.0)
    assert passes <= 3
    np.testing.assert_allclose(PLAIN @ found.W + found.b, SCORES, atol=1e-5)
    shortest = np.linalg.pinv(PLAIN - PLAIN.mean(axis=0)) @ SCORES
    np.testing.assert_allclose(found.W, shortest, atol=1e-5)


def test_moments_are_those_of_the_columns() -> None:
    far = PLAIN + 100.0
    for intercept in (True, False):
        found, _ = solved(far, SCORES, "linear", WEIGHTS, l2=1e-2, intercept=intercept)
        mean = np.average(far, axis=0, weights=WEIGHTS)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
        squares = np.average((far - mean) ** 2, axis=0, weights=WEIGHTS)
        np.testing.assert_allclose(found.variance, squares, rtol=1e-8)
    for data in ("columns of many numbers, far from 0", "numbers of 0"):
        X, weights = SPARSE[data], np.resize(WEIGHTS, ROWS)
        found, _ = solved(X, np.resize(SCORES, (ROWS, 3)), "linear", weights, l2=1e-2)
        mean = np.average(X.toarray(), axis=0, weights=weights)
        squares = np.average((X.toarray() - mean) ** 2, axis=0, weights=weights)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(found.variance, squares, rtol=1e-8, atol=1e-15)


@crossed(link=TARGETS, labels=[np.asarray, sp.csc_array])
def test_a_row_of_weight_0_is_as_if_absent(link: Any, labels: Any) -> None:
    """Its numbers would make those of all other rows look like rounding."""
    heard = WEIGHTS > 0.0
    far = np.where(heard[:, None], PLAIN, 1e9 * PLAIN)
    rows = labels(TARGETS[link]) if link != "huber" else TARGETS[link]
    found, _ = solved(far, rows, link, WEIGHTS, l2=1e-2)
    wanted, _ = solved(PLAIN[heard], TARGETS[link][heard], link, WEIGHTS[heard], l2=1e-2)
    np.testing.assert_allclose(found.W, wanted.W, atol=1e-6)
    np.testing.assert_allclose(found.b, wanted.b, atol=1e-6)


@pytest.mark.parametrize("link", TARGETS)
def test_threads_change_no_bits(link: Any) -> None:
    dense = RNG.normal(size=(300, 320)).astype(np.float32)
    few = RNG.random((300, 320)) < np.where(np.arange(320) < 200, 0.5, 0.05)
    Y = np.resize(TARGETS[link], (300, 3))
    for X in (dense, sp.csr_array(dense * few)):
        one, two = (solved(X, Y, link, l2=1e-2, threads=n)[0] for n in (1, 2))
        assert one.W.tobytes() == two.W.tobytes() and one.b.tobytes() == two.b.tobytes()


def test_pivoted_factors() -> None:
    L = RNG.normal(size=(6, 3))
    found, order, rank = pivoted_cholesky(L @ L.T, 1e-12)
    assert rank == 3 and sorted(order) == list(range(6))
    np.testing.assert_allclose(found @ found.T, (L @ L.T)[order][:, order], atol=1e-12)
    found, order, rank = pivoted_cholesky(np.zeros((4, 4)), 1e-12)
    assert rank == 0 and found.shape == (4, 0) and sorted(order) == list(range(4))


WIDE = np.random.default_rng(1).normal(size=(60, 400))


def tried(X: Any, products: float, link: Any = "logistic", **how: Any) -> tuple[TriedSolver, Any]:
    """A solver of products that square rows may follow, and the numbers of its passes."""
    options = {"most": 100, "threads": 1} | how
    Y = np.eye(3)[(WIDE[:, :3] + 0.3 * WIDE[:, 3:6]).argmax(axis=1)]
    given, how = (X, Y, None, Loss(link)), {"l2": 1e-2, "intercept": True}
    sums = sums_of(*given, intercept=True, diagonal=True)
    first = NewtonSolver(sums, **how, diagonal=True, products=products)
    found, numbers = TriedSolver(first, lambda: WideSolver(*given, **how)), []
    for number in found.passes(options["most"], 1e-8, options["threads"]):
        numbers.append(number)
        if found.converged:
            break
    return found, numbers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("link", ["logistic", "softmax", "squared_hinge"])
def test_independent_columns_need_few_products(link: Any, dtype: Any) -> None:
    X = (WIDE + 30.0 * (np.arange(400) % 7 == 0)).astype(dtype)
    found, numbers = tried(X, 1000, link)
    assert found._now is found._first and found.converged and found._first._matrix._made < 150
    square, others = tried(X, 0, link)
    assert square._now is not square._first and square.converged
    assert numbers == list(range(1, len(numbers) + 1))
    assert others == list(range(1, len(others) + 1))
    for name in ("W", "b", "mean", "variance"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(square, name), rtol=1e-4, atol=2e-5
        )


MIXED = WIDE @ (
    np.random.default_rng(2).normal(size=(400, 400)) * np.exp(-np.arange(400) / 20.0)[:, None]
)


@pytest.mark.parametrize("far", [0.0, 30.0])
def test_square_rows_of_log_losses_start_where_products_have_come(far: float) -> None:
    X = MIXED + far * (np.arange(400) % 7 == 0)
    some, none = tried(X, 40)[0], tried(X, 0)[0]
    assert some._now is not some._first and some._first.spent and some.converged
    W, b = some._first.last_trial
    first = WideSolver(X, some._now._Y, None, Loss("logistic"), l2=1e-2, intercept=True)  # type: ignore[union-attr]
    first.found = W, b
    step = first.passes(2, 1e-8, 1)
    next(step)
    next(step)
    np.testing.assert_allclose(X @ first.W + first.b, X @ W + b, atol=1e-4)
    for name in ("W", "b", "mean", "variance"):
        np.testing.assert_allclose(getattr(some, name), getattr(none, name), rtol=1e-4, atol=2e-5)
    last, numbers = tried(X, 40, most=3)
    assert numbers == [1, 2, 3] and not last.converged


@pytest.mark.parametrize("link", ["softmax", "squared_hinge"])
def test_square_rows_of_other_losses_begin_anew(link: Any) -> None:
    some, none = tried(MIXED, 40, link)[0], tried(MIXED, 0, link)[0]
    assert some._now is not some._first and some._first.spent
    np.testing.assert_array_equal(some.W, none.W)
    np.testing.assert_array_equal(some.b, none.b)


def test_a_first_trial_that_is_uphill_is_not_taken() -> None:
    X, Y = WIDE, (WIDE[:, :1] > 0.0).astype(float)
    ends = []
    for found in None, (-WIDE.T @ (Y - 0.5), np.zeros(1)):
        solver = WideSolver(X, Y, None, Loss("logistic"), l2=1e-2, intercept=True)
        solver.found = found
        ends.append([solver.W for _ in solver.passes(3, 1e-8, 1)][-1])
    np.testing.assert_array_equal(*ends)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_try_products_where_they_may_save_time(monkeypatch: Any) -> None:
    made: list[Any] = []
    solver = NewtonProblem.solver
    monkeypatch.setattr(
        NewtonProblem, "solver", lambda *given: made.append(solver(*given)) or made[-1]
    )
    X = np.random.default_rng(3).normal(size=(400, 900))
    y = X[:, 0] > 0.0
    uneven = np.where(y, 1e6, 1.0)

    def taken(estimator: Any, X: Any, y: Any, weights: Any = None) -> type:
        estimator.set_params(max_iter=1).fit(X, y, sample_weight=weights)
        return type(made.pop())

    for loss in ("log_loss", "squared_hinge"):
        assert taken(GLMClassifier(loss), X, y) is TriedSolver
        assert taken(GLMClassifier(loss), X[:40], y[:40]) is WideSolver
    assert taken(GLMClassifier(), X, y, uneven) is TriedSolver
    assert taken(GLMClassifier("squared_hinge"), X, y, uneven) is WideSolver
    assert taken(GLMRegressor(), X, X[:, 0]) is TriedSolver
    assert taken(GLMRegressor(), X, X[:, 0], y.astype(float)) is WideSolver
    assert taken(GLMRegressor(), X[:, :1] + 1e-3 * X, X[:, 0]) is WideSolver
    assert taken(GLMClassifier("hinge"), X, y) is WideSolver
