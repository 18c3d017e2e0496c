"""LDA against dense float64 mathematics, against scikit-learn, and on planted topics."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma, gammaln

import blocklearn as bl
from blocklearn.optimizers import StreamingAverage
from tests.support.corpora import completion_perplexity, e_step, exp_e_log, planted
from tests.support.often import first_often

INFERENCES = ["vb", "cvb0", "gibbs"]


def lam_of(learner: bl.Learner) -> np.ndarray[Any, Any]:
    return learner.model.parameters["lambda"].numpy().astype(np.float64).T


def full_steps(
    model: bl.Model, X: Any, steps: int, threads: int = 2, rows: int = 1024, seed: int = 0
) -> bl.Learner:
    """`steps` passes over X as one block, each replacing lambda by the block's estimate."""
    return bl.Learner(
        model,
        train=X,
        passes=steps,
        block_rows=rows,
        threads=threads,
        seed=seed,
        optimizer=StreamingAverage(tau0=1.0, kappa=0.0),
    ).fit()


@pytest.mark.parametrize("alpha", [0.1, [0.1, 0.2, 0.3, 0.4, 0.5]])
@pytest.mark.parametrize("eta", [0.05, "vector"])
def test_one_vb_step_is_that_of_the_paper(alpha: Any, eta: Any) -> None:
    X, _ = planted(documents=80, words=30, topics=5)
    eta = list(np.linspace(0.05, 0.2, 30)) if eta == "vector" else eta
    model = bl.models.LDA(topics=5, inference="vb", alpha=alpha, eta=eta, inner_iterations=30)
    before = lam_of(full_steps(model, X, 1))
    after = lam_of(full_steps(model, X, 2))
    dense = X.toarray().astype(np.float64)
    phi = exp_e_log(before)
    gamma = e_step(dense, phi, np.asarray(alpha), 30)
    e_theta = np.exp(digamma(gamma))
    expected = np.asarray(eta) + phi * (e_theta.T @ (dense / (e_theta @ phi)))
    np.testing.assert_allclose(after, expected, rtol=2e-3, atol=1e-3)


def test_blocks_of_a_pass_add_up_to_the_corpus() -> None:
    """With kappa = 0 the last block alone counts, scaled to the corpus: it has as many tokens."""
    X, _ = planted(documents=100)
    model = bl.models.LDA(topics=4, inference="vb", eta=0.1)
    lam = lam_of(full_steps(model, X, 1, rows=50))
    expected = 100 * X.sum() / 100 + 0.1 * lam.size
    assert lam.sum() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("inference", first_often(INFERENCES))
def test_planted_topics_are_recovered(inference: Any) -> None:
    X, beta = planted()
    model = bl.models.LDA(topics=6, inference=inference, alpha=0.1, eta=0.05)
    best = 0.0
    for seed in range(3):  # any inference can merge two topics from one start
        learner = bl.Learner(model, train=X, passes=15, block_rows=100, seed=seed, threads=2).fit()
        lam = lam_of(learner)
        found = lam / lam.sum(axis=1, keepdims=True)
        overlap = np.minimum(found[:, None], beta[None]).sum(axis=2)  # 1 - total variation
        best = max(best, overlap.max(axis=0).min())
    assert best > 0.9


@pytest.mark.slow
def test_agrees_with_scikit_learn_in_the_limit() -> None:
    """Same priors, run until settled, best of four starts each: held-out perplexity within 1 %."""
    decomposition = pytest.importorskip("sklearn.decomposition")
    X, _ = planted(documents=500, words=80, topics=8, length=40, seed=3)
    held, _ = planted(documents=100, words=80, topics=8, length=40, seed=3)  # the same topics
    ours, theirs = [], []
    for seed in range(4):
        peer = decomposition.LatentDirichletAllocation(
            8, doc_topic_prior=0.1, topic_word_prior=0.1, max_iter=40, random_state=seed
        ).fit(X)
        theirs.append(completion_perplexity(peer.components_, held, 0.1))
        model = bl.models.LDA(topics=8, inference="vb", alpha=0.1, eta=0.1, inner_iterations=100)
        settled = full_steps(model, X, 40, seed=seed)
        ours.append(completion_perplexity(lam_of(settled), held, 0.1))
    assert min(ours) == pytest.approx(min(theirs), rel=0.01)


