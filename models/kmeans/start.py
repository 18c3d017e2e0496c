"""Choose the first centres among rows: greedy k-means++.

Arthur, Vassilvitskii, *k-means++: the advantages of careful seeding*, SODA 2007. The probability of
a row is proportional to its weight times its squared distance from the centres so far. Of 2 + log k
rows that are drawn, the one that lowers the sum of these the most becomes a centre.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache.cpu.algebra.blas import one_thread
from blocklearn.matcache.notation.functions import TINY

EACH, LEAST = 100, 10_000  # rows of the sample for each centre, and in all
Array = NDArray[np.floating]
Numbers = NDArray[np.signedinteger]


def rows_to_draw_from(k: int) -> int:
    """Return the rows of a sample that k first centres are drawn from."""
    return max(EACH * k, LEAST)


@one_thread
def first_centres(
    X: Array | sp.csr_array, weights: Array, k: int, seed: int, directions: bool = False
) -> Array:
    """Return k rows of X, float32 [k x columns]; some are equal if X has fewer than k others.

    X: [rows x columns], CSR or dense; see `columns_in`.
    weights: [rows]; rows of weight 0 are drawn only if all are 0.
    directions: whether rows are first given length 1; those of zeros have none, and weight 0.
    """
    rng, rows = np.random.default_rng(seed), X
    if directions:
        squares = _squares(X)
        rows = X = X * (1.0 / np.maximum(np.sqrt(squares), TINY))[:, None]
        weights = weights * (squares > 0.0)
    elif isinstance(X, np.ndarray):
        X = X - X.mean(axis=0, dtype=np.float64)  # differences of squares near 0 keep their digits
    norms = _squares(X)
    far: Array = np.ones(X.shape[0])  # squared distance from the nearest centre
    chosen: list[int] = []
    trials = 2 + int(math.log(k))
    for number in range(k):
        away = far * weights
        some = _draw(away if away.any() else weights, trials if number else 1, rng)
        distances = _distances(X, norms, some)
        if number:
            np.minimum(distances, far, out=distances)
        best = int(np.argmin(distances @ weights))
        far = distances[best]
        chosen.append(int(some[best]))
    return dense(rows[chosen]).astype(np.float32)


def rows_among(columns: Numbers, rows: Array, wanted: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the rows of the wanted columns, float32; zeros for columns that are not there.

    columns: ascending, one for each of the rows.
    """
    found = np.zeros((len(wanted), rows.shape[1]), np.float32)
    at = np.searchsorted(columns, wanted)
    at[at == len(columns)] = 0
    there = columns[at] == wanted if len(columns) else np.zeros(len(wanted), bool)
    found[there] = rows[at[there]]
    return found


def columns_in(X: Array | sp.csr_array) -> tuple[Numbers, Array | sp.csr_array]:
    """Return the columns that occur in X, all if X is dense, and X without the others."""
    if isinstance(X, np.ndarray):
        return np.arange(X.shape[1]), X
    found, indices = np.unique(X.indices, return_inverse=True)
    shape = X.shape[0], max(1, len(found))
    return found, sp.csr_array((X.data, indices.astype(np.int32), X.indptr), shape=shape)


def _squares(X: Array | sp.csr_array) -> Array:
    """Return the squared length of each row, float64 [rows]."""
    return np.asarray((X * X).sum(axis=1), np.float64).reshape(-1)


def dense(X: Array | sp.csr_array) -> Array:
    """Return a matrix as a NumPy array."""
    found: Array = X if isinstance(X, np.ndarray) else X.toarray()
    return found


def _draw(chances: Array, number: int, rng: np.random.Generator) -> Numbers:
    ends = np.cumsum(chances)
    if not ends[-1] > 0:
        return rng.integers(len(chances), size=number)
    drawn = np.searchsorted(ends, rng.random(number) * ends[-1], side="right")
    numbers: Numbers = np.minimum(drawn, np.flatnonzero(chances)[-1])
    return numbers


def _distances(X: Array | sp.csr_array, norms: Array, some: Numbers) -> Array:
    """Return squared distances of `some` rows from all, [some x rows]."""
    squares = np.array((X @ dense(X[some]).T).T, np.float64, order="C")  # NumPy is slow along few
    squares *= -2.0
    squares += norms + norms[some, None]
    found: Array = np.maximum(squares, 0.0, out=squares)
    return found
