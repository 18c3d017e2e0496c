"""Steps by conjugate gradients over sparse and dense rows end at the optimum of plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache.cpu.pool import Pool
from blocklearn.models.glm.solvers.newton import NewtonSolver
from blocklearn.models.glm.solvers.used_columns import UsedColumns, used_columns
from blocklearn.models.glm.sums import dense_sums, row_sums, sparse_sums
from blocklearn.models.glm.sums.choice import sums_of
from blocklearn.models.glm.sums.curves import CURVES, Loss
from blocklearn.models.glm.sums.dense_sums import DenseSums
from blocklearn.models.glm.sums.sparse_sums import SparseSums
from tests.support.often import crossed

RNG = np.random.default_rng(0)
N, FEATURES, SHAPE = 24, 70, 1.4
FEW = RNG.normal(size=(N, FEATURES)) * (RNG.random((N, FEATURES)) < 0.1)
GAPS = FEW * (np.arange(N) % 5 > 0)[:, None] * (np.arange(FEATURES) % 3 > 0)
DATA = {
    "few numbers": FEW,
    "one row": FEW[:1],
    "rows and columns without numbers": GAPS,
    "rows that occur twice": np.vstack([FEW[:12], FEW[:12]]),
    "columns far from 0, and a constant one": np.hstack([FEW, FEW[:, :3] + 30.0, np.ones((N, 1))]),
    "no number": np.zeros((N, FEATURES)),
    "tiny units": 1e-6 * FEW,
    "units of their own": FEW * 10.0 ** RNG.uniform(-2, 2, FEATURES),
    "more rows than columns": FEW[:, :10],
}
SCORES = FEW @ RNG.normal(size=(FEATURES, 3)) + 0.3 * RNG.normal(size=(N, 3)) + 0.2
TARGETS: dict[str, Any] = {
    "linear": SCORES,
    "logistic": (SCORES > 0.0).astype(float),  # which a plane separates
    "softmax": np.eye(3)[SCORES.argmax(axis=1)],
    "poisson": RNG.poisson(np.exp(SCORES)).astype(float),
    "gamma": np.exp(SCORES) * RNG.gamma(2.0, 0.5, SCORES.shape),
    "tweedie": np.exp(SCORES) * RNG.poisson(1.0, SCORES.shape),
    "squared_hinge": (SCORES > 0.0).astype(float),
}
LINKS = [link for link in CURVES if link != "huber"]  # which has pairs of steps
WEIGHTS = np.array([1.0, 0.0, 2.0, 1e-9] * 6)


def solved(X: Any, Y: Any, link: Any, weights: Any = None, **how: Any) -> NewtonSolver:
    options = {"l2": 1e-2, "intercept": True, "tolerance": 1e-9, "threads": 1} | how
    given = {"intercept": options["intercept"], "diagonal": True}
    sums = sums_of(
        X if options.get("dense") else sp.csr_array(X), Y, weights, Loss(link, SHAPE), **given
    )
    found = NewtonSolver(sums, l2=options["l2"], **given)
    for _ in found.passes(2000, options["tolerance"], options["threads"]):
        if found.converged:
            break
    return found


def slopes(found: NewtonSolver, X: Any, Y: Any, weights: Any, l2: float) -> tuple[Any, Any]:
    """The gradients by W and by b in float64, by the loss alone."""
    theta, centre = found.theta, found._sums.centre
    shares = np.ones(len(X)) if weights is None else weights
    shares = (shares / shares.sum())[:, None]
    eta = (X if centre is None else X - centre) @ theta[:-1] + theta[-1]
    R = shares * CURVES[found.link].losses(eta, Y, SHAPE)[1]
    return X.T @ R + l2 * theta[:-1], R.sum(axis=0)


@crossed(dense=[False, True], link=LINKS, data=DATA)
def test_the_gradient_is_zero(data: str, link: str, dense: bool) -> None:
    X = DATA[data]
    for l2, weights, intercept, columns in (
        (1e-2, None, True, 3),
        (1e-2, WEIGHTS, False, 3),
        (1e-3, WEIGHTS, True, 1),
    ):
        if link == "softmax" and columns == 1:
            continue
        Y = TARGETS[link][: len(X), :columns]
        weights = None if weights is None else weights[: len(X)]
        found = solved(X, Y, link, weights, l2=l2, intercept=intercept, dense=dense)
        by_W, by_b = slopes(found, X, Y, weights, l2)
        size = 1.0 + np.sqrt((X**2).mean(axis=0))[:, None]  # columns of any units
        scale = 1.0 + abs(Y).max()
        assert found.converged
        assert (abs(by_W) <= 1e-6 * size * scale).all()
        assert abs(by_b).max() <= 1e-6 * scale if intercept else not found.b.any()


@pytest.mark.parametrize("link", [link for link in LINKS if link != "squared_hinge"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_products_are_differences_of_gradients(link: Any, weights: Any) -> None:
    for centred in (True, False):
        given = TARGETS[link], weights, Loss(link, SHAPE)
        sparse = SparseSums(sp.csr_array(FEW), *given, centred=centred)
        dense = DenseSums(FEW, *given, far=0.5 if centred else np.inf)
        assert dense.single is (link != "linear")
        theta, V = 0.3 * RNG.normal(size=(2, FEATURES + 1, 3))
        step, pool = 1e-5, Pool(1)
        for sums, single, error in (
            (sparse, False, 1e-7),
            (dense, False, 1e-7),
            (dense, True, 1e-5),
        ):
            sums.single = single
            above, below = (sums.at(theta + s * V, pool).gradient for s in (step, -step))
            found = sums.curved(V, sums.curve(theta, pool), pool)
            wanted = (above - below) / (2 * step)
            np.testing.assert_allclose(found, wanted, rtol=10 * error, atol=error)
        pool.close()


@pytest.mark.parametrize("link", LINKS)
def test_threads_change_no_bits(link: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(row_sums, "WORTH", 20)
    monkeypatch.setattr(sparse_sums, "AT_ONCE", 192)
    monkeypatch.setattr(dense_sums, "LONGER", 1)
    monkeypatch.setattr(dense_sums, "AT_ONCE", 1)
    X, Y = np.vstack([FEW] * 9), np.vstack([TARGETS[link]] * 9)
    for dense in (False, True):
        how = {"dense": dense, "tolerance": 1e-4}
        one, two = (solved(X, Y, link, threads=n, **how) for n in (1, 2))
        assert one.theta.tobytes() == two.theta.tobytes()


def test_classes_that_a_plane_separates_end_without_a_penalty() -> None:
    for link in ("logistic", "softmax"):
        found = solved(FEW, TARGETS[link], link, l2=0.0, tolerance=1e-4)
        assert found.converged and np.isfinite(found.W).all()
        scores = FEW @ found.W + found.b
        if link == "logistic":
            assert ((scores > 0.0) == TARGETS[link]).all()
        else:
            assert (scores.argmax(axis=1) == TARGETS[link].argmax(axis=1)).all()


def test_no_penalty_and_fewer_rows_than_columns_fit_squares_exactly() -> None:
    has = FEW[FEW.any(axis=1)]
    Y = SCORES[: len(has)]
    found = solved(has, Y, "linear", l2=0.0)
    np.testing.assert_allclose(has @ found.W + found.b, Y, atol=1e-5)
    centred = has - has.mean(axis=0)
    least = np.linalg.lstsq(centred, Y - Y.mean(axis=0), rcond=None)[0]  # the shortest solution
    np.testing.assert_allclose(found.W, least, atol=1e-5)


def test_rows_of_equal_lengths_without_common_columns_need_one_product(monkeypatch: Any) -> None:
    """Columns have sizes of 1 to 3, so a diagonal of their own would turn steps away."""
    X = np.kron(np.eye(6), [[1.0, 2.0, 3.0]])
    products: list[int] = []
    curved = SparseSums.curved

    def counted(self: SparseSums, *given: Any) -> Any:
        products.append(1)
        return curved(self, *given)

    monkeypatch.setattr(SparseSums, "curved", counted)
    found = solved(X, SCORES[:6, :1], "linear", intercept=False)
    assert found.converged and len(products) == 1


@pytest.mark.parametrize("intercept", [True, False])
def test_columns_without_numbers_are_not_read(intercept: bool) -> None:
    X, Y = sp.csr_array(GAPS), TARGETS["logistic"]
    used, few = used_columns(X)
    assert used.tolist() == np.flatnonzero(GAPS.any(axis=0)).tolist()
    np.testing.assert_array_equal(few.toarray(), GAPS[:, used])
    given = {"intercept": intercept, "diagonal": True}
    inner = NewtonSolver(sums_of(few, Y, None, Loss("logistic"), **given), l2=1e-2, **given)
    found = UsedColumns(inner, used, FEATURES)
    assert max(found.passes(100, 1e-9, 1)) == 100 or found.converged
    wanted = solved(GAPS, Y, "logistic", intercept=intercept)
    np.testing.assert_allclose(found.W, wanted.W, atol=1e-6)
    np.testing.assert_allclose(found.b, wanted.b, atol=1e-6)
    np.testing.assert_allclose(found.mean, GAPS.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.variance, GAPS.var(axis=0), atol=1e-12)
