"""Optimizers: three steps by hand, convergence against scipy, life in the learner.

Every class in OPTIMIZERS must have an entry in HAND and, if it takes gradients, in CONVERGES.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from pydantic import ValidationError

import blocklearn as bl
from blocklearn.fields import FieldError
from blocklearn.matcache import MatCache, colsum, from_array, from_sparse
from blocklearn.mixins import L1, L2, ElasticNet, Mixin, NonNegative
from blocklearn.optimizers import (
    FTRL,
    LBFGS,
    OPTIMIZERS,
    SGD,
    SGLD,
    AdaGrad,
    Adam,
    CombinationError,
    ConjugateGradient,
    Gradient,
    IncNorm,
    Optimizer,
    RMSProp,
    StreamingAverage,
    Telescoping,
)
from blocklearn.optimizers.line_search import LineSearch
from blocklearn.optimizers.schedules import Constant, Exponential, Piecewise, Power, WarmUp
from tests.support.corpora import planted
from tests.support.often import crossed, first_often, paired, rarely
from tests.support.optimizing import (
    Array,
    Tiny,
    blocks,
    descend,
    initial,
    optimum,
    reference,
    regression,
    run,
)

GRADIENT = [
    kind
    for kind, cls in OPTIMIZERS.items()
    if cls.meaning == "gradients" and not cls.keeps_rows  # test_dual_ascent.py is theirs
]
NEEDED: dict[str, dict[str, Any]] = {"sgld": {"rows": 1e4}}  # what has no default
STEPPED = [kind for kind in GRADIENT if not OPTIMIZERS[kind].steps_by_pass]
FULL_PASS = [kind for kind in GRADIENT if OPTIMIZERS[kind].steps_by_pass]
ESTIMATES = [kind for kind, cls in OPTIMIZERS.items() if cls.meaning == "estimates"]


# ---------------------------------------------------------------- three steps by hand


def hand_sgd(w: Array, gradients: list[Array]) -> Array:
    for g in gradients:
        w = w - 0.1 * g
    return w


def hand_momentum(w: Array, gradients: list[Array]) -> Array:
    v = np.zeros_like(w)
    for g in gradients:
        v = 0.9 * v + g
        w = w - 0.1 * v
    return w


def hand_nesterov(w: Array, gradients: list[Array]) -> Array:
    v = np.zeros_like(w)
    for g in gradients:
        v = 0.9 * v + g
        w = w - 0.1 * (g + 0.9 * v)
    return w


def hand_adagrad(w: Array, gradients: list[Array]) -> Array:
    G = np.full_like(w, 0.01)
    for g in gradients:
        G = G + g**2
        w = w - 0.1 * g / (np.sqrt(G) + 1e-6)
    return w


def hand_rmsprop(w: Array, gradients: list[Array]) -> Array:
    G = np.zeros_like(w)
    for g in gradients:
        G = 0.9 * G + 0.1 * g**2
        w = w - 0.01 * g / (np.sqrt(G) + 1e-8)
    return w


def hand_adam(w: Array, gradients: list[Array]) -> Array:
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, start=1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        w = w - 0.001 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


def hand_ftrl(w: Array, gradients: list[Array]) -> Array:
    z, n = np.zeros_like(w), np.zeros_like(w)
    w = np.zeros_like(w)
    for g in gradients:
        sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / 0.5
        z = z + g - sigma * w
        n = n + g**2
        shrunk = z - np.sign(z) * 0.3
        w = np.where(abs(z) <= 0.3, 0.0, -shrunk / ((1.0 + np.sqrt(n)) / 0.5 + 0.2))
    return w


def hand_streaming(w: Array, estimates: list[Array]) -> Array:
    for t, u in enumerate(estimates):
        rho = (2.0 + t) ** -0.6
        w = (1 - rho) * w + rho * u
    return w


def hand_inc_norm(w: Array, estimates: list[Array]) -> Array:
    for t, u in enumerate(estimates):
        rho = (1.0 + t) ** -0.3
        w = (1 - rho) * w + rho * u
        w = w / w.sum(axis=0)
    return w


def hand_telescoping(w: Array, estimates: list[Array]) -> Array:
    return (estimates[1] + estimates[2]) / 2  # windows of 1, 2, 4, ... blocks


Hand = Callable[[Array, list[Array]], Array]
HAND: dict[str, list[tuple[dict[str, Any], Hand]]] = {
    "sgd": [
        ({"rate": 0.1}, hand_sgd),
        ({"rate": 0.1, "momentum": 0.9}, hand_momentum),
        ({"rate": 0.1, "momentum": 0.9, "nesterov": True}, hand_nesterov),
    ],
    "sgld": [({"rate": 0.1, "rows": 1e24}, hand_sgd)],
    "adagrad": [({"rate": 0.1, "initial": 0.01}, hand_adagrad)],
    "rmsprop": [({"rate": 0.01}, hand_rmsprop)],
    "adam": [({"rate": 0.001}, hand_adam)],
    "ftrl": [({"rate": 0.5, "l1": 0.3, "l2": 0.2}, hand_ftrl)],
    "streaming-average": [({"tau0": 2.0, "kappa": 0.6}, hand_streaming)],
    "inc-norm": [({"power": 0.3}, hand_inc_norm)],
    "telescoping": [({"first": 1, "growth": 2.0}, hand_telescoping)],
}
BY_HAND = [
    pytest.param(kind, fields, hand, id=f"{kind}-{number}")
    for kind in OPTIMIZERS
    if kind in HAND  # test_the_directions_of_full_passes is theirs
    for number, (fields, hand) in enumerate(HAND[kind])
]


@pytest.mark.parametrize(("kind", "fields", "hand"), BY_HAND)
def test_three_steps_by_hand(kind: str, fields: dict[str, Any], hand: Hand) -> None:
    rng = np.random.default_rng(1)
    w0 = rng.random((5, 3))
    given = [rng.random((5, 3)) - 0.2 * (kind in GRADIENT) for _ in range(3)]
    optimizer = OPTIMIZERS[kind](**fields)
    with MatCache(threads=1) as cache:
        w = from_array(cache, w0, "W")
        optimizer.attach(cache, {"W": w})
        for u in given:
            update = from_array(cache, u)
            optimizer.begin(update)
            optimizer.step({"W": update})
        optimizer.settle()
        np.testing.assert_allclose(w.numpy(), hand(w0, given), rtol=1e-8)
        assert optimizer.steps == 3


def test_without_state_the_first_step_of_float32_is_the_same() -> None:
    with MatCache(threads=1) as cache:
        w = from_array(cache, np.ones((4, 1), np.float32), "W")
        optimizer = AdaGrad(rate=0.5)
        optimizer.attach(cache, {"W": w})
        optimizer.step({"W": from_array(cache, np.array([[1], [-2], [0.0], [4]], np.float32))})
        np.testing.assert_allclose(w.numpy(), [[0.5], [1.5], [1.0], [0.5]], rtol=1e-5)
        assert w.dtype == np.float32
        assert {m.dtype for m in optimizer.state.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize("kind", FULL_PASS)
def test_the_directions_of_full_passes(kind: str) -> None:
    """d of every accepted step by the textbook formula, from the gradients and steps so far."""
    X, Y = regression()
    optimizer: Any = OPTIMIZERS[kind](tolerance=1e-3)
    xs: list[Array] = []
    gs: list[Array] = []
    d_old = np.zeros(0)
    compared = 0
    with MatCache(threads=1) as cache:
        w = from_array(cache, np.zeros((X.shape[1], Y.shape[1])), "W")
        block, y = from_sparse(cache, X), from_array(cache, Y)
        count = from_array(cache, np.array([[float(len(Y))]]))
        optimizer.attach(cache, {"W": w})
        for _ in range(12):
            optimizer.begin(block)
            error = (block @ w - y).mat()
            update = {"W": Gradient(block, (error / len(Y)).mat())}
            optimizer.step(update, bl.optimizers.Objective((error * error).sum() / 2.0, count))
            optimizer.end_pass()
            x, g = w.numpy().ravel(), optimizer.g["W"].numpy().ravel()
            d = optimizer.d["W"].numpy().ravel()
            if xs and (x == xs[-1]).all():
                continue  # this pass was a trial of the line search
            xs.append(x)
            gs.append(g)
            if len(xs) == 1:
                want = -g
            elif kind == "conjugate-gradient":
                beta = max(0.0, g @ (g - gs[-2]) / (gs[-2] @ gs[-2]))
                want = -g + beta * d_old
            else:
                want = -bfgs(np.diff(xs, axis=0), np.diff(gs, axis=0)) @ g
            np.testing.assert_allclose(d, want, rtol=1e-6, atol=1e-9)
            compared += len(xs) > 2
            d_old = d
            if optimizer.converged:
                break
    assert compared >= 3


def bfgs(steps: Array, differences: Array) -> Array:
    """The inverse Hessian of BFGS as a matrix (Nocedal, Wright, eq. 6.17), from a diagonal.

    The diagonal is learned from all pairs: the diagonal of the BFGS update of the Hessian, scaled
    so that the newest pair fits before it is added (Gilbert, Lemarechal 1989).
    """
    identity = np.eye(steps.shape[1])
    D = np.ones(steps.shape[1])
    for s, y in zip(steps, differences, strict=True):
        B = np.diag((y * D) @ y / (s @ y) / D)
        B = B - B @ np.outer(s, s) @ B / (s @ B @ s) + np.outer(y, y) / (s @ y)
        D = 1.0 / np.diag(B)
    H = np.diag(D) * (s @ y) / ((y * D) @ y)
    for s, y in zip(steps, differences, strict=True):
        V = identity - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    return H


# ---------------------------------------------------------------- draws from a posterior


def test_langevin_steps_draw_from_the_posterior_of_linear_regression() -> None:
    """Each row is a chain, against the normal distribution that such steps have exactly."""
    rng, n, rate, chains = np.random.default_rng(3), 50, 0.5, 2000
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    curves = np.array([0.5, 0.8, 1.0])  # X.T @ X / n has these eigenvalues
    mean = rng.normal(size=(1, 3))
    optimizer = SGLD(rate=rate, rows=n, seed=7)
    with MatCache(threads=1) as cache:
        A, centre = from_array(cache, axes * curves @ axes.T), from_array(cache, mean)
        w = from_array(cache, np.tile(mean, (chains, 1)), "W")
        optimizer.attach(cache, {"W": w})
        draws = []
        for _ in range(30):
            optimizer.step({"W": (w - centre).mat() @ A})
            draws.append((w.numpy() - mean) @ axes)
    before, last = draws[-2:]
    variances = 1.0 / (n * curves) / (1.0 - rate * curves / 2.0)  # rate -> 0: the posterior's
    np.testing.assert_allclose(last.var(axis=0), variances, rtol=0.12)
    assert np.abs(np.corrcoef(last.T) - np.eye(3)).max() < 0.08
    assert np.abs(last.mean(axis=0) / np.sqrt(variances / chains)).max() < 4.0
    slopes = (before * last).sum(axis=0) / (before * before).sum(axis=0)
    np.testing.assert_allclose(slopes, 1.0 - rate * curves, atol=0.08)  # noise is new in each step


def test_langevin_steps_leave_masked_weights_alone() -> None:
    w0, mask = initial(), (np.arange(36).reshape(12, 3) % 2).astype(float)
    X, R = blocks(1)[0]
    optimizer = SGLD(rows=10.0)
    with MatCache(threads=1) as cache:
        w, block = from_array(cache, w0, "W"), from_sparse(cache, X)
        optimizer.attach(cache, {"W": w})
        optimizer.step({"W": Gradient(block, from_array(cache, R), from_array(cache, mask))})
        assert ((w.numpy() == w0) == (mask == 0.0)).all()  # others move, feature or not


@pytest.mark.parametrize("clip", ["clip_value", "clip_row_norm", "clip_global_norm"])
def test_langevin_steps_refuse_to_clip_their_noise(clip: str) -> None:
    with pytest.raises(FieldError, match=f"{clip}=1.0: must be null.*Lower the rate"):
        SGLD(rows=10.0, **{clip: 1.0})


def test_langevin_steps_ask_for_the_number_of_rows() -> None:
    """A wrong number draws from another posterior, without a sign of it."""
    given: dict[str, Any] = {"rate": 0.1}
    with pytest.raises(FieldError, match="SGLD: rows: must be given"):
        SGLD(**given)


# ---------------------------------------------------------------- convergence

CONVERGES: dict[str, Optimizer] = {
    "sgd": SGD(rate=0.3, momentum=0.5),
    "sgld": SGLD(rate=0.6, rows=1e24),
    "adagrad": AdaGrad(rate=1.0),
    "rmsprop": RMSProp(rate=0.2, schedule=Power(exponent=1.0, delay=5)),
    "adam": Adam(rate=0.2, schedule=Power(exponent=1.0, delay=50)),
    "ftrl": FTRL(rate=1.0),
    "conjugate-gradient": ConjugateGradient(tolerance=1e-7),
    "lbfgs": LBFGS(tolerance=1e-7),
}
PENALTIES: dict[str, tuple[list[Mixin], dict[str, Any]]] = {
    "none": ([], {}),
    "l2": ([L2(weight=0.2)], {"l2": 0.2}),
    "elastic net": ([ElasticNet(weight=0.2)], {"l1": 0.1, "l2": 0.1}),
    "l1 by target": ([L1(weight=[0.1, 0.05, 0.2])], {"l1": np.array([0.1, 0.05, 0.2])}),
    "bounded": ([NonNegative(), L2(weight=0.1)], {"l2": 0.1, "bounded": True}),
}


SMOOTH = ("none", "l2")
EACH = {
    *(("adagrad", penalty) for penalty in PENALTIES),
    *((kind, "elastic net") for kind in ("sgd", "adam")),
    *((kind, "l2") for kind in FULL_PASS),
}
"""Each penalty and each kind of optimizer once."""
OFTEN = {
    *(("adagrad", penalty, True) for penalty in ("elastic net", "bounded")),
    *((kind, "l2", True) for kind in FULL_PASS),
}
"""Steps by hand, and penalties step by step (`test_mixins.py`), find what the others would.

