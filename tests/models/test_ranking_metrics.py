"""Metrics of ranked lists: against loops that follow the definitions, and against scikit-learn."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from blocklearn.models.ranking_metrics import METRICS, ranking_scores
from blocklearn.models.score import add_scores, values


def by_hand(lists: list[list[int]], relevant: list[set[int]], k: int) -> dict[str, float]:
    """Plain Python, user by user, from the definitions."""
    rows: list[dict[str, float]] = []
    for ranked, wanted in zip(lists, relevant, strict=True):
        if not wanted:
            continue
        ranked = [item for item in ranked if item >= 0][:k]
        hits = [r for r, item in enumerate(ranked, start=1) if item in wanted]
        ideal = sum(1 / log2(r + 1) for r in range(1, min(k, len(wanted)) + 1))
        precisions = [
            len([item for item in ranked[:r] if item in wanted]) / r for r in hits
        ]  # where relevant items stand
        rows.append(
            {
                "precision": len(hits) / k,
                "recall": len(hits) / len(wanted),
                "ndcg": sum(1 / log2(r + 1) for r in hits) / ideal,
                "map": sum(precisions) / min(k, len(wanted)),
                "mrr": 1 / hits[0] if hits else 0.0,
            }
        )
    return {f"{name}@{k}": float(np.mean([row[name] for row in rows])) for name in METRICS}


def matrix(relevant: list[set[int]], items: int) -> Any:
    dense = np.zeros((len(relevant), items))
    for row, wanted in enumerate(relevant):
        dense[row, list(wanted)] = 1
    return sp.csr_array(dense)


@settings(max_examples=100)
@given(
    users=st.integers(1, 6),
    items=st.integers(1, 9),
    k=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_definitions(users: int, items: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists, relevant = [], []
    for _ in range(users):
        length = min(k, int(rng.integers(0, items + 1)))
        ranked = rng.permutation(items)[:length].tolist()
        lists.append(ranked + [-1] * (k - length))
        relevant.append(set(rng.permutation(items)[: rng.integers(0, items + 1)].tolist()))
    relevant[0].add(0)
    found = ranking_scores(np.array(lists), matrix(relevant, items), k)
    assert values(found) == pytest.approx(by_hand(lists, relevant, k))


@pytest.mark.parametrize("k", [1, 3, 10, 30])
def test_ndcg_is_that_of_scikit_learn(k: int) -> None:
    rng = np.random.default_rng(k)
    truth = rng.random((50, 30)) < 0.2
    truth[:, 0] |= ~truth.any(axis=1)
    scores = rng.normal(size=(50, 30))
    lists = np.argsort(-scores, axis=1)[:, :k]
    found = ranking_scores(lists, sp.csr_array(truth.astype(float)), k)[f"ndcg@{k}"]
    assert found.figures("x")["x"] == pytest.approx(ndcg_score(truth, scores, k=k))


def test_a_worked_example() -> None:
    """Relevant at places 1, 3, 6, 10 and 20 of 20, all that there are."""
    relevant = [{0, 2, 5, 9, 19}]
    scores = values(ranking_scores(np.arange(20)[None], matrix(relevant, 25), 20))
    assert scores["map@20"] == pytest.approx((1 + 2 / 3 + 1 / 2 + 2 / 5 + 1 / 4) / 5)
    assert scores["precision@20"] == 0.25 and scores["recall@20"] == 1 and scores["mrr@20"] == 1


def test_the_best_list_has_1_everywhere() -> None:
    scores = values(ranking_scores(np.array([[2, 1]]), matrix([{1, 2}], 4), 2))
    assert set(scores.values()) == {1.0}


def test_users_without_relevant_items_do_not_count_and_blocks_add_up() -> None:
    rng = np.random.default_rng(0)
    truth = sp.csr_array((rng.random((40, 12)) < 0.1).astype(float))
    lists = np.argsort(rng.random((40, 12)), axis=1)[:, :5]
    whole = ranking_scores(lists, truth, 5)
    parts = [ranking_scores(lists[p], truth[p], 5) for p in (slice(0, 13), slice(13, 40))]
    assert values(add_scores(*parts)) == pytest.approx(values(whole))
    assert whole["map@5"].count == (np.diff(truth.indptr) > 0).sum() < 40
    nothing = values(ranking_scores(lists[:1], matrix([set()], 12), 5))
    assert all(np.isnan(value) for value in nothing.values())
