"""Measure the E-step of LDA as one kernel of the matrix layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from blocklearn.matcache import exppsi, from_array, from_sparse, named, repeat, rowwise, sddmm
from scripts.benchmarks.data import power_law

from . import peers
from .measure import Row, Scale, agreement, cache_on, floor, fresh, seconds_of

ITERATIONS = 5
ALPHA = 0.1


@rowwise
def e_step(X: Any, theta: Any, phi: Any, alpha: Any, iterations: Any) -> Any:
    """Return the ratio on the entries, as in models/lda/inference.py."""
    for _ in repeat(iterations):
        theta <<= exppsi(theta * ((X / sddmm(theta, phi, X)) @ phi) + alpha)
    return X / sddmm(theta, phi, X)


class EStep(NamedTuple):
    """One measured E-step.

    seconds: of one step.
    theta: [n x k], as the step leaves it.
    ratio: [entries], as the step returns it.
    """

    seconds: float
    theta: Any
    ratio: Any


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the E-step for several K."""
    X, words = _documents(scale)
    size = f"{X.shape[0]:,} documents, {X.nnz:,} non-zeros"
    for k in (scale.of(32, 4), scale.of(100, 5), scale.of(256, 8), scale.of(1000, 9)):
        phi = _table(words, k)
        ours, cpu, note = _measured("cuda:0", X, phi, scale), None, f"{size}; "
        if k <= 256:
            there = _measured("cpu", X, phi, scale)
            cpu, note = there.seconds, f"{agreement(ours.theta, there.theta)}; {note}"
        note += f"E-steps alone: {X.shape[0] / ours.seconds * 3600:,.0f} documents/h"
        yield Row(f"LDA E-step, K = {k}", ours.seconds, cpu, _floor(X, k), note)
    for k in (scale.of(100, 5), scale.of(256, 8)):
        phi = _table(words, k)
        ours, there = (_measured(on, X, phi, scale, rounded=True) for on in ("cuda:0", "cpu"))
        least, note = _floor(X, k, rounded=words), agreement(ours.theta, there.theta)
        name = f"LDA E-step, K = {k}, table in bfloat16"
        yield Row(name, ours.seconds, there.seconds, least, note)


def by_peers(scale: Scale) -> Iterator[Row]:
    """Yield the E-step at K = 256 by peers."""
    X, words = _documents(scale)
    k = scale.of(256, 8)
    part, phi = peers.fitting(X, k), _table(words, k)
    ratio = _measured("cuda:0", X, phi, scale).ratio[: part.nnz]
    share, what = part.nnz / X.nnz, f"LDA E-step, K = {k}"
    yield from peers.rows(
        scale, what, lambda peer: peer.lda(part, phi, ALPHA, ITERATIONS), ratio, share, _floor(X, k)
    )


def _documents(scale: Scale) -> tuple[Any, int]:
    words = scale.of(50_000, 60)
    return power_law(scale.of(20_000, 30), words), words


def _table(words: int, k: int) -> Any:
    return np.random.default_rng(0).random((words, k), np.float32) + np.float32(0.01)


def _floor(X: Any, k: int, rounded: int = 0) -> float:
    """Return the least seconds that an H200 needs.

    Each non-zero reads a row of the table once per iteration; the second read is from cache. Two
    products with it make 4 flops for 4 bytes.

    rounded: rows of a table that is first rounded to bfloat16, 2 bytes a number.
    """
    numbers = float(X.nnz) * k * (ITERATIONS + 1)
    nbytes = 2.0 * numbers + 6.0 * rounded * k if rounded else 4.0 * numbers
    return floor(nbytes + 12.0 * X.nnz, 4.0 * numbers)


def _measured(device: str, X: Any, phi: Any, scale: Scale, *, rounded: bool = False) -> EStep:
    with cache_on(device) as cache:
        x = from_sparse(cache, X).reading("bfloat16" if rounded else "float32")
        table = from_array(cache, phi)
        alpha = from_array(cache, np.full((1, phi.shape[1]), ALPHA, np.float32))
        theta = named(cache, "theta", (X.shape[0], phi.shape[1]))

        def work() -> Any:
            nonlocal theta
            theta <<= 1.0
            fresh(table)
            return e_step(x, theta, table, alpha, ITERATIONS)

        seconds = seconds_of(cache, work, scale.least)
        return EStep(seconds, theta.numpy(), work().numpy().reshape(-1))
