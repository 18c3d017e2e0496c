"""Dual ascent ends at the optimum, refuses what it cannot solve, and begins anew on new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import IterableSource
from blocklearn.mixins import L1
from blocklearn.models import FM, GLM
from blocklearn.models.glm.links import LINKS
from blocklearn.optimizers import CombinationError, DualAscent

RNG = np.random.default_rng(0)
N, L2 = 600, 1e-2
X = sp.random_array((N, 20), density=0.3, rng=RNG, format="csr").astype(np.float32)
SCORES = X @ RNG.normal(size=(20, 3)) + 0.3 * RNG.normal(size=(N, 3)) - 0.4
WEIGHTS = RNG.integers(0, 4, N).astype(np.float32)
OWN = RNG.random((N, 1))
Y = np.hstack([SCORES > 0.0, np.eye(3)[SCORES.argmax(axis=1)], SCORES, OWN]).astype(np.float32)
TARGETS: list[Any] = [
    {"link": "logistic", "column": 0, "class_weight": {0: 1.0, 1: 3.0}},
    {"link": "logistic", "column": 9, "row_weights": 9, "l2": 0.1},  # labels between 0 and 1
    {"link": "squared_hinge", "column": 2, "class_weight": {0: 2.0, 1: 1.0}},
    {"link": "softmax", "columns": [3, 4, 5], "class_weight": {"4": 2.0, "5": 0.5}},
    {"link": "linear", "column": 6},
    {"link": "huber", "column": 7, "shape": 0.5},
    {"name": "h", "link": "hinge", "column": 0, "class_weight": {0: 1.0, 1: 2.0}},
    {"name": "mixed", "link": "hinge", "column": 9},
    {"name": "q", "link": "quantile", "column": 7, "shape": 0.3},
]
SMOOTH = 8  # of the columns of W
LOGISTIC = GLM(targets=[{"column": 0}], l2=0.01)  # type: ignore[list-item]


def run(model: GLM, **more: Any) -> bl.Learner:
    settings = {"passes": 400, "block_rows": 128, "seed": 1, "threads": 1} | more
    return bl.Learner(
        model, (X, Y, WEIGHTS), optimizer=DualAscent(tolerance=1e-8), **settings
    ).fit()


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def squared_hinge_slope(eta: Any, y: Any) -> Any:
    return 2.0 * ((1.0 - y) * np.maximum(0.0, 1.0 + eta) - y * np.maximum(0.0, 1.0 - eta))


def slopes(eta: Any) -> Any:
    """The derivatives of smooth losses by scores, with their factors, in float64."""
    y = Y.astype(np.float64)
    classes = y[:, 3:6] * [1.0, 2.0, 0.5]
    means = np.exp(eta[:, 3:6])
    means *= classes.sum(axis=1, keepdims=True) / means.sum(axis=1, keepdims=True)
    return np.column_stack(
        [
            (sigmoid(eta[:, 0]) - y[:, 0]) * (1.0 + 2.0 * y[:, 0]),
            (sigmoid(eta[:, 1]) - y[:, 9]) * y[:, 9],
            squared_hinge_slope(eta[:, 2], y[:, 2]) * (2.0 - y[:, 2]),
            means - classes,
            eta[:, 6] - y[:, 6],
            np.clip(eta[:, 7] - y[:, 7], -0.5, 0.5),
        ]
    )


def gaps(eta: Any, a: Any) -> Any:
    """What losses with kinks lack to their bounds by dual variables, in float64 [n x 3]."""
    y, factor = Y[:, [0, 9, 7]].astype(np.float64), np.ones((N, 3))
    factor[:, 0] += Y[:, 0]
    a = a / factor
    hinges = y * np.maximum(0.0, 1.0 - eta) + (1.0 - y) * np.maximum(0.0, 1.0 + eta)
    of_hinges = hinges + 2.0 * np.maximum(-y, a - 1.0 + y) - a - a * eta
    errors = 0.3 * np.maximum(y - eta, 0.0) + 0.7 * np.maximum(eta - y, 0.0)
    return factor * np.where([True, True, False], of_hinges, errors + a * y - a * eta)


def test_all_losses_end_at_the_optimum() -> None:
    """The gradient is 0, or the gap to the dual problem; b is free, so sum c_i a_i is 0, too."""
    learner = run(GLM(targets=TARGETS, l2=L2))
    assert learner.progress.pass_ < 400
    W, b = (learner.parameter(name).astype(np.float64) for name in ("W", "intercept"))
    a, eta, shares = learner.state().tensors["optimizer.dual"], X @ W + b, WEIGHTS / WEIGHTS.sum()
    l2 = np.full(W.shape[1], L2)
    l2[1] = 0.1
    np.testing.assert_allclose(X.T @ (a * shares[:, None]) + l2 * W, 0.0, atol=1e-6)
    assert abs(shares @ a).max() < 1e-4
    found = slopes(eta)
    np.testing.assert_allclose(X.T @ (found * shares[:, None]) + (l2 * W)[:, :8], 0.0, atol=1e-4)
    assert abs(shares @ found).max() < 1e-4
    lacks = gaps(eta[:, SMOOTH:], a[:, SMOOTH:])
    assert lacks.min() > -1e-5 and (shares @ lacks < 1e-4).all()


def test_without_an_intercept() -> None:
    learner = run(GLM(targets=TARGETS[7:8], l2=L2, intercept=False))
    W, a = learner.parameter("W"), learner.state().tensors["optimizer.dual"]
    lacks = gaps((X @ W)[:, [0, 0, 0]], a[:, [0, 0, 0]])[:, 1]
    assert lacks.min() > -1e-5 and WEIGHTS @ lacks / WEIGHTS.sum() < 1e-4
    assert not learner.parameter("intercept").any()
    assert (learner.state().tensors["optimizer.waits"] > 0.0).mean() > 0.2  # rows rest


def test_every_link_has_steps_or_unbounded_derivatives() -> None:
    without = {name for name, link in LINKS.items() if link.dual is None}
    assert without == {"poisson", "gamma", "tweedie"}


def test_new_rows_begin_anew() -> None:
    learner = run(LOGISTIC)
    new = X[:200], Y[:200], WEIGHTS[:200]
    learner.fit(new, passes=100)
    alone = bl.Learner(
        learner.model.untrained(), new, optimizer=DualAscent(tolerance=1e-8), passes=100,
        block_rows=128,
    ).fit()  # fmt: skip
    np.testing.assert_allclose(learner.parameter("W"), alone.parameter("W"), atol=1e-3)


@pytest.mark.parametrize(
    ("model", "data", "more", "message"),
    [
        (GLM(targets=LOGISTIC.targets), X, {}, "needs an L2 penalty.*Set l2 of the model"),
        (LOGISTIC, X, {"mixins": [L1(weight=0.1)]}, "l1 on 'W'.*l2 only. Use sgd"),
        (LOGISTIC, X, {"replicas": 2}, "for each row of the data, and there are 2 replicas"),
        (LOGISTIC, X.toarray(), {}, "for sparse data, and the block is dense"),
        (GLM(targets=[{"column": 6, "link": "poisson"}], l2=0.1), abs(X), {}, "bounded"),  # type: ignore[list-item]
        (GLM(targets=[{"column": 0, "features": [1]}], l2=0.1), X, {}, "Leave `features` out"),  # type: ignore[list-item]
        (GLM(targets=[{"column": 0, "rate": 2.0}], l2=0.1), X, {}, "Leave the rates out"),  # type: ignore[list-item]
        (FM(factors=2, l2=0.1), X, {}, "this model hands over gradients"),
    ],
)
def test_what_it_cannot_solve_is_an_error(
    model: bl.Model, data: Any, more: dict[str, Any], message: str
) -> None:
    labels = abs(Y) if isinstance(model, GLM) else Y[:, :1]
    with pytest.raises(CombinationError, match=message):
        bl.Learner(model, (data, labels), optimizer=DualAscent(), **more).fit()


def test_a_stream_may_have_other_rows_in_each_pass() -> None:
    def batches(pass_: int) -> Any:
        yield X, Y[:, :1]

    with pytest.raises(CombinationError, match="a stream may have other rows"):
        bl.Learner(LOGISTIC, IterableSource(batches, block_rows=128), optimizer=DualAscent()).fit()
