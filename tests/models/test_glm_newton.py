"""Newton's method finds the optimum of plain NumPy, whatever the shapes and the units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.models.glm.links import LINKS
from blocklearn.models.glm.rows import Labels, Links, losses
from blocklearn.models.glm.solvers import first_matrices
from blocklearn.models.glm.solvers.first_matrices import Hessians, Standing
from blocklearn.models.glm.solvers.newton import NewtonSolver
from blocklearn.models.glm.sums import dense_sums, row_sums, sparse_sums
from blocklearn.models.glm.sums.choice import sums_of
from blocklearn.models.glm.sums.curves import CURVES, Loss
from blocklearn.models.glm.sums.dense_sums import DenseSums
from tests.support.often import crossed

N, FEATURES = 300, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, FEATURES))
SCORES = X @ RNG.normal(size=(FEATURES, 3)) + RNG.normal(size=(N, 3)) - 0.4
WEIGHTS = RNG.integers(0, 4, N).astype(float)
TARGETS: dict[str, Any] = {
    "linear": SCORES,
    "logistic": (SCORES > 0.0).astype(float),
    "softmax": np.eye(3)[SCORES.argmax(axis=1)],
    "poisson": RNG.poisson(np.exp(SCORES / 2)).astype(float),
    "gamma": np.exp(SCORES / 2) * RNG.gamma(2.0, 0.5, SCORES.shape),
    "tweedie": np.exp(SCORES / 2) * RNG.poisson(1.0, SCORES.shape),
    "huber": SCORES + 3.0 * (SCORES > 2.0),
    "squared_hinge": (SCORES > 0.0).astype(float),
}
SHAPE = 1.4  # of tweedie and huber


def shapes_of(link: str, columns: int) -> Any:
    return np.full((1, columns), SHAPE) if LINKS[link].shape else None  # type: ignore[index]


def defined(link: str, eta: Any, y: Any) -> Any:
    """Residuals and losses, by the definition in float64."""
    found = losses.reference(eta, Labels(y), Links((link,), (), shapes_of(link, y.shape[1])))
    return [np.asarray(each) for each in found]


def solved(X: Any, Y: Any, link: Any = "linear", weights: Any = None, **how: Any) -> NewtonSolver:
    options = {"l2": 1e-3, "intercept": True, "diagonal": False} | how
    tolerance, most, threads = (
        options.pop(name, default)
        for name, default in (("tolerance", 1e-9), ("most", 200), ("threads", 1))
    )
    l2 = options.pop("l2")
    found = NewtonSolver(sums_of(X, Y, weights, Loss(link, SHAPE), **options), l2=l2, **options)
    for _ in found.passes(most, tolerance, threads):
        if found.converged:
            break
    return found


def slopes(found: NewtonSolver, X: Any, Y: Any, weights: Any, l2: float) -> tuple[Any, Any]:
    """The gradients by W and by b, with the weights as they were before they became float32."""
    theta, centre = found.theta, found._sums.centre
    W = theta[:-1]
    eta = (X if centre is None else X - centre) @ W + theta[-1]
    weights = np.ones(len(X)) if weights is None else weights
    rest = defined(found.link, eta, Y)[0] * weights[:, None] / weights.sum()
    return X.T @ rest + l2 * W, rest.sum(axis=0)


@pytest.mark.parametrize("link", CURVES)
def test_curves_are_what_links_define(link: Any) -> None:
    eta, y = 3.0 * SCORES[:20], TARGETS[link][:20]
    found, residuals = CURVES[link].losses(eta, y, SHAPE)
    wanted_residuals, wanted = defined(link, eta, y)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(residuals, wanted_residuals, rtol=1e-12, atol=1e-12)
    for column in range(3 * (link != "huber")):  # a score of its own
        shift = np.zeros(3)
        shift[column] = 1e-5
        above, below = (defined(link, eta + s, y)[0][:, column] for s in (shift, -shift))
        bends = CURVES[link].bends(eta, y, SHAPE)[:, column]
        np.testing.assert_allclose(bends, (above - below) / 2e-5, rtol=1e-4, atol=1e-8)


def test_parabolas_touch_the_loss_of_huber() -> None:
    eta, y = 3.0 * SCORES[:50], TARGETS["huber"][:50]
    curve = CURVES["huber"]
    (found, residuals), bends = curve.losses(eta, y, SHAPE), curve.bends(eta, y, SHAPE)
    assert (bends[abs(eta - y) <= SHAPE] == 1.0).all() and 0.0 < bends.min() < 0.5
    for step in (-5.0, -0.1, 1e-3, 0.5, 20.0):
        above = found + step * residuals + step * step * bends / 2.0
        assert (above >= curve.losses(eta + step, y, SHAPE)[0] - 1e-12).all()


@pytest.mark.parametrize("units", [1.0, 1e6])
def test_huber_starts_near_most_targets(units: float) -> None:
    """Some targets are far away, and the shape may be a millionth of the spread of the others."""
    Y = units * SCORES
    Y[::9] += 1e6 * units
    for X_, diagonal in ((X, False), (SPARSE, True)):
        found = solved(X_, Y, "huber", WEIGHTS, diagonal=diagonal, tolerance=1e-4)
        near = np.average(Y[1::9] - found.b, axis=0, weights=WEIGHTS[1::9])
        assert found.converged and abs(near).max() < units


@pytest.mark.parametrize("link", CURVES)
def test_scores_beyond_all_bounds_have_finite_curves(link: Any) -> None:
    eta, y = np.array([[-1e5, -800.0, -31.0], [31.0, 800.0, 1e5]]), np.eye(3)[:2]
    curve = CURVES[link]
    for values in (*curve.losses(eta, y, SHAPE), curve.bends(eta, y, SHAPE)):
        assert np.isfinite(values).all()


@pytest.mark.parametrize("link", ["logistic", "softmax"])
def test_losses_of_classes_grow_beyond_all_bounds(link: Any) -> None:
    eta, y = np.array([[-1e5, 800.0], [900.0, -1e5], [-800.0, -1e5]]), np.eye(2)[[0, 1, 1]]
    np.testing.assert_allclose(CURVES[link].losses(eta, y, SHAPE)[0], defined(link, eta, y)[1])


@crossed(intercept=[True, False], link=CURVES)
def test_the_gradient_is_zero(link: Any, intercept: bool) -> None:
    """With and without weights, for three targets at once."""
    Y = TARGETS[link]
    for weights in (None, WEIGHTS):
        found = solved(X, Y, link, weights, intercept=intercept)
        by_W, by_b = slopes(found, X, Y, weights, 1e-3)
        assert found.converged
        assert abs(by_W).max() < 2e-8
        assert abs(by_b).max() < 2e-8 if intercept else not found.b.any()


@crossed(first=[0, 3], link=CURVES)
def test_single_precision_and_few_rows_are_guides_only(
    link: Any, first: int, monkeypatch: Any
) -> None:
    """X of float32, a Hessian of some rows, from the start or not, new ones often."""
    monkeypatch.setattr(dense_sums, "SAMPLE", (60, 0))
    monkeypatch.setattr(first_matrices, "FIRST", first)

    def every_eighth(self: Hessians, number: int, at: Standing, tolerance: float) -> bool:
        return not self.exact and number % 8 == 0

    monkeypatch.setattr(Hessians, "_worth_anew", every_eighth)
    for rows in (X.astype(np.float32), X, X + 5.0):
        found = solved(rows, TARGETS[link], link, WEIGHTS)
        by_W, by_b = slopes(found, rows.astype(float), TARGETS[link], WEIGHTS, 1e-3)
        assert found.converged and abs(by_W).max() < 2e-8 and abs(by_b).max() < 2e-8


@pytest.mark.parametrize("unit", [1e-30, 1e30])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_columns_that_float32_does_not_hold(kind: Any, unit: float) -> None:
    """Or whose squares it does not hold; among them one of zeros."""
    zeros = np.zeros((N, 1))
    wanted = solved(np.hstack([X, zeros]), TARGETS["logistic"], "logistic", l2=0.0)
    for units in (unit, np.array([unit, 1.0, 1.0, 1.0, 1.0])):
        other = np.hstack([X * units, zeros]).astype(kind)
        found = solved(other, TARGETS["logistic"], "logistic", l2=0.0, tolerance=1e-4)
        assert found.converged
        scores = other.astype(float) @ found.theta[:-1] + found.theta[-1]
        np.testing.assert_allclose(scores, X @ wanted.W[:-1] + wanted.b, atol=5e-3)


def losses_of(found: NewtonSolver, X: Any, Y: Any, weights: Any = None) -> float:
    eta = X @ found.theta[:-1] + found.theta[-1]
    return float(np.average(defined(found.link, eta, Y)[1].sum(axis=1), weights=weights))


@crossed(link=["logistic", "softmax"], tolerance=[1e-4, 1e-9], origin=[1e4, 1e6])
def test_float32_holds_no_deviations_far_from_0(
    link: Any, tolerance: float, origin: float, monkeypatch: Any
) -> None:
    """Without an intercept, columns have no centre."""
    rows, y, how = X + origin, TARGETS[link], {"l2": 1e-6, "intercept": False}
    found = solved(rows, y, link, tolerance=tolerance, **how)
    monkeypatch.setattr(dense_sums, "MOST_COPIED", 0)
    wanted = solved(rows, y, link, tolerance=tolerance, **how)
    np.testing.assert_allclose(losses_of(found, rows, y), losses_of(wanted, rows, y), rtol=1e-6)


@pytest.mark.parametrize("link", ["logistic", "softmax"])
def test_columns_that_differ_by_what_float32_does_not_hold(link: Any) -> None:
    """Each is as usual, but steps of float64 shall not be compared with sums of float32."""
    rows, y = np.hstack([X, X + 1e-6 * RNG.normal(size=X.shape)]), TARGETS[link]
    found = solved(rows, y, link, l2=1e-9)
    by_W, by_b = slopes(found, rows, y, None, 1e-9)
    assert found.converged and abs(by_W).max() < 2e-8 and abs(by_b).max() < 2e-8


@pytest.mark.parametrize("weight", [1e-45, 1e-30, 1e30, 1e300])
def test_weights_that_float32_does_not_hold(weight: float) -> None:
    wanted = solved(X, TARGETS["logistic"], "logistic", WEIGHTS)
    found = solved(X, TARGETS["logistic"], "logistic", WEIGHTS * weight, tolerance=1e-4)
    assert found.converged
    np.testing.assert_allclose(found.W, wanted.W, atol=5e-3)


@crossed(huge=[1e4, 1e8, 1e20], row=range(3))
def test_hessians_of_some_rows_tell_all_columns(row: int, huge: float, monkeypatch: Any) -> None:
    """One row has nearly all squares of a column: a Hessian without it makes far too long steps."""
    monkeypatch.setattr(dense_sums, "SAMPLE", (60, 0))
    rows = X.copy()
    rows[row, 0] = huge
    found = solved(rows, TARGETS["logistic"], "logistic", tolerance=1e-6, most=40)
    monkeypatch.undo()
    wanted = solved(rows, TARGETS["logistic"], "logistic", tolerance=1e-6)
    assert found.converged
    losses = [losses_of(each, rows, TARGETS["logistic"]) for each in (found, wanted)]
    np.testing.assert_allclose(*losses, rtol=1e-3)


@pytest.mark.parametrize("link", ["logistic", "squared_hinge"])
def test_hessians_of_rare_classes_are_of_rows_that_tell(link: Any, monkeypatch: Any) -> None:
    """One row in a hundred: few of evenly spaced rows would have second derivatives."""
    monkeypatch.setattr(dense_sums, "SAMPLE", (300, 0))
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(5000, 20))
    scores = rows @ rng.normal(size=(20, 1)) + 2.0 * rng.normal(size=(5000, 1))
    rare = (scores > np.quantile(scores, 0.99)).astype(float)
    found = solved(rows, rare, link, l2=1e-4, tolerance=1e-4, most=25)
    assert found.converged


def test_rows_are_spread_by_their_shares() -> None:
    shares = np.random.default_rng(0).exponential(size=1000) ** 3
    shares[::3] = 0.0
    rows, stand_for = dense_sums.spread(shares, 200)
    assert len(rows) <= 200 and (shares[rows] > 0.0).all() and (np.diff(rows) > 0).all()
    np.testing.assert_allclose(stand_for.sum(), shares.sum())
    each = shares.sum() / 200
    assert (abs(stand_for - shares[rows])[shares[rows] > each] <= each * (1.0 + 1e-9)).all()
    assert np.isin(np.flatnonzero(shares > each), rows).all()
    even, stand_for = dense_sums.spread(np.ones(1000), 100)
    assert even.tolist() == list(range(4, 1000, 10)) or even.tolist() == list(range(5, 1000, 10))
    assert (stand_for == 10.0).all()


@pytest.mark.parametrize("link", CURVES)
def test_long_hessians_come_after_passes_with_their_diagonal(link: Any, monkeypatch: Any) -> None:
    """Those of squares are of float32 then, and passes of float64 follow."""
    monkeypatch.setattr(first_matrices, "FIRST", 0)
    narrow = X.astype(np.float32)
    for rows in (narrow, X):
        found = solved(rows, TARGETS[link], link, WEIGHTS)
        by_W, by_b = slopes(found, rows.astype(float), TARGETS[link], WEIGHTS, 1e-3)
        assert found.converged and abs(by_W).max() < 2e-8 and abs(by_b).max() < 2e-8


@pytest.mark.parametrize("link", ["logistic", "poisson"])
def test_one_target_of_independent_columns_needs_no_hessian(link: Any, monkeypatch: Any) -> None:
    made: list[int] = []
    hessians = DenseSums.hessians
    monkeypatch.setattr(
        DenseSums, "hessians", lambda *given, **how: made.append(1) or hessians(*given, **how)
    )
    rng = np.random.default_rng(2)
    plain = rng.normal(size=(4000, 40))
    mixed = plain @ (rng.normal(size=(40, 40)) * np.exp(-np.arange(40) / 4.0))
    for rows, some in ((plain, False), (mixed, True)):
        scores = rows[:, :5].sum(axis=1, keepdims=True) / rows[:, :5].sum(axis=1).std()
        noisy = scores + rng.normal(size=scores.shape)
        y = (noisy > 0.0).astype(float) if link == "logistic" else rng.poisson(np.exp(scores / 2))
        made.clear()
        found = solved(rows, y, link, tolerance=1e-4)
        assert found.converged and bool(made) is some
        made.clear()
        solved(rows, np.hstack([y, y]), link, tolerance=1e-4)
        assert made


@pytest.mark.parametrize("l2", [0.0, 1e-6])
def test_pairs_that_nearly_agree_end_at_the_optimum(l2: float) -> None:
    """Their gradient is nearly 0 far above it, which only a Hessian tells."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(3000, 40))
    rows[:, 20:] = rows[:, :20] + 1e-4 * rng.normal(size=(3000, 20))
    apart = (rows - rows.mean(axis=0)) @ rng.normal(size=(40, 1)) / np.sqrt(40)
    apart += (rows[:, 20:] - rows[:, :20]) @ rng.normal(size=(20, 1)) * 2000.0
    y = (apart + rng.logistic(size=apart.shape) > 0.0).astype(float)

    def loss(tolerance: float) -> float:
        theta = solved(rows, y, "logistic", l2=l2, tolerance=tolerance).theta
        eta = (rows - rows.mean(axis=0)) @ theta[:-1] + theta[-1]
        return float((np.logaddexp(0.0, eta) - y * eta).mean() + 0.5 * l2 * (theta[:-1] ** 2).sum())

    best = loss(1e-9)
    assert loss(1e-4) - best < 1e-3 * (np.log(2.0) - best)


