"""The samplers of rows: the exact distribution of a token's new topic, and the counts after it."""

# Numba infers the types of the kernel.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from blocklearn.matcache.cpu.backend import CPU
from blocklearn.matcache.cpu.compiling.jit import kernel
from blocklearn.matcache.cpu.topics import draws
from blocklearn.matcache.cpu.topics.draws import AHEAD, AT, COLUMN, START, STOP, U
from blocklearn.matcache.cpu.topics.kept_rows import share_left
from blocklearn.matcache.cpu.topics.row_vectors import (
    CHAINS,
    PARTS,
    run_sweep,
    sweep_of,
    vectors_of,
)
from blocklearn.matcache.cpu.topics.vectors import address_of, padded

WORDS, WORD, ETA = 4, 3, 0.05  # the last word: nothing lies behind its row
DRAWS = 2**15


def address_of_sweep(
    k: int, bits: int, in_registers: bool | None = None, *, made: bool = False
) -> int:
    words = [0] * (1 + draws.WORDS)
    return CPU(1).address(sweep_of(vectors_of(k), bits, in_registers, made=made), *words)


@kernel()
def draw_for_all(sweep, us, together, z, share, n, scales, table, extra, before, own,
                 chains, state, words, now, shares, u, found):  # fmt: skip
    """Draw the topic of a token of each chain for each of many numbers, from the same state.

    n: counts of topics plus alpha. together: whether the chains take turns.
    """
    k, width = table.shape[1], own.size // (1 + 2 * chains)
    for i in range(us.size):
        for j in range(width):
            own[j] = scales[j] if j < k else np.float32(0)
            for c in range(chains):
                own[(1 + c) * width + j] = n[j] if j < k else np.float32(0)
        for c in range(chains):
            state[AT, c] = state[START, c] = c
            state[STOP, c], state[U, c] = c + 1, address_of(u, c)
            words[c], now[c], shares[c], u[c] = WORD, z, share, us[(i + c) % us.size]
        arrays = words, now, shares, table, extra, before
        if together:
            run_sweep(sweep, 0, 0, 1, state, own, width, k, arrays)
        else:
            for c in range(chains):
                run_sweep(sweep, 1, c, 1, state, own, width, k, arrays)
        for c in range(chains):
            found[c, i] = now[c]


