"""Priors of LDA that are learned: alpha of each topic, and eta."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import psi
from scipy.stats import poisson

import blocklearn as bl
from blocklearn.datasources import IterableSource
from blocklearn.learner.figures import number
from blocklearn.learner.inspection.inspect import model_report
from blocklearn.learner.inspection.lines import model_pairs
from blocklearn.learner.page.topic_sections import topic_sections
from blocklearn.learner.reports.lines import topic_lines, topics_json
from blocklearn.matcache import MatCache, from_array
from blocklearn.models import LDA
from blocklearn.models.lda.learned_priors import (
    LEAST,
    START,
    eta_of_counts,
    eta_of_topics,
    expected_gain,
    gain,
    learn_alpha,
    terms_of_alpha,
)
from blocklearn.optimizers import IncNorm
from tests.support.model_variants import counts
from tests.support.often import first_often, rarely
from tests.support.stops import check_stops

NO_TOPIC = np.iinfo(np.uint16).max


def value(expression: Any) -> Any:
    """The numbers of an expression."""
    return expression.mat().numpy().copy()


def stepped(alpha: Any, documents: list[Any], steps: int = 1) -> Any:
    """Alpha after steps, for the topics of each document's tokens."""
    offsets = np.concatenate([[0], np.cumsum([len(d) for d in documents])]).astype(np.int64)
    tokens = np.concatenate(documents).astype(np.uint16)
    with MatCache(threads=1) as cache:
        mat = from_array(cache, np.asarray(alpha, np.float32)[None], "alpha")
        for _ in range(steps):
            learn_alpha(mat, terms_of_alpha(mat, offsets, tokens))
        return mat.numpy()[0].copy()


def test_a_step_of_alpha_is_the_fixed_point_of_minka() -> None:
    """Of documents of many sizes, none included, some of whose tokens have no topic."""
    rng = np.random.default_rng(0)
    k, alpha = 5, rng.uniform(0.01, 1, 5)
    documents = [rng.integers(0, k - 1, size) for size in (0, 1, 3, 700, 0, 20)]
    documents[3][:100] = NO_TOPIC
    n = np.array([[np.sum(d == topic) for topic in range(k)] for d in documents])
    gained = (psi(n + alpha) - psi(alpha)).sum(axis=0)
    spent = (psi(n.sum(axis=1) + alpha.sum()) - psi(alpha.sum())).sum()
    found = stepped(alpha, documents)
    np.testing.assert_allclose(found, np.maximum(alpha * gained / spent, LEAST), rtol=1e-4)
    assert found[-1] < 1e-6 + LEAST, "no token has the last topic"


def test_without_topics_alpha_stays() -> None:
    alpha = np.array([0.1, 0.2])
    for document in (np.zeros(0, int), np.full(9, NO_TOPIC)):
        np.testing.assert_allclose(stepped(alpha, [document]), alpha, rtol=1e-6)


def test_steps_find_the_prior_of_planted_documents() -> None:
    rng = np.random.default_rng(1)
    planted = np.array([1.5, 0.4, 0.05])
    documents = [rng.choice(3, 60, p=rng.dirichlet(planted)) for _ in range(3000)]
    found = stepped(np.full(3, 0.1), documents, steps=150)
    np.testing.assert_allclose(found, planted, rtol=0.15)


def test_a_step_of_eta() -> None:
    rng = np.random.default_rng(2)
    table = (rng.poisson(0.5, (40, 7)) * rng.integers(1, 30, (40, 7))).astype(np.float64)
    table[:, 3] = 0
    eta, sizes = 0.3, table.sum(axis=0)
    gained = (psi(table + eta) - psi(eta)).sum()
    spent = 40 * (psi(sizes + 40 * eta) - psi(40 * eta)).sum()
    with MatCache(threads=1) as cache:
        mat = from_array(cache, np.array([[eta]], np.float32), "eta")
        counted = from_array(cache, table.astype(np.float32), "counts")
        totals = from_array(cache, sizes[None], "totals")
        found = value(eta_of_counts(mat, counted, totals))[0, 0]
        np.testing.assert_allclose(found, eta * gained / spent, rtol=1e-4)
        lam = from_array(cache, (table + eta).astype(np.float32), "lambda")
        found = value(eta_of_topics(mat, lam, collapsed=False))[0, 0]
        np.testing.assert_allclose(found, eta * gained / spent, rtol=1e-4)
        counted.set(np.zeros_like(table, np.float32))
        none = from_array(cache, np.zeros((1, 7)), "no totals")
        found = value(eta_of_counts(mat, counted, none))
        np.testing.assert_allclose(found, eta, rtol=1e-6)


