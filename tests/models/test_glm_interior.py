"""Interior points end at the optimum of straight losses: that of linear and quadratic programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog, minimize

from blocklearn.matcache.cpu.pool import Pool
from blocklearn.models.glm.solvers import near_rows
from blocklearn.models.glm.solvers.interior import InteriorSolver
from blocklearn.models.glm.solvers.interior_steps import Column
from blocklearn.models.glm.solvers.near_rows import NearRows
from blocklearn.models.glm.solvers.proximal import Penalties
from blocklearn.models.glm.solvers.wide_rows import WideSolver
from blocklearn.models.glm.sums import row_sums
from blocklearn.models.glm.sums.curves import Loss
from blocklearn.models.glm.sums.dense_rows import DenseRows
from blocklearn.models.glm.sums.sparse_rows import SparseRows
from tests.support.often import crossed

N, FEATURES = 60, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, FEATURES))
SCORES = X @ [2.0, -1.0, 0.0, 0.5] + RNG.standard_t(2, N)
WEIGHTS = RNG.integers(0, 4, N).astype(float)
LOSSES = [Loss("quantile", 0.5), Loss("quantile", 0.9), Loss("hinge")]


def target_of(loss: Loss) -> Any:
    return SCORES if loss.link == "quantile" else (SCORES > 0.0).astype(float)


def lines_of(y: Any, loss: Loss, weights: Any) -> Any:
    """Targets of scores, and what errors above and below 0 cost."""
    shares = np.ones(len(y)) if weights is None else weights
    shares = shares / shares.sum()
    if loss.link == "hinge":
        return 2.0 * y - 1.0, shares * y, shares * (1.0 - y)
    return y, shares * loss.shape, shares * (1.0 - loss.shape)


def objective(X: Any, lines: Any, penalties: Penalties, W: Any, b: float) -> float:
    t, up, down = lines
    errors = t - X @ W - b
    loss = up @ np.maximum(errors, 0.0) + down @ np.maximum(-errors, 0.0)
    return float(loss + penalties.of(W))


def solved(X: Any, y: Any, weights: Any, loss: Loss, l1: float = 0.0, l2: float = 0.0, **how: Any):
    threads, options = how.pop("threads", 1), {"intercept": True} | how
    Y = y if y.ndim == 2 else y[:, None]
    found = InteriorSolver(X, Y, weights, loss, Penalties(l1, l2), **options)
    for _ in found.passes(60, 1e-4, threads):
        if found.converged:
            break
    assert found.converged
    return found


def value(X: Any, y: Any, weights: Any, loss: Loss, penalties: Penalties, found: Any) -> float:
    lines = lines_of(y, loss, weights)
    return objective(X, lines, penalties, found.W[:, 0].astype(float), float(found.b[0]))


@crossed(weights=[None, WEIGHTS], loss=LOSSES, l1=[0.0, 0.1])
def test_without_a_square_it_is_a_linear_program(loss: Loss, weights: Any, l1: float) -> None:
    y = target_of(loss)
    t, up, down = lines_of(y, loss, weights)
    eye = np.eye(N)
    costs = np.concatenate([np.full(2 * FEATURES, l1), [0.0, 0.0], up, down])
    ones = np.ones((N, 1))
    best = linprog(costs, A_eq=np.hstack([X, -X, ones, -ones, eye, -eye]), b_eq=t)
    found = solved(X, y, weights, loss, l1)
    assert value(X, y, weights, loss, Penalties(l1, 0.0), found) <= best.fun * (1.0 + 1e-6)
    wanted = (best.x[:FEATURES] - best.x[FEATURES : 2 * FEATURES]) != 0.0
    assert not l1 or ((found.W[:, 0] != 0.0) == wanted).all()


@crossed(weights=[None, WEIGHTS], loss=LOSSES, l2=[1e-4, 1.0])
def test_with_a_square_it_is_a_quadratic_program(loss: Loss, weights: Any, l2: float) -> None:
    """The dual has bounds alone where there is no intercept; else the best one is a constant."""
    y = target_of(loss)
    t, up, down = lines_of(y, loss, weights)

    def dual(a: Any) -> Any:
        w = X.T @ a / l2
        return l2 / 2 * w @ w - t @ a, X @ w - t

    how = {"ftol": 1e-15, "gtol": 1e-12, "maxiter": 20_000, "maxfun": 100_000}
    bounds = list(zip(-down, up, strict=True))
    best = minimize(dual, np.zeros(N), jac=True, bounds=bounds, method="L-BFGS-B", options=how)
    found = solved(X, y, weights, loss, l2=l2, intercept=False)
    penalties = Penalties(0.0, l2)
    assert not found.b.any()
    assert value(X, y, weights, loss, penalties, found) <= -best.fun * (1.0 + 1e-5)
    moved = solved(X + 1e3, y, weights, loss, l2=l2)
    assert value(X + 1e3, y, weights, loss, penalties, moved) <= -best.fun * (1.0 + 1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_targets_types_and_absent_rows_change_nothing(loss: Loss) -> None:
    y = target_of(loss)
    both = np.stack([y, y[::-1]], axis=1)
    found = solved(X, both, WEIGHTS, loss, l2=1e-3)
    heard = WEIGHTS > 0.0
    for column, target in enumerate((y, y[::-1])):
        alone = solved(X[heard], target[heard], WEIGHTS[heard], loss, l2=1e-3)
        np.testing.assert_array_equal(found.W[:, [column]], alone.W)
    again = solved(X, sp.csr_array(both), WEIGHTS, loss, l2=1e-3)
    assert again.W.tobytes() == found.W.tobytes()
    narrow = solved(X.astype(np.float32), both, WEIGHTS, loss, l2=1e-3)
    np.testing.assert_allclose(narrow.W, found.W, atol=1e-4)


def test_threads_change_no_bits(monkeypatch: Any) -> None:
    monkeypatch.setattr(row_sums, "WORTH", 100)
    many = RNG.normal(size=(2000, 40))
    y = many.sum(axis=1) + RNG.normal(size=2000)
    one, two = (solved(many, y, None, LOSSES[0], l1=1e-2, threads=n) for n in (1, 2))
    assert one.W.tobytes() == two.W.tobytes() and one.b.tobytes() == two.b.tobytes()


def test_columns_that_tell_nothing_have_no_weight() -> None:
    other = np.column_stack([X, np.full(N, 0.1), np.zeros(N), X[:, 0]])
    found = solved(other, SCORES, None, LOSSES[0])
    assert not found.W[4:6].any() and np.isfinite(found.W).all()
    wanted = value(
        X, SCORES, None, LOSSES[0], Penalties(0.0, 0.0), solved(X, SCORES, None, LOSSES[0])
    )
    assert value(other, SCORES, None, LOSSES[0], Penalties(0.0, 0.0), found) <= wanted * (1 + 1e-6)
    np.testing.assert_allclose(found.mean, other.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.variance, other.var(axis=0), atol=1e-12)


@pytest.mark.parametrize("unit", [1.0, 1e-6])
@pytest.mark.parametrize("l1", [1e-6, 1e-10, 1e-100, 1e-300])
def test_a_weight_that_scores_feel_is_not_0(l1: float, unit: float) -> None:
    """Where the penalty is tiny, dual variables of weights end between their bounds."""
    y, none = SCORES, Penalties(0.0, 0.0)
    wanted = value(X, y, None, LOSSES[0], none, solved(X, y, None, LOSSES[0]))
    other = np.column_stack([unit * X, np.zeros(N)])
    found = solved(other, y, None, LOSSES[0], l1 * unit)
    assert value(other, y, None, LOSSES[0], none, found) <= wanted * (1.0 + 1e-5)
    assert (found.W[:, 0] != 0.0).tolist() == [True] * FEATURES + [False]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_row_of_almost_no_weight_is_as_if_absent(loss: Loss) -> None:
    """Kernels such as e^-distance give weights far below all others."""
    weights, y = np.where(np.arange(N) % 3, 1.0, 1e-200), target_of(loss)
    found = solved(X, y, weights, loss, l2=1e-3)
    heard = weights == 1.0
    wanted = solved(X[heard], y[heard], None, loss, l2=1e-3)
    assert found.W.tobytes() == wanted.W.tobytes() and found.b.tobytes() == wanted.b.tobytes()


def test_steps_do_not_end_in_a_circle() -> None:
    """Steps with Mehrotra's correction alone return to where they were, each fourth one."""
    rows, weights = (
        np.array([[1.369, -10.03], [0.2904, 0.7234], [5.66, -0.9201]]),
        np.array([1.0, 1000.0, 2.0]),
    )
    found = solved(rows, np.array([1.0, 0.0, 0.0]), weights, Loss("hinge"), l2=0.1)
    assert np.isfinite(found.W).all()


