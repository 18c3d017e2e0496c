"""Models that state their loss alone, against the same models with gradients by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.matcache import (
    ShapeError,
    colsum,
    exppsi,
    rowwise,
    sigmoid,
    softplus,
    tanh,
)
from blocklearn.mixins import L2
from blocklearn.optimizers import LBFGS, AdaGrad, Gradient, LinearLoss
from tests.support.often import first_often, paired

rng = np.random.default_rng(0)
X = (rng.normal(size=(300, 5)) * (rng.random((300, 5)) < 0.7)).astype(np.float32)
Y = np.stack([X[:, 0] * X[:, 1] > 0.0, X[:, 2] > 0.1], axis=1).astype(np.float32)
KINDS = {"sparse": bl.sparse(X), "dense": X}


class Logistic(bl.LossModel):
    needs_targets = True

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.W = self.parameter("W", shapes.columns, shapes.targets)
        self.b = self.parameter("b", 1, shapes.targets)
        self.penalised = ["W"]

    def loss(self, X: Any, Y: Any, W: Any, b: Any) -> Any:
        eta = X @ W + b
        return softplus(eta) - Y * eta

    def predict(self, block: Any) -> Any:
        return sigmoid(block.X @ self.W + self.b).mat()


@rowwise
def losses(eta: Any, Y: Any) -> Any:
    return sigmoid(eta) - Y, softplus(eta) - Y * eta


class LogisticByHand(Logistic):
    def update(self, block: Any) -> None:
        self.updates["W"] = LinearLoss(block, losses, (block.Y,), bias="b")


class Network(bl.LossModel):
    """One hidden layer; `slope` is a field, `row_ids` and `scale` are no parameters."""

    needs_targets = True
    hidden: int = 3
    slope: float = 0.5

    def allocate(self, shapes: Any, rng: Any) -> None:
        d, h, t = shapes.columns, self.hidden, shapes.targets
        self.parameter("V", d, h, rng.uniform(d, h) - 0.5)
        self.parameter("c", 1, h)
        self.parameter("U", h, t, rng.uniform(h, t) - 0.5)
        self.parameter("b", 1, t)
        self.scale = self.scratch("scale", 1, 1)
        self.scale <<= 2.0

    def scores(self, X: Any, V: Any, c: Any, U: Any, b: Any) -> Any:
        return tanh((X @ V + c) * self.slope) @ U + b

    def loss(self, X: Any, Y: Any, V: Any, c: Any, U: Any, b: Any, scale: Any) -> Any:
        eta = self.scores(X, V, c, U, b)
        return (softplus(eta) - Y * eta) * scale

    def predict(self, block: Any) -> Any:
        p = self.parameters
        return sigmoid(self.scores(block.X, p["V"], p["c"], p["U"], p["b"])).mat()


@rowwise
def backwards(Z: Any, c: Any, U: Any, UT: Any, b: Any, Y: Any, weights: Any, slope: Any) -> Any:
    h = tanh((Z + c) * slope)
    r = (sigmoid(h @ U + b) - Y) * weights * 2.0
    return h, r, (r @ UT) * (1.0 - h * h) * slope


class NetworkByHand(Network):
    def update(self, block: Any) -> None:
        V, c, U, b = (self.parameters[n] for n in ("V", "c", "U", "b"))
        weights = block.weights / colsum(block.weights)
        Z = (block.X @ V).mat()
        h, r, dh = backwards(Z, c, U, U.T.mat(), b, block.Y, weights, self.slope)
        self.updates |= {"V": Gradient(block.X, dh), "c": colsum(dh), "U": h.T @ r, "b": colsum(r)}


def trained(model: bl.Model, kind: str, optimizer: Any, **options: Any) -> bl.Learner:
    data = (KINDS[kind], Y)
    settings = {"passes": 3, "block_rows": 64, "threads": 2, "optimizer": optimizer}
    return bl.Learner(model, data, data, **(settings | options)).fit()


@paired(1, kind=KINDS, pair=[(Network, NetworkByHand), (Logistic, LogisticByHand)])
def test_it_trains_like_the_same_model_with_gradients_by_hand(pair: Any, kind: str) -> None:
    """The last block is not full."""
    one, other = (trained(model(), kind, AdaGrad()) for model in pair)
    assert one.progress.allocations_after_warmup == 0
    for name in one.model.parameters:
        np.testing.assert_allclose(one.parameter(name), other.parameter(name), atol=1e-5)


def test_full_passes_find_the_same_optimum() -> None:
    options = {"passes": 40, "mixins": [L2(weight=0.01)]}
    one, other = (trained(m(), "sparse", LBFGS(), **options) for m in (Logistic, LogisticByHand))
    np.testing.assert_allclose(one.parameter("W"), other.parameter("W"), atol=5e-3)


@pytest.mark.parametrize("kind", first_often(KINDS))
def test_it_keeps_what_all_models_promise(kind: str) -> None:
    assert "gradients" in bl.check_model(Network(), (KINDS[kind], Y))


@pytest.mark.slow
def test_it_learns_what_is_not_linear() -> None:
    model, optimizer = Network(hidden=8), AdaGrad(rate=0.5)
    learner = trained(model, "dense", optimizer, passes=60, block_rows=32)
    assert (
        learner.progress.scores["loss"] / 2
        < 0.5
        < trained(Logistic(), "dense", None).progress.scores["loss"]
    )


def test_sparse_data_change_only_the_features_that_occur() -> None:
    class Watched(Logistic):
        def update(self, block: Any) -> None:
            super().update(block)
            assert isinstance(self.updates["W"], Gradient)
            assert self.updates["W"].sparse

    trained(Watched(), "sparse", AdaGrad(), passes=1)


def test_what_a_loss_cannot_take_is_named() -> None:
    class Unknown(Logistic):
        def loss(self, X: Any, Y: Any, W: Any, b: Any, margin: Any = 1) -> Any:  # type: ignore[override]
            return super().loss(X, Y, W, b)

    class Untrained(Logistic):
        def loss(self, X: Any, Y: Any) -> Any:  # type: ignore[override]
            return X @ X.T

    class NoRule(Logistic):
        def loss(self, X: Any, W: Any) -> Any:  # type: ignore[override]
            return exppsi(X @ W)

    class Nothing(Logistic):
        def loss(self, X: Any, W: Any) -> Any:  # type: ignore[override]
            _ = X @ W

    for model, message in (
        (Nothing(), "Nothing.loss returns NoneType, but must return the loss of a row"),
        (Unknown(), "parameter 'margin': must be X, Y or row_ids"),
        (Untrained(), r"loss\(X, Y\): must take a parameter of the model: W, b"),
        (NoRule(), r"exppsi at .*test_loss_model\.py:\d+: has no derivative"),
    ):
        with pytest.raises(ShapeError, match=message):
            trained(model, "sparse", AdaGrad(), passes=1)
