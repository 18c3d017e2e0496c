"""The quality of topics as scores of an evaluation, against NumPy; the relevance of words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import blocklearn as bl
from blocklearn.matcache.cpu.backend import CPU
from blocklearn.matcache.cpu.compiling.compiled import type_of
from blocklearn.models.coherence import MEASURES, coherence_of
from blocklearn.models.relevance import relevant_words, words_by_relevance
from blocklearn.models.topic_quality import (
    CLOSENESS,
    COMPARED,
    DISTINCT,
    LISTED,
    QUALITY,
    first_words,
    topic_closeness,
)
from tests.support.corpora import planted
from tests.support.often import first_often, rarely


def expected(lam: Any, X: Any) -> dict[str, float]:
    """All scores of the topics [words x topics] on X."""
    order = np.argsort(-lam, axis=0, kind="stable").T
    found = {DISTINCT: len(set(order[:, :LISTED].ravel().tolist())) / order[:, :LISTED].size}
    if order.shape[1] > 1:
        lists = order[:, :COMPARED].tolist()
        found |= {measure: float(coherence_of(lists, X, measure).mean()) for measure in MEASURES}
    if order.shape[0] > 1:
        unit = lam.astype(float) / np.linalg.norm(lam.astype(float), axis=0)
        found[CLOSENESS] = float((unit.T @ unit)[np.triu_indices(order.shape[0], 1)].mean())
    return found


def quality(scores: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if name in QUALITY}


@pytest.mark.parametrize("topics, words", [(3, 60), (3, 1), *rarely((1, 30), (3, 2))])
def test_an_evaluation_scores_the_topics(topics: int, words: int) -> None:
    """Few words, a single topic, one word; empty documents, and a ragged last block."""
    rng = np.random.default_rng(words)
    X = sp.csr_array(rng.poisson(0.3, (70, words)).astype(np.float32))
    X = sp.vstack([X, sp.csr_array((3, words), dtype=np.float32)]).tocsr()
    model = bl.models.LDA(topics=topics, inference="cvb0")
    learner = bl.Learner(model, X, eval=X, passes=2, block_rows=32, threads=2).fit()
    wanted = expected(learner.parameter("lambda"), X)
    assert quality(learner.progress.scores) == pytest.approx(wanted, rel=1e-6)
    assert quality(learner.evaluate(X)) == pytest.approx(wanted, rel=1e-6)
    learner.restore(learner.state())
    assert quality(learner.evaluate(X[:40])) == pytest.approx(
        expected(learner.parameter("lambda"), X[:40]), rel=1e-6
    )


def test_replicas_count_every_document_once() -> None:
    X, _ = planted(90)
    learner = bl.Learner(
        bl.models.LDA(topics=3, inference="cvb0"),
        X,
        eval=X,
        passes=2,
        block_rows=16,
        replicas=3,
        threads=3,
    ).fit()
    wanted = expected(learner.parameter("lambda"), X)
    assert quality(learner.progress.scores) == pytest.approx(wanted, rel=1e-6)


def test_kernels_are_compiled_for_what_they_are_called_with(monkeypatch: Any) -> None:
    wanted: list[tuple[Any, Any]] = []

    def noted(_: CPU, calls: Any) -> None:
        wanted.extend((kernel, tuple(map(type_of, given))) for kernel, *given in calls)

    monkeypatch.setattr(CPU, "prepare", noted)
    X, _ = planted(90)
    bl.Learner(bl.models.LDA(topics=3, inference="cvb0"), X, eval=X, passes=1).fit()
    names = {kernel.__name__ for kernel, _ in wanted}
    assert names >= {"first_words", "index_words", "count_pairs", "closeness"}
    assert all(types in kernel.overloads for kernel, types in wanted)


def test_the_memory_of_the_scores_is_planned() -> None:
    X, _ = planted(90)
    learner = bl.Learner(bl.models.LDA(topics=3, inference="cvb0"), X, eval=X)
    planned = [row for row in learner.plan().rows if row.name.startswith("pairs of words")]
    assert [row.nbytes for row in planned] == [8 * 3 * COMPARED**2]
    assert planned[0].of == "scores"


def test_the_best_topics_may_be_the_most_coherent() -> None:
    X, _ = planted(90)
    watched = bl.Evaluation(metric="c_npmi")
    model = bl.models.LDA(topics=3, inference="cvb0")
    learner = bl.Learner(model, X, X, passes=4, evaluation=watched).fit()
    best = learner.progress.best
    assert best is not None and best.score == learner.evaluate(X)["c_npmi"]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40).flatmap(
        lambda words: st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=3, max_size=3),
            min_size=words,
            max_size=words,
        )
    ),
    st.integers(1, 40),
)
def test_first_words_are_those_of_a_stable_sort(table: Any, listed: int) -> None:
    lam = np.array(table, np.float32)
    listed = min(listed, len(lam))
    first = np.full((3, listed), -1, np.int64)
    first_words(lam, first, np.full((3, listed), np.nan, np.float32))
    np.testing.assert_array_equal(first, np.argsort(-lam, axis=0, kind="stable")[:listed].T)


def test_closeness_of_special_topics() -> None:
    assert topic_closeness(np.ones((4, 3))) == pytest.approx(1.0)
    assert topic_closeness(np.eye(3)) == 0.0
    assert topic_closeness(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]])) == pytest.approx(1 / 3)
    assert np.isnan(topic_closeness(np.ones((4, 1))))


@pytest.mark.parametrize("relevance", first_often([0.0, 0.3, 0.6, 1.0]))
def test_relevance_is_that_of_the_paper(relevance: float) -> None:
    table = np.random.default_rng(0).gamma(0.3, size=(30, 4)) + 1e-3
    phi, p = table / table.sum(axis=0), table.sum(axis=1) / table.sum()
    scores = relevance * np.log(phi) + (1 - relevance) * np.log(phi / p[:, None])
    for k, words in enumerate(relevant_words(table, 7, relevance)):
        assert [word for word, _ in words] == np.argsort(-scores[:, k])[:7].tolist()
        assert [share for _, share in words] == [phi[word, k] for word, _ in words]


def test_words_without_weight_have_no_relevance() -> None:
    table = np.array([[3.0, 0.0], [0.0, 0.0], [1.0, 2.0]], np.float32)
    assert [[w for w, _ in words] for words in relevant_words(table, 2, 0.0)] == [[0, 2], [2, 0]]


@pytest.mark.parametrize("words, topics, top", [(40, 3, 7), (5, 3, 9), (1, 1, 4), (60, 1, 60)])
def test_words_of_many_relevances_are_those_of_stable_sorts(
    words: int, topics: int, top: int
) -> None:
    rng = np.random.default_rng(words)
    table = rng.integers(0, 4, size=(words, topics)).astype(np.float32)  # many ties
    table[0] += 1
    relevances = [1.0, 0.6, 0.0]
    shares = table / table.sum(axis=0)
    common = np.maximum(table.sum(axis=1, keepdims=True) / table.sum(), np.finfo(np.float32).tiny)
    found = words_by_relevance(table, top, relevances)
    for relevance, lists in zip(relevances, found, strict=True):
        order = np.argsort(-(shares / common ** (1.0 - relevance)), axis=0, kind="stable")
        np.testing.assert_array_equal(lists, order[:top].T)


def test_a_topic_without_words_lists_the_first_ones() -> None:
    table = np.array([[3.0, 0.0], [0.0, 0.0], [1.0, 0.0]], np.float32)
    assert relevant_words(table, 2, 0.6)[1] == [(0, 0.0), (1, 0.0)]
