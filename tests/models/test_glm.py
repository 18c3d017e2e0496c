"""GLM against float64 references, finite differences, scikit-learn, and itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, huber, log_softmax
from sklearn.linear_model import Lasso, LogisticRegression, Ridge, TweedieRegressor
from sklearn.metrics import (
    accuracy_score,
    hinge_loss,
    log_loss,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_squared_error,
    mean_tweedie_deviance,
    r2_score,
    roc_auc_score,
)

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.matcache import MatCache, ShapeError, from_array
from blocklearn.models import GLM, Target
from blocklearn.models.errors import TargetError
from blocklearn.models.glm.links import LINKS
from blocklearn.models.glm.rows import Labels, Links, losses, means
from blocklearn.models.glm.scoring.areas import area
from blocklearn.models.glm.scoring.ranking import BINS, BlockRanking, Ranking, ranking_of
from blocklearn.optimizers import FTRL, LBFGS, SGD, AdaGrad, Adam, Optimizer, RMSProp
from blocklearn.optimizers.linear_loss import RowLosses, mean_derivatives, row_losses
from tests.support.often import first_often, rarely

N, V = 240, 30
SINGLE = [name for name in LINKS if name != "softmax"]


def data(
    n: int = N, features: int = V, seed: int = 0, density: float = 0.3
) -> tuple[sp.csr_array, np.ndarray[Any, Any]]:
    """Sparse X [n x features], and the linear scores of three targets [n x 3]."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, features), density=density, rng=rng, format="csr", dtype=np.float32)
    return X, X @ rng.normal(size=(features, 3)) + 0.3 * rng.normal(size=(n, 3))


def labels(n: int = N, seed: int = 0) -> tuple[sp.csr_array, np.ndarray[Any, Any]]:
    X, scores = data(n, seed=seed)
    return X, (scores > 0).astype(np.float32)


def fit(
    model: GLM, X: Any, Y: Any, optimizer: Optimizer | None = None, **options: Any
) -> bl.Learner:
    """Trained on blocks in the order of the rows; by default with steps of blocks."""
    weights, names = options.pop("weights", None), options.pop("target_names", None)
    block_rows, shuffle = options.pop("block_rows", X.shape[0]), options.pop("shuffle", False)
    source = MatrixSource(
        X, targets=Y, weights=weights, block_rows=block_rows, shuffle=shuffle, target_names=names
    )
    options = {"threads": 1, "passes": 5, "block_rows": block_rows} | options
    optimizer = optimizer or model.default_optimizer()
    return bl.Learner(model, source, optimizer=optimizer, **options).fit()


def table(learner: bl.Learner, name: str = "W") -> np.ndarray[Any, Any]:
    return learner.state().tensors[name]


# ------------------------------------------------------------------ links


def inputs(link: str, n: int = 20) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    eta = rng.normal(scale=2.0, size=(n, 3))
    if link == "softmax":
        y = np.eye(3)[rng.integers(3, size=n)]
        y[0] = 0.0  # a row without a class
    elif link in ("logistic", "hinge", "squared_hinge"):
        y = rng.integers(2, size=(n, 3)).astype(float)
        y[:2] = 0.3  # a mixture
    elif link == "gamma":
        y = rng.gamma(2.0, 1.0, (n, 3))
    else:
        y = rng.poisson(2.0, (n, 3)).astype(float)
    return eta, y


def links_of(link: str, cache: MatCache | None = None) -> Links:
    """The link alone, with its default shape in all three columns."""
    shape = LINKS[link].shape
    if shape is None:
        return Links((link,))
    row = np.full((1, 3), shape.default, np.float64 if cache is None else np.float32)
    return Links((link,), (), row if cache is None else from_array(cache, row))


def both(link: str, eta: Any, y: Any) -> Any:
    """Residuals and losses [n x 3] each, from the definition in float64."""
    return losses.reference(eta, Labels(y), links_of(link))


@pytest.mark.parametrize("link", LINKS)
def test_residual_is_the_derivative_of_the_loss(link: str) -> None:
    eta, y = inputs(link)
    step, found = 1e-6, np.empty_like(eta)
    for k in range(3):
        shift = np.zeros_like(eta)
        shift[:, k] = step
        above, below = (both(link, eta + s, y)[1].sum(axis=1) for s in (shift, -shift))
        found[:, k] = (above - below) / (2 * step)
    np.testing.assert_allclose(found, both(link, eta, y)[0], rtol=1e-5, atol=1e-7)


