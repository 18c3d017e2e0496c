"""Matrices to measure on, and one split for every system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


def load(path: Path | None, max_docs: int = 0) -> tuple[Any, str]:
    """Return word counts [documents x words], float32 CSR, and their name.

    path: a SciPy .npz; None: the docstrings of Python's standard library.
    max_docs: use only the first ones; 0: all.
    """
    if path is None:
        from blocklearn.datasources import python_docs  # needs more packages

        counts, name = python_docs().counts, "python-docs"
    else:
        counts, name = sp.load_npz(path), str(path)
    X = sp.csr_matrix(counts, dtype=np.float32)
    X.sum_duplicates()
    if max_docs and max_docs < X.shape[0]:
        X, name = X[:max_docs], f"{name}, first {max_docs} documents"
    return X, name


def power_law(documents: int, words: int, mean_length: int = 100) -> Any:
    """Return random counts [documents x words]: Zipf's law, lognormal lengths."""
    rng = np.random.default_rng(0)
    probability = 1.0 / (np.arange(words) + 2.7) ** 1.07
    cumulative = np.cumsum(probability / probability.sum())
    lengths = np.maximum(1, rng.lognormal(np.log(mean_length) - 0.125, 0.5, documents)).astype(int)
    rows = np.repeat(np.arange(documents), lengths)
    columns = np.minimum(np.searchsorted(cumulative, rng.random(len(rows))), words - 1)
    ones = np.ones(len(rows), np.float32)
    X = sp.csr_matrix((ones, (rows, columns)), shape=(documents, words))
    X.sum_duplicates()
    return X


def aligned(array: Any, boundary: int = 64) -> Any:
    """Return a C-ordered copy that starts at a multiple of `boundary` bytes.

    >>> copy = aligned(np.ones((3, 2)).T)
    >>> copy.flags.c_contiguous, copy.ctypes.data % 64
    (True, 0)
    """
    raw = np.zeros(array.nbytes + boundary, np.uint8)
    start = -raw.ctypes.data % boundary
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def split(X: Any, seed: int = 0, test: float = 0.05) -> tuple[Any, Any]:
    """Split the non-empty rows of X for training and scoring (share `test`), always equally."""
    X = X[np.diff(X.indptr) > 0]
    order = np.random.RandomState(seed).permutation(X.shape[0])
    held = round(X.shape[0] * test)
    return X[np.sort(order[held:])], X[np.sort(order[:held])]


def facts(X: Any, name: str) -> dict[str, Any]:
    """Return facts on a matrix for a report."""
    return {
        "name": name,
        "documents": X.shape[0],
        "words": X.shape[1],
        "nnz": int(X.nnz),
        "tokens": float(X.sum()),
    }