`-m slow` compiles the kernels of all others, of dense blocks only those of EACH.
"""
SPARSE = [(k, p, True) for k in GRADIENT for p in (SMOOTH if k in FULL_PASS else PENALTIES)]
DENSE = [(kind, penalty, False) for kind, penalty in sorted(EACH)]
PENALIZED = [
    pytest.param(*case, marks=[] if case in OFTEN else pytest.mark.slow) for case in SPARSE + DENSE
]


@pytest.mark.parametrize(("kind", "penalty", "sparse"), PENALIZED)
def test_converges_to_the_optimum_of_scipy(kind: str, penalty: str, sparse: bool) -> None:
    mixins, terms = PENALTIES[penalty]
    X, Y = regression()
    optimizer = CONVERGES[kind].model_copy()
    W = descend(optimizer, X, Y, steps=500, sparse=sparse, mixins=mixins)
    want = optimum(X, Y, **terms)
    np.testing.assert_allclose(W, want, atol=4e-3 if kind == "rmsprop" else 1e-4)
    assert ((W == 0) == (abs(want) < 1e-9)).all()  # the same support, by exact zeros


def test_every_optimizer_is_tested() -> None:
    assert set(HAND) | set(FULL_PASS) | {"dual-ascent"} == set(OPTIMIZERS)
    assert set(CONVERGES) == set(GRADIENT)
    assert all(cls.model_fields["kind"].default == kind for kind, cls in OPTIMIZERS.items())


# ---------------------------------------------------------------- schedules, clipping, averages


def test_schedules() -> None:
    assert Constant().factor(9) == 1
    assert [Power(exponent=1.0, delay=2).factor(t) for t in (0, 2, 4)] == [1, 1 / 2, 1 / 3]
    assert Exponential(decay=0.5, every=10).factor(5) == pytest.approx(0.5**0.5)
    steps = Piecewise(starts=[2, 4], factors=[0.5, 0.1])
    assert [steps.factor(t) for t in range(6)] == [1, 1, 0.5, 0.5, 0.1, 0.1]
    warm = WarmUp(steps=2, then=Exponential(decay=0.5, every=1))
    assert [warm.factor(t) for t in range(3)] == [0.5, 0.5, 0.25]
    with pytest.raises(FieldError, match="must ascend"):
        Piecewise(starts=[4, 2], factors=[0.5, 0.1])


@pytest.mark.parametrize("sparse", [True, False], ids=["active", "dense"])
def test_steps_follow_the_schedule(sparse: bool) -> None:
    data, schedule = blocks(12), WarmUp(steps=3, then=Power(exponent=0.5))
    optimizer = SGD(rate=0.1, schedule=schedule)
    got = run(optimizer, data, initial(), sparse=sparse, mixins=[L1(weight=0.05)])
    want = reference("sgd", data, initial(), l1=0.05, factor=schedule.factor)
    np.testing.assert_allclose(got, want, atol=1e-9)


@pytest.mark.parametrize("sparse", [True, False], ids=["active", "dense"])
def test_clipping(sparse: bool) -> None:
    data = blocks(3)
    w = initial()
    by_value = run(SGD(rate=1.0, clip_value=0.2), data, w, sparse=sparse)
    gradients = [X.T @ R for X, R in data]
    np.testing.assert_allclose(by_value, w - sum(np.clip(g, -0.2, 0.2) for g in gradients))
    by_row = run(SGD(rate=1.0, clip_row_norm=0.5), data, w, sparse=sparse)
    norms = [np.linalg.norm(g, axis=1, keepdims=True) for g in gradients]
    clipped = (
        g * np.minimum(1, 0.5 / np.maximum(n, 1e-9)) for g, n in zip(gradients, norms, strict=True)
    )
    np.testing.assert_allclose(by_row, w - sum(clipped))
    assert max(n.max() for n in norms) > 0.5


def test_clipping_by_the_global_norm() -> None:
    data, w = blocks(3), initial()
    got = run(SGD(rate=1.0, clip_global_norm=0.7), data, w, sparse=False)
    gradients = [X.T @ R for X, R in data]
    want = w - sum(g * min(1, 0.7 / np.linalg.norm(g)) for g in gradients)
    np.testing.assert_allclose(got, want)
    with pytest.raises(CombinationError, match="clip_global_norm=0.7 needs the whole gradient"):
        run(SGD(clip_global_norm=0.7), data, w, sparse=True)


@crossed(sparse=[True, False], first=[0, 4])
def test_averages_of_iterates(sparse: bool, first: int) -> None:
    data = blocks(15)
    got = run(
        AdaGrad(rate=0.2, average_from=first),
        data,
        initial(),
        sparse=sparse,
        settle_after=[2, 6, 7],
    )
    iterates = [reference("adagrad", data[:n], initial()) for n in range(first + 1, 16)]
    np.testing.assert_allclose(got, np.mean(iterates, axis=0), atol=1e-9)


def test_averages_with_penalties_need_dense_updates() -> None:
    data = blocks(6)
    optimizer = SGD(rate=0.1, average_from=0)
    got = run(optimizer, data, initial(), sparse=False, mixins=[L1(weight=0.05)])
    want = [reference("sgd", data[:n], initial(), l1=0.05, dense=True) for n in range(1, 7)]
    np.testing.assert_allclose(got, np.mean(want, axis=0), atol=1e-9)
    with pytest.raises(CombinationError, match="average of that has no exact form"):
        run(optimizer, data, initial(), sparse=True, mixins=[L1(weight=0.05)])


@pytest.mark.parametrize("sparse", [True, False], ids=["active", "dense"])
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] * (k != "adam")) for k in STEPPED]
)
def test_rates_of_targets(kind: str, sparse: bool) -> None:
    """A target with twice the rate is that target in a run with twice the rate."""
    data, w = blocks(10), initial() * (kind != "ftrl")
    rates = np.array([1.0, 2.0, 0.5])
    mixins = [ElasticNet(weight=0.02)]  # whose kernels are those of the tests of convergence
    cls = OPTIMIZERS[kind]
    needed = NEEDED.get(kind, {})
    got = run(cls(rate=0.1, **needed), data, w, sparse=sparse, mixins=mixins, rates=rates)
    for target, factor in enumerate(rates):
        alone = run(cls(rate=0.1 * factor, **needed), data, w, sparse=sparse, mixins=mixins)
        np.testing.assert_allclose(got[:, target], alone[:, target], rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- in the learner


def problem(rows: int = 150) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    X = sp.random_array((rows, 40), density=0.06, rng=rng, dtype=np.float32, format="csr")
    Y = (X @ rng.normal(size=(40, 3)) > 0.1).astype(np.float32)
    return X, Y


def learner(kind: str, X: Any, Y: Any, **more: Any) -> bl.Learner:
    optimizer = OPTIMIZERS[kind](**NEEDED.get(kind, {}))
    mixins: list[Mixin] = [L2(weight=0.01)]
    if kind in STEPPED:
        mixins += [L1(weight=1e-3), NonNegative()]
    model = Tiny(logistic=True, noise=0.1 * (kind != "ftrl"))
    settings = {"passes": 4, "block_rows": 32, "mixins": mixins, "optimizer": optimizer} | more
    return bl.Learner(model, (X, Y), (X, Y), **settings)


def weights(learner: bl.Learner) -> dict[str, Array]:
    return learner.state().tensors


@pytest.mark.parametrize("kind", first_often(GRADIENT, 2))
def test_threads_do_not_change_a_bit(kind: str) -> None:
    X, Y = problem()
    one, two, eight = (weights(learner(kind, X, Y, threads=t).fit()) for t in (1, 2, 8))
    for name, array in one.items():
        assert array.tobytes() == two[name].tobytes() == eight[name].tobytes(), name


@paired(2, dense=[False, True], kind=GRADIENT)
def test_nothing_is_allocated_after_warm_up(kind: str, dense: bool) -> None:
    X, Y = problem()
    run = learner(kind, X.toarray() if dense else X, Y, threads=2).fit()
    assert run.progress.allocations_after_warmup == 0
    assert run.progress.scores["loss"] < 0.7 * 3


class StateInBetween(bl.Hook):
    """Keeps the state after some block of the second pass."""

    def __init__(self) -> None:
        self.kept: Any = None

    def block(self, learner: Any, progress: Any) -> None:
        if progress.pass_ == 1 and progress.block == 3:
            self.kept = learner.state()


RESUMED = ("adagrad", "rmsprop", "ftrl", "conjugate-gradient")
"""Kinds that no quick test of test_resume.py stops."""


@pytest.mark.parametrize(
    "kind", [*RESUMED, *rarely(*(kind for kind in GRADIENT if kind not in RESUMED))]
)
def test_a_run_resumes_within_a_pass(kind: str) -> None:
    X, Y = problem()
    hook = StateInBetween()
    whole = weights(learner(kind, X, Y, hooks=[hook]).fit())
    second = learner(kind, X, Y)
    second.restore(hook.kept)
    resumed = weights(second.fit())
    for name, array in whole.items():
        assert array.tobytes() == resumed[name].tobytes(), name


@pytest.mark.parametrize("kind", first_often(STEPPED, 2))
def test_sparse_and_dense_blocks_give_the_same_model(kind: str) -> None:
    if kind in ("rmsprop", "adam"):
        pytest.skip("their state rests with rows that do not occur")
    X, Y = problem()
    a = weights(learner(kind, X, Y).fit())
    b = weights(learner(kind, X.toarray(), Y).fit())
    np.testing.assert_allclose(a["W"], b["W"], atol=2e-6)
    np.testing.assert_allclose(a["b"], b["b"], atol=2e-6)


@pytest.mark.parametrize("kind", first_often(FULL_PASS))
def test_full_passes_stop_when_they_have_converged(kind: str) -> None:
    X, Y = problem()
    run = learner(kind, X, Y, passes=200).fit()
    assert run.progress.pass_ < 60
    state = run.state()
    assert state.position["pass"] == run.progress.pass_
    again = learner(kind, X, Y, passes=200)
    again.restore(state)
    again.fit()
    assert again.progress.pass_ == run.progress.pass_  # nothing was left to do
    many = learner(kind, X, Y, passes=200, block_rows=150, threads=1).fit()
    np.testing.assert_allclose(weights(run)["W"], weights(many)["W"], atol=2e-3)


def test_full_passes_evaluate_the_best_point_not_a_trial() -> None:
    X, Y = problem()
    losses: list[float] = []

    class Watch(bl.Hook):
        def evaluated(self, learner: Any, progress: Any) -> None:
            losses.append(progress.scores["loss"] + progress.scores["l2"])

    learner("conjugate-gradient", X, Y, passes=30, hooks=[Watch()]).fit()
    assert all(b <= a + 1e-6 for a, b in itertools.pairwise(losses))


def test_line_search_finds_the_wolfe_conditions() -> None:
    def f(x: float) -> tuple[float, float]:
        return (x - 3) ** 4 + x**2, 4 * (x - 3) ** 3 + 2 * x

    for first in (1e-3, 0.3, 100.0):
        search = LineSearch.start(*f(0.0), first, 0.1)
        while not search.accepts(*f(search.step)):
            assert not search.failed
        value, slope = f(search.step)
        assert value < f(0.0)[0] and abs(slope) <= 0.1 * abs(f(0.0)[1])
    nan = LineSearch.start(1.0, -1.0, 1.0, 0.9)
    assert not nan.accepts(float("nan"), float("nan")) and nan.step == pytest.approx(0.1)


# ---------------------------------------------------------------- errors


def test_updates_must_mean_what_the_optimizer_takes_them_for() -> None:
    X = sp.csr_array(np.random.default_rng(0).poisson(0.3, (40, 20)).astype(np.float32))
    with pytest.raises(CombinationError, match="sgd takes updates as gradients.*LDA are estimates"):
        bl.Learner(bl.models.LDA(topics=3), X, optimizer=SGD()).fit()
    A, Y = problem()
    with pytest.raises(CombinationError, match="telescoping takes updates as estimates.*adagrad"):
        bl.Learner(Tiny(), (A, Y), optimizer=Telescoping()).fit()


@pytest.mark.parametrize("kind", first_often(ESTIMATES))
def test_statistics_models_train(kind: str) -> None:
    X, _ = planted(300, words=30, topics=3)
    optimizer = OPTIMIZERS[kind]()
    run = bl.Learner(bl.models.LDA(topics=3), X, X, optimizer=optimizer, passes=5, block_rows=50)
    assert run.fit().progress.scores["perplexity"] < 15  # 30 words of equal probability have 30


def test_an_optimizer_by_passes_needs_the_loss() -> None:
    class Silent(Tiny):
        def update(self, block: Any) -> None:
            super().update(block)
            self.objective = None

    X, Y = problem()
    with pytest.raises(CombinationError, match="must set self.objective"):
        bl.Learner(Silent(), (X, Y), optimizer=LBFGS()).fit()


def test_unknown_parameters_and_mixed_updates_are_refused() -> None:
    data = blocks(2)
    with MatCache(threads=1) as cache:
        w = from_array(cache, initial(), "W")
        optimizer = SGD()
        optimizer.attach(cache, {"W": w}, terms={"W": [L1(weight=0.1)]})
        with pytest.raises(CombinationError, match=r"updates\['V'\].*parameters are W"):
            optimizer.step({"V": w})
        X, R = from_sparse(cache, data[0][0]), from_array(cache, data[0][1])
        optimizer.step({"W": Gradient(X, R)})
        with pytest.raises(CombinationError, match="were sparse, and now one is dense"):
            optimizer.step({"W": (X.T @ R).mat()})


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(FieldError, match="set momentum > 0"):
        SGD(nesterov=True)
    with pytest.raises(ValidationError):
        FTRL.model_validate({"schedule": {"kind": "power"}})
    with pytest.raises(FieldError):
        AdaGrad(rate=0.0)


def test_inc_norm_and_streaming_average_take_expressions() -> None:
    with MatCache(threads=1) as cache:
        for optimizer in (IncNorm(), StreamingAverage()):
            w = from_array(cache, np.ones((3, 2)), f"W {optimizer.kind}")
            optimizer.attach(cache, {"W": w})
            optimizer.step({"W": 2.0 * w + colsum(w)})
            assert np.isfinite(w.numpy()).all()
