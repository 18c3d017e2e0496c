"""Factorization machines against sums over pairs in float64, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models import FM, GLM, Target
from blocklearn.models.errors import ModelConfigError
from blocklearn.optimizers import FTRL, LBFGS, SGD, AdaGrad
from blocklearn.optimizers.errors import CombinationError
from tests.support.often import paired, rarely

Array = np.ndarray[Any, Any]
ROWS, COLUMNS, K, BLOCK = 90, 20, 3, 30  # the kernels of tests/models/test_contract.py


def hostile(seed: int = 0) -> Array:
    """Rows with an empty one, a full one, and a column that never occurs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.2)
    X[4], X[5], X[:, 7] = 0.0, 1.0, 0.0
    return X.astype(np.float32)


def pairs(X: Array, V: Array) -> Array:
    """Sums over all pairs of features, one after another, [rows]."""
    total = np.zeros(len(X))
    for a in range(X.shape[1]):
        for b in range(a):
            total += X[:, a] * X[:, b] * (V[a] @ V[b])
    return total


def scores(X: Array, W: Array, intercept: Array, V: Array) -> Array:
    """The scores [rows x outputs] by their definition, in float64."""
    X, W, V = X.astype(np.float64), W.astype(np.float64), V.astype(np.float64)
    T = W.shape[1]
    return X @ W + intercept + np.stack([pairs(X, V[:, t::T]) for t in range(T)], axis=1)


def slopes(X: Array, y: Array, weights: Array, V: Array, eta: Array) -> tuple[Array, Array]:
    """Gradients of the mean squared error / 2 of one output by W and V, in float64."""
    r = ((eta[:, 0] - y) * weights / weights.sum())[:, None]
    S = X @ V
    own = (X**2).T @ r
    return X.T @ r, X.T @ (r * S) - own * V


def learner_of(model: FM, X: Any, Y: Array, **options: Any) -> bl.Learner:
    given: dict[str, Any] = {"passes": 1, "block_rows": BLOCK, "threads": 1, "seed": 3, **options}
    return bl.Learner(model, (X, Y), (X, Y), verbose=False, **given)


@paired(2, sparse=[False, True], outputs=[1, 2])
def test_scores_are_sums_over_pairs(outputs: int, sparse: bool) -> None:
    X = hostile()
    Y = np.random.default_rng(1).normal(size=(ROWS, outputs)).astype(np.float32)
    model = FM(factors=K, link="linear", start=0.5)
    data = sp.csr_array(X) if sparse else X
    learner = learner_of(model, data, Y).fit()
    found = [learner.parameter(name) for name in ("W", "intercept", "factors")]
    assert found[2].shape == (COLUMNS, K * outputs)
    np.testing.assert_allclose(learner.predict(data), scores(X, *found), rtol=1e-4, atol=1e-4)
    assert learner.progress.allocations_after_warmup == 0


