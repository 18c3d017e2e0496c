"""Odd corpora, made of word counts: few documents, few words, long documents."""

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
