"""The sampler of topics: its distribution and statistics; independence of threads and blocks."""

from __future__ import annotations

import itertools
from math import lgamma
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.matcache import MatCache, ShapeError, SparseInput, from_array, from_sparse
from blocklearn.matcache.cpu.topics.draws import AHEAD
from blocklearn.matcache.operations.sampling import CAP, Samples, sample_theta, sample_topics


def draw(
    X: Any,
    phi: Any,
    alpha: Any,
    *,
    save: int = 4,
    burn: int = 1,
    ids: Any = None,
    threads: int = 1,
    pass_: int = 0,
) -> tuple[Any, Any]:
    """Topics of the particles [save x particles] and counts [columns x k]."""
    ids = np.arange(X.shape[0]) if ids is None else np.asarray(ids)
    with MatCache(threads=threads) as cache:
        x = from_sparse(cache, sp.csr_array(X).astype(np.float32))
        table = from_array(cache, np.asarray(phi, np.float32))
        prior = from_array(cache, np.asarray(alpha, np.float32)[None])
        key = from_array(cache, np.array([[7, pass_, 0]]))
        samples = sample_topics(
            x, table, prior, from_array(cache, ids[:, None]), key, burn=burn, save=save
        )
        particles = int(np.minimum(np.ceil(sp.csr_array(X).data), CAP).sum())
        return drawn(samples, particles), samples.counts(len(alpha)).numpy()


def drawn(samples: Samples, particles: int) -> Any:
    """Return a copy of the topics of the particles, as the CPU lays them out [save x particles]."""
    by_particle = samples.z.data().reshape(-1, samples.z.shape[0])
    return by_particle[:particles].T.copy()


