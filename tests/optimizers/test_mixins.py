"""Mixins: what they do to weights, against their definitions, with every optimizer they go with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

import blocklearn as bl
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.exit_codes import ExitCode, exit_code
from blocklearn.matcache import MatCache, from_array, from_sparse, rowwise
from blocklearn.mixins import (
    L1,
    L2,
    MIXINS,
    CosineSimilarity,
    ElasticNet,
    GroupLasso,
    Mixin,
    NonNegative,
    TopicEntropy,
    TopWeights,
)
from blocklearn.optimizers import (
    FTRL,
    LBFGS,
    OPTIMIZERS,
    SGD,
    AdaGrad,
    CombinationError,
    Gradient,
    Penalty,
)
from blocklearn.optimizers.flow import saturation, shrunk
from tests.support.corpora import planted
from tests.support.often import rarely
from tests.support.optimizing import (
    RULES,
    TARGETS,
    Array,
    Tiny,
    blocks,
    descend,
    initial,
    reference,
    regression,
    run,
)

EXAMPLES: dict[str, Mixin] = {
    "l1": L1(weight=0.3),
    "l2": L2(weight=0.3),
    "elastic-net": ElasticNet(weight=0.3),
    "group-lasso": GroupLasso(weight=0.3),
    "non-negative": NonNegative(),
    "cosine-similarity": CosineSimilarity(weight=0.3),
    "topic-entropy": TopicEntropy(),
    "top-weights": TopWeights(threshold=0.5),
}


def test_every_mixin_is_tested() -> None:
    assert set(EXAMPLES) == set(MIXINS)
    assert all(type(m) is MIXINS[kind] and m.kind == kind for kind, m in EXAMPLES.items())


def value(mixin: Mixin, W: Array, name: str) -> float:
    """A score of the mixin for W, in float64."""
    with MatCache(threads=1) as cache:
        mixin.attach(cache, {"W": from_array(cache, W)})
        return float(mixin.scores()[name])


def flowed(w: Array, time: Any, l1: float | None, l2: float | None, g: Any = None) -> Array:
    """`shrunk` as a kernel in float64."""
    with MatCache(threads=1) as cache:
        mats = [from_array(cache, np.broadcast_to(x, w.shape).copy()) for x in (w, time)]
        gradient = None if g is None else from_array(cache, g)
        result: Array = shrunk(*mats, l1, l2, gradient).numpy()
        return result


# ---------------------------------------------------------------- flows against their definitions


def test_saturation_is_precise_everywhere() -> None:
    x = np.concatenate([[0.0], np.logspace(-8, 2, 200), [0.49999, 0.5, 0.50001]])[None]
    want = np.ones_like(x)
    want[x > 0] = -np.expm1(-x[x > 0]) / x[x > 0]
    with MatCache(threads=1) as cache:
        np.testing.assert_allclose(saturation(from_array(cache, x)).numpy(), want, rtol=2e-8)
        single = saturation(from_array(cache, x.astype(np.float32))).numpy()
        np.testing.assert_allclose(single, want, rtol=3e-7)


@pytest.mark.parametrize(("l1", "l2"), [(0.4, None), (None, 0.7), (0.4, 0.7)])
def test_a_flow_is_the_descent_of_its_penalty(l1: float | None, l2: float | None) -> None:
    """By many small explicit steps that stop at 0; and times add up, exactly."""
    w = np.array([[2.0, -1.0, 0.1, -0.02, 0.0]])
    steps, time = 20000, 1.5
    x = w.copy()
    for _ in range(steps):
        slope = (l1 or 0) * np.sign(x) + (l2 or 0) * x
        moved = x - time / steps * slope
        x = np.where(np.sign(moved) * np.sign(x) < 0, 0.0, moved)
    np.testing.assert_allclose(flowed(w, time, l1, l2), x, atol=1e-4)
    half = flowed(flowed(w, 0.9, l1, l2), 0.6, l1, l2)
    np.testing.assert_allclose(flowed(w, time, l1, l2), half, atol=1e-12)
    assert (flowed(w, 0.0, l1, l2) == w).all()


def test_the_l1_step_is_the_proximal_operator() -> None:
    for w in (-1.3, -0.1, 0.0, 0.25, 0.9):
        best = minimize_scalar(lambda u, w=w: (u - w) ** 2 / (2 * 0.7) + 0.4 * abs(u), tol=1e-12)
        assert flowed(np.array([[w]]), 0.7, 0.4, None)[0, 0] == pytest.approx(best.x, abs=1e-6)


def test_the_step_stands_still_at_the_optimum_and_only_there() -> None:
    """0 in g + l1 d|w| + l2 w, whatever the time."""
    w = np.array([[1.5, -0.5, 0.0, 0.0]])
    g = np.array([[-0.4 - 0.7 * 1.5, 0.4 + 0.7 * 0.5, 0.39, -0.4]])
    for time in (1e-3, 1.0, 30.0):
        np.testing.assert_allclose(flowed(w, time, 0.4, 0.7, g), w, rtol=1e-7, atol=1e-9)
    moved = flowed(w, 1.0, 0.4, 0.7, g - 0.1) != w
    assert moved.tolist() == [[True, True, False, True]]  # the third is at rest for |g| <= 0.4


def flow_of(mixin: Mixin, w: Array, time: float) -> Array:
    @rowwise
    def program(w: Any, time: Any) -> None:
        w <<= mixin.flow(w, time)

    with MatCache(threads=1) as cache:
        mat = from_array(cache, w, "w")
        program(mat, from_array(cache, np.array([[time]])))
        return mat.numpy()


def test_group_lasso_flows_are_proximal_operators_of_norms() -> None:
    w = np.array([[3.0, -4.0, 0.0], [0.1, 0.1, 0.1], [0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    moved = flow_of(GroupLasso(weight=0.5), w, 2.0)
    np.testing.assert_allclose(moved, [[2.4, -3.2, 0.0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    twice = flow_of(GroupLasso(weight=0.5), flow_of(GroupLasso(weight=0.5), w, 0.8), 1.2)
    np.testing.assert_allclose(moved, twice, atol=1e-15)


def test_non_negativity_is_a_projection() -> None:
    w = np.array([[1.0, -2.0, 0.0]])
    assert (flow_of(NonNegative(), w, 0.1) == [[1.0, 0.0, 0.0]]).all()


# ---------------------------------------------------------------- gradients and scores


@pytest.mark.parametrize("kind", [k for k, m in EXAMPLES.items() if m.smooth])
def test_gradients_against_finite_differences(kind: str) -> None:
    mixin = EXAMPLES[kind]
    rng = np.random.default_rng(0)
    W, V, h = rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), 1e-5

    def term(W: Array) -> float:  # the score is the root mean square of the T (T - 1) cosines
        return 0.3 / 2 * value(mixin, W, "cosine") ** 2 * 4 * 3

    with MatCache(threads=1) as cache:
        mat = from_array(cache, W)
        mixin.attach(cache, {"W": mat})
        gradient = mixin.gradient(mat).numpy()
        zero = from_array(cache, np.zeros((6, 4)))
        assert (mixin.gradient(zero).numpy() == 0).all()
    slope = (term(W + h * V) - term(W - h * V)) / (2 * h)
    assert slope == pytest.approx((gradient * V).sum(), rel=1e-6)


def test_cosines_by_numpy() -> None:
    W = np.random.default_rng(0).normal(size=(7, 3))
    U = W / np.linalg.norm(W, axis=0)
    pairs = (U.T @ U)[~np.eye(3, dtype=bool)]
    assert value(EXAMPLES["cosine-similarity"], W, "cosine") == pytest.approx(
        np.sqrt((pairs**2).mean())
    )


def test_scores_by_numpy() -> None:
    W = np.array([[1.0, -2.0], [0.0, 0.4], [3.0, 0.0]])
    a = abs(W)
    assert value(L1(weight=0.3), W, "l1") == pytest.approx(0.3 * 6.4)
    assert value(L1(weight=[0.3, 1.0]), W, "l1") == pytest.approx(0.3 * 4 + 2.4)
    assert value(L1(weight=0.3), W, "zeros") == pytest.approx(2 / 6)
    assert value(L2(weight=0.3), W, "l2") == pytest.approx(0.15 * (W**2).sum())
    net = value(ElasticNet(weight=0.3, l1_ratio=0.25), W, "elastic_net")
    assert net == pytest.approx(0.3 * (0.25 * 6.4 + 0.375 * (W**2).sum()))
    norms = np.linalg.norm(W, axis=1).sum()
    assert value(GroupLasso(weight=0.3), W, "group_lasso") == pytest.approx(0.3 * norms)
    assert value(GroupLasso(weight=0.3), W * [[1], [0], [1]], "zero_rows") == pytest.approx(1 / 3)
    assert value(NonNegative(), W, "at_bound") == pytest.approx(3 / 6)
    top = TopWeights(threshold=0.5)
    assert value(top, W, "above_threshold") == pytest.approx(3 / 6)
    assert value(top, W, "mass_above_threshold") == pytest.approx(6 / 6.4)
    p = a / a.sum(axis=0)
    H = -(p * np.log(np.where(p > 0, p, 1))).sum(axis=0)
    assert value(TopicEntropy(), W, "topic_entropy") == pytest.approx(H.mean())
    assert value(TopicEntropy(), W, "topic_perplexity") == pytest.approx(np.exp(H).mean())


def test_top_weights_are_named() -> None:
    W = np.array([[1.0, -2.0], [0.0, 0.4], [3.0, 0.0]])
    lines = TopWeights(count=2).report("W", W, ["red", "green", "blue"])
    assert lines == ["W[0]: blue 3, red 1", "W[1]: red -2, green 0.4"]


# ---------------------------------------------------------------- lazy is stepwise

AS_REFERENCE: dict[str, tuple[list[Mixin], dict[str, Any]]] = {
    "none": ([], {}),
    "l1": ([L1(weight=0.05)], {"l1": 0.05}),
    "l2": ([L2(weight=0.3)], {"l2": 0.3}),
    "elastic net": ([ElasticNet(weight=0.4, l1_ratio=0.25)], {"l1": 0.1, "l2": 0.3}),
    "l1 and l2": ([L1(weight=0.05), L2(weight=0.3)], {"l1": 0.05, "l2": 0.3}),
    "by target": (
        [L1(weight=[0.0, 0.05, 0.1]), L2(weight=[0.5, 0.0, 0.1])],
        {"l1": np.array([0, 0.05, 0.1]), "l2": np.array([0.5, 0, 0.1])},
    ),
    "non-negative": ([NonNegative()], {"after": lambda w, time: np.maximum(w, 0)}),
    "non-negative l1": (
        [L1(weight=0.05), NonNegative()],
        {"l1": 0.05, "after": lambda w, time: np.maximum(w, 0)},
    ),
}


def group(w: Array, time: Array) -> Array:
    norm = np.linalg.norm(w, axis=1, keepdims=True)
    return w * np.maximum(1 - 0.2 * time / np.maximum(norm, 1e-30), 0)


BY_ROW: dict[str, tuple[list[Mixin], dict[str, Any]]] = {
    "group lasso": ([GroupLasso(weight=0.2)], {"after": group}),
    "non-negative group lasso": (
        [GroupLasso(weight=0.2), NonNegative()],
        {"after": lambda w, time: group(np.maximum(w, 0), time)},
    ),
}
OFTEN = "elastic net"  # with each rule; "sgd" with all that differ; blocks are dense with these
JOINED = ["none", "l1", "l1 and l2", "non-negative"]  # others have these among their terms
SPARSE = [
    (rule, p, True)
    for rule in RULES
    for p in (*AS_REFERENCE, *(BY_ROW if rule.startswith("sgd") else ()))
]
DENSE = [(rule, OFTEN, False) for rule in RULES]
COMBINATIONS = [
    pytest.param(rule, p, sparse, marks=[] if quick else pytest.mark.slow)
    for rule, p, sparse in SPARSE + DENSE
    for quick in [p not in JOINED if rule == "sgd" else p == OFTEN and sparse]
]


@pytest.mark.parametrize(("rule", "penalty", "sparse"), COMBINATIONS)
def test_lazy_penalties_are_stepwise_penalties(rule: str, penalty: str, sparse: bool) -> None:
    """Against all rows in every step; features occur rarely, or never; some settle in between."""
    mixins, terms = (AS_REFERENCE | BY_ROW)[penalty]
    optimizer = OPTIMIZERS[rule.split()[0]](**RULES[rule][0])
    data = blocks(30)
    got = run(optimizer, data, initial(), sparse=sparse, mixins=mixins, settle_after=[7, 8, 20])
    want = reference(rule, data, initial(), dense=not sparse, **terms)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-8)
    assert ((got == 0) == (want == 0)).all()


def test_rows_that_missed_no_penalty_are_passed_over() -> None:
    """A state that is NaN shows where it is read: in the row that has missed one."""
    with MatCache(threads=1) as cache:
        w = from_array(cache, np.ones((3, 2)), "W")
        optimizer = AdaGrad(rate=0.1)
        optimizer.attach(cache, {"W": w}, terms={"W": [L2(weight=0.3)]})
        X = from_sparse(cache, sp.csr_array(np.array([[1.0, 2.0, 0.0]])))
        R = from_array(cache, np.ones((1, 2)))
        optimizer.begin(X)
        optimizer.step({"W": Gradient(X, R)})
        after = w.numpy().copy()
        optimizer.state["W.G"] <<= np.nan
        optimizer.begin(from_sparse(cache, sp.csr_array(np.array([[1.0, 0.0, 3.0]]))))
        np.testing.assert_array_equal(w.numpy()[:2], after[:2])
        assert np.isnan(w.numpy()[2]).all()


@pytest.mark.parametrize(
    "penalty", ["elastic net", *rarely(*(p for p in AS_REFERENCE if p != "elastic net"))]
)
def test_lazy_ftrl_is_stepwise_ftrl(penalty: str) -> None:
    """Its definition: minimise z w + n-weighted distance + t (penalties), all rows every step."""
    mixins, terms = AS_REFERENCE[penalty]
    l1, l2 = terms.get("l1", 0.0), terms.get("l2", 0.0)
    data = blocks(30)
    w = np.zeros_like(initial())
    z, n = np.zeros_like(w), np.zeros_like(w)
    for t, (X, R) in enumerate(data, start=1):
        g = X.T @ R
        z += g - (np.sqrt(n + g * g) - np.sqrt(n)) / 0.2 * w
        n += g * g
        w = -np.sign(z) * np.maximum(abs(z) - (0.01 + t * l1), 0)
        w = w / ((1 + np.sqrt(n)) / 0.2 + 0.02 + t * l2)
        if penalty.startswith("non-negative"):
            w = np.maximum(w, 0)
    for sparse in (True, False):
        optimizer = FTRL(rate=0.2, l1=0.01, l2=0.02)
        got = run(optimizer, data, initial(), sparse=sparse, mixins=mixins, settle_after=[9])
        np.testing.assert_allclose(got, w, atol=1e-10)
        assert ((got == 0) == (w == 0)).all()


def test_the_penalties_of_a_model_and_of_mixins_add_up() -> None:
    data = blocks(10)
    own = Penalty(l1=[0.0, 0.02, 0.05], l2=0.1)
    terms: list[Any] = [own, L1(weight=0.03)]
    with MatCache(threads=1) as cache:
        w = from_array(cache, initial(), "W")
        optimizer = SGD(rate=0.1)
        optimizer.attach(cache, {"W": w}, terms={"W": terms})
        for X, R in data:
            g = from_array(cache, X.T @ R)
            optimizer.step({"W": g})
        want = reference(
            "sgd", data, initial(), l1=np.array([0.03, 0.05, 0.08]), l2=0.1, dense=True
        )
        np.testing.assert_allclose(w.numpy(), want, atol=1e-9)


def test_cosine_similarity_pushes_columns_apart() -> None:
    X, Y = regression()
    Y[:, 1] = Y[:, 0] + 0.1 * Y[:, 1]
    alike = descend(SGD(rate=0.3), X, Y, steps=200, sparse=False)
    apart = descend(
        SGD(rate=0.3), X, Y, steps=200, sparse=False, mixins=[CosineSimilarity(weight=5.0)]
    )

    def cosine(W: Array) -> float:
        U = W / np.linalg.norm(W, axis=0)
        return float(abs(U[:, 0] @ U[:, 1]))

    assert cosine(alike) > 0.95
    assert cosine(apart) < 0.8 * cosine(alike)


# ---------------------------------------------------------------- in the learner


def problem() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    X = sp.random_array((150, 40), density=0.06, rng=rng, dtype=np.float32, format="csr")
    return X, (X @ rng.normal(size=(40, TARGETS)) > 0.1).astype(np.float32)


def test_scores_of_mixins_join_the_evaluation() -> None:
    X, Y = problem()
    mixins = [L1(weight=1e-3), TopicEntropy(), TopWeights(), CosineSimilarity(weight=0.0)]
    learner = bl.Learner(Tiny(logistic=True), (X, Y), (X, Y), passes=5, mixins=mixins)
    learner.fit()
    W = learner.model.parameters["W"].numpy()
    scores = learner.progress.scores
    assert {"loss", "l1", "zeros", "topic_entropy", "above_threshold", "cosine"} <= set(scores)
    assert scores["l1"] == pytest.approx(1e-3 * abs(W).sum(), rel=1e-5)
    assert scores["zeros"] == (W == 0).mean() > 0
    assert learner.evaluate((X, Y))["l1"] == scores["l1"]
    assert len(learner.report()) == TARGETS and learner.report()[0].startswith("W[0]: ")
    assert learner.progress.allocations_after_warmup == 0
    assert any("optimizer.W.G" in row[0] for row in learner.plan().rows)


def test_reports_on_topics() -> None:
    X, _ = planted(200, words=30, topics=3)
    mixins = [TopicEntropy(), CosineSimilarity(weight=0.0), TopWeights(count=3)]
    learner = bl.Learner(bl.models.LDA(topics=3), X, X, passes=5, mixins=mixins).fit()
    lam = learner.model.parameters["lambda"].numpy()
    p = lam / lam.sum(axis=0)
    assert learner.progress.scores["topic_entropy"] == pytest.approx(
        -(p * np.log(p)).sum(axis=0).mean(), rel=1e-5
    )
    assert 1 < learner.progress.scores["topic_perplexity"] < 30
    assert len(learner.report()) == 3


def test_mixins_act_on_the_parameters_that_they_name() -> None:
    X, Y = problem()
    both = bl.Learner(
        Tiny(), (X, Y), (X, Y), passes=2, mixins=[L2(weight=100.0, parameters=["W", "b"])]
    ).fit()
    assert {"l2.W", "l2.b"} <= set(both.progress.scores)
    assert abs(both.model.parameters["b"].numpy()).max() < 1e-2
    alone = bl.Learner(Tiny(), (X, Y), passes=2, mixins=[L2(weight=100.0)]).fit()
    assert abs(alone.model.parameters["b"].numpy()).min() > 1e-2  # intercepts are not penalised


# ---------------------------------------------------------------- what does not go together


def refused(mixins: list[Mixin], optimizer: Any, *, sparse: bool = True) -> str:
    with pytest.raises(CombinationError) as error:
        run(optimizer, blocks(2), initial(), sparse=sparse, mixins=mixins)
    return str(error.value)


def test_combinations_without_an_exact_form_are_refused() -> None:
    for cls in (AdaGrad, FTRL):
        message = refused([GroupLasso()], cls())
        assert "group-lasso on 'W' shrinks a row of weights as a whole" in message
        assert "Use group-lasso with sgd" in message
    message = refused([GroupLasso(), L1()], SGD())
    assert "group-lasso together with l1" in message and "dense matrix" in message
    run(SGD(), blocks(2), initial(), sparse=False, mixins=[GroupLasso(), L1()])
    message = refused([CosineSimilarity()], SGD())
    assert "cosine-similarity needs the whole table 'W'" in message and "sparse" in message
    for mixin in (L1(), NonNegative(), CosineSimilarity(), GroupLasso()):
        assert f"{mixin.kind} on 'W': lbfgs" in refused([mixin], LBFGS())
    message = refused([L1(weight=[0.1, 0.2])], SGD())
    assert "has 2 weights, but there are 3 columns" in message
    with pytest.raises(CombinationError, match="has a rate for each target"):
        run(
            SGD(),
            blocks(2),
            initial(),
            sparse=True,
            mixins=[GroupLasso()],
            rates=np.array([1.0, 2.0, 3.0]),
        )


def test_mixins_that_make_no_sense_for_a_model_are_refused() -> None:
    X, _ = planted(60, words=30, topics=3)

    def train(**more: Any) -> None:
        bl.Learner(bl.models.LDA(topics=3), X, **more).fit()

    with pytest.raises(CombinationError, match="l1 on 'lambda': must have `slopes`") as error:
        train(mixins=[L1()])
    assert exit_code(error.value) is ExitCode.CONFIG
    with pytest.raises(CombinationError, match="names 'beta'; LDA has lambda"):
        train(mixins=[L1(parameters=["beta"])])

    class Assigns(Tiny):
        def default_optimizer(self) -> Any:
            return None

    A, Y = problem()
    with pytest.raises(CombinationError, match="Assigns assigns its parameters itself"):
        bl.Learner(Assigns(), (A, Y), mixins=[L2()]).fit()


def test_mixins_in_a_configuration() -> None:
    config = RunConfig.model_validate(
        {
            "model": {"kind": "lda", "topics": 3},
            "data": {"train": {"kind": "python-docs"}},
            "mixins": [{"kind": "topic-entropy"}, {"kind": "l1", "weight": [0.1, 0.2]}],
        }
    )
    assert [type(m) for m in config.mixins] == [TopicEntropy, L1]
    assert RunConfig.model_validate(config.model_dump()) == config
    assert "group-lasso" in str(RunConfig.model_json_schema())
