"""LatentDirichletAllocation and NMF: topics, coherence, what pyLDAvis takes."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import blocklearn as bl
from blocklearn.models.coherence import MEASURES, coherence_of

pytest.importorskip("sklearn", reason="needs scikit-learn")

from sklearn.decomposition import NMF as PeerNMF
from sklearn.exceptions import UndefinedMetricWarning

WORDS = ["cat", "fur", "purr", "dog", "bone", "bark", "tax", "law", "court"]
RNG = np.random.default_rng(0)
MIXES = RNG.dirichlet([0.2] * 3, 200)
COUNTS = RNG.poisson(MIXES @ np.kron(np.eye(3), [[6.0, 4.0, 3.0]]))
COUNTS[17] = 0
TEXTS = [np.repeat(WORDS, row).tolist() for row in COUNTS]


@pytest.fixture(scope="module")
def lda() -> Any:
    return bl.LatentDirichletAllocation(3, random_state=0).fit(COUNTS)


# ---- as in gensim --------------------------------------------------------------------------------


def test_topics_are_the_planted_ones(lda: Any) -> None:
    topics = lda.get_topics()
    np.testing.assert_allclose(topics.sum(axis=1), 1.0, rtol=1e-6)
    found = {frozenset(np.argsort(-topic)[:3].tolist()) for topic in topics}
    assert found == {frozenset({0, 1, 2}), frozenset({3, 4, 5}), frozenset({6, 7, 8})}


def test_topics_are_shown_with_words(lda: Any) -> None:
    every = lda.show_topics(-1, num_words=2, formatted=False, feature_names=WORDS)
    assert [number for number, _ in every] == [0, 1, 2]
    assert {words[0][0] for _, words in every} == {"cat", "dog", "tax"}
    number, text = lda.show_topics(1, num_words=2, feature_names=WORDS)[0]
    assert number == lda.components_.sum(axis=1).argmax()
    (first, p), (second, q) = every[number][1]
    assert text == f'{p:.3f}*"{first}" + {q:.3f}*"{second}"'
    assert lda.show_topic(number, 2, feature_names=WORDS) == every[number][1]
    assert lda.show_topic(number, 1)[0][0] == str(WORDS.index(first))
    with pytest.raises(ValueError, match="2 names, but there are 9 words"):
        lda.show_topics(feature_names=["a", "b"])


def test_topics_of_documents(lda: Any) -> None:
    proportions = lda.transform(COUNTS[:5])
    rows = lda.get_document_topics(COUNTS[:5], minimum_probability=0.2)
    for row, listed in zip(proportions, rows, strict=True):
        assert listed == [(k, pytest.approx(p)) for k, p in enumerate(row) if p >= 0.2]
    bow = [(w, int(n)) for w, n in enumerate(COUNTS[3]) if n]
    assert lda.get_document_topics(bow, 0.2) == rows[3]
    assert len(lda.get_document_topics([])) == 3  # an empty document has the prior's topics
    with pytest.raises(ValueError, match="words must be numbers from 0 to 8"):
        lda.get_document_topics([(9, 1.0)])
    for word in (1.5, "socket"):
        with pytest.raises(ValueError, match="words must be whole numbers"):
            lda.get_document_topics([(word, 1.0)])


def test_perplexity_without_words_is_told(lda: Any) -> None:
    with pytest.warns(UndefinedMetricWarning, match="no document has two words, one to predict"):
        assert np.isnan(lda.perplexity(np.zeros((3, COUNTS.shape[1]))))
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(lda.score(np.eye(3, COUNTS.shape[1])))


def test_perplexity_is_that_of_the_learner_and_score_its_logarithm(lda: Any) -> None:
    model = bl.models.LDA(topics=3)
    learner = bl.Learner(model, COUNTS, passes=10, seed=0).fit()
    assert lda.perplexity(COUNTS) == learner.evaluate(COUNTS)["perplexity"]
    assert lda.score(COUNTS) == -math.log(lda.perplexity(COUNTS))
    worse = bl.LatentDirichletAllocation(1, random_state=0).fit(COUNTS)
    assert worse.score(COUNTS) < lda.score(COUNTS)


def test_priors_and_steps_reach_the_model() -> None:
    options = {"inference": "vb", "random_state": 0, "max_iter": 2, "batch_size": 50}
    found = bl.LatentDirichletAllocation(
        3, doc_topic_prior=[0.1, 0.2, 0.3], topic_word_prior=0.7, learning_offset=5.0,
        learning_decay=0.9, max_doc_update_iter=7, **options,
    ).fit(COUNTS)  # fmt: skip
    learner = bl.Learner(
        bl.models.LDA(topics=3, inference="vb", alpha=[0.1, 0.2, 0.3], eta=0.7, inner_iterations=7),
        COUNTS,
        passes=2,
        block_rows=50,
        optimizer=bl.optimizers.StreamingAverage(tau0=5.0, kappa=0.9),
    )
    np.testing.assert_array_equal(found.components_.T, learner.fit().parameter("lambda"))


# ---- coherence -----------------------------------------------------------------------------------


def plain_coherence(topic: list[int], X: Any, measure: str) -> float:
    """The formulas of the docstring with sets of documents."""
    docs = [set(np.flatnonzero(X[:, w] > 0)) for w in topic]
    n, e, found = X.shape[0], 1e-12, []
    if measure == "c_v":
        return plain_c_v(docs, n)
    for earlier, later in itertools.combinations(range(len(topic)), 2):
        w, v = docs[later], docs[earlier]
        if measure == "u_mass":
            found.append(math.log((len(w & v) / n + e) / (len(v) / n)) if v else 0.0)
        elif not w or not v:
            found.append(0.0)
        else:
            both = len(w & v) / n
            ratio = math.log((both + e) / (len(w) / n * len(v) / n))
            found.append(ratio / max(-math.log(both + e), e) if measure == "c_npmi" else ratio)
    return sum(found) / len(found)


def plain_c_v(docs: list[set[int]], n: int) -> float:
    """The mean cosine of each word's vector of NPMI with the sum of all of them."""
    e, vectors = 1e-12, []
    for w in docs:
        shares = [(len(w & v) / n, len(w) / n * len(v) / n) for v in docs]
        vectors.append(
            [math.log((p + e) / q) / max(-math.log(p + e), e) if q else 0.0 for p, q in shares]
        )
    whole = [sum(column) for column in zip(*vectors, strict=True)]
    cosines = []
    for vector in vectors:
        dot = sum(a * b for a, b in zip(vector, whole, strict=True))
        size = math.hypot(*vector) * math.hypot(*whole)
        cosines.append(dot / size if size else 0.0)
    return sum(cosines) / len(cosines)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([0, 0, 1, 3]), min_size=6, max_size=6), min_size=n, max_size=n
        )
    ),
    st.permutations(range(6)),
    st.integers(2, 6),
    st.sampled_from(MEASURES),
)
def test_coherence_is_its_definition(rows: Any, order: Any, size: int, measure: Any) -> None:
    X, topic = np.array(rows), list(order[:size])
    for matrix in (X, sp.csr_array(X), sp.csc_matrix(X.astype(float))):
        found = coherence_of([topic, topic[::-1]], matrix, measure)
        wanted = [plain_coherence(t, X, measure) for t in (topic, topic[::-1])]
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
def test_coherence_is_gensims(lda: Any, measure: Any) -> None:
    gensim = pytest.importorskip("gensim", reason="needs gensim")
    coherence_model = pytest.importorskip("gensim.models.coherencemodel")
    dictionary = gensim.corpora.Dictionary([WORDS])
    tops = np.argsort(-lda.get_topics(), axis=1, kind="stable")[:, :5]
    peer = coherence_model.CoherenceModel(
        topics=[[WORDS[w] for w in top] for top in tops],
        texts=TEXTS,
        dictionary=dictionary,
        coherence=measure,
        window_size=None if measure == "u_mass" else 10**6,
        processes=1,
    )
    found = lda.coherence(COUNTS, measure, topn=5)
    # gensim counts the windows of an empty text as none.
    wanted = peer.get_coherence_per_topic()
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if measure == "u_mass" else 0.01)