@pytest.mark.parametrize("k", [1, 17, 100, 161])  # each takes a second to compile
def test_counts_are_the_words_of_the_columns(k: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(0.7, (23, 31)).astype(np.float32)
    X[3] = 0
    X[4] = 1
    X[5, 6] = 50  # more than CAP: heavier particles
    X[5, 7] = 1e20  # more than an int64 holds
    X[:, 8] = 0
    X *= 0.75
    z, counts = draw(X, rng.uniform(0.1, 1, (31, k)), np.full(k, 0.1))
    assert z.max() < k
    np.testing.assert_allclose(counts.sum(axis=1), X.sum(axis=0), rtol=1e-5)
    assert (counts[8] == 0).all()


def test_draws_follow_the_posterior() -> None:
    """Frequencies of the joint assignments of a document against enumeration."""
    words, k = [0, 1, 2], 3
    rng = np.random.default_rng(1)
    phi, alpha = rng.uniform(0.1, 1, (3, k)), np.array([0.3, 0.8, 0.5])
    X = np.ones((1, 3), np.float32)
    copies, save = 400, 150
    z, _ = draw(np.repeat(X, copies, axis=0), phi, alpha, save=save, burn=5)
    seen = z.reshape(save, copies, 3).reshape(-1, 3)
    exact = {}
    for assignment in itertools.product(range(k), repeat=3):
        counts = np.bincount(assignment, minlength=k)
        weight = sum(lgamma(a + n) for a, n in zip(alpha, counts, strict=True))
        exact[assignment] = np.exp(weight) * np.prod(
            [phi[w, t] for w, t in zip(words, assignment, strict=True)]
        )
    total = sum(exact.values())
    frequencies = {a: (seen == a).all(axis=1).mean() for a in exact}
    distance = 0.5 * sum(abs(frequencies[a] - exact[a] / total) for a in exact)
    assert distance < 0.01  # 60,000 correlated draws of 27 outcomes


@pytest.mark.parametrize("k", [1, 17, 161])
@pytest.mark.parametrize("threads", [1, 3])
def test_theta_adds_up_the_topics_of_a_row_and_alpha(k: int, threads: int) -> None:
    rng = np.random.default_rng(5)
    X = rng.poisson(0.7, (23, 31)).astype(np.float32)
    X[[3, 22]] = 0
    X[5, 6] = 50  # more than CAP
    X *= 0.75
    matrix, alpha = sp.csr_array(X), rng.uniform(0.05, 0.5, k).astype(np.float32)
    phi = rng.uniform(0.1, 1, (31, k))
    matrix.data[matrix.indptr[7] : matrix.indptr[8]] = 0
    z, _ = draw(matrix, phi, alpha)
    with MatCache(threads=threads) as cache:
        arrays = phi.astype(np.float32), alpha[None], np.arange(23)[:, None], np.array([[7, 0, 0]])
        mats = [from_array(cache, array) for array in arrays]
        theta = sample_theta(from_sparse(cache, matrix), *mats, burn=1, save=4).numpy().copy()
    parts = np.minimum(np.ceil(matrix.data), CAP).astype(int)
    rows = np.repeat(np.repeat(np.arange(23), np.diff(matrix.indptr)), parts)
    wanted = np.zeros((23, k))
    for topics in z:
        np.add.at(wanted, (rows, topics), np.repeat(matrix.data, parts) / np.repeat(parts, parts))
    wanted += 4 * alpha
    wanted[[3, 7, 22]] = alpha
    np.testing.assert_allclose(theta, wanted, rtol=1e-5, atol=1e-4)  # a grid


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_a_row_depends_on_itself_alone(seed: int, rows: int) -> None:
    """The same row in another block, at another place, among other rows, draws the same topics."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.5, (rows, 12)).astype(np.float32)
    phi, alpha = rng.uniform(0.1, 1, (12, 3)), np.full(3, 0.2)
    ids = rng.permutation(1000)[:rows]
    z, _ = draw(X, phi, alpha, ids=ids)
    order = rng.permutation(rows)[: max(1, rows // 2)]
    part, _ = draw(X[order], phi, alpha, ids=ids[order], threads=2)
    ends = np.cumsum(X.sum(axis=1)).astype(int)
    expected = [z[:, ends[r] - int(X[r].sum()) : ends[r]] for r in order]
    np.testing.assert_array_equal(part, np.concatenate(expected, axis=1))


def test_same_bits_at_any_number_of_threads_and_other_draws_in_the_next_pass() -> None:
    rng = np.random.default_rng(3)
    X = sp.random(300, 80, 0.1, random_state=0, format="csr")
    X.data = np.ceil(X.data * 4)
    phi, alpha = rng.uniform(0.1, 1, (80, 40)), np.full(40, 0.1)
    found = [draw(X, phi, alpha, threads=t) for t in (1, 2, 8)]
    for z, counts in found[1:]:
        assert z.tobytes() == found[0][0].tobytes()
        assert counts.tobytes() == found[0][1].tobytes()
    again, _ = draw(X, phi, alpha, pass_=1)
    assert again.tobytes() != found[0][0].tobytes()


@pytest.mark.parametrize("entries", [1, 3, 8])
def test_a_larger_block_draws_what_it_draws_alone(entries: int) -> None:
    """Containers have grown with it. Some numbers behind its words are read, too."""
    X = np.zeros((9, 8), np.float32)
    X[4, :entries] = CAP
    phi, alpha = np.ones((8, 3), np.float32), np.ones((1, 3), np.float32)
    with MatCache(threads=1) as cache:
        mats = [from_array(cache, a) for a in (phi, alpha, np.arange(9)[:, None])]
        key = from_array(cache, np.array([[7, 0, 0]]))
        block = SparseInput(cache, "X", 9, 8, entries)
        for values in (X, np.full((9, 8), CAP, np.float32)):
            matrix = sp.csr_array(values)
            x = block.bind(
                indptr=matrix.indptr.astype(np.int64),
                indices=matrix.indices.astype(np.int32),
                values=matrix.data,
            )
            z = drawn(sample_topics(x, *mats, key, burn=1, save=2), matrix.nnz * CAP)
        words = [s for s in block.pattern.dependents.values() if s.label.startswith("words")]
        assert words[0].shape[0] * words[0].shape[1] >= matrix.nnz * CAP + AHEAD
        alone, _ = draw(matrix, phi, alpha[0], burn=1, save=2)
        np.testing.assert_array_equal(z, alone)


@pytest.mark.parametrize("value", [np.nan, 0.0, np.inf])
def test_topics_stay_in_range_for_any_table(value: float) -> None:
    X = np.ones((9, 5), np.float32)
    for k in (1, 3, 16, 17):
        z, _ = draw(X, np.full((5, k), value), np.full(k, 0.1))
        assert z.max() < k


def test_empty_blocks_are_fine() -> None:
    z, counts = draw(np.zeros((4, 6), np.float32), np.ones((6, 3)), np.ones(3))
    assert z.shape[1] == 0
    assert (counts == 0).all()


def test_wrong_shapes_are_explained() -> None:
    with pytest.raises(ShapeError, match=r"is \(6, 3\) float32, expected \(5, 3\) float32"):
        draw(np.ones((2, 5), np.float32), np.ones((6, 3)), np.ones(3))


def test_numbers_of_another_type_are_refused() -> None:
    with MatCache(threads=1) as cache:
        x = from_sparse(cache, sp.csr_array(np.ones((2, 5))))  # float64
        single = [from_array(cache, np.ones(shape, np.float32)) for shape in ((5, 3), (1, 3))]
        ids, key = (from_array(cache, np.ones(s, np.int64)) for s in ((2, 1), (1, 3)))
        with pytest.raises(ShapeError, match=r"\(2, 5\) float64, expected \(2, 5\) float32"):
            sample_topics(x, *single, ids, key, burn=1, save=1)
