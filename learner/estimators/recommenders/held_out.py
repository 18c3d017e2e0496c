"""Score predictions of some known entries of users from the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from blocklearn.datasources.holdout.split import limit_of, start_of
from blocklearn.datasources.ratings.split import hold_entries
from blocklearn.matcache import make_backend
from blocklearn.models.ranking_metrics import ranking_scores
from blocklearn.models.score import Sums, add_scores, values

from ...recommendation.factors import Factors
from ...recommendation.parts import lists_of, of_matrix
from ..base import Array

TOP = 10
PART = 2**20  # entries predicted at a time


def score_of(
    fold_in: Callable[[Any], Array], factors: Factors, X: Any, *, implicit: bool, device: str
) -> float:
    """Score one half of each user's entries by factors found from the other half.

    Higher is better.

    fold_in: returns factors of users from their entries.
    factors: the learned factors.
    X: `csr_array` [users x items]; `split_ratings` decides the halves.
    implicit: score lists of items (NDCG), not errors of ratings.
    device: where lists of implicit feedback are made.

    Raises:
        ValueError: X has no entries to score.
    """
    held = np.zeros(X.nnz, np.bool_)
    hold_entries(X.indptr, X.indices, start_of(0), limit_of(0.5), held)
    known, rest = only(X, ~held), only(X, held)
    if not rest.nnz:
        raise ValueError("score: X has too few entries to hold half of them out.")
    users = fold_in(known)
    if implicit:
        return ndcg(factors, users, known, rest, device)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(rest.indptr))
    squares = 0.0
    for start in range(0, rest.nnz, PART):
        part = slice(start, start + PART)
        products = users[rows[part]] * factors.items[rest.indices[part]]
        errors = rest.data[part] - factors.offset - products.sum(axis=1, dtype=np.float64)
        squares += float(errors @ errors)
    return -math.sqrt(squares / rest.nnz)


def ndcg(factors: Factors, users: Array, known: Any, held: Any, device: str) -> float:
    """Return the NDCG of ten recommended items, over users with held-out items."""
    relevant = held.copy()
    relevant.data = (relevant.data > 0).astype(np.float32)
    relevant.eliminate_zeros()
    some = np.flatnonzero(np.diff(relevant.indptr))
    score: Sums = {}
    opened = partial(make_backend, device, None)
    for block in lists_of(factors, users, of_matrix(some, known), TOP, None, opened):
        score = add_scores(score, ranking_scores(block.ids, relevant[block.rows], TOP))
    return float(values(score)[f"ndcg@{TOP}"])


def only(X: Any, kept: Array) -> Any:
    """Return the entries of a `csr_array` that `kept` marks."""
    before = np.concatenate([[0], np.cumsum(kept)])
    return sp.csr_array((X.data[kept], X.indices[kept], before[X.indptr]), shape=X.shape)