@pytest.mark.parametrize("sparse", [False, True])
def test_a_step_is_that_of_the_definition(sparse: bool) -> None:
    """One block, weighted, by gradient descent."""
    X = hostile()
    rng = np.random.default_rng(2)
    y, weights = rng.normal(size=ROWS), rng.integers(0, 3, ROWS).astype(np.float32)
    options: dict[str, Any] = {"threads": 1, "seed": 3, "verbose": False, "block_rows": 128}
    data = (sp.csr_array(X) if sparse else X, y[:, None].astype(np.float32), weights)
    model = FM(factors=K, link="linear", start=0.5, l2=0.1)
    learners = [
        bl.Learner(model.model_copy(), data, optimizer=SGD(rate=rate), passes=1, **options).fit()
        for rate in (1e-12, 0.2)
    ]
    (W, b, V), after = (
        [each.parameter(n).astype(np.float64) for n in ("W", "intercept", "factors")]
        for each in learners
    )
    eta = scores(X, W, b, V)
    by_W, by_V = slopes(X.astype(np.float64), y, weights, V, eta)
    assert abs(by_V).max() > 1e-3
    faded = (1 - np.exp(-0.1 * 0.2)) / 0.1  # of a step of 0.2, see optimizers/flow.py
    occurs = (X != 0).any(axis=0)[:, None] if sparse else True
    for before, slope, found in ((W, by_W, after[0]), (V, by_V, after[2])):
        expected = before * np.exp(-0.1 * 0.2) - faded * slope
        np.testing.assert_allclose(found * occurs, expected * occurs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sparse", [True, *rarely(False)])
def test_full_passes_reach_a_point_without_slope(sparse: bool) -> None:
    X = hostile()
    Y = scores(X, *planted_weights()).astype(np.float32)
    optimizer = LBFGS(tolerance=1e-6)
    model = FM(factors=K, link="linear", l2=1e-3)
    data = sp.csr_array(X) if sparse else X
    learner = learner_of(model, data, Y, optimizer=optimizer, passes=60).fit()
    W, b, V = (learner.parameter(n).astype(np.float64) for n in ("W", "intercept", "factors"))
    by_W, by_V = slopes(X.astype(np.float64), Y[:, 0], np.ones(ROWS), V, scores(X, W, b, V))
    assert max(abs(by_W + 1e-3 * W).max(), abs(by_V + 1e-3 * V).max()) < 0.02
    assert learner.progress.scores["r2"] > 0.9


def planted_weights() -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(5)
    return 0.3 * rng.normal(size=(COLUMNS, 1)), np.zeros((1, 1)), rng.normal(size=(COLUMNS, 2))


SIZES = [7, 1, 12]


def field_pairs(X: Array, V: Array, sizes: list[int] = SIZES) -> Array:
    """Sums over all pairs of features of V_a,g . V_b,f, one after another, [rows].

    V: [features x fields x fields x factors]; of feature a of field f, only V[a, f] counts.
    """
    field = np.repeat(np.arange(len(sizes)), sizes)
    total = np.zeros(len(X))
    for a in range(X.shape[1]):
        for b in range(a):
            f, g = field[a], field[b]
            total += X[:, a] * X[:, b] * (V[a, f, g] @ V[b, g, f])
    return total


def field_scores(X: Array, W: Array, intercept: Array, V: Array) -> Array:
    """The scores [rows x outputs] of a field-aware machine by their definition, in float64."""
    X, W, V = X.astype(np.float64), W.astype(np.float64), V.astype(np.float64)
    F, T = len(SIZES), W.shape[1]
    by_output = V.reshape(COLUMNS, F, F, -1, T)
    found = [field_pairs(X, by_output[..., t]) for t in range(T)]
    return X @ W + intercept + np.stack(found, axis=1)


@pytest.mark.parametrize(("outputs", "sparse"), [(1, True), *rarely((2, True), (2, False))])
def test_scores_of_fields_are_sums_over_pairs(outputs: int, sparse: bool) -> None:
    X = hostile()
    Y = np.random.default_rng(1).normal(size=(ROWS, outputs)).astype(np.float32)
    model = FM(factors=K, fields=SIZES, link="linear", start=0.5)
    data = sp.csr_array(X) if sparse else X
    learner = learner_of(model, data, Y).fit()
    W, b, V = (learner.parameter(name) for name in ("W", "intercept", "factors"))
    assert V.shape == (COLUMNS, 9 * K * outputs)
    field = np.repeat(np.arange(3), SIZES)
    own = np.repeat(field[:, None] == np.arange(3), 3 * K * outputs, axis=1)
    assert (V[~own] == 0).all() and (V[own] != 0).mean() > 0.9
    np.testing.assert_allclose(
        learner.predict(data), field_scores(X, W, b, V), rtol=1e-4, atol=1e-4
    )
    assert learner.progress.allocations_after_warmup == 0


@pytest.mark.parametrize("sparse", [True, *rarely(False)])
def test_a_step_of_fields_has_the_slopes_of_the_definition(sparse: bool) -> None:
    """One block by gradient descent, beside finite differences in float64."""
    X = hostile()
    y = np.random.default_rng(2).normal(size=ROWS)
    data = (sp.csr_array(X) if sparse else X, y[:, None].astype(np.float32))
    model = FM(factors=K, fields=SIZES, link="linear", start=0.5)
    options: dict[str, Any] = {"threads": 1, "seed": 3, "verbose": False, "block_rows": 128}
    before, after = (
        bl.Learner(model.model_copy(), data, optimizer=SGD(rate=rate), passes=1, **options).fit()
        for rate in (1e-12, 0.25)
    )
    W, b, V = (before.parameter(n).astype(np.float64) for n in ("W", "intercept", "factors"))
    slopes = (V - after.parameter("factors")) / 0.25

    def loss(V: Array) -> float:
        return float(((field_scores(X, W, b, V)[:, 0] - y) ** 2).mean() / 2)

    rng, width = np.random.default_rng(0), 1e-4
    for a in (0, 5, 7, 8, 19):
        for column in rng.choice(V.shape[1], 6, replace=False):
            shift = np.zeros_like(V)
            shift[a, column] = width
            used = column // (3 * K) == np.repeat(np.arange(3), SIZES)[a]
            expected = (loss(V + shift) - loss(V - shift)) / (2 * width)
            assert slopes[a, column] == pytest.approx(expected if used else 0.0, abs=2e-5)


@pytest.mark.slow
def test_fields_are_those_of_names() -> None:
    """Frames name the columns of categories: `city=Rome`."""
    frame = {"city": ["Rome", "Oslo"] * 30, "age": np.arange(60.0), "kind": list("abc") * 20}
    pandas = pytest.importorskip("pandas")
    y = np.arange(60.0) % 2
    learner = bl.Learner(
        FM(factors=2, fields="names"), (pandas.DataFrame(frame), y), verbose=False, threads=1
    )
    assert learner.fit().parameter("factors").shape == (6, 3 * 3 * 2)


@pytest.mark.slow
def test_targets_of_few_features_have_the_pairs_of_these_only() -> None:
    target = Target(column=0, link="linear", features=[1, 2, 8, 9])
    model = FM(factors=K, fields=SIZES, start=0.5, targets=[target])
    V = learner_of(model, hostile(), np.ones((ROWS, 1), np.float32)).fit().parameter("factors")
    start = learner_of(model, hostile(), np.ones((ROWS, 1), np.float32), passes=1,
                       optimizer=SGD(rate=1e-12)).fit().parameter("factors")  # fmt: skip
    moved = (V != start).any(axis=1)
    assert moved[[1, 2, 8, 9]].all() and moved.sum() == 4


@pytest.mark.parametrize(("fields", "rule"), [
    ([7, 12], r"fields=\[7, 12\]: must add up to 20, .* they add up to 19\. Set the columns"),
    ("names", r"fields=names: must be a list of sizes: .* have no names\. Set fields: \["),
])  # fmt: skip
def test_fields_that_do_not_fit_are_refused(fields: Any, rule: str) -> None:
    with pytest.raises(ModelConfigError, match=rule):
        learner_of(FM(fields=fields), hostile(), np.ones((ROWS, 1), np.float32)).fit()


def test_pairs_are_learned_that_a_linear_model_cannot_see() -> None:
    """Each row is a user and an item; whether they match is a product."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(10, size=1500), rng.integers(10, size=1500)
    y = ((users + items) % 2 == 0).astype(np.float32)[:, None]
    cells = np.stack([users, 10 + items], axis=1).ravel()
    X = sp.csr_array((np.ones(3000, np.float32), cells, np.arange(0, 3001, 2)), shape=(1500, 20))
    aucs = []
    for model in (FM(factors=K), GLM()):
        learner = bl.Learner(
            model, (X[:1000], y[:1000]), (X[1000:], y[1000:]), passes=20, block_rows=BLOCK,
            threads=1, optimizer=AdaGrad(rate=0.1), verbose=False,
        ).fit()  # fmt: skip
        aucs.append(learner.progress.scores["auc"])
    assert aucs[0] > 0.99 and aucs[1] < 0.6


def test_targets_have_features_rates_and_penalties_of_their_own() -> None:
    X = hostile()
    Y = np.random.default_rng(1).normal(size=(ROWS, 2)).astype(np.float32)
    targets = [Target(column=0, features=[0, 1, 2], rate=0.5), Target(column=1, l2=[0.0, 10.0])]
    model = FM(targets=targets, link="linear", factors=K)
    learner = learner_of(model, sp.csr_array(X), Y, passes=8, optimizer=AdaGrad(rate=0.1)).fit()
    V, W = learner.parameter("factors"), learner.parameter("W")
    assert W.shape == (COLUMNS, 3) and V.shape == (COLUMNS, 3 * K)
    start = learner_of(model, sp.csr_array(X), Y, optimizer=AdaGrad(rate=1e-12)).fit()
    moved = abs(V - start.parameter("factors"))
    assert not moved[3:, 0::3].any() and moved[:3, 0::3].all() and not W[3:, 0].any()
    assert abs(V[:, 2::3]).sum() < 0.5 * abs(V[:, 1::3]).sum()


def test_steps_by_row_are_refused() -> None:
    Y = np.ones((ROWS, 1), np.float32)
    with pytest.raises(CombinationError, match="LinearLoss"):
        learner_of(FM(), sp.csr_array(hostile()), Y, optimizer=AdaGrad(step_per="row")).fit()


def test_a_start_at_zero_is_refused() -> None:
    """Gradients of factors are 0 where all factors are, so a linear model would come out."""
    learner = learner_of(FM(), hostile(), np.ones((ROWS, 1), np.float32), optimizer=FTRL())
    with pytest.raises(CombinationError, match="optimizer=ftrl: .* stay 0. Use adagrad"):
        learner.fit()