def test_coherence_prefers_words_that_come_together(lda: Any) -> None:
    together, apart = coherence_of([[0, 1, 2], [0, 3, 6]], COUNTS, "c_npmi")
    assert together > 0.3 > 0 > apart
    assert lda.coherence(COUNTS, topn=3).mean() > coherence_of([[0, 3, 6]], COUNTS)[0]
    with pytest.raises(ValueError, match="one of u_mass, c_npmi, c_uci, c_v"):
        lda.coherence(COUNTS, "c_p")
    with pytest.raises(ValueError, match="fewer than two words"):
        lda.coherence(COUNTS, topn=1)
    with pytest.raises(ValueError, match="X has no documents"):
        lda.coherence(COUNTS[:0])
    with pytest.raises(ValueError, match="X has 4 columns, but a topic has the word 8"):
        lda.coherence(COUNTS[:, :4])


def test_how_much_topics_differ(lda: Any) -> None:
    """The planted topics share no word."""
    assert lda.distinct_words(topn=3) == 1.0
    assert lda.distinct_words() == 1 / 3  # all nine words of each
    topics = lda.get_topics().astype(float)
    unit = topics / np.linalg.norm(topics, axis=1, keepdims=True)
    mean = (unit @ unit.T)[np.triu_indices(3, 1)].mean()
    assert lda.topic_closeness() == pytest.approx(mean)
    assert lda.topic_closeness() < 0.2
    with pytest.raises(ValueError, match="topn=0: must be 1 or more"):
        lda.distinct_words(topn=0)
    assert math.isnan(bl.LatentDirichletAllocation(1, max_iter=1).fit(COUNTS).topic_closeness())


