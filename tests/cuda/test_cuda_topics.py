"""Kernels for kept topics, on the host: the bits of the CPU, in any order of threads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.matcache import MatCache, from_array, from_sparse, named
from blocklearn.matcache.cpu.topics.chains import ROOM
from blocklearn.matcache.cuda import kernels as sources
from blocklearn.matcache.operations.kept_topics import redraw_topics, type_of_topics
from blocklearn.models.lda import kept_topics
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver
from tests.support.model_variants import counts
from tests.support.often import first_often

from .test_cuda_kernels import GPU, module, mostly_64
from .test_cuda_learner import drivers  # noqa: F401

pytestmark = needs_compiler
ROWS, WORDS, SWEEPS, AGAIN = 23, 31, 3, 2


class Case(NamedTuple):
    """Tokens with and without topics, tables, and what the CPU makes of them.

    tables: table, one, alpha and extra. first: numbers of tokens.
    """

    X: Any
    ids: Any
    key: Any
    topics: Any
    tables: list[Any]
    first: Any
    counts: Any
    totals: Any
    new: Any
    counts_after: Any
    totals_after: Any
    flops: int


def case(k: int, *, lists: bool, counted: bool = False, seed: int = 0) -> Case:
    """Rows of which every third has no topics yet; one has none at all, one is long."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.5, (ROWS, WORDS)).astype(np.float32)
    X[[0, 3]] = X[:, 8] = 0
    X[4], X[5, 6] = 3, ROOM + 88
    X = sp.csr_array(X)
    words, rows = np.repeat(X.indices, X.data.astype(int)), X.sum(axis=1).astype(int)
    topics = rng.integers(0, k, words.size).astype(type_of_topics(k))
    topics[np.repeat(np.arange(ROWS), rows) % 3 == 2] = np.iinfo(type_of_topics(k)).max
    before = np.zeros((WORDS, k), np.float32)
    known = topics < k
    np.add.at(before, (words[known], topics[known].astype(int)), 1)
    totals = before.sum(axis=0, dtype=np.float64)[None]
    one = (1 / (totals + WORDS * 0.05 + 20)).astype(np.float32)
    alpha = rng.uniform(0.05, 0.3, (1, k)).astype(np.float32)
    extra = np.full((WORDS, 1), 0.05, np.float32)
    table = before.copy() if counted else ((before + extra) * one).astype(np.float32)
    ids, key = np.arange(100, 100 + ROWS)[:, None] + 2**33, np.array([[7 + 2**35, 3, 0]])
    with MatCache(threads=1) as memory:
        kept = named(memory, "topics", (1, words.size), topics.dtype)
        kept.set(topics[None])
        mats = [from_array(memory, a) for a in (table, one, alpha, ids, key)]
        more = from_array(memory, extra) if counted else None
        x = from_sparse(memory, X)
        moves = redraw_topics(x, kept, *mats, sweeps=SWEEPS, again=AGAIN, extra=more, lists=lists)
        mats = [from_array(memory, a) for a in (before, totals)]
        moves.apply(mats[0], mats[1])
        first = moves.first.data()[0, : X.nnz].copy()
        after = [kept.slot.data()[0].copy(), *(mat.numpy().copy() for mat in mats)]
        flops = memory.stats().flops
    return Case(
        X, ids, key, topics, [table, one, alpha, extra], first, before, totals, *after, flops
    )


def entries(found: Case) -> list[Any]:
    """indptr, indices and values."""
    X = found.X
    return [X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data]


def active_words(X: Any) -> list[Any]:
    active = np.unique(X.indices).astype(np.int32)
    return [np.array([active.size]), active]


