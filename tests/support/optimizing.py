"""Problems for optimizers, and every rule once more in plain NumPy float64, as its paper has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

import blocklearn as bl
from blocklearn.matcache import Mat, MatCache, from_array, from_sparse, sigmoid, softplus, total
from blocklearn.mixins import Mixin
from blocklearn.optimizers import Gradient, Objective, Optimizer

Array = np.ndarray[Any, Any]
FEATURES, TARGETS, ROWS = 12, 3, 8


def blocks(count: int, seed: int = 0) -> list[tuple[sp.csr_array, Array]]:
    """Sparse data [ROWS x FEATURES] with residuals; the last features occur in few blocks."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        X = rng.normal(size=(ROWS, FEATURES)) * (rng.random((ROWS, FEATURES)) < 0.25)
        X[:, FEATURES - 4 :] *= number % 5 == 3
        X[:, FEATURES - 1] = 0.0  # never occurs
        found.append((sp.csr_array(X), rng.normal(size=(ROWS, TARGETS)) * 0.5))
    return found


def initial(seed: int = 0) -> Array:
    return np.random.default_rng(100 + seed).normal(size=(FEATURES, TARGETS)) * 0.3


def run(
    optimizer: Optimizer,
    data: Iterable[tuple[sp.csr_array, Array]],
    w0: Array,
    *,
    sparse: bool,
    mixins: Sequence[Mixin] = (),
    rates: Array | None = None,
    settle_after: Iterable[int] = (),
) -> Array:
    """W after one step for each block of data, in float64."""
    with MatCache(threads=2) as cache:
        w = from_array(cache, w0, "W")
        factors = None if rates is None else {"W": from_array(cache, rates[None], "rates")}
        for mixin in mixins:
            mixin.attach(cache, {"W": w})
        optimizer.attach(cache, {"W": w}, terms={"W": list(mixins)}, rates=factors)
        for step, (X, R) in enumerate(data):
            block = from_sparse(cache, X) if sparse else from_array(cache, X.toarray())
            optimizer.begin(block)
            optimizer.step({"W": Gradient(block, from_array(cache, R))})
            if step in settle_after:
                optimizer.settle()
        optimizer.settle()
        return w.numpy()


# ---------------------------------------------------------------- the rules

Rule = Callable[[dict[str, Array], Array, Array], tuple[Array, Array]]
"""(state, w, g) of rows that occur -> (direction, scale): the step is rate * scale * direction."""


def state_of(w: Array) -> dict[str, Array]:
    return {name: np.zeros_like(w) for name in "vGmzn"} | {"t": np.zeros((len(w), 1))}


def sgd(mu: float = 0.0, nesterov: bool = False) -> Rule:
    def rule(s: dict[str, Array], w: Array, g: Array) -> tuple[Array, Array]:
        s["v"][:] = mu * s["v"] + g
        step = g + mu * s["v"] if nesterov else s["v"]
        return (1 - mu) * step, np.full_like(w, 1 / (1 - mu))

    return rule


def adagrad(s: dict[str, Array], w: Array, g: Array) -> tuple[Array, Array]:
    s["G"] += g * g
    return g, 1 / (np.sqrt(s["G"]) + 1e-6)


def rmsprop(s: dict[str, Array], w: Array, g: Array) -> tuple[Array, Array]:
    s["G"][:] = 0.9 * s["G"] + 0.1 * g * g
    return g, 1 / (np.sqrt(s["G"]) + 1e-8)


def adam(s: dict[str, Array], w: Array, g: Array) -> tuple[Array, Array]:
    s["t"] += 1
    s["m"][:] = 0.9 * s["m"] + 0.1 * g
    s["v"][:] = 0.999 * s["v"] + 0.001 * g * g
    v = s["v"] / (1 - 0.999 ** s["t"])
    return s["m"] / (1 - 0.9 ** s["t"]), 1 / (np.sqrt(v) + 1e-8)


# What the scale of a row is that has never occurred, and whose state is all zero.
RULES: dict[str, tuple[dict[str, Any], Rule, float]] = {
    "sgd": ({"rate": 0.1}, sgd(), 1.0),
    "sgd momentum": ({"rate": 0.1, "momentum": 0.8}, sgd(0.8), 5.0),
    "sgd nesterov": (
        {"rate": 0.1, "momentum": 0.8, "nesterov": True},
        sgd(0.8, nesterov=True),
        5.0,
    ),
    "adagrad": ({"rate": 0.2}, adagrad, 1e6),
    "rmsprop": ({"rate": 0.05}, rmsprop, 1e8),
    "adam": ({"rate": 0.05}, adam, 1e8),
}


def shrink(w: Array, g: Array | float, time: Array, l1: Any, l2: Any) -> Array:
    """The step of optimizers/flow.py: soft threshold of an exponential Euler step."""
    x = np.broadcast_to(l2 * time, w.shape)
    reach = time * np.where(x > 1e-12, -np.expm1(-x) / np.maximum(x, 1e-300), 1.0)
    v = w * np.exp(-x) - reach * g
    return np.sign(v) * np.maximum(np.abs(v) - l1 * reach, 0.0)