def test_squares_that_float32_cannot_tell_have_a_hessian_of_float64(monkeypatch: Any) -> None:
    monkeypatch.setattr(first_matrices, "FIRST", 0)
    near = X.astype(np.float32)
    near[:, 1] = near[:, 0] * np.float32(1.001)
    near[::7, 1] += np.float32(1e-3)
    given = sums_of(near, SCORES, None, Loss("linear"), intercept=True, diagonal=False)
    found = NewtonSolver(given, l2=0.0, intercept=True, diagonal=False)
    for _ in found.passes(20, 1e-9, 1):
        if found.converged:
            break
    wide = np.column_stack([near.astype(float), np.ones(N)])
    wanted = np.linalg.lstsq(wide, SCORES, rcond=None)[0]
    assert found.converged
    np.testing.assert_allclose(wide @ found.theta, wide @ wanted, atol=1e-5)


def test_squares_take_one_pass() -> None:
    how = {"intercept": True, "diagonal": False}
    found = NewtonSolver(sums_of(X, SCORES, None, Loss("linear"), **how), l2=0.0, **how)
    assert list(found.passes(1, 1e-4, 1)) == [1] and found.converged
    wanted = np.linalg.lstsq(np.column_stack([X, np.ones(N)]), SCORES, rcond=None)[0]
    np.testing.assert_allclose(found.W, wanted[:-1], rtol=1e-6)
    np.testing.assert_allclose(found.b, wanted[-1], rtol=1e-6)


