"""What a block of ALS and of a GLM takes, as operations of the matrix layer, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from blocklearn.matcache import (
    MatCache,
    copy,
    from_array,
    from_sparse,
    maximum,
    named,
    repeat,
    rowdot,
    rowwise,
    sddmm,
    sigmoid,
)
from scripts.benchmarks.data import power_law

from .measure import Row, Scale, agreement, cache_on, floor, fresh, seconds_of

STEPS = 3
TINY = 1e-30
LARGE = 300  # from this width on the CPU is left out: it would take most of the time


@rowwise
def descend(R: Any, u: Any, table: Any, ridge: Any, steps: Any) -> None:
    """Conjugate gradients as in models/als_rows.py, of ratings alone."""
    r = (R - sddmm(u, table, R)) @ table - ridge * u
    p = copy(r)
    old = rowdot(r, r)
    for _ in repeat(steps):
        Ap = sddmm(p, table, R) @ table + ridge * p
        step = old / maximum(rowdot(p, Ap), TINY)
        u <<= u + step * p
        r <<= r - step * Ap
        new = rowdot(r, r)
        p <<= r + (new / maximum(old, TINY)) * p
        old <<= new


def rows(scale: Scale) -> Iterator[Row]:
    """ALS at rank 20, 100, 1000; GLM of 1 and 300 targets."""
    R = power_law(scale.of(8192, 40), scale.of(17_770, 30), 200)
    for rank in (scale.of(20, 2), scale.of(100, 3), scale.of(1000, 4)):
        numbers = 4.0 * R.nnz * rank * (STEPS + 1)
        least = floor(numbers + 8.0 * R.nnz + 8.0 * R.shape[0] * rank, numbers)
        name = f"ALS, {STEPS} steps of a block, rank {rank}, {R.nnz:,} ratings"
        yield _measured(name, _als(R, rank), rank, least, scale)
    X = power_law(scale.of(8192, 40), scale.of(50_000, 30))
    for targets in (1, scale.of(300, 3)):
        n, m = X.shape
        nbytes = 8.0 * X.nnz * (targets + 2) + 4.0 * targets * (4 * n + m)
        least = floor(nbytes, 4.0 * X.nnz * targets)
        name = f"GLM, gradient of a block, {targets} targets, {X.nnz:,} non-zeros"
        yield _measured(name, _glm(X, targets), targets, least, scale)


Make = Callable[[MatCache], Callable[[], Any]]  # of what does the work and returns the Mat


def _measured(name: str, make: Make, width: int, least: float, scale: Scale) -> Row:
    seconds, results = [], []
    for device in ("cuda:0", "cpu") if width < LARGE else ("cuda:0",):
        with cache_on(device) as cache:
            work = make(cache)
            seconds.append(seconds_of(cache, work, 0.01 if scale.quick else 0.2))
            results.append(work().numpy())
    if len(results) == 1:
        return Row(name, seconds[0], None, least)
    return Row(name, *seconds, least, agreement(*results))


def _als(R: Any, rank: int) -> Make:
    def make(cache: MatCache) -> Callable[[], Any]:
        rng = np.random.default_rng(0)
        x = from_sparse(cache, R)
        table = from_array(cache, rng.normal(0, 0.1, (R.shape[1], rank)).astype(np.float32))
        u = named(cache, "u", (R.shape[0], rank))

        def work() -> Any:
            nonlocal u
            u <<= 0.0
            fresh(table)
            descend(x, u, table, 10.0, STEPS)
            return u

        return work

    return make


def _glm(X: Any, targets: int) -> Make:
    def make(cache: MatCache) -> Callable[[], Any]:
        rng = np.random.default_rng(0)
        x = from_sparse(cache, X)
        W = from_array(cache, rng.normal(0, 0.1, (X.shape[1], targets)).astype(np.float32))
        Y = from_array(cache, (rng.random((X.shape[0], targets)) < 0.1).astype(np.float32))

        def work() -> Any:
            fresh(W)
            return (x.T @ (sigmoid(x @ W) - Y)).mat()

        return work

    return make