def redrawn(run: Any, found: Case, k: int, *, lists: bool, counted: bool, room: int) -> Any:
    """Run a sampler's kernels; return the new topics and the old ones."""
    indptr, indices, values = entries(found)
    order = np.arange(ROWS, dtype=np.int32)[::-1].copy()
    topics, old = found.topics.copy(), np.zeros_like(found.topics)
    call = [ROWS, order, indptr, indices, values, found.first, room, found.ids, found.key, topics]
    words = np.empty(topics.size, np.int32)
    if not lists:
        call += [*found.tables[:3], SWEEPS, AGAIN, old, words]
        memory = np.full((32, -(-k // 16) * 16), np.nan, np.float32)
        run.call("redraw_topics", *call, memory, blocks=2)
        return topics, old
    extra = found.tables[3] if counted else 0
    tables = [k, *found.tables[:3], extra, int(counted)]
    sums = np.full((WORDS, 16 * (-(-k // 64) + 1)), np.nan, np.float32)
    run.call("sum_words", *active_words(found.X), 0, *tables, sums, blocks=2)
    size = topics.size + 16 * ROWS
    scratch = [np.full(size, 7, t) for t in (np.int32, np.float32, np.float32)]
    run.call("redraw_lists", *call, *tables, SWEEPS, AGAIN, old, sums, words, *scratch, blocks=2)
    return topics, old


def check(run: Any, found: Case, k: int, **ways: Any) -> None:
    topics, old = redrawn(run, found, k, **ways, room=found.topics.size)
    np.testing.assert_array_equal(topics, found.new)
    np.testing.assert_array_equal(old, found.topics)
    assert (found.new != found.topics).any()


@pytest.mark.parametrize(
    ("threads", "k", "where"),
    mostly_64([*((k, sources.IN_SHARED) for k in (1, 40, 100, 1000)), (40, sources.IN_MEMORY)]),
)
def test_the_sampler_draws_what_the_cpu_draws(threads: int, k: int, where: int) -> None:
    found = case(k, lists=False)
    run = module(sources.kept_source(k, counts=where), threads)
    if k == 1:
        topics, _ = redrawn(run, found, 1, lists=False, counted=False, room=found.topics.size)
        np.testing.assert_array_equal(topics, 0)
        return
    check(run, found, k, lists=False, counted=False)


@pytest.mark.parametrize(
    ("threads", "k", "counted"), mostly_64([(5, False), (200, False), (5, True), (200, True)])
)
def test_the_sampler_of_lists_draws_what_the_cpu_draws(threads: int, k: int, counted: bool) -> None:
    run = module(sources.lists_source(k), threads)
    for seed in range(3):
        found = case(k, lists=True, counted=counted, seed=seed)
        check(run, found, k, lists=True, counted=counted)


@pytest.mark.parametrize("threads", [1, GPU])
@pytest.mark.parametrize("lists", first_often([True, False]))
def test_numbers_of_many_topics_have_four_bytes(threads: int, lists: bool) -> None:
    k = 2**16
    found = case(k, lists=lists)
    run = module(sources.lists_source(k) if lists else sources.kept_source(k), threads)
    check(run, found, k, lists=lists, counted=False)


@pytest.mark.parametrize(("threads", "k"), mostly_64([(40,), (3000,)]))
def test_counts_move_with_their_tokens(threads: int, k: int) -> None:
    found = case(k, lists=True)
    indptr, indices, values = entries(found)
    run = module(sources.moves_source(k), threads)
    counts, totals = found.counts.copy(), found.totals.copy()
    moved, room = np.zeros(k, np.int64), found.topics.size
    call = [indptr, indices, values, found.first, room, k, found.topics, found.new]
    run.call("move_counts", ROWS, *call, counts, moved, blocks=2)
    run.call("add_moved", ROWS, indptr, values, found.first, room, k, moved, totals, blocks=2)
    np.testing.assert_array_equal(counts, found.counts_after)
    np.testing.assert_array_equal(totals, found.totals_after)


@pytest.mark.parametrize(("threads", "k"), mostly_64([(40,), (2**16,)]))
def test_first_rows_of_a_pass_begin_in_topics_of_their_own(threads: int, k: int) -> None:
    """In the second block of a pass; tokens without room stay."""
    found = case(k, lists=True)
    indptr, _, values = entries(found)
    topics, old = found.topics.copy(), np.zeros_like(found.topics)
    call = [ROWS, indptr, values, found.first, topics.size - 2, k, np.array([[7, 3, 1]])]
    run = module(sources.moves_source(k), threads)
    run.call("begin_topics", *call, topics, old, blocks=2)
    rows = ROWS + np.repeat(np.arange(ROWS), found.X.sum(axis=1).astype(int))
    begun = np.where((found.topics >= k) & (rows < k), rows, found.topics)
    np.testing.assert_array_equal(topics[:-2], begun[:-2])
    np.testing.assert_array_equal(topics[-2:], found.topics[-2:])
    np.testing.assert_array_equal(old[:-2], found.topics[:-2])


@pytest.mark.parametrize("threads", [1, 64, GPU])
def test_tokens_are_numbered(threads: int) -> None:
    found = case(40, lists=False)
    indptr, _, values = entries(found)
    run = module(sources.kept_source(40), threads)
    sums, first, work = np.empty(1024, np.int64), np.empty(found.X.nnz, np.int64), np.array([5])
    run.call("count_sums", ROWS, indptr, values, sums, blocks=2)
    run.call("count_particles", ROWS, indptr, values, sums, 80, work, first, blocks=2)
    np.testing.assert_array_equal(first, found.first)
    assert work[0] == 5 + 80 * found.topics.size == 5 + found.flops


@pytest.mark.parametrize("lists", [True, False])
def test_tokens_without_room_stay(lists: bool) -> None:
    """Rows beyond the room are left alone, and the totals say so."""
    k, found = 40, case(40, lists=lists)
    indptr, indices, values = entries(found)
    ends = np.concatenate([[0], np.cumsum(found.X.sum(axis=1).astype(int))])
    room = int(ends[10]) + 1
    run = module(sources.lists_source(k) if lists else sources.kept_source(k), 64)
    topics, old = redrawn(run, found, k, lists=lists, counted=False, room=room)
    np.testing.assert_array_equal(topics[: ends[10]], found.new[: ends[10]])
    np.testing.assert_array_equal(topics[ends[10] :], found.topics[ends[10] :])
    assert not old[ends[10] :].any()
    run = module(sources.moves_source(k), 64)
    counts, totals, moved = found.counts.copy(), found.totals.copy(), np.zeros(k, np.int64)
    call = [indptr, indices, values, found.first, room, k, found.topics, found.new]
    run.call("move_counts", ROWS, *call, counts, moved)
    run.call("add_moved", ROWS, indptr, values, found.first, room, k, moved, totals)
    assert np.isnan(totals).all()
    assert abs(counts - found.counts).sum() < abs(found.counts_after - found.counts).sum()


@pytest.mark.parametrize(("lists", "warm_up"), [(True, 1), (False, 1), (True, 0), (False, 0)])
def test_a_device_keeps_the_topics_that_the_cpu_keeps(
    drivers: list[HostDriver],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    lists: bool,
    warm_up: int,
) -> None:
    """All topics of all tokens, their counts, and the priors if they are learned."""
    monkeypatch.setattr(kept_topics, "MANY", dict.fromkeys(kept_topics.MANY, 1 if lists else 4))
    found = []
    for device in ("cpu", "cuda"):
        model = bl.models.LDA(
            topics=3,
            assignments="kept",
            warm_up=warm_up,
            fresh_passes=0,
            sweeps=2,
            alpha="auto" if warm_up else 0.1,
            eta="auto" if warm_up else 0.1,
        )
        learner = bl.Learner(
            model, counts(), passes=4, block_rows=40, threads=1, seed=3, device=device
        ).fit()
        found.append({name: array.copy() for name, array in learner.state().tensors.items()})
        learner.close()
    cpu, cuda = found
    assert "redraw_lists" in drivers[0].ran if lists else "redraw_topics" in drivers[0].ran
    assert drivers[0].replayed > 0
    for name in ("assignments", "counts", "totals"):
        np.testing.assert_array_equal(cuda[name], cpu[name])
    for name, array in cpu.items():
        np.testing.assert_allclose(cuda[name], array, rtol=1e-5, err_msg=name)