def independent_loss(link: str, eta: Any, y: Any) -> Any:
    match link:
        case "linear":
            return (eta - y) ** 2 / 2
        case "logistic":
            return -(y * np.log(expit(eta)) + (1 - y) * np.log(expit(-eta)))
        case "hinge":
            return y * np.maximum(0, 1 - eta) + (1 - y) * np.maximum(0, 1 + eta)
        case "squared_hinge":
            return y * np.maximum(0, 1 - eta) ** 2 + (1 - y) * np.maximum(0, 1 + eta) ** 2
        case "poisson":
            return np.exp(eta) - y * eta
        case "huber":
            return huber(1.0, eta - y)
        case "quantile":
            return np.abs(eta - y) / 2
        case "gamma":
            return y / np.exp(eta) + eta
        case "tweedie":
            mean = np.exp(eta)
            return 2 * y / np.sqrt(mean) + 2 * np.sqrt(mean)
    return -y * log_softmax(eta, axis=1)


@pytest.mark.parametrize("link", LINKS)
def test_kernels_compute_the_formulas(link: str) -> None:
    eta, y = inputs(link)
    expected = both(link, eta, y)
    loss = independent_loss(link, eta, y).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(expected[1].sum(axis=1, keepdims=True), loss)
    with MatCache(threads=1) as cache:
        mats = [from_array(cache, a.astype(np.float32)) for a in (eta, y)]
        ones = from_array(cache, np.ones((20, 1), "f"))
        of_rows = RowLosses(losses, (Labels(mats[1]), links_of(link, cache)))
        found = mean_derivatives(mats[0], None, None, of_rows, ones, 4.0).numpy()
        np.testing.assert_allclose(found, expected[0] / 4.0, rtol=2e-5, atol=2e-6)
        together = row_losses(mats[0], None, None, of_rows)
        for mat, wanted in zip(together, (expected[0], loss), strict=True):
            np.testing.assert_allclose(mat.numpy(), wanted, rtol=2e-5, atol=2e-6)


def test_links_survive_extreme_scores() -> None:
    eta = np.array([[-1e4, 0.0, 1e4]], np.float32)
    with MatCache(threads=1) as cache:
        mats = [from_array(cache, a) for a in (eta, np.ones((1, 3), "f"))]
        zero = from_array(cache, np.zeros((1, 3), "f"))
        for link in LINKS:
            links = links_of(link, cache)
            for found in losses(mats[0], Labels(mats[1]), links):
                assert np.isfinite(found.numpy()).all(), link
            assert np.isfinite(means(mats[0], None, zero, "mean", links).numpy()).all(), link


# ------------------------------------------------------------------ optima


@pytest.mark.parametrize("dense", first_often([False, True]))
def test_logistic_optimum_is_that_of_lbfgs_in_sklearn(dense: bool) -> None:
    X, Y = labels(400)
    l2 = 0.01
    given_X = X.toarray() if dense else X
    learner = fit(GLM(l2=l2), given_X, Y, LBFGS(tolerance=1e-6), passes=200, block_rows=100)
    for k in range(3):
        peer = LogisticRegression(C=1 / (l2 * 400), tol=1e-10, max_iter=5000)
        peer.fit(X.astype(np.float64), Y[:, k])
        np.testing.assert_allclose(table(learner)[:, k], peer.coef_[0], atol=2e-3)
        np.testing.assert_allclose(table(learner, "intercept")[0, k], peer.intercept_, atol=2e-3)


@pytest.mark.parametrize(("link", "power"), first_often([("gamma", 2.0), ("tweedie", 1.3)]))
def test_optimum_of_positive_targets_is_that_of_sklearn(link: Any, power: float) -> None:
    X, scores = data(300)
    y = np.exp(scores[:, :1]) * np.random.default_rng(5).gamma(2.0, 0.5, (300, 1))
    model = GLM(link=link, l2=0.05, shape=None if link == "gamma" else power)
    learner = fit(model, X, y, LBFGS(tolerance=1e-6), passes=200, block_rows=100)
    peer = TweedieRegressor(power=power, alpha=0.05, link="log", tol=1e-9, max_iter=9999)
    peer.fit(X.astype(np.float64), y[:, 0])
    np.testing.assert_allclose(table(learner)[:, 0], peer.coef_, atol=2e-3)
    found = learner.evaluate((X, y))[f"{link}_deviance"]
    wanted = mean_tweedie_deviance(y[:, 0], learner.predict(X)[:, 0], power=power)
    assert found == pytest.approx(wanted, rel=1e-4)


def test_optimum_of_huber_has_no_slope() -> None:
    X, Y = data(300)
    Y[::10] += 50.0  # outliers
    learner = fit(GLM(link="huber", shape=0.5, l2=0.02), X, Y, LBFGS(tolerance=1e-7), passes=300)
    W, b = table(learner).astype(np.float64), table(learner, "intercept")
    slope = np.clip(X @ W + b - Y, -0.5, 0.5)
    np.testing.assert_allclose(X.T @ slope / 300 + 0.02 * W, 0.0, atol=2e-4)
    np.testing.assert_allclose(slope.mean(axis=0), 0.0, atol=2e-4)


