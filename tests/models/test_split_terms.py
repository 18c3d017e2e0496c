"""Mixins in models of positive tables: cosine-similarity on LDA and NMF, against float64."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import blocklearn as bl
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.matcache import MatCache, from_array
from blocklearn.mixins import L1, CosineSimilarity, TopicEntropy
from blocklearn.models import LDA, NMF, Model
from blocklearn.optimizers import CombinationError, IncNorm, StreamingAverage, Telescoping
from tests.support.often import crossed, first_often

Array = np.ndarray[Any, Any]
ROWS, COLUMNS, K, WEIGHT = 60, 40, 4, 0.5


def cosines(W: Array) -> Array:
    """Cosines of the pairs of columns [K x K], 0 on the diagonal; columns of zeros have none."""
    U = W / np.maximum(np.linalg.norm(W, axis=0), 1e-30)
    return (U.T @ U) * (1 - np.eye(W.shape[1]))


def slopes(W: Array, weight: float) -> tuple[Array, Array]:
    """The two parts of the gradient of weight / 2 sum of squared cosines, in float64."""
    norm = np.maximum(np.linalg.norm(W, axis=0), 1e-30)
    U, C = W / norm, cosines(W)
    return 2 * weight * (U @ C) / norm, 2 * weight * U * (C * C).sum(axis=0) / norm


@cache
def counts() -> sp.csr_array:
    """Counts [ROWS x COLUMNS] of parts that share columns; one row and one column are empty."""
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 1.0, (ROWS, 4)) @ rng.gamma(0.3, 1.0, (4, COLUMNS)))
    X[3], X[:, 5] = 0, 0
    return sp.csr_array(X.astype(np.float32))


class First(bl.Hook):
    """Parameters before training."""

    def start(self, learner: bl.Learner, progress: bl.Progress) -> None:
        self.parameters = {
            name: mat.numpy().astype(np.float64) for name, mat in learner.model.parameters.items()
        }


def learnt(model: Model, weight: float | None, X: Any = None, **options: Any) -> Any:
    """A trained learner, and its first parameters; weight None: without the mixin."""
    first = First()
    mixins = [] if weight is None else [CosineSimilarity(weight=weight)]
    given = {"block_rows": ROWS, "threads": 1, "hooks": [first], "mixins": mixins, **options}
    learner = bl.Learner(model, counts() if X is None else X, **given).fit()
    assert learner.progress.allocations_after_warmup == 0
    return learner, first.parameters


# ---------------------------------------------------------------- the parts of the gradient


@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(1, 9),
    columns=st.sampled_from([1, 4]),  # kernels are compiled for each
    empty=st.integers(0, 4),
    scale=st.sampled_from([1e-9, 1.0, 1e9]),
    seed=st.integers(0, 3),
)
def test_the_parts_are_positive_and_their_difference_is_the_gradient(
    rows: int, columns: int, empty: int, scale: float, seed: int
) -> None:
    """Of one column, of columns of zeros, of any scale."""
    W = scale * np.random.default_rng(seed).gamma(0.5, 1.0, (rows, columns))
    W[:, :empty] = 0.0
    mixin = CosineSimilarity(weight=0.3)
    with MatCache(threads=1) as matcache:
        mat = from_array(matcache, W)
        mixin.attach(matcache, {"W": mat})
        rising, falling = (part.numpy() for part in mixin.slopes(mat))
        np.testing.assert_allclose(
            mixin.gradient(mat).numpy(), rising - falling, atol=1e-12 / scale
        )
    assert (rising >= 0).all() and (falling >= 0).all()
    for ours, wanted in zip((rising, falling), slopes(W, 0.3), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-12 / scale)


# ---------------------------------------------------------------- one step, by the definition


@pytest.mark.parametrize("inference", first_often(["vb", "cvb0", "gibbs"]))
def test_a_step_of_lda_is_that_of_the_definition(inference: Any) -> None:
    """The first step takes the estimate as it is, with and without the term."""
    model = LDA(topics=K, inference=inference, inner_iterations=3, sweeps=2, warm_up=0)
    step = StreamingAverage(tau0=1.0)
    plain, before = learnt(model, None, optimizer=step)
    with_term, _ = learnt(model, WEIGHT, optimizer=step)
    estimate, lam = plain.parameter("lambda").astype(np.float64), before["lambda"]
    rising, falling = slopes(lam, WEIGHT)
    wanted = (estimate + ROWS * lam * falling) / (1 + ROWS * rising)
    np.testing.assert_allclose(with_term.parameter("lambda"), wanted, rtol=1e-5)
    assert abs(wanted / estimate - 1).max() > 0.1  # the term shows


@crossed(sparse=[False, True], way=["online", "batch"], loss=["frobenius", "kullback-leibler"])
def test_a_step_of_nmf_is_that_of_the_definition(loss: Any, way: Any, sparse: bool) -> None:
    fields: dict[str, Any] = {"l1_H": 0.02, "l2_H": 0.03, "inner_iterations": 2}
    model = NMF(components=K, loss=loss, update_H=way, **fields)
    X = counts() if sparse else counts().toarray()
    learner, before = learnt(model, WEIGHT, X)
    W, H = learner.row_state("W").astype(np.float64), before["H"]
    keep = model.forget if way == "online" else 0.0
    mass = ROWS
    dense = counts().toarray().astype(np.float64)
    if loss == "frobenius":
        found = dense.T @ W, W.T @ W
    else:
        found = H * ((dense / (W @ H.T)).T @ W), W.sum(axis=0)
    pull, push = keep * before["pull"] + found[0], keep * before["push"] + found[1]
    for _ in range(2 if loss == "frobenius" else 1):
        rising, falling = (mass * part for part in slopes(H, WEIGHT))
        l1, l2 = mass * 0.02 + rising, mass * 0.03
        if loss == "frobenius":
            H = H * (pull + falling) / (H @ push + l1 + l2 * H)
        else:  # where slope - pull / h + l2 h = 0
            slope, drawn = push + l1, pull + H * falling
            H = (-slope + np.sqrt(slope**2 + 4 * l2 * drawn)) / (2 * l2)
    np.testing.assert_allclose(learner.parameter("H"), H, rtol=3e-4, atol=1e-6)


def test_the_terms_of_several_mixins_add_up() -> None:
    model = NMF(components=K)
    one, _ = learnt(model, 0.5)
    two, _ = learnt(
        model, None, mixins=[CosineSimilarity(weight=0.2), CosineSimilarity(weight=0.3)]
    )
    np.testing.assert_allclose(one.parameter("H"), two.parameter("H"), rtol=1e-4)


# ---------------------------------------------------------------- what comes of it


@cache
def documents() -> sp.csr_array:
    """Word counts of documents whose topics share a third of their words, as real ones do."""
    rng = np.random.default_rng(1)
    words, topics = 300, 4
    own = rng.gamma(0.1, 1.0, (topics, words))
    common = rng.gamma(0.5, 1.0, words) * (np.arange(words) < words // 3)
    beta = own / own.sum(axis=1, keepdims=True) + common / common.sum()
    theta = rng.dirichlet(np.full(topics, 0.2), 700)
    return sp.csr_array(rng.poisson(50 * theta @ (beta / 2)).astype(np.float32))


MODELS: dict[str, tuple[Model, str, str]] = {
    "vb": (LDA(topics=K, inference="vb"), "lambda", "perplexity"),
    "cvb0": (LDA(topics=K, inference="cvb0"), "lambda", "perplexity"),
    "gibbs": (LDA(topics=K, inference="gibbs"), "lambda", "perplexity"),
    "frobenius": (NMF(components=K), "H", "rmse"),
    "kullback-leibler": (NMF(components=K, loss="kullback-leibler"), "H", "divergence"),
    "batch": (NMF(components=K, update_H="batch"), "H", "rmse"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", first_often(MODELS, 2))
def test_components_become_less_alike_and_the_fit_stays(name: str) -> None:
    model, table, score = MODELS[name]
    X = documents()
    close, lost = [], []
    for weight in (0.0, 0.3, 2.0):
        options = {"eval": X[600:], "passes": 20, "block_rows": 100, "seed": 1}
        learner, _ = learnt(model, weight, X[:600], **options)
        found = learner.parameter(table).astype(np.float64)
        assert np.isfinite(found).all() and (found >= 0).all()
        close.append(np.sqrt((cosines(found) ** 2).sum() / (K * (K - 1))))
        assert learner.progress.scores["cosine"] == pytest.approx(close[-1], rel=1e-4)
        lost.append(learner.progress.scores[score])
        learner.close()
    assert close[1] < close[0] and close[2] < 0.6 * close[0], close
    assert lost[1] < 1.1 * lost[0], lost


def test_the_sum_of_loss_and_term_falls() -> None:
    """Where training rests, the objective with the term is lower than that of training without."""
    X = documents().toarray().astype(np.float64)

    def objective(learner: bl.Learner) -> float:
        W, H = (a.astype(np.float64) for a in (learner.row_state("W"), learner.parameter("H")))
        return float(
            0.5 * ((X - W @ H.T) ** 2).sum() + len(X) * WEIGHT / 2 * (cosines(H) ** 2).sum()
        )

    model = NMF(components=K, update_H="batch")
    found = []
    for passes, weight in ((80, 0.0), (20, WEIGHT), (80, WEIGHT)):
        learner, _ = learnt(model, weight, documents(), passes=passes, block_rows=700)
        found.append(objective(learner))
    assert found[2] < found[1] < found[0], found


def test_optimizers_of_estimates_take_the_term() -> None:
    model = LDA(topics=K, inference="cvb0")
    options = {"passes": 8, "block_rows": 100, "optimizer": Telescoping()}
    alike, _ = learnt(model, 0.0, documents(), **options)
    apart, _ = learnt(model, 1.0, documents(), **options)
    found = [np.linalg.norm(cosines(one.parameter("lambda"))) for one in (alike, apart)]
    assert found[1] < 0.7 * found[0]


# ---------------------------------------------------------------- where it acts, and where not


def test_reports_are_of_the_tables_alone() -> None:
    mixins = [CosineSimilarity(weight=0.1), TopicEntropy()]
    learner, _ = learnt(NMF(components=K), None, mixins=mixins, eval=counts())
    assert {"cosine", "topic_entropy"} <= set(learner.progress.scores)


def test_a_configuration_takes_it() -> None:
    config = RunConfig.model_validate(
        {
            "model": {"kind": "lda", "topics": 3},
            "data": {"train": {"kind": "python-docs"}},
            "mixins": [{"kind": "cosine-similarity", "weight": 0.1}],
        }
    )
    assert config.mixins[0].acts


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(CombinationError, match="inc-norm makes columns sum to 1"):
        learnt(LDA(topics=K, inference="cvb0"), 0.1, optimizer=IncNorm())
    learnt(LDA(topics=K, inference="cvb0"), 0.0, optimizer=IncNorm())
    with pytest.raises(CombinationError, match="l1 on 'H': must have `slopes`"):
        learnt(NMF(components=K), None, mixins=[L1(parameters=["H"])])
    with pytest.raises(CombinationError, match="cosine-similarity on 'pull': NMF assigns"):
        learnt(NMF(components=K), None, mixins=[CosineSimilarity(parameters=["pull"])])