def drawn(
    k: int, n: Any, z: int, share: float, table: Any, scales: Any, *, counted: bool,
    together: bool, before: int | None = None, old: Any = np.uint16,
    in_registers: bool | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """New topics [chains x draws] of a token for evenly spread numbers; counts after the last.

    before: the token's topic in the table's counts; None: z.
    old: type of such topics.
    in_registers: see `sweep_of`.
    """
    bits = 8 * np.dtype(old).itemsize
    single, width = np.float32, padded(k)
    us = ((np.arange(DRAWS) + 0.5) / DRAWS).astype(single)
    own, found = np.full(PARTS * width, np.nan, single), np.zeros((CHAINS, DRAWS), int)
    words = np.zeros(CHAINS + AHEAD, np.int32)
    now, shares, u = np.zeros(CHAINS, np.int32), np.zeros(CHAINS, single), np.zeros(CHAINS, single)
    draw_for_all(
        address_of_sweep(k, bits, in_registers, made=not counted), us, together, np.int32(z),
        single(share),
        n.astype(single), scales.astype(single), table.astype(single),
        np.full((WORDS, 1), ETA, single),
        np.full(CHAINS, (z if before is None else before) % 2**bits, old), own,
        CHAINS, np.zeros((COLUMN + 1, CHAINS), np.int64), words, now, shares, u, found,
    )  # fmt: skip
    return found, own[width : (1 + CHAINS) * width].reshape(CHAINS, width)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("k", [1, 3, 16, 17, 64, 65, 100, 160, 161, 300])
def test_shares_are_the_exact_probabilities(k: int, together: bool) -> None:
    """Of counts and of phi, in registers and in memory, against float64.

    Every topic gets its share of all numbers, so no statistics are needed.
    """
    rng = np.random.default_rng(k)
    counts = rng.poisson(0.5, (WORDS, k)).astype(float)
    totals = counts.sum(axis=0) + rng.poisson(50, k) + 1
    tokens, alpha = rng.poisson(0.7, k), rng.integers(1, 50, k) / 64
    z = int(rng.integers(k))
    tokens[z] += 1
    counts[WORD, z] += 1
    one = 1 / (totals + WORDS * ETA)
    phi = (counts + ETA) * one
    share = share_left.py_func(np.float32(phi[WORD, z]), np.float32(one[z]))
    less, others, whole = counts[WORD].copy(), tokens.copy(), totals.copy()
    for left in (less, others, whole):
        left[z] -= 1
    expected = (others + alpha) * (less + ETA) / (whole + WORDS * ETA)
    for table, scales, counted in ((counts, one, True), (phi, np.ones(k), False)):
        found, after = drawn(
            k, tokens + alpha, z, share, table, scales, counted=counted, together=together
        )
        for new, n in zip(found, after, strict=True):
            share_of = np.bincount(new, minlength=k) / DRAWS
            np.testing.assert_allclose(share_of, expected / expected.sum(), atol=8 / DRAWS)
            now = others + alpha
            now[new[-1]] += 1
            np.testing.assert_array_equal(n[:k], now)
            assert not n[k:].any()


@pytest.mark.parametrize("k", [16, 17, 64])
def test_counts_in_registers_and_in_memory_draw_the_same(k: int) -> None:
    """Processors differ in where counts stay, and results do not depend on the processor."""
    rng = np.random.default_rng(k)
    table, scales = rng.random((WORDS, k)), 1 / (1 + rng.poisson(50, k))
    n, z = rng.poisson(0.7, k) + 1.05, int(rng.integers(k))
    for together in (True, False):
        memory, registers = (
            drawn(
                k, n, z, 0.3, table, scales, counted=True, together=together, in_registers=chosen
            )
            for chosen in (False, True)
        )  # fmt: skip
        np.testing.assert_array_equal(memory[0], registers[0])
        np.testing.assert_array_equal(memory[1], registers[1])


@pytest.mark.parametrize(("k", "old"), [(17, np.uint16), (300, np.uint16), (300, np.uint32)])
def test_phi_counts_a_token_that_has_moved(k: int, old: Any) -> None:
    """Its share of phi belongs to the topic at which the table counts it."""
    rng = np.random.default_rng(k)
    phi, others, z = rng.uniform(0.1, 1, (WORDS, k)), rng.integers(1, 64, k) / 16, k // 2
    n = others.copy()
    n[z] += 1
    found, _ = drawn(k, n, z, 0.25, phi, np.ones(k), counted=False, together=True, before=z - 1,
                     old=old)  # fmt: skip
    expected = others * phi[WORD]
    for new in found:
        share_of = np.bincount(new, minlength=k) / DRAWS
        np.testing.assert_allclose(share_of, expected / expected.sum(), atol=8 / DRAWS)


@kernel()
def draw_particles_for_all(sweep, us, together, z, weight, n, table, own, chains, state, words, now,
                           weights, u, topics, found):  # fmt: skip
    """Draw the topic of a particle of each chain for each of many numbers, from the same state."""
    k, width = table.shape[1], own.size // (1 + 2 * chains)
    for i in range(us.size):
        for c in range(chains):
            for j in range(width):
                own[(1 + c) * width + j] = n[j] if j < k else np.float32(0)
            state[AT, c] = state[START, c] = c
            state[STOP, c], state[U, c] = c + 1, address_of(u, c)
            words[c], now[c], weights[c], u[c] = WORD, z, weight, us[(i + c) % us.size]
            state[COLUMN, c] = i - 1
        arrays = words, now, weights, table, topics, topics.shape[1]
        if together:
            run_sweep(sweep, 0, 0, 1, state, own, width, k, arrays)
        else:
            for c in range(chains):
                run_sweep(sweep, 1, c, 1, state, own, width, k, arrays)
        for c in range(chains):
            found[c, i] = now[c]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("k", [1, 17, 64, 160, 161])
def test_particles_have_the_exact_shares_by_their_weight(k: int, together: bool) -> None:
    """Their own weight is left out of the counts, and phi is what the table says."""
    rng, single, weight = np.random.default_rng(k), np.float32, 0.75
    phi, others, z = rng.uniform(0.1, 1, (WORDS, k)), rng.integers(1, 64, k) / 16, k // 2
    width = padded(k)
    us = ((np.arange(DRAWS) + 0.5) / DRAWS).astype(single)
    own, found = np.full(PARTS * width, np.nan, single), np.zeros((CHAINS, DRAWS), int)
    n, topics = others.astype(single), np.zeros((CHAINS, DRAWS - 1), np.uint16)
    n[z] += weight
    draw_particles_for_all(
        address_of_sweep(k, 0), us, together, np.int32(z), single(weight), n,
        phi.astype(single), own, CHAINS, np.zeros((COLUMN + 1, CHAINS), np.int64),
        np.zeros(CHAINS + AHEAD, np.int32), np.zeros(CHAINS, np.int32),
        *np.zeros((2, CHAINS), single), topics, found,
    )  # fmt: skip
    np.testing.assert_array_equal(topics, found[:, 1:])
    expected = others * phi[WORD] / (others @ phi[WORD])
    for new, after in zip(
        found, own[width : (1 + CHAINS) * width].reshape(CHAINS, -1), strict=True
    ):
        share_of = np.bincount(new, minlength=k) / DRAWS
        np.testing.assert_allclose(share_of, expected, atol=8 / DRAWS)
        now = others.copy()
        now[new[-1]] += weight
        np.testing.assert_array_equal(after[:k], now)
        assert not after[k:].any()


@pytest.mark.parametrize("k", [17, 300])
def test_a_token_without_a_topic_adds_one(k: int) -> None:
    rng = np.random.default_rng(0)
    phi, n = rng.uniform(0.1, 1, (WORDS, k)), rng.integers(1, 64, k) / 16
    found, after = drawn(k, n, -1, 1.0, phi, np.ones(k), counted=False, together=True)
    expected = n * phi[WORD]
    shares = np.bincount(found[0], minlength=k) / DRAWS
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=8 / DRAWS)
    n[found[0, -1]] += 1
    np.testing.assert_array_equal(after[0, :k], n)


@pytest.mark.parametrize("k", [1, 17, 300])
def test_numbers_that_are_not_finite_give_topics(k: int) -> None:
    for value in (np.nan, 0.0, np.inf):
        table = np.full((WORDS, k), value)
        found, _ = drawn(k, np.ones(k), -1, 1.0, table, np.ones(k), counted=False, together=True)
        assert found.min() >= 0
        assert found.max() < k