def test_a_quantile_has_its_share_of_targets_below() -> None:
    X = sp.csr_array(np.ones((400, 1), np.float32))
    y = np.random.default_rng(2).exponential(size=(400, 1))
    targets = [Target(name=f"{q:g}", link="quantile", column=0, shape=q) for q in (0.1, 0.5, 0.9)]
    learner = fit(GLM(targets=targets), X, y, AdaGrad(rate=0.3), passes=200, block_rows=100)
    predicted = learner.predict(X)
    np.testing.assert_allclose((y < predicted).mean(axis=0), [0.1, 0.5, 0.9], atol=0.02)
    found = learner.evaluate((X, y))
    for column, q in enumerate((0.1, 0.5, 0.9)):
        wanted = mean_pinball_loss(y[:, 0], predicted[:, column], alpha=q)
        assert found[f"pinball_loss/{q:g}"] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GLM(link="quantile", shape=1.5), "shape=1.5: must be between 0 and 1, the share of"),
        (GLM(link="tweedie", shape=2.0), "shape=2: must be between 1 and 2, the power of"),
        (GLM(link="huber", shape=0.0), "shape=0: must be between 0 and inf, the error from"),
        (GLM(link="linear", shape=2.0), "shape=2: must be null for link linear. Leave it out"),
        (GLM(link="gamma"), "is 0 in a row: for link gamma it must be positive"),
    ],
    ids=lambda x: x if isinstance(x, str) else x.link,
)
def test_shapes_and_targets_out_of_bounds_are_refused(model: GLM, message: str) -> None:
    X, _ = data(40)
    with pytest.raises(TargetError, match=message):
        fit(model, X, np.zeros((40, 1)))


def test_multinomial_optimum_is_that_of_sklearn() -> None:
    X, scores = data(400)
    y = scores.argmax(axis=1)
    learner = fit(GLM(link="softmax", l2=0.01), X, np.eye(3)[y], LBFGS(tolerance=1e-6), passes=200)
    peer = LogisticRegression(C=1 / 4, tol=1e-10, max_iter=5000).fit(X.astype(np.float64), y)
    np.testing.assert_allclose(table(learner), peer.coef_.T, atol=2e-3)
    np.testing.assert_allclose(learner.predict(X), peer.predict_proba(X), atol=2e-3)


def test_linear_optimum_is_that_of_ridge() -> None:
    X, Y = data(300)
    learner = fit(GLM(link="linear", l2=0.02), X, Y, LBFGS(tolerance=1e-6), passes=200)
    peer = Ridge(alpha=0.02 * 300, tol=1e-12).fit(X.toarray(), Y)
    np.testing.assert_allclose(table(learner), peer.coef_.T, atol=1e-3)


@pytest.mark.parametrize(
    "optimizer", first_often([SGD(rate=1.0), AdaGrad(rate=0.2), FTRL(rate=0.3)])
)
def test_l1_solution_is_that_of_coordinate_descent(optimizer: Optimizer) -> None:
    X, Y = data(300, seed=3)
    l1 = 0.02
    model = GLM(link="linear", l1=l1, intercept=False)
    learner = fit(model, X, Y, optimizer, passes=4000, evaluation=bl.Evaluation(every_passes=None))
    for k in range(3):
        peer = Lasso(alpha=l1, fit_intercept=False, tol=1e-10, max_iter=100_000)
        peer.fit(X.toarray().astype(np.float64), Y[:, k])

        def objective(w: Any, k: int = k) -> float:
            return float(np.mean((X @ w - Y[:, k]) ** 2) / 2 + l1 * abs(w).sum())

        w = table(learner)[:, k]
        assert set(np.flatnonzero(w)) == set(np.flatnonzero(peer.coef_))
        assert objective(w) <= objective(peer.coef_) * 1.001


@pytest.mark.slow
def test_l1_logistic_solution_is_that_of_liblinear() -> None:
    X, Y = labels(400, seed=2)
    l1 = 0.01
    learner = fit(
        GLM(l1=l1, intercept=False),
        X,
        Y,
        SGD(rate=4.0),
        passes=4000,
        evaluation=bl.Evaluation(every_passes=None),
    )
    for k in range(3):
        peer = LogisticRegression(
            C=1 / (l1 * 400), l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-7,
            max_iter=10_000, random_state=0,
        ).fit(X.astype(np.float64), Y[:, k])  # fmt: skip
        w = table(learner)[:, k]
        assert set(np.flatnonzero(w)) == set(np.flatnonzero(peer.coef_))
        np.testing.assert_allclose(w, peer.coef_[0], atol=5e-3)