def reference(
    name: str,
    data: Iterable[tuple[sp.csr_array, Array]],
    w0: Array,
    *,
    l1: Any = 0.0,
    l2: Any = 0.0,
    after: Callable[[Array, Array], Array] = lambda w, time: w,
    rates: Any = 1.0,
    factor: Callable[[int], float] = lambda t: 1.0,
    dense: bool = False,
) -> Array:
    """The same steps, all rows in every one: rules on rows that occur, penalties on all rows."""
    fields, rule, untouched = RULES[name]
    w, state = w0.copy(), state_of(w0)
    scale = np.full_like(w, untouched)
    for t, (X, R) in enumerate(data):
        g = X.T @ R
        rate = fields["rate"] * factor(t) * rates
        rows = np.full(len(w), True) if dense else np.diff(X.tocsc().indptr) > 0
        part = {k: v[rows] for k, v in state.items()}
        direction = np.zeros_like(w)
        direction[rows], scale[rows] = rule(part, w[rows], g[rows])
        for key, value in part.items():
            state[key][rows] = value
        time = np.broadcast_to(rate * scale, w.shape)
        w = after(shrink(w, direction, time, l1, l2), time)
    return w


# ---------------------------------------------------------------- a model


class Tiny(bl.Model):
    """Linear or logistic regression of block.Y on block.X: the smallest model with gradients."""

    meaning = "gradients"
    needs_targets = True
    logistic: bool = False
    noise: float = 0.0

    def default_optimizer(self) -> Optimizer:
        return bl.optimizers.AdaGrad()

    def allocate(self, shapes: Any, rng: Any) -> None:
        start = self.noise * (rng.uniform(shapes.columns, shapes.targets) - 0.5)
        self.W = self.parameter("W", shapes.columns, shapes.targets, start)
        self.b = self.parameter("b", 1, shapes.targets)
        self.penalised = ["W"]

    def update(self, block: Any) -> None:
        count = total(block.weights)
        R = ((self.mean(block) - block.Y) * block.weights / count).mat()
        self.updates["W"] = Gradient(block.X, R)
        self.updates["b"] = bl.matcache.colsum(R)
        self.objective = Objective(total(self.losses(block) * block.weights), count)

    def mean(self, block: Any) -> Any:
        eta = block.X @ self.W + self.b
        return sigmoid(eta) if self.logistic else eta

    def losses(self, block: Any) -> Any:
        eta = block.X @ self.W + self.b
        if self.logistic:
            return softplus(eta) - block.Y * eta
        return 0.5 * (eta - block.Y) * (eta - block.Y)

    def score(self, block: Any) -> Any:
        return {"loss": bl.Sum(total(self.losses(block) * block.weights), total(block.weights))}

    def predict(self, block: Any) -> Mat:
        return self.mean(block).mat()


# ---------------------------------------------------------------- a problem with one answer


def regression(seed: int = 0) -> tuple[sp.csr_array, Array]:
    """Well-conditioned least squares with some weights near 0: X [60 x 8], Y [60 x TARGETS]."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.7)
    W = rng.normal(size=(8, TARGETS)) * (rng.random((8, TARGETS)) < 0.5)
    return sp.csr_array(X), X @ W + 0.1 * rng.normal(size=(60, TARGETS))


def optimum(
    X: sp.csr_array, Y: Array, *, l1: Any = 0.0, l2: Any = 0.0, bounded: bool = False
) -> Array:
    """argmin ||XW - Y||^2 / 2n + l1 ||W||_1 + l2 / 2 ||W||^2, W = p - q with p, q >= 0 by scipy."""
    shape = (X.shape[1], Y.shape[1])

    def objective(pq: Array) -> tuple[float, Array]:
        p, q = pq.reshape(2, *shape)
        W = p - q
        error = X @ W - Y
        g = X.T @ error / len(Y) + l2 * W
        f = 0.5 * (error**2).sum() / len(Y) + (l1 * (p + q)).sum() + (l2 / 2 * W * W).sum()
        return f, np.concatenate([(g + l1).ravel(), (-g + l1).ravel()])

    size = shape[0] * shape[1]
    bounds = [(0, None)] * size + [(0, 0 if bounded else None)] * size
    result = minimize(
        objective,
        np.zeros(2 * size),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10},
    )
    p, q = result.x.reshape(2, *shape)
    return p - q


def descend(
    optimizer: Optimizer,
    X: sp.csr_array,
    Y: Array,
    *,
    steps: int,
    sparse: bool,
    mixins: Sequence[Mixin] = (),
) -> Array:
    """W after that many steps with all the data in each, in float64; each is a pass."""
    with MatCache(threads=1) as cache:
        w = from_array(cache, np.zeros((X.shape[1], Y.shape[1])), "W")
        block = from_sparse(cache, X) if sparse else from_array(cache, X.toarray())
        y, n = from_array(cache, Y), float(len(Y))
        count = from_array(cache, np.array([[n]]))
        for mixin in mixins:
            mixin.attach(cache, {"W": w})
        optimizer.attach(cache, {"W": w}, terms={"W": list(mixins)})
        for _ in range(steps):
            optimizer.begin(block)
            error = (block @ w - y).mat()
            objective = Objective(total(error * error) / 2.0, count)
            optimizer.step({"W": Gradient(block, (error / n).mat())}, objective)
            if optimizer.steps_by_pass:
                optimizer.end_pass()
                if optimizer.converged:
                    break
        optimizer.settle()
        return w.numpy()
