"""What a block of ALS and of a GLM takes, as operations of the matrix layer, without a model; and
its peers.
"""

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

from . import peers
from .measure import Row, Scale, agreement, cache_on, floor, fresh, seconds_of

STEPS = 3
RIDGE = 10.0
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


Make = Callable[[MatCache], Callable[[], Any]]  # of what does the work and returns the Mat


def rows(scale: Scale) -> Iterator[Row]:
    """ALS at rank 20, 100, 1000; GLM of 1 and 300 targets; peers at rank 100 and 300 targets."""
    yield from als(scale)
    yield from glm(scale)


def als(scale: Scale) -> Iterator[Row]:
    """A block of users."""
    R = power_law(scale.of(8192, 40), scale.of(17_770, 30), 200)
    for rank in (scale.of(20, 2), scale.of(1000, 4), scale.of(100, 3)):
        table = _numbers(R.shape[1], rank)
        moved = 4.0 * R.nnz * rank * (STEPS + 1)
        least = floor(moved + 8.0 * R.nnz + 8.0 * R.shape[0] * rank, moved)
        what = f"ALS, {STEPS} steps of a block, rank {rank}"
        row, found = _measured(f"{what}, {R.nnz:,} ratings", _als(R, table), rank, least, scale)
        yield row
    part = peers.fitting(R, rank)
    yield from peers.rows(
        what,
        lambda peer: peer.als(part, table, RIDGE, STEPS),
        found[: part.shape[0]],
        part.nnz / R.nnz,
        least,
    )


def glm(scale: Scale) -> Iterator[Row]:
    """The gradient of a block."""
    X = power_law(scale.of(8192, 40), scale.of(50_000, 30))
    n, m = X.shape
    for targets in (1, scale.of(300, 3)):
        W = _numbers(m, targets)
        Y = (np.random.default_rng(1).random((n, targets)) < 0.1).astype(np.float32)
        nbytes = 8.0 * X.nnz * (targets + 2) + 4.0 * targets * (4 * n + m)
        least = floor(nbytes, 4.0 * X.nnz * targets)
        what = f"GLM, gradient of a block, {targets} targets"
        row, found = _measured(f"{what}, {X.nnz:,} non-zeros", _glm(X, W, Y), targets, least, scale)
        yield row
    yield from peers.rows(what, lambda peer: peer.glm(X, W, Y), found, 1.0, least)


def _numbers(rows: int, columns: int) -> Any:
    return np.random.default_rng(0).normal(0, 0.1, (rows, columns)).astype(np.float32)


def _measured(name: str, make: Make, width: int, least: float, scale: Scale) -> tuple[Row, Any]:
    """The row, and what the device found."""
    seconds, results = [], []
    for device in ("cuda:0", "cpu") if width < LARGE else ("cuda:0",):
        with cache_on(device) as cache:
            work = make(cache)
            seconds.append(seconds_of(cache, work, 0.01 if scale.quick else 0.2))
            results.append(work().numpy())
    note = agreement(*results) if len(results) == 2 else ""
    return Row(name, seconds[0], *seconds[1:], floor=least, note=note), results[0]


def _als(R: Any, factors: Any) -> Make:
    def make(cache: MatCache) -> Callable[[], Any]:
        x, table = from_sparse(cache, R), from_array(cache, factors)
        u = named(cache, "u", (R.shape[0], factors.shape[1]))

        def work() -> Any:
            nonlocal u
            u <<= 0.0
            fresh(table)
            descend(x, u, table, RIDGE, STEPS)
            return u

        return work

    return make


def _glm(X: Any, weights: Any, targets: Any) -> Make:
    def make(cache: MatCache) -> Callable[[], Any]:
        x = from_sparse(cache, X)
        W, Y = from_array(cache, weights), from_array(cache, targets)

        def work() -> Any:
            fresh(W)
            return (x.T @ (sigmoid(x @ W) - Y)).mat()

        return work

    return make
