"""Choose the first components of a mixture, from a sample of the rows.

k-means++ and a few steps of Lloyd's k-means. All components begin with the covariance of the rows
around their nearest mean, so that one with few rows of the sample has a usable one, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache.cpu.algebra.blas import one_thread
from blocklearn.matcache.notation.functions import TINY

from ..inputs import Sample
from ..kmeans.start import Array, dense, first_centres

STEPS = 10  # of k-means


class Start(NamedTuple):
    """First components, float64.

    weights: [k], sum 1.
    means: [k x columns].
    covariance: [columns x columns], or its diagonal [columns], of all components.
    """

    weights: Array
    means: Array
    covariance: Array


def blank_components(columns: int, k: int, *, full: bool) -> Start:
    """Return components of zeros, in the place of `first_components`."""
    shape = (columns, columns) if full else (columns,)
    return Start(np.zeros(k), np.zeros((k, columns)), np.zeros(shape))


@one_thread
def first_components(sample: Sample, k: int, seed: int, *, full: bool) -> Start:
    """Return the first k components.

    full: whether the covariance is a matrix, not its diagonal.
    """
    X: Array | sp.csr_array = sample.X
    w, center = sample.weights.astype(np.float64), np.zeros(X.shape[1])
    if full or isinstance(X, np.ndarray):  # numbers around 0 keep more digits
        center = (w @ X) / max(w.sum(), TINY)
        X = (dense(X) - center).astype(np.float32)
    means = first_centres(X, w, k, seed).astype(np.float64)
    counts, sums = _clusters(X, w, means)
    for _ in range(STEPS):
        means = np.where(counts > 0, sums / np.maximum(counts, TINY), means)
        counts, sums = _clusters(X, w, means)
    whole = max(counts.sum(), TINY)
    if full:
        both = sums.T @ means
        within = (X * w[:, None]).T @ X - both - both.T + (counts * means).T @ means
    else:
        within = w @ (X * X) - ((2.0 * sums - counts * means) * means).sum(axis=0)
        within = np.maximum(within, 0.0)
    return Start((counts[:, 0] + 1.0) / (whole + k), means + center, within / whole)


def _clusters(X: Array | sp.csr_array, w: Array, means: Array) -> tuple[Array, Array]:
    """Return the weight [k x 1] and the sum [k x columns] of the rows nearest to each mean."""
    nearest = (X @ means.T - 0.5 * (means * means).sum(axis=1)).argmax(axis=1)
    members = np.eye(len(means))[nearest] * w[:, None]
    return members.sum(axis=0)[:, None], np.asarray((X.T @ members).T)