def test_means_of_counts_gain_what_counts_gain_in_the_mean() -> None:
    """Of Poisson counts; the gain of the mean count itself is up to ten times as much."""
    means = np.array([0.0, 1e-9, 1e-3, 0.05, 0.5, 2.0, 30.0, 1e6])
    some = np.arange(300)
    with MatCache(threads=1) as cache:
        mat = from_array(cache, means[None].astype(np.float32), "means")
        for prior in (0.05, 0.7):
            own = from_array(cache, np.array([[prior]], np.float32), "prior")
            found = value(expected_gain(mat, own))[0]
            exact = [
                np.sum(poisson.pmf(some, mean) * (psi(some + prior) - psi(prior)))
                if mean < 100
                else psi(mean + prior) - psi(prior)
                for mean in means
            ]
            np.testing.assert_allclose(found[1:], exact[1:], rtol=0.06, atol=2e-6)
            assert found[0] < 1e-5 / prior
            if prior == 0.05:
                assert value(gain(mat, own))[0, 3] > 9 * found[3]


def learner(X: Any = None, **options: Any) -> bl.Learner:
    """A learner that learns both priors, unless `options` say otherwise."""
    model = {name: options.pop(name) for name in list(options) if name in LDA.model_fields}
    own = {"topics": 3, "alpha": "auto", "eta": "auto", **model}
    if own.setdefault("inference", "gibbs") == "gibbs":
        own = {"assignments": "kept", "warm_up": 1, "fresh_passes": 0, "sweeps": 2, **own}
    given = {"passes": 4, "block_rows": 40, "threads": 1, "seed": 3, "verbose": False, **options}
    return bl.Learner(LDA(**own), counts() if X is None else X, **given)


def planted() -> Any:
    """Documents of words of three groups, of which they have 75, 20 and 5 %."""
    rng = np.random.default_rng(0)
    X = np.zeros((300, 15), np.float32)
    for row in X:
        for topic in rng.choice(3, 20, p=rng.dirichlet([0.75, 0.2, 0.05])):
            row[5 * topic + rng.integers(5)] += 1
    return sp.csr_array(X)


@pytest.mark.parametrize("inference", first_often(["gibbs", "cvb0", "vb"]))
def test_frequent_topics_get_a_larger_alpha(inference: str) -> None:
    trained = learner(planted(), passes=30, block_rows=60, inference=inference).fit()
    lam = trained.parameter("lambda")
    groups = (lam / lam.sum(axis=0)).reshape(3, 5, 3).sum(axis=1)  # of each topic
    alpha = trained.parameter("alpha")[0]
    assert alpha[groups[0].argmax()] > 1.5 * alpha[groups[2].argmax()]
    assert trained.parameter("eta")[0, 0] > 0.1, "five words are equally probable"


SHORT = {"block_rows": 5, "passes": 5, "inner_iterations": 3}  # 90 blocks, of which 40 learn


