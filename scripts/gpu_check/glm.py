"""Measure a block of a GLM as operations of the matrix layer, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from blocklearn.matcache import MatCache, from_array, from_sparse, sigmoid
from scripts.benchmarks.data import power_law

from . import peers
from .measure import LARGE, Make, Row, Scale, cache_on, compared, floor, fresh, random_table


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the gradient of a block for 1 and 300 targets."""
    for targets in (1, scale.of(300, 3)):
        X, W, Y = _problem(scale, targets)
        name = f"{_what(targets)}, {X.nnz:,} non-zeros"
        work = gradient(X, W, Y)
        row, _ = compared(name, work, _floor(X, targets), scale, with_cpu=targets < LARGE)
        yield row


def by_peers(scale: Scale) -> Iterator[Row]:
    """Yield the same for 300 targets by peers."""
    targets = scale.of(300, 3)
    X, W, Y = _problem(scale, targets)
    with cache_on("cuda:0") as cache:
        found = gradient(X, W, Y)(cache)().numpy()
    yield from peers.rows(
        scale, _what(targets), lambda peer: peer.glm(X, W, Y), found, 1.0, _floor(X, targets)
    )


def _problem(scale: Scale, targets: int) -> tuple[Any, Any, Any]:
    X = power_law(scale.of(8192, 40), scale.of(50_000, 30))
    Y = (np.random.default_rng(1).random((X.shape[0], targets)) < 0.1).astype(np.float32)
    return X, random_table(X.shape[1], targets), Y


def _what(targets: int) -> str:
    return f"GLM, gradient of a block, {targets} targets"


def _floor(X: Any, targets: int) -> float:
    n, m = X.shape
    nbytes = 8.0 * X.nnz * (targets + 2) + 4.0 * targets * (4 * n + m)
    return floor(nbytes, 4.0 * X.nnz * targets)


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
