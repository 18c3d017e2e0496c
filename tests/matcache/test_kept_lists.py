"""The sampler of lists: the exact distribution of a token's new topic, and sums over long lists."""

# Numba infers the types of the kernel.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from blocklearn.matcache.cpu.compiling.jit import kernel
from blocklearn.matcache.cpu.topics.kept_lists import Lists, Scratch, draw, widened
from blocklearn.matcache.cpu.topics.list_vectors import sum_word

WORDS, WORD, ETA = 4, 2, 0.05
DRAWS = 2**16


@kernel()
def draw_for_all(us, z, old, document, length, table, extra, scales, one, alpha, own, topics,
                 held, counts, sizes, found):  # fmt: skip
    """Draw the topic of a token for each of many numbers, each time from the same state.

    document: [2 x list], topics of the document and their tokens.
    """
    k, w = table.shape[1], own.size // 6
    for j in range(k):
        own[j] = scales[j]
        own[w + j] = alpha[j]
    total = sum_word(table, WORD * k, k, extra, own, w)
    for n in range(us.size):
        for i in range(held.size):
            held[i], counts[i] = np.int32(0), np.float32(0)
        for i in range(length):
            held[i], counts[i] = np.int32(document[0, i]), document[1, i]
        topics[0] = z
        sizes[n] = draw(
            0, us[n], 0, length, one, Scratch(own, w), total, topics, old,
            Lists(held, counts, sizes, sizes, sizes),
        )  # fmt: skip
        found[n] = topics[0]


def drawn(
    z: int, document: Any, table: Any, extra: float, scales: Any, one: Any, alpha: Any,
    known: bool = True,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """The share of each topic among the draws for evenly spread numbers; the list after the last.

    z: present topic of the token; the number of topics: none.
    known: whether the table counts the token there.
    """
    k, length, single = table.shape[1], document.shape[1], np.float32
    room = (length + 16) // 16 * 16
    us = ((np.arange(DRAWS) + 0.5) / DRAWS).astype(single)
    sizes, found = np.zeros(DRAWS, np.int64), np.zeros(DRAWS, np.int64)
    held, counts = np.zeros(room, np.int32), np.zeros(room, single)
    old = np.full(1, z if known else k, np.uint16)
    draw_for_all(
        us, z, old, document.astype(single), length, table.astype(single), single(extra),
        scales.astype(single), one.astype(single)[None], alpha.astype(single),
        np.zeros(6 * widened(k), single), np.zeros(1, np.uint16), held, counts, sizes, found,
    )  # fmt: skip
    shares = np.bincount(found, minlength=k) / DRAWS
    return shares, held[: sizes[-1]], counts[: sizes[-1]], found[-1]


def state(rng: Any, k: int, length: int) -> tuple[Any, Any, Any, int]:
    """Counts of words, tokens of topics, a document's list, and the topic of its token."""
    counts = rng.poisson(0.3, (WORDS, k)).astype(float)
    totals = counts.sum(axis=0) + rng.poisson(50, k)
    topics = rng.choice(k, min(length, k), replace=False)
    document = np.stack([topics, rng.integers(1, 4, topics.size)]).astype(float)
    z = int(rng.choice(topics))
    counts[WORD, z] += 1
    totals[z] += 1
    return counts, totals, document, z


@pytest.mark.parametrize("k", [1, 3, 16, 17, 64, 65, 200, 1100])
def test_shares_are_the_exact_probabilities(k: int) -> None:
    """Of counts and of phi, for lists of one vector and more, against float64.

    Every topic gets its share of all numbers, so no statistics are needed.
    """
    rng = np.random.default_rng(k)
    for length in (1, 5, 16, 40):
        counts, totals, document, z = state(rng, k, length)
        alpha = rng.uniform(0.01, 0.5, k)
        one = 1 / (totals + WORDS * ETA)
        others, less, whole = np.zeros(k), counts[WORD].copy(), totals.copy()
        others[document[0].astype(int)] = document[1]
        for left in (others, less, whole):
            left[z] -= 1
        expected = (others + alpha) * (less + ETA) / (whole + WORDS * ETA)
        phi = (counts + ETA) * one
        for table, extra, scales in ((counts, ETA, one), (phi, 0.0, np.ones(k))):
            shares, held, after, new = drawn(z, document, table, extra, scales, one, alpha)
            np.testing.assert_allclose(shares, expected / expected.sum(), atol=8 / DRAWS)
            others[new] += 1
            listed = np.zeros(k)
            listed[held] = after
            np.testing.assert_array_equal(listed, others)
            assert after.all()
            others[new] -= 1


def test_a_token_without_a_topic_adds_to_the_list() -> None:
    rng = np.random.default_rng(0)
    k = 17
    counts, totals, document, _ = state(rng, k, 16)
    one, alpha = 1 / (totals + WORDS * ETA), np.full(k, 0.1)
    n = np.zeros(k)
    n[document[0].astype(int)] = document[1]
    expected = (n + alpha) * (counts[WORD] + ETA) * one
    shares, held, after, new = drawn(k, document, counts, ETA, one, one, alpha)
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=8 / DRAWS)
    n[new] += 1
    assert dict(zip(held.tolist(), after.tolist(), strict=True)) == {
        topic: count for topic, count in enumerate(n) if count
    }


def test_draws_of_a_block_keep_phi_of_topics_that_are_not_in_the_table() -> None:
    """A token drawn in this block is left out of the document, and not of phi."""
    rng = np.random.default_rng(1)
    k = 65
    counts, totals, document, z = state(rng, k, 5)
    one, alpha = 1 / (totals + WORDS * ETA), np.full(k, 0.1)
    n = np.zeros(k)
    n[document[0].astype(int)] = document[1]
    n[z] -= 1
    expected = (n + alpha) * (counts[WORD] + ETA) * one
    shares, *_ = drawn(z, document, counts, ETA, one, one, alpha, known=False)
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=8 / DRAWS)


def test_numbers_that_are_not_finite_give_topics() -> None:
    k = 17
    one, alpha = np.full(k, 0.01), np.full(k, 0.1)
    document = np.array([[3.0, 16.0], [1.0, 2.0]])
    for table in (np.full((WORDS, k), np.nan), np.zeros((WORDS, k)), np.full((WORDS, k), np.inf)):
        shares, *_ = drawn(3, document, table, 0.0, np.ones(k), one, alpha)
        assert shares.sum() == 1.0
        assert shares.size == k