@pytest.mark.parametrize("inference", ["cvb0", "vb"])
def test_a_block_moves_alpha_after_the_first_fifty(inference: str) -> None:
    """Against the equations in float64, for the whole data in a block."""
    before = learner(inference=inference, block_rows=90, passes=52, inner_iterations=60).fit()
    lam, alpha = (
        before.parameter("lambda").astype(float),
        before.parameter("alpha")[0].astype(float),
    )
    after = learner(inference=inference, block_rows=90, passes=53, inner_iterations=60)
    after.restore(before.state())
    after.fit()
    X, eta = counts().toarray().astype(float), float(before.parameter("eta")[0, 0])
    is_vb = inference == "vb"
    phi = np.exp(psi(lam) - psi(lam.sum(axis=0))) if is_vb else lam / lam.sum(axis=0)
    theta = np.ones((90, 3))
    for _ in range(60):
        n = theta * ((X / (theta @ phi.T)) @ phi)
        theta = np.exp(psi(n + alpha)) if is_vb else n + alpha
    n = theta * ((X / (theta @ phi.T)) @ phi)

    def gained(m: Any, prior: Any) -> Any:
        if is_vb:
            return psi(m + prior) - psi(prior)
        p = np.maximum(1 - np.exp(-m), 1e-300)
        return p * (1 / prior + psi(m / p + prior) - psi(1 + prior))

    A = alpha.sum()
    new = alpha * gained(n, alpha).sum(axis=0) / (psi(X.sum(axis=1) + A) - psi(A)).sum()
    tau0, kappa = (11.0, 0.7) if is_vb else (2.0, 0.9)
    rho = (tau0 + 52) ** -kappa
    found = after.parameter("alpha")[0]
    assert abs(new - alpha).max() > 1e-3
    np.testing.assert_allclose(found, alpha + rho * (new - alpha), rtol=2e-4)
    m = np.maximum(lam - eta, 0)
    if is_vb:
        spent = 20 * (psi(m.sum(axis=0) + 20 * eta) - psi(20 * eta)).sum()
        new_eta = eta * gained(m, eta).sum() / spent
        now = after.parameter("eta")[0, 0]
        np.testing.assert_allclose(now, eta + rho * (new_eta - eta), rtol=2e-3)


@pytest.mark.parametrize("inference", ["cvb0", "vb"])
def test_priors_stay_until_topics_differ(inference: str) -> None:
    trained = learner(inference=inference, block_rows=2, passes=1).fit()  # 45 blocks
    np.testing.assert_array_equal(trained.parameter("alpha"), np.float32([[START] * 3]))
    assert trained.parameter("eta")[0, 0] == np.float32(START)


@pytest.mark.parametrize("inference", ["gibbs", "cvb0"])
def test_a_saved_model_has_its_priors_and_shows_them(inference: str, tmp_path: Path) -> None:
    trained = learner(inference=inference, **SHORT).fit()
    bl.save(trained, tmp_path / "m")
    loaded = bl.load(tmp_path / "m")
    alpha, eta = trained.parameter("alpha"), trained.parameter("eta")
    np.testing.assert_array_equal(loaded.parameter("alpha"), alpha)
    np.testing.assert_array_equal(loaded.parameter("eta"), eta)
    assert (alpha != START).all() and eta != START
    np.testing.assert_array_equal(loaded.predict(counts()), trained.predict(counts()))
    empty = loaded.predict(sp.csr_array((1, counts().shape[1]), dtype=np.float32))
    np.testing.assert_allclose(empty, alpha / alpha.sum(), rtol=1e-5)
    for each in (trained, loaded):
        lines = list(topic_lines(each, 3))
        assert all(f"alpha={a:.3g}" in line for a, line in zip(alpha[0], lines[:3], strict=True))
        assert lines[3] == f"eta={eta[0, 0]:.3g}"
        told = json.loads(topics_json(each, 3))
        np.testing.assert_allclose([topic["alpha"] for topic in told], alpha[0], rtol=1e-6)
        page = "".join(map(str, topic_sections(each, None)))
        assert f"alpha {alpha[0, 0]:.2g}" in page and f"eta {eta[0, 0]:.2g}" in page
    shown = dict(model_pairs(model_report(tmp_path / "m")))["arrays"]
    assert f"sum {number(float(alpha.sum()))})" in shown
    assert f"eta 1 x 1 ({number(float(eta[0, 0]))})" in shown


@pytest.mark.parametrize(
    ("inference", "replicas", "blocks"),
    [
        ("gibbs", {}, [2, 8]),
        ("cvb0", SHORT | {"replicas": 3, "sync_every": 2}, [60]),
        *rarely(("gibbs", {"replicas": 3, "sync_every": 1, "sync_weight": 0.7}, [6, 9])),
    ],
    ids=["kept", "cvb0, three", "kept, three"],
)
def test_checkpoints_resume_to_the_same_bits(
    inference: str, tmp_path: Path, replicas: dict[str, Any], blocks: list[int]
) -> None:
    check_stops(
        lambda hooks: learner(hooks=hooks, inference=inference, **replicas), tmp_path, blocks
    )


