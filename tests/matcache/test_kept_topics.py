"""Kept topics of tokens: the distribution of a new topic, exact counts, independence of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import MatCache, ShapeError, from_array, from_sparse, named
from blocklearn.matcache.operations.kept_topics import begin_topics, redraw_topics, type_of_topics

NO_TOPIC = np.iinfo(np.uint16).max


def words_of(X: Any) -> Any:
    """The word of each token, row after row."""
    X = sp.csr_array(X)
    return np.repeat(X.indices, X.data.astype(int))


def counted(words: Any, topics: Any, shape: tuple[int, int]) -> Any:
    """Tokens of each word in each topic; tokens without a topic are left out."""
    counts, known = np.zeros(shape, np.float32), topics < shape[1]
    np.add.at(counts, (words[known], topics[known].astype(int)), 1)
    return counts


def redrawn(
    X: Any, topics: Any, phi: Any, one: Any, alpha: Any, *, sweeps: int = 3, again: int = 1,
    threads: int = 1, lists: bool = False, extra: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """New topics of the tokens, and counts and totals after them."""
    X, k = sp.csr_array(X).astype(np.float32), len(alpha)
    with MatCache(threads=threads) as cache:
        x = from_sparse(cache, X)
        kept = named(cache, "topics", (1, max(len(topics), 1)), type_of_topics(k))
        if len(topics):
            kept.set(topics[None].astype(type_of_topics(k)))
        before = counted(words_of(X)[: len(topics)], topics, (X.shape[1], k))
        counts = from_array(cache, before, "counts")
        totals = from_array(cache, before.sum(axis=0, dtype=np.float64), "totals")
        moves = redraw_topics(
            x,
            kept,
            from_array(cache, np.asarray(phi, np.float32), "phi"),
            from_array(cache, np.asarray(one, np.float32), "one"),
            from_array(cache, np.asarray(alpha, np.float32), "alpha"),
            from_array(cache, np.arange(X.shape[0])[:, None], "row ids"),
            from_array(cache, np.array([[7, 0, 0]]), "key"),
            sweeps=sweeps,
            again=again,
            lists=lists,
            extra=None if extra is None else from_array(cache, np.float32(extra), "extra"),
        )
        moves.apply(counts, totals)
        found = kept.slot.data()[0, : len(topics)].copy()
        return found, counts.numpy(), totals.numpy()[0]


def begun(X: Any, topics: Any, many: int, *, block: int, threads: int = 1) -> tuple[Any, Any]:
    """Topics of the tokens after `begin_topics`, and counts that were moved."""
    with MatCache(threads=threads) as cache:
        kept = named(cache, "topics", (1, len(topics)), np.uint16)
        kept.set(topics[None].astype(np.uint16))
        counts = from_array(cache, counted(words_of(X), topics, (X.shape[1], many)), "counts")
        totals = from_array(cache, counts.numpy().sum(axis=0, dtype=np.float64)[None], "totals")
        key = from_array(cache, np.array([[7, 0, block]]), "key")
        moves = begin_topics(from_sparse(cache, sp.csr_array(X)), kept, key, many)
        moves.apply(counts, totals)
        np.testing.assert_array_equal(counts.numpy().sum(axis=0), totals.numpy()[0])
        return kept.numpy()[0].copy(), counts.numpy().copy()


def hostile(rng: Any) -> Any:
    """Counts with empty rows, a huge row, an unused word, and a last group that is not full."""
    X = rng.poisson(0.5, (23, 31)).astype(np.float32)
    X[[0, 3, 22]] = 0
    X[4] = 3
    X[5, 6] = 700
    X[:, 8] = 0
    return X


@pytest.mark.parametrize("k", [1, 17, 100, 200])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("lists", [True, False])
def test_counts_are_those_of_the_new_topics(k: int, known: bool, lists: bool) -> None:
    rng = np.random.default_rng(0)
    X = hostile(rng)
    words = words_of(X)
    topics = rng.integers(0, k, words.size) if known else np.full(words.size, NO_TOPIC)
    phi, one = rng.uniform(0.1, 1, (31, k)), np.full(k, 1e-3)
    results = [
        redrawn(X, topics, phi, one, np.full(k, 0.1), threads=threads, lists=lists)
        for threads in (1, 2, 8)
    ]
    new, counts, totals = results[0]
    assert new.max() < k
    np.testing.assert_array_equal(counts, counted(words, new, (31, k)))
    np.testing.assert_array_equal(totals, counts.sum(axis=0))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_more_threads_than_chunks_of_rows_draw_the_same_topics() -> None:
    """As many tokens as 64 chunks would be worthwhile for."""
    X = np.full((520, 1), 260)
    args = X, np.arange(X.sum()) % 17, np.ones((1, 17)), np.full(17, 1e-3), np.full(17, 0.1)
    one, many = (redrawn(*args, threads=threads, lists=True) for threads in (1, 64))
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("lists", [True, False])
def test_numbers_of_many_topics_have_four_bytes(lists: bool) -> None:
    """All tokens go to three topics, one of which has the number that two bytes keep for none."""
    assert (type_of_topics(2**16 - 1), type_of_topics(2**16)) == (np.uint16, np.uint32)
    k, likely = 70_001, [7, 2**16 - 1, 70_000]
    X = np.array([[3, 0, 40], [0, 0, 0], [200, 1, 0]])
    words = words_of(X)
    topics = np.resize(likely, words.size)
    topics[X[0].sum() :] = np.iinfo(np.uint32).max  # the last row has none yet
    phi = np.full((3, k), 1e-12)
    phi[:, likely] = 0.3
    one, alpha = np.full(k, 1e-13), np.full(k, 0.1)
    one[likely] = 1e-3
    results = [
        redrawn(X, topics, phi, one, alpha, threads=threads, lists=lists) for threads in (1, 2)
    ]
    new, counts, totals = results[0]
    assert set(new.tolist()) == set(likely)
    np.testing.assert_array_equal(counts, counted(words, new, (3, k)))
    np.testing.assert_array_equal(totals, counts.sum(axis=0))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("lists", [True, False])
def test_rows_that_have_topics_may_rest(lists: bool) -> None:
    """Every third row has none yet, and gets them."""
    rng = np.random.default_rng(2)
    X, k = hostile(rng), 17
    rests = np.repeat(np.arange(23), X.sum(axis=1).astype(int)) % 3 > 0
    topics = np.where(rests, rng.integers(0, k, rests.size), NO_TOPIC)
    phi, one, alpha = rng.uniform(0.1, 1, (31, k)), np.full(k, 1e-3), np.full(k, 0.1)
    new = redrawn(X, topics, phi, one, alpha, again=0, lists=lists)[0]
    np.testing.assert_array_equal(new[rests], topics[rests])
    assert new.max() < k


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("block", [0, 1, 2])
def test_first_rows_of_a_pass_begin_in_topics_of_their_own(threads: int, block: int) -> None:
    """40 topics for rows 0 to 39, in blocks of 23 rows; every fifth token has a topic already."""
    X, many = hostile(np.random.default_rng(1)), 40
    words = words_of(X)
    topics = np.where(np.arange(words.size) % 5, NO_TOPIC, 3)
    rows = 23 * block + np.repeat(np.arange(23), X.sum(axis=1).astype(int))
    expected = np.where((topics == NO_TOPIC) & (rows < many), rows, topics)
    found, counts = begun(X, topics, many, block=block, threads=threads)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(counts, counted(words, expected, counts.shape))


@pytest.mark.parametrize("lists", [True, False])
def test_a_block_without_tokens_changes_nothing(lists: bool) -> None:
    new, counts, totals = redrawn(
        np.zeros((3, 5)), np.zeros(0, int), np.ones((5, 1)), np.zeros(1), np.ones(1), lists=lists
    )
    assert new.size == 0
    assert not counts.any()
    assert not totals.any()


@pytest.mark.parametrize("way", ["all topics", "counts", "lists", "lists of counts"])
def test_a_token_is_left_out_of_its_own_counts(way: str) -> None:
    """Frequencies of the first token's new topic against eq. 5 of Griffiths and Steyvers."""
    k, copies, eta = 17, 4000, 0.05
    document, present = np.array([0, 1, 1, 2]), np.array([4, 4, 9, 2])
    alpha = np.full(k, 0.2)
    counts, totals = np.zeros((3, k)), np.zeros(k)
    counts[0, [4, 5]] = 1, 2  # the token itself is the only one of word 0 in topic 4
    counts[1, [4, 9]] = 3, 5
    counts[2, 2] = 4
    totals[:] = counts.sum(axis=0)
    one = 1 / (totals + 3 * eta)
    phi = (counts + eta) * one
    X = np.repeat(np.bincount(document)[None], copies, axis=0)
    table, extra = (counts, np.full((3, 1), eta)) if "counts" in way else (phi, None)
    new, _, _ = redrawn(
        X, np.tile(present, copies), table, one, alpha, lists="lists" in way, extra=extra
    )
    others = np.bincount(present[1:], minlength=k)
    counts[0, 4] -= 1
    totals[4] -= 1
    weights = (others + alpha) * (counts[0] + eta) / (totals + 3 * eta)
    expected = weights / weights.sum()
    found = np.bincount(new.reshape(copies, 4)[:, 0], minlength=k) / copies
    np.testing.assert_allclose(found, expected, atol=4 * np.sqrt(0.25 / copies))
    wrong = (others + alpha) * phi[0]  # with the token
    assert abs(wrong / wrong.sum() - expected).max() > 8 * np.sqrt(0.25 / copies)