@pytest.mark.parametrize("link", CURVES)
def test_threads_change_no_bits(link: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(row_sums, "WORTH", 500)
    monkeypatch.setattr(dense_sums, "AT_ONCE", 320)
    one, two = (solved(X, TARGETS[link], link, threads=n, tolerance=1e-4) for n in (1, 2))
    assert one.theta.tobytes() == two.theta.tobytes()


def test_sparse_targets_and_whole_numbers_are_as_dense_and_real_ones() -> None:
    wanted = solved(X, TARGETS["softmax"], "softmax")
    found = solved(X, sp.csr_array(TARGETS["softmax"]), "softmax")
    assert found.theta.tobytes() == wanted.theta.tobytes()
    whole = (10.0 * X).round().astype(np.int16)
    found, wanted = (solved(each, SCORES) for each in (whole, whole.astype(float)))
    assert found.theta.tobytes() == wanted.theta.tobytes()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_columns_of_any_units_and_origins(kind: Any) -> None:
    units, origins = np.array([1e-6, 1e6, 1.0, 1.0, 1e-3]), np.array([0.0, 0.0, 1e3, -50.0, 1.0])
    other = (X * units + origins).astype(kind)
    for link in ("linear", "logistic"):
        found = solved(other, TARGETS[link], link, l2=0.0, tolerance=1e-6)
        wanted = solved((other.astype(float) - origins) / units, TARGETS[link], link, l2=0.0)
        assert found.converged
        np.testing.assert_allclose(found.W * units[:, None], wanted.W, rtol=1e-3, atol=1e-4)


def test_targets_far_from_zero() -> None:
    found = solved(X, SCORES + 1e6)
    near = solved(X, SCORES)
    np.testing.assert_allclose(found.W, near.W, rtol=1e-6)
    np.testing.assert_allclose(found.b, near.b + 1e6, rtol=1e-6)


@crossed(l2=[0.0, 1e-3], link=CURVES)
def test_constant_and_equal_columns(link: Any, l2: float) -> None:
    """Without a penalty, equal columns share a weight, and constant ones have none."""
    other = np.column_stack([X, X[:, 0], np.zeros(N), np.full(N, 1e4)])
    found = solved(other, TARGETS[link], link, l2=l2, tolerance=1e-6)
    assert found.converged and not found.W[-2:].any()
    np.testing.assert_allclose(found.W[0], found.W[FEATURES], rtol=1e-3, atol=1e-4)
    if not l2:
        wanted = solved(X, TARGETS[link], link, l2=0.0, tolerance=1e-6)
        np.testing.assert_allclose(other @ found.W + found.b, X @ wanted.W + wanted.b, atol=2e-3)


@crossed(link=CURVES, rows=[1, 2, FEATURES - 1, FEATURES + 1])
def test_fewer_rows_than_it_takes(link: Any, rows: int) -> None:
    """One row, more columns than rows, one row more than columns; with a penalty and without."""
    some, Y = X[:rows], TARGETS[link][:rows]
    for l2 in (0.0, 1e-3):
        found = solved(some, Y, link, l2=l2, tolerance=1e-4)
        assert np.isfinite(found.W).all() and np.isfinite(found.b).all()
        if link == "linear" and not l2 and rows <= FEATURES + 1:
            np.testing.assert_allclose(some @ found.W + found.b, Y, atol=1e-4)


def test_classes_that_a_plane_separates_end() -> None:
    Y = (X[:, :1] + X[:, 1:2] > 0.0).astype(float)
    for link, y in (("logistic", Y), ("softmax", np.hstack([Y, 1.0 - Y]))):
        found = solved(X, y, link, l2=0.0, tolerance=1e-4)
        assert found.converged and np.isfinite(found.W).all()
        scores = X @ found.W + found.b
        decided = scores[:, 0] > (0.0 if link == "logistic" else scores[:, 1])
        assert (decided == (Y[:, 0] > 0.0)).mean() > 0.99


@pytest.mark.parametrize("link", CURVES)
def test_constant_targets(link: Any) -> None:
    """A label that never occurs, a class of one row, one number for all."""
    Y = np.ones((N, 2))
    Y[:, 0] = 0.0 if LINKS[link].range[0] <= 0.0 else 2.0
    if link == "softmax":
        Y[0] = 1.0, 0.0
    found = solved(X, Y, link, tolerance=1e-4)
    assert found.converged and np.isfinite(found.W).all() and np.isfinite(found.b).all()
    if link in ("linear", "gamma"):
        assert abs(found.W).max() < 1e-6


# ------------------------------------------------------------- the diagonal as first matrix

SPARSE = sp.random_array((N, 40), density=0.1, rng=RNG, format="csr")
SPARSE.data = RNG.integers(1, 4, SPARSE.nnz).astype(float)


@crossed(intercept=[True, False], link=CURVES)
def test_the_gradient_of_sparse_rows_is_zero(link: Any, intercept: bool) -> None:
    """With and without weights, for three targets and for one, of float64 and float32."""
    for weights, columns in ((None, 3), (WEIGHTS, 3), (WEIGHTS, 1)):
        Y = TARGETS[link][:, :columns]
        if link == "softmax" and columns == 1:
            continue
        for kind in (np.float64, np.float32):
            found = solved(SPARSE.astype(kind), Y, link, weights, intercept=intercept)
            by_W, by_b = slopes(found, SPARSE.toarray(), Y, weights, 1e-3)
            assert found.converged
            assert abs(by_W).max() < 2e-8
            assert abs(by_b).max() < 2e-8 if intercept else not found.b.any()


@pytest.mark.parametrize("link", CURVES)
def test_wide_rows_need_no_hessian(link: Any) -> None:
    wide = np.random.default_rng(1).normal(size=(40, 90)) + 2.0
    for weights in (None, WEIGHTS[:40]):
        Y = TARGETS[link][:40]
        found = solved(wide, Y, link, weights, diagonal=True, most=2000, l2=1e-2)
        by_W, by_b = slopes(found, wide, Y, weights, 1e-2)
        assert found.converged
        assert abs(by_W).max() < 2e-7 and abs(by_b).max() < 2e-7


@pytest.mark.parametrize("link", CURVES)
def test_threads_change_no_bits_of_sparse_rows(link: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(row_sums, "WORTH", 500)
    monkeypatch.setattr(sparse_sums, "AT_ONCE", 192)
    one, two = (solved(SPARSE, TARGETS[link], link, threads=n, tolerance=1e-4) for n in (1, 2))
    assert one.theta.tobytes() == two.theta.tobytes()


def test_moments_of_sparse_columns_are_those_of_dense_ones() -> None:
    for weights in (None, WEIGHTS):
        for intercept in (True, False):
            found = solved(SPARSE, SCORES, weights=weights, intercept=intercept, most=1)
            mean = np.average(SPARSE.toarray(), axis=0, weights=weights)
            squares = np.average((SPARSE.toarray() - mean) ** 2, axis=0, weights=weights)
            np.testing.assert_allclose(found.mean, mean, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(found.variance, squares, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("link", ["linear", "logistic"])
def test_sparse_columns_of_any_units(link: Any) -> None:
    """Units that differ by a million, an empty column and a constant one."""
    units = 10.0 ** RNG.uniform(-3, 3, SPARSE.shape[1])
    ends = np.column_stack([np.zeros(N), np.full(N, 1e4)])
    other = sp.csr_array(sp.hstack([SPARSE * units[None], ends]))
    found = solved(other, TARGETS[link], link, l2=1e-3, tolerance=1e-6, most=5000)
    wanted = solved(other.toarray(), TARGETS[link], link, l2=1e-3)
    assert found.converged and not found.W[-2:].any()
    scores, best = (other @ each.W.astype(float) + each.b for each in (found, wanted))
    np.testing.assert_allclose(scores, best, atol=2e-2)


@crossed(link=CURVES, rows=[1, 2])
def test_few_sparse_rows(link: Any, rows: int) -> None:
    for l2 in (0.0, 1e-3):
        found = solved(SPARSE[:rows], TARGETS[link][:rows], link, l2=l2, tolerance=1e-4)
        assert np.isfinite(found.W).all() and np.isfinite(found.b).all()


@pytest.mark.parametrize("part", [slice(0, 2), slice(2, 5), slice(0, 5, 2), slice(None)])
def test_targets_in_csr_are_read_in_parts(part: slice) -> None:
    """Columns of a row may be in any order, and may occur twice."""
    given = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([2, 0, 2, 1, 0]), [0, 3, 3, 4, 4, 5]
    Y = sp.csr_array(given, shape=(5, 3))
    sums = dense_sums.DenseSums(X[:5], Y, None, Loss("logistic"), far=np.inf)
    for _ in range(2):  # the second time, of what is kept once they were read as a whole
        np.testing.assert_array_equal(sums._y(part), Y.toarray()[part])
        sums._y(slice(None))
    assert Y.indices.tolist() == [2, 0, 2, 1, 0]  # as they were