@pytest.mark.parametrize("inference", ["gibbs", "cvb0"])
def test_threads_change_no_bits(inference: str) -> None:
    one, three = (
        learner(threads=threads, inference=inference, **SHORT).fit() for threads in (1, 3)
    )
    assert (one.parameter("alpha") != START).all()
    for name, parameter in one.state().tensors.items():
        np.testing.assert_array_equal(parameter, three.state().tensors[name], name)


def test_priors_stay_where_assignments_cannot_be_kept() -> None:
    stream = IterableSource(lambda _: iter([counts()]), block_rows=40)
    options: dict[str, Any] = {"passes": 2, "assignments": "auto", "inner_iterations": 3}
    found = learner(stream, **options).fit()
    assert "alpha and eta: auto, but not learned: this needs kept assignments" in found.model.notes
    given = learner(stream, alpha=START, eta=START, **options).fit()
    np.testing.assert_array_equal(found.parameter("lambda"), given.parameter("lambda"))
    np.testing.assert_array_equal(found.predict(counts()), given.predict(counts()))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"assignments": "auto", "fresh_passes": 2},
            "this begins in pass 4, and the run has 2",
        ),
        ({"inference": "vb"}, "this begins after 50 blocks, and the run has 6"),
    ],
    ids=str,
)
def test_a_run_that_is_too_short_to_learn_says_so(given: dict[str, Any], why: str) -> None:
    short = learner(passes=2, **given).fit()
    assert f"alpha and eta: auto, but not learned: {why}" in short.model.notes
    assert (short.parameter("alpha") == np.float32(START)).all()
    own = {"doc_topic_prior": "auto", "inference": given.get("inference", "gibbs")}
    with pytest.warns(UserWarning, match="doc_topic_prior='auto': was not learned, and is 0.05"):
        bl.LatentDirichletAllocation(3, max_iter=2, batch_size=40, **own).fit(counts())


def test_what_does_not_learn_refuses_auto() -> None:
    with pytest.raises(ValueError, match="eta=auto: must be a number beside seeds"):
        LDA(topics=3, inference="cvb0", eta="auto", seeds={"first": ["a"]})
    with pytest.raises(ValueError, match="alpha=auto: must be numbers with assignments=fresh"):
        LDA(topics=3, alpha="auto", assignments="fresh")
    with pytest.raises(ValueError, match="eta: auto does not sum to 1"):
        learner(inference="cvb0", alpha=0.1, optimizer=IncNorm()).fit()
    with pytest.raises(ValueError, match="doc_topic_prior='auto': must be numbers for partial_fit"):
        bl.LatentDirichletAllocation(2, assignments="kept", doc_topic_prior="auto").partial_fit(
            counts()
        )


def test_the_estimator_learns_them() -> None:
    own = {"n_components": 3, "max_iter": 10, "batch_size": 40, "random_state": 3}
    kept = bl.LatentDirichletAllocation(
        assignments="kept", doc_topic_prior="auto", topic_word_prior="auto", **own
    )
    fixed = bl.LatentDirichletAllocation(assignments="kept", **own)
    assert (kept.fit_transform(counts()) != fixed.fit_transform(counts())).any()
    assert kept.doc_topic_prior_.shape == (3,)
    assert (kept.doc_topic_prior_ != fixed.doc_topic_prior_).all()
    assert kept.topic_word_prior_ != START
    np.testing.assert_array_equal(fixed.doc_topic_prior_, np.float32([START] * 3))
    assert fixed.topic_word_prior_ == START
    empty = kept.transform(np.zeros((1, counts().shape[1])))
    alpha = kept.doc_topic_prior_
    np.testing.assert_allclose(empty[0], alpha / alpha.sum(), rtol=1e-5)


def test_parts_of_a_stream_go_on_learning() -> None:
    stream = bl.LatentDirichletAllocation(
        3, inference="cvb0", doc_topic_prior="auto", topic_word_prior="auto", batch_size=2
    )
    stream.partial_fit(counts())  # 45 blocks
    np.testing.assert_array_equal(stream.doc_topic_prior_, np.float32([START] * 3))
    stream.partial_fit(counts())
    assert (stream.doc_topic_prior_ != np.float32(START)).all()
    assert stream.topic_word_prior_ != START