def test_elbo_per_token_is_the_bound_of_the_paper() -> None:
    X, _ = planted(documents=60, words=30, topics=5)
    model = bl.models.LDA(topics=5, inference="vb", alpha=0.3, eta=0.1)
    learner = full_steps(model, X, 3)
    got = learner.evaluate(X)["elbo_per_token"]
    dense, alpha, lam = X.toarray().astype(np.float64), 0.3, lam_of(learner)
    phi = exp_e_log(lam)
    gamma = e_step(dense, phi, alpha, 51)
    e_log = digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))
    words = (dense * np.log(np.exp(e_log) @ phi)).sum()
    prior = (alpha - gamma) * e_log + gammaln(gamma) - gammaln(alpha)
    rest = gammaln(5 * alpha) - gammaln(gamma.sum(axis=1))
    assert got == pytest.approx((words + prior.sum() + rest.sum()) / dense.sum(), rel=1e-4)


def test_perplexity_is_near_an_independent_computation() -> None:
    X, _ = planted()
    held, _ = planted(documents=300, seed=0)
    learner = bl.Learner(bl.models.LDA(topics=6, alpha=0.1), train=X, passes=5, threads=2).fit()
    got = learner.evaluate(held)["perplexity"]
    assert got == pytest.approx(completion_perplexity(lam_of(learner), held, 0.1), rel=0.03)


