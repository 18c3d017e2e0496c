"""Metrics of ranked lists: against loops that follow the definitions, and against scikit-learn."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score, roc_auc_score

from blocklearn.models.ranking_metrics import ranking_scores
from blocklearn.models.score import add_scores, values


def auc_by_pairs(ranked: list[int], wanted: set[int], others: set[int]) -> float:
    """Pair by pair; two items after the list are in either order with equal chances."""
    place = {item: r for r, item in enumerate(ranked)}
    last = len(ranked)
    pairs = [(place.get(a, last), place.get(b, last)) for a in wanted for b in others]
    return float(np.mean([0.5 if a == b else a < b for a, b in pairs])) if pairs else 1.0


def by_hand(
    lists: list[list[int]], relevant: list[set[int]], k: int, items: int, seen: list[set[int]]
) -> dict[str, float]:
    """Plain Python, user by user, from the definitions."""
    rows: list[dict[str, float]] = []
    for ranked, wanted, known in zip(lists, relevant, seen, strict=True):
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
                "auc": auc_by_pairs(ranked, wanted, set(range(items)) - known - wanted),
            }
        )
    return {f"{name}@{k}": float(np.mean([row[name] for row in rows])) for name in rows[0]}


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
    lists, relevant, seen = [], [], []
    for _ in range(users):
        known = rng.permutation(items)[: rng.integers(0, items + 1)].tolist()
        ranked = [item for item in rng.permutation(items).tolist() if item not in known][:k]
        length = len(ranked)
        seen.append(set(known))
        lists.append(ranked + [-1] * (k - length))
        relevant.append(set(rng.permutation(items)[: rng.integers(0, items + 1)].tolist()))
    relevant[0].add(0)
    some = matrix(relevant, items), matrix(seen, items)
    found = ranking_scores(np.array(lists), some[0], k, some[1])
    assert values(found) == pytest.approx(by_hand(lists, relevant, k, items, seen))


@pytest.mark.parametrize("k", [1, 3, 10, 30])
def test_ndcg_is_that_of_scikit_learn(k: int) -> None:
    rng = np.random.default_rng(k)
    truth = rng.random((50, 30)) < 0.2
    truth[:, 0] |= ~truth.any(axis=1)
    scores = rng.normal(size=(50, 30))
    lists = np.argsort(-scores, axis=1)[:, :k]
    found = ranking_scores(lists, sp.csr_array(truth.astype(float)), k)[f"ndcg@{k}"]
    assert found.figures("x")["x"] == pytest.approx(ndcg_score(truth, scores, k=k))


def test_auc_of_whole_lists_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random((20, 15)) < 0.3
    truth[:, 0], truth[:, 1] = True, False
    scores = rng.normal(size=truth.shape)
    found = ranking_scores(np.argsort(-scores, axis=1), sp.csr_array(truth.astype(float)), 15)
    expected = np.mean([roc_auc_score(t, s) for t, s in zip(truth, scores, strict=True)])
    assert values(found)["auc@15"] == pytest.approx(expected)


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
