"""Measure a block of a GLM as operations of the matrix layer, without a model; and peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from blocklearn.matcache import MatCache, from_array, from_sparse, sigmoid
from scripts.benchmarks.data import power_law

from . import peers
from .measure import LARGE, Make, Row, Scale, compared, floor, fresh, random_table


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the gradient of a block for 1 and 300 targets; peers at 300."""
    X = power_law(scale.of(8192, 40), scale.of(50_000, 30))
    n, m = X.shape
    for targets in (1, scale.of(300, 3)):
        W = random_table(m, targets)
        Y = (np.random.default_rng(1).random((n, targets)) < 0.1).astype(np.float32)
        nbytes = 8.0 * X.nnz * (targets + 2) + 4.0 * targets * (4 * n + m)
        least = floor(nbytes, 4.0 * X.nnz * targets)
        what = f"GLM, gradient of a block, {targets} targets"
        name = f"{what}, {X.nnz:,} non-zeros"
        row, found = compared(name, gradient(X, W, Y), least, scale, with_cpu=targets < LARGE)
        yield row
    yield from peers.rows(scale, what, lambda peer: peer.glm(X, W, Y), found, 1.0, least)


def gradient(X: Any, weights: Any, targets: Any) -> Make:
    """Return work that finds the gradient of the logistic loss."""

    def make(cache: MatCache) -> Callable[[], Any]:
        x = from_sparse(cache, X)
        W, Y = from_array(cache, weights), from_array(cache, targets)

        def work() -> Any:
            fresh(W)
            return (x.T @ (sigmoid(x @ W) - Y)).mat()

        return work

    return make