def test_predictions_are_proportions() -> None:
    X, _ = planted(documents=90)
    X = sp.csr_array(sp.vstack([X, sp.csr_array((1, X.shape[1]), dtype=np.float32)]))
    learner = bl.Learner(bl.models.LDA(topics=6), train=X, passes=2, block_rows=40, threads=2).fit()
    theta = learner.predict(X)
    assert theta.shape == (91, 6)
    np.testing.assert_allclose(theta.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(theta[-1], 1 / 6, rtol=1e-5)  # no words: the prior


def test_another_seed_gives_another_model() -> None:
    X, _ = planted(documents=100)
    models = [
        lam_of(bl.Learner(bl.models.LDA(topics=5), train=X, seed=s, threads=1).fit())
        for s in (0, 1)
    ]
    assert not np.allclose(*models)


@pytest.mark.parametrize("inference", first_often(INFERENCES))
def test_fractional_counts_are_accepted(inference: Any) -> None:
    X, _ = planted(documents=100)
    X.data *= 0.7
    model = bl.models.LDA(topics=5, inference=inference)
    learner = bl.Learner(model, train=X, passes=2, threads=1).fit()
    assert np.isfinite(lam_of(learner)).all()


def test_dense_blocks_are_refused() -> None:
    source = bl.datasources.MatrixSource(np.ones((20, 3), np.float32), block_rows=10)
    with pytest.raises(bl.datasources.DataError, match="MatrixSource are dense.*csr_array"):
        bl.Learner(bl.models.LDA(topics=2), source)
    with pytest.raises(bl.datasources.DataError, match="dense"):
        bl.Learner(bl.models.LDA(topics=2), source, eval=0.5)


def test_dense_counts_are_taken_and_negative_ones_refused() -> None:
    X, _ = planted(documents=50)
    model = bl.models.LDA(topics=3)
    learner = bl.Learner(model, train=X.toarray(), threads=1).fit()
    sparse = bl.Learner(model, train=X, threads=1).fit()
    assert lam_of(learner).tobytes() == lam_of(sparse).tobytes()
    np.testing.assert_array_equal(learner.predict(X.toarray()), sparse.predict(X))
    X = X.tolil()
    X[7, 4] = -2
    with pytest.raises(ValueError, match="row 7, column 4 is -2: counts must not be negative"):
        bl.Learner(model, train=X.tocsr())


def shares_of_same(phi: Any, alpha: Any, m: int) -> Any:
    """E[share of topic k in the m topics of word w], by enumeration; a document has each word once.

    The m copies of all words share the document's proportions, whose prior is Dirichlet(m alpha).
    """
    words, topics = phi.shape
    shares, norm = np.zeros_like(phi), 0.0
    for z in itertools.product(range(topics), repeat=words * m):
        counts = np.bincount(z, minlength=topics)
        copies = np.reshape(z, (m, words))
        weight = np.exp(gammaln(m * alpha + counts).sum()) * phi[np.arange(words), copies].prod()
        norm += weight
        for w in range(words):
            shares[w] += weight * np.bincount(copies[:, w], minlength=topics) / m
    return shares / norm


@pytest.mark.parametrize("m", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_same_draws_from_the_power_of_the_posterior(m: int) -> None:
    """One step from a known lambda, as the mean over many equal documents."""
    documents, words, alpha = 4096, 3, np.array([0.2, 0.3])
    X = sp.csr_array(np.ones((documents, words), np.float32))
    settings: dict[str, Any] = {"topics": 2, "alpha": alpha.tolist(), "warm_up": 0}
    start = full_steps(bl.models.LDA(**settings), X, 1, rows=documents)
    phi = lam_of(start).T
    phi = phi / phi.sum(axis=0)
    after = lam_of(full_steps(bl.models.LDA(**settings, same=[1, m]), X, 2, rows=documents)).T
    expected = shares_of_same(phi, alpha, m)
    np.testing.assert_allclose((after - 0.05) / documents, expected, atol=0.006)


def test_same_of_one_topic_a_token_has_the_bits_of_none() -> None:
    X, _ = planted(documents=60)
    found = [bl.Learner(bl.models.LDA(topics=4, same=m, fresh_counts="drawn"), X, passes=3).fit()
             for m in (1, [1, 1], [1, 2])]  # fmt: skip
    plain, ones, cooled = (learner.parameter("lambda").tobytes() for learner in found)
    assert plain == ones != cooled


@pytest.mark.parametrize("other", [{"inference": "vb"}, {"assignments": "kept"}])
def test_same_needs_fresh_assignments(other: Any) -> None:
    with pytest.raises(ValueError, match=r"same=2: must be 1 with .* Set inference: gibbs, assign"):
        bl.models.LDA(same=2, **other)


def test_one_pass_of_gibbs_samples() -> None:
    X, _ = planted(documents=60)
    runs = [
        bl.Learner(bl.models.LDA(topics=3, warm_up=w), train=X, threads=1).fit() for w in (0, 1)
    ]
    other = bl.Learner(bl.models.LDA(topics=3, inference="cvb0"), train=X, threads=1).fit()
    assert lam_of(runs[0]).sum() == pytest.approx(lam_of(runs[1]).sum(), rel=1e-3)
    assert not np.allclose(lam_of(runs[1]), lam_of(other))


def test_how_sampling_begins_depends_on_topics_and_assignments() -> None:
    """cvb0 is fast and makes topics alike; passes drawn afresh cost more with each topic."""
    for own, begins, rows in [
        ({"topics": 200}, (1, 8), 160),
        ({"topics": 201}, (0, 0), 160),
        ({"topics": 200, "warm_up": 3}, (3, 7), 160),
        ({"topics": 200, "assignments": "kept"}, (0, 8), 160),
        ({"topics": 30, "assignments": "kept"}, (1, 7), 160),
        ({"topics": 30, "assignments": "kept", "warm_up": 0}, (0, 8), 160),
        ({"topics": 31, "assignments": "kept"}, (0, 8), 160),
        ({"topics": 201, "assignments": "kept", "fresh_passes": 0}, (0, 0), 1_000),
        ({"topics": 201, "assignments": "kept", "fresh_passes": 1}, (0, 1), 160),
    ]:
        model = bl.models.LDA(**own).for_run(passes=10)
        assert (model.warm_up, model.fresh_passes) == begins
        assert model.rows_of_block(8_000) == rows
    given = bl.models.LDA(topics=201, warm_up=3, fresh_passes=4)
    assert (given.warm_up, given.fresh_passes) == (3, 4)


def test_a_wrong_number_of_topics_is_the_only_error() -> None:
    """Defaults that depend on it are not reported, too."""
    with pytest.raises(ValueError, match=r"^LDA: topics=0: must be at least 1\.$"):
        bl.models.LDA(topics=0)
    with pytest.raises(ValueError, match=r"unknown parameter") as error:
        bl.models.LDA(topics=0, warm=1)
    assert "factory" not in str(error.value)


def test_huge_counts_are_split_in_no_time() -> None:
    X, _ = planted(documents=40)
    X.data *= 1e7
    learner = bl.Learner(bl.models.LDA(topics=3, inference="vb"), train=X, eval=X, threads=1).fit()
    assert np.isfinite(learner.progress.scores["perplexity"])


def test_prior_vectors_of_the_wrong_length_are_refused() -> None:
    X, _ = planted(documents=20)
    with pytest.raises(ValueError, match="alpha has 3 numbers, but there are 5 topics"):
        bl.models.LDA(topics=5, alpha=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="eta has 2 numbers, but there are 60 words"):
        bl.Learner(bl.models.LDA(topics=5, eta=[0.1, 0.2]), train=X).fit()


def test_topic_words_are_sorted_probabilities() -> None:
    X, _ = planted(documents=100)
    learner = bl.Learner(bl.models.LDA(topics=3), train=X, threads=1).fit()
    assert isinstance(learner.model, bl.models.LDA)
    topics = learner.model.topic_words(7)
    assert [len(t) for t in topics] == [7, 7, 7]
    for topic in topics:
        weights = [p for _, p in topic]
        assert weights == sorted(weights, reverse=True)
        assert 0 < sum(weights) <= 1
