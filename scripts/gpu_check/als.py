"""Measure a block of ALS as operations of the matrix layer, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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
)
from scripts.benchmarks.data import power_law

from . import peers
from .measure import LARGE, Make, Row, Scale, cache_on, compared, floor, fresh, random_table

STEPS = 3
RIDGE = 10.0
TINY = 1e-30


@rowwise
def descend(R: Any, u: Any, table: Any, ridge: Any, steps: Any) -> None:
    """Run conjugate gradients as in models/als/rows.py, on ratings alone."""
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
    """Yield three steps for a block of users at rank 20, 100 and 1000."""
    R = _ratings(scale)
    for rank in (scale.of(20, 2), scale.of(100, 3), scale.of(1000, 4)):
        name = f"{_what(rank)}, {R.nnz:,} ratings"
        work = solved(R, random_table(R.shape[1], rank))
        row, _ = compared(name, work, _floor(R, rank), scale, with_cpu=rank < LARGE)
        yield row


def by_peers(scale: Scale) -> Iterator[Row]:
    """Yield the same at rank 100 by peers."""
    R, rank = _ratings(scale), scale.of(100, 3)
    table, part = random_table(R.shape[1], rank), peers.fitting(R, rank)
    with cache_on("cuda:0") as cache:
        found = solved(R, table)(cache)().numpy()
    yield from peers.rows(
        scale,
        _what(rank),
        lambda peer: peer.als(part, table, RIDGE, STEPS),
        found[: part.shape[0]],
        part.nnz / R.nnz,
        _floor(R, rank),
    )


def _ratings(scale: Scale) -> Any:
    return power_law(scale.of(8192, 40), scale.of(17_770, 30), 200)


def _what(rank: int) -> str:
    return f"ALS, {STEPS} steps of a block, rank {rank}"


def _floor(R: Any, rank: int) -> float:
    moved = 4.0 * R.nnz * rank * (STEPS + 1)
    return floor(moved + 8.0 * R.nnz + 8.0 * R.shape[0] * rank, moved)


def solved(R: Any, factors: Any) -> Make:
    """Return work that finds factors of the rows of R, from 0."""

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