@pytest.mark.parametrize("way", ["all topics", "counts", "lists", "lists of counts"])
def test_two_sweeps_follow_one_another(way: str) -> None:
    """Frequencies of both topics of a document after two sweeps, against those computed exactly."""
    k, copies, eta, alpha = 3, 6000, 0.05, 0.4
    present, counts = np.array([0, 2]), np.array([[1.0, 2, 0], [3, 0, 1]])
    one = 1 / (counts.sum(axis=0) + 2 * eta)
    phi = (counts + eta) * one
    states = np.zeros((k, k))
    states[tuple(present)] = 1
    for _ in range(2):
        for token in range(2):
            after = np.zeros((k, k))
            for state in np.ndindex(k, k):
                weights = phi[token].copy()
                if (z := state[token]) == present[token]:
                    weights[z] = (phi[token, z] - one[z]) / (1 - one[z])
                weights *= np.bincount([state[1 - token]], minlength=k) + alpha
                for new in range(k):
                    moved = (new, state[1]) if token == 0 else (state[0], new)
                    after[moved] += states[state] * weights[new] / weights.sum()
            states = after
    table, extra = (counts, np.full((2, 1), eta)) if "counts" in way else (phi, None)
    new, _, _ = redrawn(
        np.ones((copies, 2)), np.tile(present, copies), table, one, np.full(k, alpha),
        again=2, lists="lists" in way, extra=extra,
    )  # fmt: skip
    pairs = new.reshape(copies, 2).astype(int)
    found = np.bincount(pairs @ [k, 1], minlength=k * k).reshape(k, k) / copies
    np.testing.assert_allclose(found, states, atol=4 * np.sqrt(0.25 / copies))