# ------------------------------------------------------------------ weights


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=40, max_size=40),
    st.sampled_from(["logistic", "softmax", "gamma"]),
)
def test_weight_0_is_absent_and_weight_2_is_twice(weights: list[int], link: str) -> None:
    if not any(weights):
        weights[0] = 1
    X, scores = data(40)
    Y = np.eye(3)[scores.argmax(axis=1)] if link == "softmax" else (scores > 0).astype(float)
    if link == "gamma":
        Y += 0.5
    times = np.repeat(np.arange(40), weights)
    model = GLM(link=link, l2=0.01)
    one = fit(model, X, Y, weights=np.array(weights, float))
    other = fit(model, X[times], Y[times], block_rows=len(times))
    np.testing.assert_allclose(table(one), table(other), rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(
        table(one, "intercept"), table(other, "intercept"), rtol=2e-3, atol=1e-4
    )
    source = MatrixSource(X, targets=Y, weights=np.array(weights, float), block_rows=40)
    found, expected = one.evaluate(source), other.evaluate((X[times], Y[times]))
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-2, abs=1e-3, nan_ok=True), name


def test_rows_without_weight_move_nothing() -> None:
    X, Y = labels()
    learner = fit(GLM(intercept=False), X, Y, weights=np.zeros(N))
    assert not table(learner).any()


@pytest.mark.parametrize("link", first_often(["logistic", "softmax"]))
def test_balanced_class_weights_are_those_of_sklearn(link: str) -> None:
    X, scores = data(400)
    y = (scores[:, 0] > 0.8).astype(int) if link == "logistic" else (scores - [0, 1, 2]).argmax(1)
    Y = y[:, None] if link == "logistic" else np.eye(3)[y]
    model = GLM(link=link, l2=0.01, class_weight="balanced")
    learner = fit(model, X, Y, LBFGS(tolerance=1e-6), passes=200, block_rows=128)
    peer = LogisticRegression(C=1 / 4, class_weight="balanced", tol=1e-10, max_iter=5000)
    peer.fit(X.astype(np.float64), y)
    np.testing.assert_allclose(table(learner), peer.coef_.T, atol=3e-3)


def test_class_weights_by_class() -> None:
    X, Y = labels(400)
    twice = np.where(Y[:, 0] > 0, 2.0, 1.0)
    targets = [Target(column=0, class_weight={1: 2.0})]
    one = fit(GLM(targets=targets, l2=0.01), X, Y, LBFGS(tolerance=1e-6), passes=100)
    l2 = 0.01 * 400 / twice.sum()  # there weights of rows are in the divisor too
    other = fit(GLM(l2=l2), X, Y[:, :1], LBFGS(tolerance=1e-6), passes=100, weights=twice)
    np.testing.assert_allclose(table(one), table(other), atol=2e-3)
    names = {"class_weight": {"b": 3.0}, "link": "softmax", "columns": ["a", "b", "c"]}
    model = GLM(targets=[Target(**names)])
    learner = fit(model, X, np.eye(3)[Y.argmax(axis=1)], target_names=["a", "b", "c"])
    assert learner.team.first.model.shares.numpy().tolist() == [[1, 3, 1]]
    with pytest.raises(TargetError, match="names the class 'd'; there are 0, 1"):
        fit(GLM(class_weight={"d": 1.0}), X, Y)
    with pytest.raises(TargetError, match="link linear has no classes"):
        fit(GLM(class_weight="balanced", link="linear"), X, Y)


def test_row_weights_of_one_target() -> None:
    X, Y = labels()
    half = (np.arange(N) % 2).astype(np.float32)
    both = np.c_[Y[:, :1], half]
    targets = [Target(column=0, row_weights=1, name="half"), Target(column=0, name="all")]
    learner = fit(GLM(targets=targets), X, both, SGD(rate=1.0))
    rows = np.flatnonzero(half)
    alone = fit(GLM(), X[rows], Y[rows, :1], SGD(rate=0.5))  # the divisor is that of all rows
    assert_start = learner.team.first.model  # both start at the mean of all rows
    assert assert_start.own_places.tolist() == [1, 0]
    np.testing.assert_allclose(table(learner)[:, 0], table(alone)[:, 0], atol=0.02)
    found = learner.evaluate((X, both))
    expected = learner.evaluate((X[rows], both[rows]))
    assert found["auc/half"] == pytest.approx(expected["auc/half"])
    assert found["log_loss/half"] == pytest.approx(expected["log_loss/half"], rel=1e-5)


