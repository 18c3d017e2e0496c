"""Score lists of recommended items by the metrics of information retrieval.

Manning, Raghavan, Schütze, "Introduction to Information Retrieval" (2008), chapter 8; Järvelin,
Kekäläinen, TOIS 20 (2002). AUC of a list: Schröder, Thiele, Lehner, "Setting Goals and Choosing
Metrics for Recommender System Evaluations", CEUR Workshop Proceedings 811 (2011).

An item is relevant to a user or it is not. For each user, rel_r is 1 if the item on place r of the
list (r = 1 is the best) is relevant, else 0. R is the number of relevant items, in the list or not.
An empty place of a list has rel_r = 0. Means are over users with R >= 1.

Each function returns float64 [users], and takes:

hits: bool [users x k], rel_r of the first k places.
relevant: int [users], R, at least 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from blocklearn.datasources.arrays.compiled import kernel

from .score import Sum, Sums

AT_ONCE = 2**12  # places of lists whose metrics are computed at a time

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def precision(hits: Bools, relevant: Ints) -> Floats:
    """precision@k = (sum of rel_r for r = 1..k) / k, even for shorter lists."""
    return np.asarray(hits.sum(axis=1) / hits.shape[1])


def recall(hits: Bools, relevant: Ints) -> Floats:
    """recall@k = (sum of rel_r for r = 1..k) / R."""
    return np.asarray(hits.sum(axis=1) / relevant)


def ndcg(hits: Bools, relevant: Ints) -> Floats:
    """NDCG@k = DCG@k / (DCG@k of the best possible list).

    DCG@k = sum of rel_r / log2(r + 1) for r = 1..k. The best list starts with min(k, R) relevant
    items.
    """
    gains = 1.0 / np.log2(np.arange(2, hits.shape[1] + 2))
    best = np.cumsum(gains)[np.minimum(relevant, hits.shape[1]) - 1]
    return np.asarray(hits @ gains / best)


def average_precision(hits: Bools, relevant: Ints) -> Floats:
    """AP@k = (sum of precision@r * rel_r for r = 1..k) / min(k, R); its mean is MAP@k.

    The divisor min(k, R) makes 1 attainable; other definitions divide by R.
    """
    places = np.arange(1, hits.shape[1] + 1)
    sums = (np.cumsum(hits, axis=1) / places * hits).sum(axis=1)
    return np.asarray(sums / np.minimum(relevant, hits.shape[1]))


def reciprocal_rank(hits: Bools, relevant: Ints) -> Floats:
    """RR@k = 1 / (first r <= k with rel_r = 1), or 0; its mean is MRR@k."""
    return np.where(hits.any(axis=1), 1.0 / (hits.argmax(axis=1) + 1), 0.0)


def auc(hits: Bools, relevant: Ints, listed: Bools, others: Ints) -> Floats:
    """AUC@k: the chance that a relevant item stands above another one, as far as the list tells.

    The order of items after place k is unknown. There, a relevant item and another one have equal
    chances, so the ROC curve is a straight line from place k on ("limited AUC"). 0.5: a random
    list. Users without other items have 1.

    listed: bool [users x k], places that have an item.
    others: int [users], items that are not relevant and could be listed.
    """
    misses = listed & ~hits
    above = (np.cumsum(hits, axis=1) * misses).sum(axis=1)
    found, later = hits.sum(axis=1), others - misses.sum(axis=1)
    pairs = above + (found + relevant) / 2 * later
    return np.where(others > 0, pairs / (relevant * np.maximum(others, 1)), 1.0)


METRICS = {
    "precision": precision,
    "recall": recall,
    "ndcg": ndcg,
    "map": average_precision,
    "mrr": reciprocal_rank,
}


def metrics_at(k: int) -> list[str]:
    """Return the names of all metrics at `k`, such as `ndcg@10`."""
    return [f"{name}@{k}" for name in (*METRICS, "auc")]


def ranking_scores(lists: Ints, relevant: csr_array, k: int, seen: csr_array | None = None) -> Sums:
    """Return all metrics at `k`: `{"precision@10": Sum(...)}`.

    Sums of blocks of users add up.

    lists: int [users x n], n >= k: distinct numbers of items, best first, -1 in empty places.
    relevant: SciPy CSR [users x items], whose stored entries are the relevant items.
    seen: the same with items that are in no list of their user; None: lists may have all items.

    >>> from scipy.sparse import csr_array
    >>> held_out = csr_array([[0, 1, 0, 1], [0, 0, 0, 0]])
    >>> scores = ranking_scores(np.array([[3, 0], [1, 2]]), held_out, 2)
    >>> {name: part.value() for name, part in scores.items() if name in ("recall@2", "mrr@2")}
    {'recall@2': 0.5, 'mrr@2': 1.0}
    """
    counts = np.diff(relevant.indptr).astype(np.int64)
    some, users = np.flatnonzero(counts), max(1, AT_ONCE // k)
    others = relevant.shape[1] - counts
    if seen is not None:
        less_seen(relevant.indptr, relevant.indices, seen.indptr, seen.indices, others)
    found = {name: np.empty(some.size) for name in metrics_at(k)}
    for start in range(0, some.size, users):
        part = slice(start, start + users)
        hits = np.zeros((some[part].size, min(k, lists.shape[1])), np.bool_)
        mark(lists, relevant.indptr, relevant.indices, some[part], hits)
        for name, metric in METRICS.items():
            found[f"{name}@{k}"][part] = metric(hits, counts[some[part]])
        listed = lists[some[part], : hits.shape[1]] >= 0
        found[f"auc@{k}"][part] = auc(hits, counts[some[part]], listed, others[some[part]])
    return {name: Sum(float(each.sum()), some.size) for name, each in found.items()}


@kernel
def mark(lists: Ints, indptr: Ints, indices: Ints, users: Ints, hits: Bools) -> None:
    """Set hits[u, r] where item r of the list of users[u] is relevant."""
    for place in range(users.size):
        user = users[place]
        for rank in range(hits.shape[1]):
            item = lists[user, rank]
            for entry in range(indptr[user], indptr[user + 1]):
                if indices[entry] == item:
                    hits[place, rank] = True
                    break


@kernel
def less_seen(
    indptr: Ints, indices: Ints, seen_indptr: Ints, seen_indices: Ints, others: Ints
) -> None:
    """Subtract from others[u] the items that user u has seen and that are not relevant."""
    for user in range(others.size):
        own = indices[indptr[user] : indptr[user + 1]]
        for entry in range(seen_indptr[user], seen_indptr[user + 1]):
            known = False
            for item in own:
                if item == seen_indices[entry]:
                    known = True
                    break
            if not known:
                others[user] -= 1