@pytest.mark.parametrize("lists", [True, False])
def test_draws_depend_on_the_row_alone(lists: bool) -> None:
    """Rows of a group with and without topics take their own numbers of sweeps."""
    rng = np.random.default_rng(3)
    X = hostile(rng)
    words, k = words_of(X), 17
    topics = rng.integers(0, k, words.size)
    ends = np.concatenate([[0], np.cumsum(X.sum(axis=1).astype(int))])
    topics[ends[5] : ends[6]] = NO_TOPIC
    phi, one, alpha = rng.uniform(0.1, 1, (31, k)), np.full(k, 1e-3), np.full(k, 0.1)
    whole, _, _ = redrawn(X, topics, phi, one, alpha, again=2, lists=lists)
    later = X.copy()
    later[6:] = 0  # the rows before are the same, in other groups of live rows
    part, _, _ = redrawn(later, topics[: ends[6]], phi, one, alpha, again=2, lists=lists)
    np.testing.assert_array_equal(part, whole[: ends[6]])


def test_wrong_operands_are_refused() -> None:
    X, topics = np.ones((2, 3)), np.zeros(6, int)
    with pytest.raises(ShapeError, match=r"phi is \(3, 2\).*expected \(3, 1\)|alpha"):
        redrawn(X, topics, np.ones((3, 2)), np.zeros(2), np.ones(1))
    with pytest.raises(ShapeError, match="rows must have the same counts in each pass"):
        redrawn(X, topics[:5], np.ones((3, 1)), np.zeros(1), np.ones(1))
    with pytest.raises(ShapeError, match=r"expected \(3, 1\) float32"):
        redrawn(X, topics, np.ones((3, 1)), np.zeros(1), np.ones(1), extra=np.ones((2, 1)))
