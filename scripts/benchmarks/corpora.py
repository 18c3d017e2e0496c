"""Corpora made of word counts: few documents, few words, long documents; words in use."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def commonest(X: Any, words: int) -> Any:
    """Return the columns of the words that occur most, in their order.

    >>> commonest(sp.csr_matrix([[1, 3, 2], [0, 3, 2]]), 2).toarray().tolist()
    [[3, 2], [3, 2]]
    """
    totals = np.asarray(X.sum(0)).ravel()
    return sp.csr_matrix(X[:, np.sort(np.argsort(-totals, kind="stable")[:words])])


def merged(X: Any, each: int) -> Any:
    """Return rows that are sums of `each` rows of X; rows that are left over are left out.

    >>> merged(sp.csr_matrix([[1, 0], [2, 1], [0, 4]]), 2).toarray().tolist()
    [[3, 1]]
    """
    rows = X.shape[0] // each
    ones = np.ones(rows * each, X.dtype)
    chosen = (ones, np.arange(rows * each), np.arange(0, rows * each + 1, each))
    return sp.csr_matrix(sp.csr_matrix(chosen, shape=(rows, X.shape[0])) @ X)


def in_use(train: Any, held: Any) -> tuple[Any, Any]:
    """Return both without the words that no document of `train` has.

    Packages that read texts never see these words. Others would give each of them eta in every
    topic, which makes small topics less probable: their priors would not be equal.

    >>> train, held = in_use(sp.csr_matrix([[1, 0, 2]]), sp.csr_matrix([[3, 4, 5]]))
    >>> train.toarray().tolist(), held.toarray().tolist()
    ([[1, 2]], [[3, 5]])
    """
    used = np.flatnonzero(np.asarray(train.sum(0)).ravel() > 0)
    return sp.csr_matrix(train[:, used]), sp.csr_matrix(held[:, used])