# ------------------------------------------------------------------ bits


def test_order_of_rows_within_a_block_changes_rounding_only() -> None:
    X, Y = labels()
    order = np.random.default_rng(0).permutation(N)
    one, other = fit(GLM(), X, Y), fit(GLM(), X[order], Y[order])
    np.testing.assert_allclose(table(one), table(other), rtol=1e-4, atol=1e-5)


BY_GRADIENTS = [
    SGD(rate=0.1), SGD(rate=0.1, momentum=0.5), AdaGrad(rate=0.5), RMSProp(rate=0.02),
    Adam(rate=0.02), FTRL(rate=0.5), AdaGrad(rate=0.5, step_per="row"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "optimizer"),
    [
        (17, BY_GRADIENTS[4]),
        (17, BY_GRADIENTS[6]),
        *rarely(*((17, optimizer) for optimizer in [*BY_GRADIENTS[:4], BY_GRADIENTS[5]])),
        *rarely(*((n, BY_GRADIENTS[i]) for n in (2, 3, 5, 40) for i in (4, 6))),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_many_targets_are_to_the_bit_as_each_alone(count: int, optimizer: Optimizer) -> None:
    """Whatever stands beside a column, its sums have the same order and its products are fused
    alike; of all links but softmax, whose columns depend on each other.
    """
    X, Y = labels(700)
    targets = [
        Target(
            link=SINGLE[t % 4], column=t % 3, name=f"{t}",
            l1=[0.0, 1e-3, 1e-4][t % 3], l2=[1e-2, 0.0][t % 2], rate=[1.0, 0.5, 2.0][t % 3],
        )
        for t in range(count)
    ]  # fmt: skip
    options: dict[str, Any] = {"block_rows": 300, "passes": 2}
    together = fit(GLM(targets=targets), X, Y, optimizer, threads=2, **options)
    for t in (1, count - 1):
        alone = fit(GLM(targets=[targets[t]]), X, Y, optimizer, **options)
        for name in ("W", "intercept"):
            np.testing.assert_array_equal(table(together, name)[:, [t]], table(alone, name), name)


def test_groups_of_classes_are_as_each_alone() -> None:
    """To rounding: a group's sums run over all columns, of which those of others are 0."""
    X, Y = labels()
    targets = [
        Target(link="softmax", columns=[0, 1, 2], name="group"),
        Target(column=1),
        Target(link="softmax", columns=[2, 0], name="pair"),
    ]
    # sgd: an optimizer without a state has nothing that could hide a difference
    together = fit(GLM(targets=targets), X, Y, SGD(rate=0.1), block_rows=64)
    start = 0
    for target in targets:
        alone = fit(GLM(targets=[target]), X, Y, SGD(rate=0.1), block_rows=64)
        columns = slice(start, start + len(target.columns or [0]))
        np.testing.assert_allclose(
            table(together)[:, columns], table(alone), rtol=1e-5, atol=1e-6, err_msg=target.name
        )
        start = columns.stop


def test_sparse_labels_are_as_dense_ones() -> None:
    X, Y = labels()
    one, other = fit(GLM(), X, Y), fit(GLM(), X, sp.csr_array(Y))
    assert np.array_equal(table(one), table(other))


def test_dense_data_are_as_sparse_ones() -> None:
    X, Y = labels()
    model = GLM(l1=1e-3, l2=1e-3)
    one, other = (fit(model, x, Y, block_rows=64, passes=2) for x in (X, X.toarray()))
    np.testing.assert_allclose(table(one), table(other), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(one.predict(X), other.predict(X.toarray()), rtol=1e-3, atol=1e-4)


def test_cost_follows_the_non_zeros_not_the_columns(every_block_is_scored: None) -> None:
    X, Y = labels()
    wide = sp.csr_array((X.data, X.indices * 330_000, X.indptr), shape=(N, 10_000_000))
    flops, weights = [], []
    for matrix in (X, wide):
        learner = fit(GLM(targets=[Target(column=0)]), matrix, Y, block_rows=64, passes=1)
        flops.append(learner.team.first.cache.flops)
        w = learner.team.first.model.W.numpy()
        weights.append(w[w != 0])
        if matrix is wide:
            memory = sum(row[3] for row in learner.plan().rows)
            assert memory < 10_000_000 * 4 * (1 + 1) * 1.01 + 1e7  # W and AdaGrad's state
        learner.close()
    assert flops[0] == flops[1]
    assert np.array_equal(weights[0], weights[1])


# ------------------------------------------------------------------ grids, masks, names


def test_a_grid_is_more_columns() -> None:
    X, Y = labels()
    model = GLM(targets=[Target(column=0, l2=[0.0, 0.1], rate=[1.0, 2.0], name="y")])
    learner = fit(model, X, Y, SGD(rate=0.1))
    assert table(learner).shape == (V, 4)
    names = [f"log_loss/y l2={l2} rate={rate}" for l2 in ("0", "0.1") for rate in (1, 2)]
    assert names == [n for n in learner.evaluate((X, Y)) if n.startswith("log_loss/")]
    path = fit(GLM(l1=[1e-4, 1e-3, 1e-2, 1e-1]), X, Y[:, :1], passes=50)
    zeros = (table(path) == 0).sum(axis=0)
    assert (np.diff(zeros) >= 0).all() and zeros[0] == 0 < zeros[-1]


@pytest.mark.parametrize(("optimizer", "dense"), first_often([(AdaGrad(), True), (LBFGS(), False)]))
def test_a_masked_feature_has_no_weight(optimizer: Optimizer, dense: bool) -> None:
    X, Y = labels()
    names = [f"w{i}" for i in range(V)]
    targets = [
        Target(column=0, features=["w3", 5]),
        Target(column=1),
        Target(link="softmax", columns=[0, 2], features=[1, 2]),
    ]
    X = X.toarray() if dense else X
    source = MatrixSource(X, targets=Y, block_rows=64, names=names)
    learner = bl.Learner(
        GLM(targets=targets), source, optimizer=optimizer, passes=6, threads=1
    ).fit()
    used = [np.flatnonzero(w).tolist() for w in table(learner).T]
    assert used[0] == [3, 5] and used[2] == used[3] == [1, 2] and len(used[1]) == V
    with pytest.raises(TargetError, match="no feature 'w99'"):
        fit_named = GLM(targets=[Target(column=0, features=["w99"])])
        bl.Learner(fit_named, source).fit()


def test_mistakes_are_named() -> None:
    X, Y = labels()
    with pytest.raises(ValueError, match="either `column`, or `columns`"):
        Target(link="logistic")
    with pytest.raises(ValueError, match="softmax takes `columns`"):
        Target(link="softmax", column=0)
    for wrong in (-1, 3):
        with pytest.raises(TargetError, match=f"target {wrong}: must be 0 or above, and below 3"):
            fit(GLM(targets=[Target(column=wrong)]), X, Y)
    with pytest.raises(TargetError, match="have no names of targets"):
        fit(GLM(targets=[Target(column="y")]), X, Y)
    with pytest.raises(TargetError, match="no target 'z'. The data have 3: a, b, c"):
        fit(GLM(targets=[Target(column="z")]), X, Y, target_names=["a", "b", "c"])
    with pytest.raises(TargetError, match="two targets are called '0'"):
        fit(GLM(targets=[Target(column=0), Target(column=0, link="hinge")]), X, Y)
    for link in ("logistic", "linear"):
        with pytest.raises(TargetError, match="target '0': its row_weights, column 1 .* are -1"):
            target = Target(column=0, row_weights=1, link=link)
            fit(GLM(targets=[target]), X, Y - [0.0, 1.0, 0.0])
    with pytest.raises(ShapeError, match="learns from targets"):
        bl.Learner(GLM(), X)


# ------------------------------------------------------------------ figures


def test_figures_are_those_of_sklearn() -> None:
    X, scores = data(500)
    hot, binary = np.eye(3)[scores.argmax(axis=1)], (scores[:, :1] > 0.5).astype(float)
    counts = np.random.default_rng(0).poisson(np.exp(scores[:, 1:2] / 2)).astype(float)
    Y = np.hstack([hot, binary, counts, scores[:, 2:]])
    targets = [
        Target(link="softmax", columns=[0, 1, 2], name="class"),
        Target(link="logistic", column=3, name="yes"),
        Target(link="hinge", column=3, name="margin"),
        Target(link="poisson", column=4, name="count"),
        Target(link="linear", column=5, name="number"),
    ]
    model = GLM(targets=targets, output="mean")
    learner = fit(model, X[:400], Y[:400], block_rows=128)
    found = learner.evaluate((X[400:], Y[400:]))
    p, Y = learner.predict(X[400:]).astype(np.float64), Y[400:]
    expected = {
        "log_loss/class": log_loss(Y[:, :3], p[:, :3] / p[:, :3].sum(axis=1, keepdims=True)),
        "accuracy/class": accuracy_score(Y[:, :3].argmax(1), p[:, :3].argmax(1)),
        "auc/class.1": roc_auc_score(Y[:, 1], p[:, 1]),
        "log_loss/yes": log_loss(Y[:, 3], p[:, 3]),
        "auc/yes": roc_auc_score(Y[:, 3], p[:, 3]),
        "auc/margin": roc_auc_score(Y[:, 3], p[:, 4]),
        "hinge_loss/margin": hinge_loss(Y[:, 3], p[:, 4]),
        "deviance/count": mean_poisson_deviance(Y[:, 4], p[:, 5]),
        "squared_error/number": mean_squared_error(Y[:, 5], p[:, 6]),
        "r2/number": r2_score(Y[:, 5], p[:, 6]),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-4), name
    single = [v for n, v in found.items() if n.startswith("auc/")]
    assert len(single) == 5 and found["auc"] == pytest.approx(np.mean(single))


def test_predictions() -> None:
    X, Y = labels()
    Y = np.hstack([Y, np.eye(3)[Y.argmax(axis=1)]])
    targets = [Target(column=0), Target(link="softmax", columns=[3, 4, 5])]
    outputs = {
        output: fit(GLM(targets=targets, output=output), X, Y).predict(X)
        for output in ("score", "mean", "label")
    }
    eta, mean, label = outputs["score"], outputs["mean"], outputs["label"]
    np.testing.assert_allclose(mean[:, 0], expit(eta[:, 0]), atol=1e-6)
    np.testing.assert_allclose(mean[:, 1:].sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(label[:, 0], mean[:, 0] > 0.5)
    np.testing.assert_array_equal(label[:, 1:].argmax(axis=1), mean[:, 1:].argmax(axis=1))
    assert set(np.unique(label)) == {0.0, 1.0}


def ranked(ranking: Ranking, scores: Any, y: Any, w: Any) -> Any:
    """Areas of rows that come in two blocks of 600 rows, of which 300 and 500 are true ones."""
    ranking.clear()
    for begin, rows in [(0, 300), (300, 500)]:
        block = [np.resize(x[begin : begin + rows], (600, x.shape[1])) for x in (scores, y, w)]
        ranking.add(*block, rows)
    return ranking.areas()


def labels_to_rank() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=(800, 3)), 1).astype(np.float32)  # with ties
    y = (scores + rng.normal(size=scores.shape) > 0).astype(np.float32)
    return scores, y, rng.integers(0, 3, (800, 1)).astype(np.float32)


@pytest.mark.parametrize("own_weights", [False, True])
def test_a_kept_ranking_is_exact(own_weights: bool) -> None:
    scores, y, w = labels_to_rank()
    w = np.random.default_rng(1).random(scores.shape).astype(np.float32) if own_weights else w
    ranking = ranking_of(800, [2, 0], own_weights=own_weights)
    expected = [
        roc_auc_score(y[:, k], scores[:, k], sample_weight=w[:, k if own_weights else 0])
        for k in (2, 0)
    ]
    assert ranking.exact
    for _ in range(2):  # cleared, it finds the same in the same memory
        np.testing.assert_allclose(ranked(ranking, scores, y, w), expected, rtol=1e-12)
    block = BlockRanking(1000, [2, 0])
    block.clear()
    block.add(scores, y, w, 800)
    np.testing.assert_array_equal(block.areas(), ranking.areas())


def test_a_ranking_refuses_more_rows_than_it_has_room_for() -> None:
    ranking = ranking_of(799, [0], own_weights=False)
    with pytest.raises(ValueError, match="rows=800: must be at most 799"):
        ranked(ranking, *labels_to_rank())


def test_a_binned_ranking_errs_by_no_more_than_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, y, w = labels_to_rank()
    rng = np.random.default_rng(2)
    scores = (scores + rng.normal(size=scores.shape) * [0.01, 0.3, 20]).astype(np.float32)
    monkeypatch.setattr("blocklearn.models.glm.scoring.ranking.MOST_KEPT", 100)
    assert ranking_of(2 * BINS, [0, 1, 2], own_weights=False).exact  # no more memory than bins
    binned = ranking_of(2 * BINS + 1, [0, 1, 2], own_weights=False)
    assert not binned.exact
    found, bins = ranked(binned, scores, y, w), np.clip((scores + 16) * 128, 0, 4095).astype(int)
    for k in range(3):
        same = bins[:, k, None] == bins[None, :, k]
        pairs = np.outer(y[:, k] * w[:, 0], (1 - y[:, k]) * w[:, 0])
        exact = roc_auc_score(y[:, k], scores[:, k], sample_weight=w[:, 0])
        assert abs(found[k] - exact) <= (same * pairs).sum() / pairs.sum() / 2 + 1e-12
        assert found[k] == pytest.approx(
            roc_auc_score(y[:, k], bins[:, k], sample_weight=w[:, 0]), rel=1e-12
        )


def test_areas_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(1)
    scores = rng.integers(-4, 4, (30, 10)).astype(np.float32)
    scores[scores == 0] *= np.where(rng.random((scores == 0).sum()) < 0.5, -1, 1)  # both zeros
    labels, weights = rng.random((2, 30, 10))
    labels[:, 4], weights[:, 5], scores[:, 6] = 1.0, 0.0, 3.0
    found = np.array([area(scores[:, c], labels[:, c], weights[:, c]) for c in range(10)])
    with np.errstate(invalid="ignore"):
        for c in range(10):
            above = np.sign(scores[:, c, None] - scores[None, :, c]) / 2 + 0.5
            pairs = np.outer(labels[:, c] * weights[:, c], (1 - labels[:, c]) * weights[:, c])
            np.testing.assert_allclose(found[c], (above * pairs).sum() / pairs.sum(), rtol=1e-12)
    assert np.isnan(found[[4, 5]]).all() and found[6] == pytest.approx(0.5)
    assert np.isnan(area(scores[:0, 0], labels[:0, 0], weights[:0, 0]))


def test_the_default_optimizer_follows_the_data() -> None:
    """Single rows for a few columns of W; blocks for many, dense data, and weights to be zero."""

    def chosen(model: GLM, X: Any, Y: Any, **options: Any) -> Optimizer:
        learner = bl.Learner(model, (X, Y), **options)
        assert learner.optimizer is not None
        return learner.optimizer

    X, Y = labels()
    many = np.tile(Y, 12)
    assert chosen(GLM(l2=0.1), X, Y).takes_rows
    assert not chosen(GLM(), X, many).takes_rows
    assert not chosen(GLM(), X.toarray(), Y).takes_rows
    assert not chosen(GLM(l1=0.1), X, Y).takes_rows
    assert not chosen(GLM(), X, Y, mixins=[bl.mixins.L1(weight=0.1)]).takes_rows
    assert chosen(GLM(), X, Y, mixins=[bl.mixins.L2(weight=0.1)]).takes_rows
    assert chosen(GLM(targets=[Target(column=4)]), X, many).takes_rows
    assert chosen(GLM(), X, Y, optimizer=SGD()) == SGD()
    assert GLM().default_optimizer() == chosen(GLM(), X, many)
    assert GLM().default_optimizer() == chosen(GLM(), X, Y, device="cuda")  # rows are slow there


# ------------------------------------------------------------------ files


def test_save_load_and_resume(tmp_path: Path) -> None:
    X, Y = labels(500)
    targets = [Target(column="a", l1=1e-3, class_weight="balanced"), Target(column="b")]
    model = GLM(targets=targets)
    options: dict[str, Any] = {
        "shuffle": True, "block_rows": 64, "target_names": ["a", "b", "c"],
    }  # fmt: skip
    whole = fit(model, X, Y, passes=4, **options)
    bl.save(whole, tmp_path / "model")
    loaded = bl.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), whole.predict(X))
    assert loaded.evaluate((X, Y)) == pytest.approx(whole.evaluate((X, Y)))  # other blocks

    half = fit(model, X, Y, passes=2, **options)
    source = MatrixSource(
        X, targets=Y, block_rows=64, shuffle=True, target_names=options["target_names"]
    )
    again = bl.Learner(model, source, passes=4, threads=1, optimizer=model.default_optimizer())
    again.restore(half.state())
    again.fit()
    for name, tensor in whole.state().tensors.items():
        assert np.array_equal(tensor, again.state().tensors[name]), name


@pytest.mark.parametrize(("dense", "by_rows"), [(False, False), (True, False), (False, True)])
def test_nothing_is_allocated_after_warm_up(dense: bool, by_rows: bool) -> None:
    X, scores = data(500)
    Y = np.hstack([scores, scores > 0])
    targets = [
        Target(link="linear", column=0, l1=1e-3),
        Target(link="softmax", columns=[3, 4, 5], features=[1, 2, 3], class_weight="balanced"),
        Target(link="logistic", column=4, rate=0.5, row_weights=5),
        Target(link="poisson", column=3),
        Target(link="hinge", column=3, name="margin"),
    ]
    X = X.toarray() if dense else X
    source = MatrixSource(X, targets=Y, block_rows=64, shuffle=True)
    model = GLM(targets=targets)
    optimizer = AdaGrad(rate=0.1, step_per="row") if by_rows else model.default_optimizer()
    learner = bl.Learner(model, source, source, passes=3, threads=2, optimizer=optimizer).fit()
    assert learner.team is not None and learner.team.first.complete
    stats = learner.team.first.cache.stats()
    assert stats.allocations == 1 and stats.allocations_after_warmup == 0
    assert np.isfinite(list(learner.progress.scores.values())).all()