# ---- pyLDAvis ------------------------------------------------------------------------------------


def test_what_pyldavis_takes(lda: Any) -> None:
    """Rows that sum to 1; neither the empty document nor a word that never occurs."""
    X = COUNTS.copy()
    X[:, 8] = 0
    found = lda.prepare_pyldavis(sp.csr_matrix(X), feature_names=WORDS)
    assert found["vocab"] == WORDS[:8]
    documents = np.flatnonzero(X.sum(axis=1))
    assert 17 not in documents
    np.testing.assert_allclose(found["topic_term_dists"].sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found["doc_topic_dists"].sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found["doc_topic_dists"], lda.transform(X[documents]), rtol=1e-5)
    np.testing.assert_array_equal(found["doc_lengths"], X[documents].sum(axis=1))
    np.testing.assert_array_equal(found["term_frequency"], X[:, :8].sum(axis=0))


@pytest.mark.filterwarnings("ignore")  # of pyLDAvis and what it imports
def test_pyldavis_takes_it(lda: Any) -> None:
    library = pytest.importorskip("pyLDAvis", reason="needs pyLDAvis")
    prepared = library.prepare(**lda.prepare_pyldavis(COUNTS, feature_names=WORDS), n_jobs=1)
    assert set(prepared.topic_info["Term"]) == set(WORDS)


# ---- NMF -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
def test_nmf_explains_as_much_as_scikit_learns(loss: Any) -> None:
    X = COUNTS.astype(float)
    found = bl.NMF(3, beta_loss=loss, random_state=0, max_iter=60).fit(X)
    peer = PeerNMF(3, beta_loss=loss, solver="mu", init="nndsvda", max_iter=500).fit(X)
    fit = found.inverse_transform(found.transform(X))
    wanted = peer.inverse_transform(peer.transform(X))
    assert loss_of(X, fit, loss) < 1.02 * loss_of(X, wanted, loss)


def test_nmf_finds_the_parts_of_a_small_dense_table_by_default() -> None:
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(300, 5))) @ np.abs(rng.normal(size=(5, 40)))
    assert bl.NMF(5, random_state=0).fit(X).score(X) > 0.999


def loss_of(X: Any, P: Any, loss: str) -> float:
    if loss == "frobenius":
        return float(((X - P) ** 2).sum())
    some = X > 0
    return float((X[some] * np.log(X[some] / np.maximum(P[some], 1e-30))).sum() + P.sum() - X.sum())


def test_nmf_penalties_are_those_of_scikit_learn() -> None:
    """At the optimum of the same objective, weights and parts have the same sizes."""
    X = COUNTS.astype(float)
    options = {"alpha_W": 0.01, "alpha_H": 0.02, "l1_ratio": 0.5}
    peer = PeerNMF(3, init="random", random_state=0, tol=1e-6, max_iter=2000, **options)
    W = peer.fit_transform(X)
    settings = {"update_H": "batch", "max_iter": 300, "batch_size": 200, "random_state": 0}
    found = bl.NMF(3, **settings, **options).fit(X)

    def objective(W: Any, H: Any) -> float:
        rows, columns = X.shape

        def penalty(A: Any) -> float:
            return 0.5 * float(A.sum()) + 0.25 * float((A * A).sum())

        fit = float(((X - W @ H) ** 2).sum()) / 2
        return fit + 0.01 * columns * penalty(W) + 0.02 * rows * penalty(H)

    ours = objective(found.transform(X), found.components_)
    assert ours == pytest.approx(objective(W, peer.components_), rel=1e-3)
    without = bl.NMF(3, **settings).fit(X)
    assert ours < 0.99 * objective(without.transform(X), without.components_)


def test_topics_are_drawn_with_their_words(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    X = np.kron(np.eye(2, dtype=int), np.full((10, 3), 4))
    lda = bl.LatentDirichletAllocation(n_components=2, random_state=0, n_jobs=1).fit(X)
    words = ["$x", "b", "c", "d", "e", "f"]
    figure = lda.plot_topics(num_words=3, feature_names=words, path=tmp_path / "t.png")
    shown = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
    assert sorted(map(sorted, shown)) == [["\\$x", "b", "c"], ["d", "e", "f"]]
    assert (tmp_path / "t.png").stat().st_size > 1000
    assert len(lda.plot_topics([1], feature_names=words).axes) == 1
