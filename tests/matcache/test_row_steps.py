"""Steps of single rows: they are what blocks of one row would do, in plain loops and to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.matcache import (
    Entries,
    MatCache,
    Moment,
    ShapeError,
    colsum,
    from_array,
    from_sparse,
    row_steps,
    rowwise,
    scalar,
    sigmoid,
    softplus,
)
from blocklearn.mixins import L1, L2, CosineSimilarity, ElasticNet, GroupLasso, Mixin, NonNegative
from blocklearn.models import GLM, Target
from blocklearn.optimizers import (
    OPTIMIZERS,
    SGD,
    AdaGrad,
    CombinationError,
    Gradient,
    LinearLoss,
    Optimizer,
)
from tests.support.often import rarely
from tests.support.optimizing import FEATURES, ROWS, TARGETS, Array, Tiny, blocks, initial

Blocks = list[tuple[sp.csr_array, Array]]


@rowwise
def logistic(scores: Any, Y: Any) -> Any:
    return sigmoid(scores) - Y, softplus(scores) - Y * scores


def steps(
    optimizer: Optimizer,
    data: Blocks,
    w0: Array,
    *,
    single: bool,
    mixins: Sequence[Mixin] = (),
    rates: Array | None = None,
    mask: Array | None = None,
    weights: Array | None = None,
    settle_after: Sequence[int] = (),
    bias: bool = True,
) -> tuple[Array, Array]:
    """W and b after one step for each block of (X, Y), in float64; single: rows one by one."""
    k = w0.shape[1]
    with MatCache(threads=2) as cache:
        w, b = from_array(cache, w0, "W"), from_array(cache, np.zeros((1, k)), "b")
        shared = None if mask is None else from_array(cache, mask, "mask")
        factors = None
        if rates is not None:
            factors = {name: from_array(cache, rates[None], f"rates {name}") for name in "Wb"}
        for mixin in mixins:
            mixin.attach(cache, {"W": w})
        parameters = {"W": w, "b": b} if bias else {"W": w}
        optimizer.attach(cache, parameters, terms={"W": list(mixins)}, rates=factors)
        for number, (X, Y) in enumerate(data):
            block, y = from_sparse(cache, X), from_array(cache, Y)
            optimizer.begin(block)
            if single:
                given = np.ones((X.shape[0], 1)) if weights is None else weights
                update: dict[str, Any] = {
                    "W": LinearLoss(
                        SimpleNamespace(X=block, weights=from_array(cache, given), weight=1.0),
                        logistic,
                        (y,),
                        mask=shared,
                        bias="b" if bias else None,
                    )
                }
            else:
                R = logistic((block @ w + b).mat(), y)[0]
                update = {"W": Gradient(block, R, shared)}
                if bias:
                    update["b"] = colsum(R)
            optimizer.step(update)
            if number in settle_after:
                optimizer.settle()
        optimizer.settle()
        return w.numpy(), b.numpy()


def labelled(count: int = 6, seed: int = 0, targets: int = TARGETS) -> Blocks:
    """Sparse blocks with labels 0 and 1; some rows of them are empty."""
    rng = np.random.default_rng(seed)
    found = []
    for X, _ in blocks(count, seed):
        found.append((X, rng.integers(2, size=(ROWS, targets)).astype(float)))
    return found


def cut(data: Blocks) -> Blocks:
    """The same rows, each a block of its own."""
    return [(X[[i]], Y[[i]]) for X, Y in data for i in range(X.shape[0])]


# ------------------------------------------------------------------ definitions


def adagrad_loop(
    data: Blocks, w0: Array, rate: float, eps: float, weights: Array | None = None
) -> tuple[Array, Array]:
    """AdaGrad on single rows, as a textbook has it; weight: how often the step is made longer."""
    w, b, G, Gb = w0.copy(), np.zeros(w0.shape[1]), np.zeros_like(w0), np.zeros(w0.shape[1])
    for X, Y in data:
        for i in range(X.shape[0]):
            weight = 1.0 if weights is None else float(weights[i, 0])
            if weight == 0.0:
                continue
            x = X[[i]].toarray()[0]
            r = expit(x @ w + b) - Y[i]
            for c in np.flatnonzero(x):
                g = x[c] * r
                G[c] += g * g
                w[c] -= rate * weight * g / (np.sqrt(G[c]) + eps)
            Gb += r * r
            b -= rate * weight * r / (np.sqrt(Gb) + eps)
    return w, b[None]


@pytest.mark.parametrize("weighted", [False, True])
def test_adagrad_row_by_row_by_hand(weighted: bool) -> None:
    data, w0 = labelled(), initial()
    weights = np.array([0.0, 1.0, 2.0, 0.5, 1.0, 0.0, 3.0, 1.0])[:, None] if weighted else None
    found = steps(
        AdaGrad(rate=0.3, eps=0.1, step_per="row"), data, w0, single=True, weights=weights
    )
    for a, b in zip(found, adagrad_loop(data, w0, 0.3, 0.1, weights), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


RULES: dict[str, dict[str, Any]] = {
    "sgd": {"rate": 0.1},
    "sgd momentum": {"rate": 0.05, "momentum": 0.8},
    "sgd nesterov": {"rate": 0.05, "momentum": 0.8, "nesterov": True},
    "adagrad": {"rate": 0.2, "eps": 0.1},
    "rmsprop": {"rate": 0.05, "eps": 0.1},
    "adam": {"rate": 0.05, "eps": 0.1},
    "ftrl": {"rate": 0.3, "l1": 0.01},
}
TERMS: dict[str, list[Mixin]] = {
    "none": [],
    "l1": [L1(weight=0.01)],
    "l2": [L2(weight=0.05)],
    "elastic net": [ElasticNet(weight=0.03, l1_ratio=0.3)],
    "each target its own": [L1(weight=[0.0, 0.01, 0.02]), L2(weight=[0.1, 0.0, 0.01])],
    "non-negative": [NonNegative()],
}


def by_rows(rule: str, **fields: Any) -> Optimizer:
    return OPTIMIZERS[rule.split()[0]](**RULES[rule] | {"step_per": "row"} | fields)


def both(rule: str, **options: Any) -> list[tuple[Array, Array]]:
    """The same rows: one by one, and as blocks of one row."""
    kind, data, w0 = rule.split()[0], labelled(), initial()
    if any(isinstance(mixin, NonNegative) for mixin in options.get("mixins", ())):
        w0 = np.abs(w0)  # what starts outside is projected before it is read, not after a block
    found = []
    for single in (True, False):
        settings = RULES[rule] | {"step_per": "row" if single else "block"}
        optimizer = OPTIMIZERS[kind](**settings)
        rows = data if single else cut(data)
        found.append(steps(optimizer, rows, w0, single=single, **options))
    return found


ALL = "each target its own"
OFTEN = ("adagrad",)
ABSENT: list[Mixin] = [L1(weight=[0.0] * 3), L2(weight=[0.0] * 3)]  # by the same kernels as ALL


@pytest.mark.parametrize(
    ("rule", "terms"),
    [
        *(pytest.param(r, ALL, marks=[pytest.mark.slow] * (r not in OFTEN)) for r in RULES),
        *rarely(*(("sgd", t) for t in TERMS if t != ALL)),  # elastic net: `test_any_shape`
        *rarely(*(("ftrl", t) for t in TERMS if t != ALL)),
    ],
)
def test_every_rule_and_penalty_is_as_with_blocks_of_one_row(rule: str, terms: str) -> None:
    one, other = both(rule, mixins=TERMS[terms])
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)  # the clock of blocks is float32
    if terms != "none":
        without, _ = both(rule, mixins=ABSENT if terms == ALL else [])
        assert not np.allclose(one[0], without[0])


def test_every_optimizer_by_gradients_is_here() -> None:
    fields = {k: v.model_fields.get("step_per") for k, v in OPTIMIZERS.items()}
    by_rows = {k for k, v in fields.items() if v is not None and "row" in get_args(v.annotation)}
    assert by_rows == {rule.split()[0] for rule in RULES}


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["adagrad", "sgd", "ftrl"])
def test_rates_masks_and_clipping(rule: str) -> None:
    mask = (np.random.default_rng(3).random((FEATURES, TARGETS)) < 0.6).astype(float)
    rates = np.array([0.5, 1.0, 3.0])
    for a, b in zip(*both(rule, mask=mask, rates=rates, mixins=TERMS["l1"]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    clipped = RULES[rule] | {"clip_value": 0.05}
    kind, data, w0 = OPTIMIZERS[rule], labelled(), initial()
    one = steps(by_rows(rule, clip_value=0.05), data, w0, single=True)
    other = steps(kind(**clipped), cut(data), w0, single=False)
    np.testing.assert_allclose(one[0], other[0], rtol=1e-9, atol=1e-12)
    assert np.abs(one[0] - both(rule)[0][0]).max() > 1e-3


@pytest.mark.parametrize("rule", ["adagrad", *rarely("sgd", "ftrl")])
def test_settling_in_between_changes_nothing_but_rounding(rule: str) -> None:
    data, w0 = labelled(12), initial()
    found = [
        steps(
            by_rows(rule), data, w0, single=True,
            mixins=TERMS["elastic net"], settle_after=after,
        )[0]
        for after in ((), (0, 3, 4, 9))
    ]  # fmt: skip
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=12)
@given(
    st.integers(1, 20), st.integers(1, 9), st.sampled_from([1, TARGETS]), st.floats(0, 1),
    st.integers(0, 10**6),
)  # fmt: skip
def test_any_shape(rows: int, features: int, k: int, density: float, seed: int) -> None:
    """Empty rows, empty blocks, one feature, one target; values of any size.

    Several targets have neither bias nor penalty: each combination would be a kernel.
    """
    plain = k > 1
    rng = np.random.default_rng(seed)
    data = []
    for n in (rows, 1):
        X = rng.normal(size=(n, features)) * (rng.random((n, features)) < density)
        data.append((sp.csr_array(X * 10.0 ** rng.integers(-3, 2)), rng.random((n, k))))
    w0 = rng.normal(size=(features, k))
    options: dict[str, Any] = {"bias": not plain, "mixins": () if plain else TERMS["elastic net"]}
    one = steps(SGD(rate=0.1, step_per="row"), data, w0, single=True, **options)
    other = steps(SGD(rate=0.1), cut(data), w0, single=False, **options)
    np.testing.assert_allclose(one[0], other[0], rtol=1e-6, atol=1e-7)


# ------------------------------------------------------------------ bits


N, V = 300, 60


def problem(targets: int = 3, seed: int = 0) -> tuple[sp.csr_array, Array]:
    rng = np.random.default_rng(seed)
    X = sp.random_array((N, V), density=0.15, rng=rng, format="csr", dtype=np.float32)
    scores = X @ rng.normal(size=(V, targets)) + 0.2 * rng.normal(size=(N, targets))
    return X, (scores > 0).astype(np.float32)


def trained(
    X: Any, Y: Any, model: GLM | None = None, *, optimizer: Optimizer | None = None,
    block_rows: int = 32, threads: int = 1, passes: int = 2, **options: Any,
) -> dict[str, Array]:  # fmt: skip
    optimizer = optimizer or by_rows("adagrad")
    source = MatrixSource(X, targets=Y, block_rows=block_rows, **options)
    learner = bl.Learner(
        model or GLM(l1=1e-4, l2=1e-3), source, threads=threads, passes=passes, optimizer=optimizer
    ).fit()
    assert learner.progress.allocations_after_warmup == 0
    tensors = learner.state().tensors
    learner.close()
    return tensors


def same(a: dict[str, Array], b: dict[str, Array]) -> None:
    for name, array in a.items():
        np.testing.assert_array_equal(array, b[name], err_msg=name)


def of_several_links(count: int) -> list[Target]:
    links = ["logistic", "hinge", "linear", "poisson"]
    return [
        Target(column=t, link=links[t % 4], l1=1e-4 * t, l2=1e-3, rate=1.0 + t % 2)
        for t in range(count)
    ]


SINGLE = rarely("logistic", "softmax", "linear", "hinge", "poisson")


@pytest.mark.parametrize("link", ["several", *SINGLE])
def test_neither_threads_nor_the_size_of_blocks_changes_a_bit(link: Any) -> None:
    several = link == "several"
    X, Y = problem(17 if several else 3)
    model = GLM(targets=of_several_links(17)) if several else GLM(link=link, l1=1e-4, l2=1e-3)
    first = trained(X, Y, model, passes=1)
    assert np.isfinite(first["W"]).all() and np.abs(first["W"]).max() > 0.01
    for threads, block_rows in [(4, 32), (2, 7), (1, 1), (3, N)]:
        same(first, trained(X, Y, model, passes=1, threads=threads, block_rows=block_rows))


WITH_STATE = ["sgd momentum", "adagrad", "adam", "ftrl"]


@pytest.mark.parametrize(
    ("targets", "rule"),
    [
        pytest.param(n, rule, marks=[pytest.mark.slow] * ((n, rule) != (17, "adagrad")))
        for n in (3, 17)
        for rule in WITH_STATE
    ],
)
def test_many_targets_are_to_the_bit_as_each_alone(rule: str, targets: int) -> None:
    X, Y = problem(targets)
    every, optimizer = of_several_links(targets), by_rows(rule)
    together = trained(X, Y, GLM(targets=every), optimizer=optimizer)
    for t in (0, 1, targets - 1):
        alone = trained(X, Y, GLM(targets=[every[t]]), optimizer=optimizer)
        for name, array in alone.items():
            column = [t] if together[name].shape[1] == targets else [0]
            np.testing.assert_array_equal(array, together[name][:, column], err_msg=name)


@pytest.mark.slow
def test_a_softmax_group_is_the_same_beside_other_targets() -> None:
    X, Y = problem(5)
    group = Target(columns=[1, 2, 3], name="group")
    alone = trained(X, Y, GLM(targets=[group]))
    beside = trained(X, Y, GLM(targets=[Target(column=0), group, Target(column=4, link="hinge")]))
    np.testing.assert_array_equal(alone["W"], beside["W"][:, 1:4])


# ------------------------------------------------------------------ weights


@pytest.mark.parametrize("rule", ["adagrad", *rarely("ftrl", "adam")])
def test_rows_of_weight_0_are_as_if_absent(rule: str) -> None:
    X, Y = problem()
    weights = (np.random.default_rng(1).random(N) < 0.6).astype(np.float32)
    kept = weights > 0
    optimizer = by_rows(rule)
    same(
        trained(X, Y, GLM(l1=1e-4, intercept=False), optimizer=optimizer, weights=weights),
        trained(X[kept], Y[kept], GLM(l1=1e-4, intercept=False), optimizer=optimizer),
    )


@pytest.mark.slow  # `test_adagrad_row_by_row_by_hand` has weights, too
def test_weight_2_is_nearly_the_row_twice() -> None:
    """The nearer, the smaller the steps: what the second one would see has moved less."""
    X, Y = problem()
    twice, gaps = np.repeat(np.arange(N), 2), []
    for rate in (0.1, 0.01):
        options: dict[str, Any] = {"optimizer": SGD(rate=rate, step_per="row"), "passes": 1}
        model = GLM(l1=1e-3, l2=1e-2)
        one = trained(X, Y, model, weights=np.full(N, 2.0, np.float32), **options)["W"]
        other = trained(X[twice], Y[twice], model, **options)["W"]
        gaps.append(np.abs(one - other).max() / np.abs(other).max())
    assert gaps[0] < 0.1 and gaps[1] < 0.25 * gaps[0]


def test_weights_of_single_targets_classes_and_features() -> None:
    """Against a loop: factors of the loss of a target, by row and by class, and its features."""
    X, Y = problem(2)
    own = np.random.default_rng(2).integers(3, size=N).astype(np.float32)
    model = GLM(
        targets=[
            Target(column=0, class_weight={"0": 0.5, "1": 2.0}, features=list(range(0, V, 2))),
            Target(column=1, row_weights=2),
        ],
        intercept=False,
    )
    found = trained(X, np.column_stack([Y, own]), model, passes=1,
                    optimizer=SGD(rate=0.3, step_per="row"))["W"]  # fmt: skip
    w = np.zeros((V, 2))
    mask = np.ones((V, 2))
    mask[1::2, 0] = 0.0
    for i in range(N):
        x = X[[i]].toarray()[0].astype(float)
        r = expit(x @ w) - Y[i]
        r *= [2.0 if Y[i, 0] else 0.5, own[i]]
        w -= 0.3 * np.outer(x, r) * mask
    np.testing.assert_allclose(found, w, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------ life, and what is refused


def test_it_learns_and_predicts() -> None:
    X, Y = problem()
    optimizer = AdaGrad(rate=0.5, eps=0.3, step_per="row")
    learner = bl.Learner(GLM(), (X, Y), (X, Y), passes=5, optimizer=optimizer, block_rows=50).fit()
    assert learner.progress.scores["auc"] > 0.95
    assert learner.predict(X).shape == Y.shape


@pytest.mark.slow
def test_it_comes_near_the_minimum() -> None:
    X, Y = problem()
    schedule = bl.optimizers.schedules.Power(exponent=0.6)
    slower = SGD(rate=0.5, step_per="row", schedule=schedule)
    learner = bl.Learner(GLM(l2=1e-3), (X, Y), (X, Y), passes=30, optimizer=slower).fit()
    from sklearn.linear_model import LogisticRegression

    best = LogisticRegression(C=1 / (1e-3 * N), tol=1e-8).fit(X, Y[:, 0])
    W = learner.state().tensors["W"][:, 0]
    assert np.corrcoef(W, best.coef_[0])[0, 1] > 0.99


def refused(match: str, optimizer: Optimizer, X: Any, Y: Any, model: Any, *mixins: Mixin) -> None:
    with pytest.raises(CombinationError, match=match):
        bl.Learner(model, (X, Y), optimizer=optimizer, mixins=mixins, threads=1).fit()


def test_what_has_no_form_for_single_rows_is_refused() -> None:
    X, Y = problem()
    row: Any = {"step_per": "row"}
    refused("dense.*csr_array", AdaGrad(**row), X.toarray(), Y, GLM())
    refused("those of whole blocks", AdaGrad(**row), X, Y, Tiny())
    refused("average_from=3", SGD(**row, average_from=3), X, Y, GLM())
    refused("clip_global_norm", SGD(**row, clip_global_norm=1.0), X, Y, GLM())
    refused("clip_row_norm=1.0.*all columns", SGD(**row, clip_row_norm=1.0), X, Y, GLM())
    refused("group-lasso.*all columns", SGD(**row), X, Y, GLM(), GroupLasso(weight=0.1))
    refused("whole table", SGD(**row), X, Y, GLM(), CosineSimilarity(weight=0.1))


def test_one_target_may_be_clipped_and_grouped() -> None:
    """Its rows have one column each."""
    X, Y = problem(1)
    optimizer = SGD(rate=0.1, step_per="row", clip_row_norm=0.3)
    learner = bl.Learner(
        GLM(), (X, Y), optimizer=optimizer, mixins=[GroupLasso(weight=0.02)], threads=1
    ).fit()
    W = learner.state().tensors["W"]
    assert 0 < np.count_nonzero(W) < W.size


def test_a_block_larger_than_any_before_is_refused_not_overrun() -> None:
    """The strips of a row are as long as a block has room; a longer block grows them."""
    rng = np.random.default_rng(0)
    few = sp.random_array((40, 5000), density=0.001, rng=rng, format="csr", dtype=np.float32)
    many = sp.csr_array(np.ones((40, 5000), np.float32))
    y = np.arange(40) % 2
    learner = bl.Learner(
        GLM(), (few, y), optimizer=SGD(rate=0.01, step_per="row"), threads=1, block_rows=40
    ).fit()
    assert np.isfinite(learner.predict(many)).all()
    again = bl.Learner(
        GLM(), (many, y), optimizer=SGD(rate=0.01, step_per="row"), threads=1, block_rows=40
    ).fit()
    assert np.isfinite(again.state().tensors["W"]).all()


# ------------------------------------------------------------------ the operation


@pytest.mark.parametrize("enabled", [True, False])
def test_the_operation_by_itself(enabled: bool) -> None:
    """y += x r, with r = score + 1: two rows, in whose order the result shows."""
    X = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [0.0, 5.0, 0.0]]))

    @rowwise
    def plus(scores: Any, one: Any) -> Any:
        return scores + one

    def move(moment: Moment, entries: tuple[Any, ...], numbers: tuple[Any, ...]) -> None:
        w, nothing = entries
        assert nothing is None and numbers == ()
        w <<= w + moment.gradient * moment.weight * moment.rate

    with MatCache(enabled=enabled) as cache:
        w, clock = from_array(cache, np.zeros((3, 1)), "w"), scalar(cache, 1.0)
        weights = from_array(cache, np.array([[1.0], [2.0], [0.0]]))
        row_steps(
            from_sparse(cache, X), plus, (1.0,), Entries((w, None), (), move),
            weights=weights, rate=scalar(cache, 0.5), pace=scalar(cache, 10.0), clock=clock,
        )  # fmt: skip
        # row 0: r = 1, w = [.5, 0, 1]; row 1: r = 3 * 1 + 1 = 4, w[2] += 3 * 4 * 2 * .5
        assert w.numpy().ravel().tolist() == [0.5, 0.0, 13.0]
        assert float(clock) == 31.0
        with pytest.raises(ShapeError, match="expected 3 x 1"):
            wrong = from_array(cache, np.zeros((2, 1)), "wrong")
            row_steps(
                from_sparse(cache, X), plus, (1.0,), Entries((w, wrong), (), move),
                weights=weights, rate=clock, pace=clock, clock=clock,
            )  # fmt: skip