def test_a_rare_class_takes_few_passes() -> None:
    """Hinges of a constant are as small as the class is rare; the errors of W are not."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 50))
    scores = rows @ rng.normal(size=50) + 3.0 * rng.normal(size=2000)
    y = (scores > np.quantile(scores, 0.99)).astype(float)[:, None]
    penalties = Penalties(0.0, 1.0 / 2000)
    found = InteriorSolver(rows, y, None, Loss("hinge"), penalties, intercept=True)
    assert any(found.converged for _ in found.passes(30, 1e-4, 1))


def test_targets_all_alike_need_no_pass() -> None:
    for y, loss in ((np.full(N, 7.0), LOSSES[0]), (np.zeros(N), LOSSES[2])):
        found = InteriorSolver(X, y[:, None], None, loss, Penalties(0.0, 0.1), intercept=True)
        assert found.converged and not found.W.any()


@crossed(loss=LOSSES, rows=[np.asarray, sp.csr_array])
def test_wide_rows_have_the_same_optimum(loss: Loss, rows: Any) -> None:
    wide = RNG.normal(size=(20, 30)) + 3.0
    wide[:, 8:] *= RNG.random((20, 22)) < 0.1
    y, weights = target_of(loss)[:20], WEIGHTS[:20]
    how: Any = {"l2": 0.05, "intercept": True}
    found = WideSolver(rows(wide), y[:, None], weights, loss, **how)
    for _ in found.passes(100, 1e-4, 1):
        if found.converged:
            break
    penalties = Penalties(0.0, 0.05)
    wanted = value(wide, y, weights, loss, penalties, solved(wide, y, weights, loss, l2=0.05))
    assert abs(value(wide, y, weights, loss, penalties, found) - wanted) <= 1e-5 * wanted


WIDE = np.hstack([RNG.normal(size=(24, 50)), RNG.normal(size=(24, 3)) + 90.0, np.ones((24, 1))])


@crossed(
    weights=[None, WEIGHTS[:24]],
    loss=LOSSES,
    intercept=[True, False],
    rows=[np.asarray, sp.csr_array],
)
def test_wide_rows_with_an_l1_penalty_are_a_linear_program(
    loss: Loss, weights: Any, intercept: bool, rows: Any
) -> None:
    y, (n, features) = target_of(loss)[:24], WIDE.shape
    t, up, down = lines_of(y, loss, weights)
    eye, ones = np.eye(n), np.full((n, 1), float(intercept))
    for l1 in (3e-3, 0.1):
        costs = np.concatenate([np.full(2 * features, l1), [0.0, 0.0], up, down])
        best = linprog(costs, A_eq=np.hstack([WIDE, -WIDE, ones, -ones, eye, -eye]), b_eq=t)
        found = solved(rows(WIDE), y, weights, loss, l1, intercept=intercept)
        W, b = found.theta[:-1, 0], found.theta[-1, 0]  # float32 would cost as much as 2e-5
        ours = objective(WIDE, (t, up, down), Penalties(l1, 0.0), W, b)
        assert ours <= best.fun * (1.0 + 1e-6)
        assert intercept or not found.b.any()


def test_sparse_rows_have_the_products_of_dense_ones() -> None:
    few = WIDE * ((RNG.random(WIDE.shape) < 0.3) | (np.arange(54) > 49))
    pool, q, d = Pool(1), RNG.random(24), RNG.random(54)
    q /= q.sum()
    dense, sparse = DenseRows(few, far=4.0), SparseRows(sp.csr_array(few), far=4.0)
    np.testing.assert_allclose(sparse.centre, dense.centre, rtol=1e-12)
    for name, of in (("squares", q), ("products", d), ("turned", q), ("scores", np.append(d, 2.0))):
        wanted, found = (getattr(rows, name)(of, pool) for rows in (dense, sparse))
        np.testing.assert_allclose(found, wanted, atol=1e-10)
    np.testing.assert_allclose(sparse.moments(q, pool), dense.moments(q, pool), atol=1e-10)
    pool.close()


@pytest.mark.parametrize("loss", LOSSES)
def test_wide_rows_with_both_penalties_end_where_as_many_rows_as_columns_do(loss: Loss) -> None:
    """Rows that occur three times have the same objective, and a Hessian of columns."""
    y = target_of(loss)[:24]
    found = solved(WIDE, y, None, loss, l1=0.01, l2=0.02)
    more = solved(np.tile(WIDE, (3, 1)), np.tile(y, 3), None, loss, l1=0.01, l2=0.02)
    np.testing.assert_allclose(found.W, more.W, atol=2e-5)


def test_threads_change_no_bits_of_wide_rows_with_an_l1_penalty() -> None:
    wide = RNG.normal(size=(300, 320))
    y = wide[:, 0] + RNG.normal(size=300)
    one, two = (solved(wide, y, None, LOSSES[0], l1=0.05, threads=n) for n in (1, 2))
    assert one.W.tobytes() == two.W.tobytes() and one.b.tobytes() == two.b.tobytes()


# ------------------------------------------------------------- rows near the kinks

MORE = RNG.normal(size=(900, FEATURES))
MORE_SCORES = MORE @ [2.0, -1.0, 0.0, 0.5] + RNG.standard_t(2, 900)
MORE_WEIGHTS = RNG.integers(1, 4, 900).astype(float)


def by_parts(monkeypatch: Any, part: float = near_rows.PART) -> None:
    monkeypatch.setattr(near_rows, "PART", part)
    monkeypatch.setattr(near_rows, "MOST", 1.0)
    monkeypatch.setattr(near_rows, "LEAST", 0)


def end_of(found: Any) -> NearRows:
    (column,) = found._columns
    assert isinstance(column, NearRows)
    return column


@crossed(
    weights=[None, MORE_WEIGHTS],
    loss=LOSSES,
    penalties=[Penalties(0.0, 1e-3), Penalties(0.03, 0.0)],
)
def test_rows_near_have_the_optimum_of_all(
    loss: Loss, weights: Any, penalties: Penalties, monkeypatch: Any
) -> None:
    """With few rows near, some of the others cross their kinks, or so many that all take part."""
    y = MORE_SCORES if loss.link == "quantile" else (MORE_SCORES > 0.0).astype(float)
    for rows in (MORE, MORE + 1e3):
        wanted = solved(rows, y, weights, loss, *penalties)
        assert isinstance(wanted._columns[0], Column)
        least = value(rows, y, weights, loss, penalties, wanted)
        for part in (1.0, near_rows.PART):
            by_parts(monkeypatch, part)
            found = solved(rows, y, weights, loss, *penalties)
            assert value(rows, y, weights, loss, penalties, found) <= least * (1.0 + 1e-6)
            assert part == 1.0 or end_of(found)._column.count < 0.5 * len(rows)
            monkeypatch.undo()


def test_many_targets_have_no_parts_of_their_own(monkeypatch: Any) -> None:
    by_parts(monkeypatch)
    for targets, kind in ((2, NearRows), (3, Column)):  # parts of .35
        Y, penalties = np.tile(MORE_SCORES[:, None], targets), Penalties(0.0, 1e-3)
        found = InteriorSolver(MORE, Y, None, LOSSES[0], penalties, intercept=True)
        assert {type(column) for column in found._columns} == {kind}


@pytest.mark.parametrize("limit", ["WIDE", "MANY"])
def test_too_many_rows_near_are_all(limit: str, monkeypatch: Any) -> None:
    """After the first rows, or where others cross their kinks, steps begin anew with all rows."""
    wanted = solved(MORE, MORE_SCORES, None, LOSSES[1], l2=1e-3)
    by_parts(monkeypatch, 1.0)
    monkeypatch.setattr(near_rows, limit, 0.0)
    found = solved(MORE, MORE_SCORES, None, LOSSES[1], l2=1e-3)
    assert end_of(found)._column.count == len(MORE)
    assert found.theta.tobytes() == wanted.theta.tobytes()


def test_rows_that_cross_their_kink_join_those_near(monkeypatch: Any) -> None:
    by_parts(monkeypatch, 1.0)
    loss, counts = Loss("quantile", 0.9), []
    found = InteriorSolver(
        MORE, MORE_SCORES[:, None], None, loss, Penalties(0.0, 0.0), intercept=True
    )
    for _ in found.passes(60, 1e-4, 1):
        counts.append(end_of(found)._column.count)
        if found.converged:
            break
    first = end_of(found)._count
    assert found.converged and counts[-1] > first
    assert (np.diff(counts[1:]) >= 0).all()


@pytest.mark.parametrize("intercept", [True, False])
def test_equal_errors_are_all_near(intercept: bool, monkeypatch: Any) -> None:
    """Most targets are the same number, which X does not tell."""
    y = np.where(np.arange(900) % 10 < 7, 3.0, MORE_SCORES)
    penalties, loss = Penalties(0.5, 0.0), Loss("quantile", 0.5)
    how = {"l1": 0.5, "intercept": intercept}
    least = value(MORE, y, None, loss, penalties, solved(MORE, y, None, loss, **how))
    by_parts(monkeypatch)
    found = solved(MORE, y, None, loss, **how)
    assert value(MORE, y, None, loss, penalties, found) <= least * (1.0 + 1e-6)


@pytest.mark.parametrize("ones", [1, 2, 899])
def test_parts_hold_all_rows_of_a_rare_class(ones: int, monkeypatch: Any) -> None:
    y, loss, penalties = np.zeros(900), Loss("hinge"), Penalties(0.0, 1e-3)
    y[np.argsort(-MORE_SCORES)[:ones]] = 1.0
    least = value(MORE, y, None, loss, penalties, solved(MORE, y, None, loss, l2=1e-3))
    by_parts(monkeypatch)
    found = solved(MORE, y, None, loss, l2=1e-3)
    assert value(MORE, y, None, loss, penalties, found) <= least * (1.0 + 1e-6)


@pytest.mark.parametrize("far", [1e2, 1e6])
def test_rows_near_tell_all_columns(far: float, monkeypatch: Any) -> None:
    """Rows of rare categories are far from their kinks, and no penalty holds their weights."""
    rare = np.zeros((900, 3))
    rare[[5, 6, 7, 300, 301, 800], [0, 0, 0, 1, 1, 2]] = 1.0
    rows = np.hstack([MORE, rare])
    y = MORE_SCORES + rare @ [far, -far, 2.0 * far] + rare[:, 0] * MORE[:, 0] * far
    least = value(rows, y, None, LOSSES[0], Penalties(0.0, 0.0), solved(rows, y, None, LOSSES[0]))
    by_parts(monkeypatch)
    found = solved(rows, y, None, LOSSES[0])
    assert value(rows, y, None, LOSSES[0], Penalties(0.0, 0.0), found) <= least * (1.0 + 1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_part_of_one_row_of_great_weight(loss: Loss, monkeypatch: Any) -> None:
    """Its error is 0 at the best constant."""
    weights, penalties = np.ones(900), Penalties(0.0, 1e-9)
    y = MORE_SCORES if loss.link == "quantile" else (MORE_SCORES > 0.0).astype(float)
    weights[7] = 1e9
    wanted = solved(MORE, y, weights, loss, *penalties)
    least = value(MORE, y, weights, loss, penalties, wanted)
    by_parts(monkeypatch)
    found = solved(MORE, y, weights, loss, *penalties)
    assert value(MORE, y, weights, loss, penalties, found) <= least * (1.0 + 1e-5)


def test_threads_change_no_bits_of_rows_near(monkeypatch: Any) -> None:
    by_parts(monkeypatch)
    monkeypatch.setattr(row_sums, "WORTH", 500)
    one, two = (
        solved(MORE, MORE_SCORES, MORE_WEIGHTS, LOSSES[1], l2=1e-3, threads=n) for n in (1, 2)
    )
    assert one.theta.tobytes() == two.theta.tobytes()
