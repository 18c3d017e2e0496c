"""CUDA kernels written by hand: on the host, against the CPU kernels and float64; what they need.

With one thread per block, and with as many as on a device, which take turns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import MatCache, cuda, from_array, from_sparse, top_products
from blocklearn.matcache.cpu.kernels.nonnegative import nonnegative_steps, scratch_length
from blocklearn.matcache.cpu.kernels.products import KERNELS
from blocklearn.matcache.cuda import kernels as sources
from blocklearn.matcache.cuda.order import CLASSES, PARTS
from blocklearn.matcache.emit.cuda_header import TEAM
from blocklearn.matcache.operations.normal_equations import MOST
from blocklearn.matcache.operations.packing import groups, packed
from blocklearn.matcache.operations.sampling import CAP, sample_theta, sample_topics
from tests.support import cuda_host
from tests.support.backends import needs_compiler
from tests.support.cubin import TEXTS, nvrtc, resources
from tests.support.cuda_gpu import DeviceModule
from tests.support.often import rarely

pytestmark = needs_compiler
GPU = pytest.param(0, marks=pytest.mark.gpu)  # on a device
THREADS = [1, 64, -64, GPU]  # of a block; negative: the last one first


def mostly_64(cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Each case with blocks of 64 threads and on a device; one of 1 thread, one of another order.

    Each is the number of threads, and the case.
    """
    on_gpu = [pytest.param(0, *case, marks=pytest.mark.gpu) for case in cases]
    return [*((64, *case) for case in cases), (1, *cases[-1]), (-64, *cases[-1]), *on_gpu]


@cache
def module(source: str, threads: int, team: int = 1) -> cuda_host.HostModule | DeviceModule:
    if threads == 0:
        return DeviceModule(source)
    return cuda_host.HostModule(source, abs(threads), team=team, backwards=threads < 0)


def counts(rows: int, columns: int, seed: int = 0) -> Any:
    """Counts with empty and full rows and columns, fractions, and large ones."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.7, (rows, columns)).astype(np.float32)
    X[3], X[4], X[:, 2], X[:, columns - 1] = 0, 1, 0, 0
    X[5, 6], X[6, 0] = 150, 9
    X[7:9] *= 0.75
    return sp.csr_array(X)


def index(X: Any) -> list[Any]:
    """counts[1:], active, starts, t_rows and t_pos of a matrix."""
    with MatCache(threads=1) as memory:
        pattern = from_sparse(memory, X).pattern
        return [np.array([pattern.active_count]), *(a.copy() for a in pattern.transposed())]


@pytest.mark.parametrize("threads", THREADS)
def test_split_tokens_has_the_bits_of_the_cpu(threads: int) -> None:
    X = counts(40, 30)
    indptr, values = X.indptr.astype(np.int64), X.data
    values[:3] = 1e9, 1e20, 3e38  # more than an int64 holds
    ids = np.arange(1000, 1040)[:, None]
    key = np.array([[2**40 + 7, 3, 5]])
    seen, scored, got_seen, got_scored = (np.full(X.nnz, np.nan, np.float32) for _ in range(4))
    KERNELS["split_tokens"](0, 0, np.array([0, 40]), indptr, values, ids, key, seen, scored)
    call = (40, indptr, values, ids, key, got_seen, got_scored)
    module(sources.tokens_source(), threads).call("split_tokens", *call, blocks=2)
    np.testing.assert_array_equal(got_seen, seen)
    np.testing.assert_array_equal(got_scored, scored)


def length_class(length: int) -> int:
    """By the power of two and its next three bits; the longest first."""
    power = max(0, length.bit_length() - 4)
    found = length if power == 0 else 16 + 8 * (power - 1) + (length >> power & 7)
    return int(CLASSES - 1 - min(found, CLASSES - 1))


LENGTHS = {
    "mixed": [*range(40), *[7] * 2200, 1000, 1001, 70000, 0, *range(39, -1, -1)],
    "none": [],
    "empty": [0] * 300,
    "one": [3],
    "huge": [2**40],
    "fewer than parts": [5, 0, 600, 5],
    "a part's rows each, and one more": [1, 2] * (128 * PARTS) + [9],
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("counted", [False, True])  # their number is read on the device
@pytest.mark.parametrize("threads", THREADS)
def test_rows_are_ordered_by_length(threads: int, counted: bool, lengths: list[int]) -> None:
    indptr, n = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), len(lengths)
    order, split = np.full(n + 1, -1, np.int32), np.full(2, -1, np.int64)
    found = np.full(CLASSES * PARTS, -1, np.int32)
    run = module(sources.order_source(), threads)
    rows = [np.array([n]), n + 7] if counted else [0, n]
    run.call("order_count", *rows, indptr, found, blocks=3)
    run.call("order_rows", *rows, indptr, found, 512, 1000, split, order, blocks=3)
    classes = [length_class(length) for length in lengths]
    np.testing.assert_array_equal(order[:n], np.argsort(classes, kind="stable"))
    assert order[n] == -1
    wanted = [sum(each < length_class(length) for each in classes) for length in (512, 1000)]
    assert split.tolist() == wanted


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(("k", "n", "left_out"), [(3, 5, True), (20, 90, False), (17, 1, True)])
def test_top_products_are_those_of_the_cpu(
    threads: int, unit: bool, k: int, n: int, left_out: bool
) -> None:
    rng = np.random.default_rng(k)
    rows = rng.integers(-2, 3, (37, k)).astype(np.float32)
    table = rng.integers(-2, 3, (150, k + 1)).astype(np.float32)  # many ties
    table[7] = 0
    table[8, 0] = np.nan
    seen = sp.random(37, 150, 0.3, format="csr", random_state=0, dtype=np.float32)
    with MatCache(threads=1) as memory:
        given = from_sparse(memory, seen) if left_out else None
        mats = from_array(memory, rows), from_array(memory, table)
        found = top_products(*mats, n, leave_out=given, unit=unit)
        ids, scores = found.ids.numpy(), found.scores.numpy()
    run = module(sources.top_source(), threads)
    inverse: Any = np.empty(150, np.float32)
    run.call("inverse_lengths", 150, k + 1, k, table, inverse)
    out = [seen.indptr.astype(np.int64), seen.indices.astype(np.int32)] if left_out else [0, 0]
    best, numbers = np.zeros((37, n), np.float32), np.zeros((37, n), np.int32)
    inverse = inverse if unit else 0
    call = (37, 150, k + 1, k, n, rows, table, inverse, *out, best, numbers)
    run.call("top_products", *call, blocks=2)
    np.testing.assert_array_equal(numbers, ids)
    np.testing.assert_array_equal(best, scores)


@pytest.mark.parametrize(
    ("threads", "k", "where"),  # test_sampling.py has these k, too
    [
        *mostly_64([(k, sources.IN_REGISTERS) for k in (1, 16, 40)]),
        *mostly_64([(k, sources.IN_SHARED) for k in (1, 40)]),
        *mostly_64([(k, sources.IN_MEMORY) for k in (1, 40)]),
    ],
)
def test_the_sampler_draws_what_the_cpu_draws(threads: int, k: int, where: int) -> None:
    X, rng = counts(23, 31), np.random.default_rng(k)
    phi = rng.uniform(0.1, 1, (31, k)).astype(np.float32)
    alpha = np.full((1, k), 0.1, np.float32)
    ids, key = np.arange(100, 123)[:, None] + 2**33, np.array([[7 + 2**35, 3, 0]])
    burn, save = 2, 11 if k == 16 else 3  # more than are counted at a time, and fewer
    with MatCache(threads=1) as memory:
        mats = [from_array(memory, a) for a in (phi, alpha, ids, key)]
        samples = sample_topics(from_sparse(memory, X), *mats, burn=burn, save=save)
        table, z = samples.counts(k).numpy(), samples.z.data().reshape(-1, save).T.copy()
        first = samples.first.data()[0, : X.nnz].copy()
        flops = memory.stats().flops
        theta = sample_theta(from_sparse(memory, X), *mats, burn=burn, save=save).numpy().copy()
    indptr, indices, values = X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data
    width = X.nnz * CAP
    run = module(sources.gibbs_source(k, counts=where), threads)
    sums, got_first = np.empty(1024, np.int64), np.empty(X.nnz, np.int64)
    run.call("count_sums", 23, indptr, values, sums, blocks=2)
    work = np.array([5])
    run.call("count_particles", 23, indptr, values, sums, 7, work, got_first, blocks=2)
    np.testing.assert_array_equal(got_first, first)
    got_z = np.zeros((save, width), np.uint16)
    weights, words, topics = (np.empty(width, t) for t in (np.float32, np.int32, np.int32))
    order = np.arange(23, dtype=np.int32)[::-1].copy()
    call = [23, order, indptr, indices, values, first, ids, key, phi, alpha]
    call += [burn, save]
    memory_ = np.full((32, -(-k // 16) * 16), np.nan, np.float32)  # of both blocks
    scratch = weights, words, topics, memory_
    run.call("sample", *call, width, got_z, *scratch, blocks=2)
    got_theta = np.full((23, k), np.nan, np.float32)
    run = module(sources.gibbs_source(k, counts=where, summed=True), threads)
    run.call("sample", *call, k, got_theta, *scratch, blocks=2)
    np.testing.assert_array_equal(got_theta, theta)
    assert np.isnan(memory_).all() == (where != sources.IN_MEMORY)
    particles = int(np.minimum(np.ceil(values), CAP).sum())
    assert work[0] == 5 + 7 * particles
    assert flops == 2 * k * (burn + save) * particles
    np.testing.assert_array_equal(got_z[:, :particles], z[:, :particles])
    active_count, active, starts, _, t_pos = index(X)
    out = np.full((31, k), np.nan, np.float32)
    call = [active_count, 31, active, starts, t_pos, values, first, save, width, got_z, out]
    run = module(sources.topic_counts_source(k), threads)
    run.call("topic_counts_32", *call, 0, blocks=2)
    np.testing.assert_array_equal(out, table)
    run.call("topic_counts_32", *call, 1, blocks=2)
    np.testing.assert_array_equal(out[: len(active)], table[active])
    assert not out[len(active) :].any()


PARTICLES = {
    "none": [],
    "no tokens": [0.0, -1.0, np.nan],
    "one": [3.0],
    "many of one": [1e9],
    "fewer than parts": [0.5, 1.0, 7.5, 0.0, 250.0],
    "more than parts": [float(n % 11) for n in range(5 * 1024 + 3)],
}


@pytest.mark.parametrize(
    ("threads", "kept", "name"),
    [each for kept in (False, True) for each in mostly_64([(kept, name) for name in PARTICLES])],
)
def test_particles_are_numbered(threads: int, kept: bool, name: str) -> None:
    """Of a block that begins behind other entries; its first row has all."""
    values = PARTICLES[name]
    given, ahead = np.array([5.0, 5.0, *values], np.float32), 2
    tokens = np.where(given > 0, given, 0.0)
    each = np.floor(tokens) if kept else np.ceil(np.minimum(tokens, CAP))
    wanted = np.cumsum(each[ahead:], dtype=np.int64)
    indptr = np.array([ahead, given.size, given.size, given.size])
    run = module(sources.kept_source(40) if kept else sources.gibbs_source(40), threads)
    sums, work = np.full(1024, -1), np.array([5])
    first = np.full(given.size + 1, -1)
    run.call("count_sums", 3, indptr, given, sums, blocks=2)
    run.call("count_particles", 3, indptr, given, sums, 7, work, first, blocks=2)
    np.testing.assert_array_equal(first[ahead:-1], wanted - each[ahead:].astype(int))
    assert (first[[0, 1, -1]] == -1).all()
    assert work[0] == 5 + 7 * (wanted[-1] if values else 0)


@pytest.mark.parametrize("threads", [1, pytest.param(0, marks=pytest.mark.gpu)])
def test_grids_next_to_powers_of_two(threads: int) -> None:
    """A logarithm that is rounded up would give another grid, and other topics."""
    powers = np.float32(2.0) ** np.arange(-90, 60, dtype=np.float32)
    near = [np.nextafter(powers, np.float32(to)) for to in (0, np.inf)]
    totals = np.concatenate([powers, *near, np.zeros(1, np.float32)])
    text = """
extern "C" __global__ void grids(i64 n, const float* totals, float* out) {
  for (i64 e = BL_THREAD; e < n; e += BL_THREADS) out[e] = grid_of(totals[e]);
}
"""
    out = np.empty_like(totals)
    module(sources.gibbs_source(4) + text, threads).call("grids", totals.size, totals, out)
    exponents = np.frexp(np.maximum(totals, np.float32(1e-30)))[1]
    np.testing.assert_array_equal(out, np.ldexp(np.float32(1), exponents - 23))


def check_solved(x: Any, A: Any, b: Any, free: Any) -> None:
    """A x = b as nearly as float32 can (Higham, Accuracy and Stability, 10.1: the residual is small
    however badly A is conditioned); where free is 0, x is what b has.
    """
    known = free == 0
    np.testing.assert_array_equal(x[known], b[known])
    x, A = x.astype(np.float64), A[~known]
    most = np.linalg.norm(A) * np.linalg.norm(x) + np.linalg.norm(b)
    assert np.linalg.norm(A @ x - b[~known]) <= 1e-6 * most


@pytest.mark.parametrize(
    ("k", "gram", "masked", "scaled", "threads"),
    [
        *[(k, True, True, k == 20, 64) for k in (1, 20, 33, 50)],
        (7, True, True, False, 1),
        (33, True, True, False, -64),
        (50, False, False, True, 1),
        (100, False, True, False, 256),
        pytest.param(124, True, False, True, 160, marks=pytest.mark.slow),  # a square each
        *[
            pytest.param(k, True, True, k == 50, 0, marks=pytest.mark.gpu)
            for k in (1, 20, 50, 100, 130)
        ],
    ],
)
def test_normal_equations_are_solved(
    k: int, gram: bool, masked: bool, scaled: bool, threads: int
) -> None:
    rng = np.random.default_rng(k)
    X = counts(12, 31)
    table = rng.normal(size=(31, k)).astype(np.float32)
    ridge = rng.uniform(0.5, 2, (12, 1)).astype(np.float32)
    rhs = rng.normal(size=(12, k)).astype(np.float32)
    G = (table.T @ table).astype(np.float32)
    free = (rng.random((1, k)) < 0.7).astype(np.float32)
    wide = table.astype(np.float64)
    outer = np.stack([(wide.T * X[[i]].toarray()[0]) @ wide for i in range(12)])
    scale = rng.uniform(0, 1, k).astype(np.float32)
    shift = 1 - scale
    diagonals = ridge * scale + shift if scaled else ridge * np.ones(k)
    systems = outer + (G if gram else 0) + diagonals[:, :, None] * np.eye(k)
    mask = free[0] if masked else np.ones(k)
    flags = {"gram": gram, "masked": masked, "scaled": scaled}
    run = module(sources.cholesky_source(k, **flags), threads)
    shared_by_teams = module(
        sources.cholesky_source(k, **flags, teams=True), threads, 2 if threads != 1 else 1
    )
    out = np.full((12, k), np.nan, np.float32)
    call = [X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, table]
    shared = [G, free, scale, shift, ridge]
    by_length = [ordered(np.diff(X.indptr)), np.array([5, 3])]
    by_all = [12, *by_length, *call, *shared, rhs, out]
    run.call("solve_rows", *by_all, blocks=2)
    assert np.isnan(out[by_length[0][:3]]).all()
    shared_by_teams.call("solve_rows", *by_all, blocks=2 * TEAM)
    for x, A, b in zip(out, systems, rhs, strict=True):
        check_solved(x, A, b, mask)
    turned = sp.csr_array(X.T)  # the same sums by columns, onto what was there
    sums = np.ones((12, packed(k)), np.float32)
    run.call("add_outer_32", *index(turned), turned.data, table, sums, blocks=2)
    for group in groups(k):
        for r in range(group.first, group.end):
            at = group.offset + (r - group.first) * group.width + r - group.first
            got = sums[:, at : at + k - r]
            np.testing.assert_allclose(got, outer[:, r, r:] + 1, rtol=1e-4, atol=1e-3)
            got -= 1
    out[:] = np.nan
    run.call("solve_sums", 12, sums, *shared, rhs, out, blocks=2)
    for x, A, b in zip(out, systems, rhs, strict=True):
        check_solved(x, A, b, mask)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("k", [1, 5, 40])
def test_non_negative_rows_are_those_of_the_cpu(k: int, threads: int) -> None:
    rng = np.random.default_rng(k)
    H, n = rng.normal(size=(8, k)).astype(np.float32), 21
    pull, G = rng.normal(size=(n, 8)).astype(np.float32) @ H, H.T @ H
    G[:, k // 2], G[k // 2], pull[:, k // 2], pull[7] = 0, 0, 0, np.nan
    W = rng.random((n, k), dtype=np.float32)
    got, rest, own = W.copy(), np.empty_like(W), np.empty((1, scratch_length(k)), np.float32)
    nonnegative_steps(0, 0, np.array([0, n]), W, pull, G, 4, own)
    run = module(sources.nonnegative_source(), threads)
    run.call("nonnegative_steps", n, k, 4, got, pull, G, rest, blocks=2)
    np.testing.assert_allclose(got, W, rtol=1e-3, atol=1e-4)


def ordered(lengths: Any) -> Any:
    return np.argsort(-lengths, kind="stable").astype(np.int32)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("k", [1, 3, 36, 128])
def test_transposed_products(k: int, threads: int) -> None:
    X = counts(70, 31)
    table = np.random.default_rng(k).normal(size=(70, k)).astype(np.float32)
    count, active, starts, t_rows, t_pos = index(X)
    order, split = ordered(np.diff(starts)), np.array([5])
    out = np.full((31, k), np.nan, np.float32)
    call = [count, 31, order, split, 1, active, starts, t_rows, t_pos, X.data, table, out]
    module(sources.transposed_source(k), threads).call("transposed_product", *call, blocks=3)
    np.testing.assert_allclose(out, X.T @ table, rtol=1e-4, atol=1e-4)


def test_transposed_products_of_other_types_and_of_wide_tables() -> None:
    X = counts(20, 31)
    table = np.random.default_rng(0).normal(size=(20, 1028))
    count, active, starts, t_rows, t_pos = index(X)
    order, split = ordered(np.diff(starts)), np.array([1])
    out = np.full((31, 1028), np.nan)
    call = [count, 31, order, split, 1, active, starts, t_rows, t_pos.astype(np.int64), X.data]
    run = module(sources.transposed_source(1028, "float", "double", "double", "i64"), 256)
    run.call("transposed_product", *call, table, out, blocks=2)
    np.testing.assert_allclose(out, X.T @ table, rtol=1e-12)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("k, to", [(1, "float"), (3, "double"), (36, "float"), (36, "double")])
def test_added_products(k: int, to: str, threads: int) -> None:
    X, rng = counts(70, 31), np.random.default_rng(k)
    table = rng.normal(size=(70, k)).astype(np.float32)
    count, active, starts, t_rows, t_pos = index(X)
    order, split = ordered(np.diff(starts)), np.array([5])
    out = rng.normal(size=(31, k)).astype(np.float32 if to == "float" else np.float64)
    wanted = out - 0.5 * (X.T @ table)
    call = [count, order, split, 1, active, starts, t_rows, t_pos.astype(np.int64), X.data, table]
    run = module(sources.transposed_source(k, position="i64", to=to), threads)
    run.call("add_transposed_product", *call, np.full((1, 1), -0.5, out.dtype), out, blocks=3)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("k", [1, 40])
def test_exact_sums_have_the_bits_of_the_cpu(k: int, threads: int) -> None:
    X = counts(70, 31)
    rng = np.random.default_rng(k)
    table = (rng.normal(size=(70, k)) * 10.0 ** rng.integers(-6, 3, (70, k))).astype(np.float32)
    grid = np.full((1, k), 3.0 * 2**20)
    before = np.round(rng.normal(size=(31, k)) * 64) / 64
    count, active, starts, t_rows, t_pos = index(X)
    total, largest, parts = before.copy(), np.full((1, k), np.nan), np.full((2, k), np.nan)
    weights = rng.random((70, 1)).astype(np.float32)
    transposed = [active, starts, t_rows, t_pos, X.data, table, weights]
    bounds = np.array([0, count[0]])
    KERNELS["add_exact_product"](0, 0, bounds, *transposed, grid, largest, total)
    got = before.copy()
    run = module(sources.exact_source(), threads)
    run.call("add_exact_product", count, *transposed, k, grid, parts, got, blocks=2)
    np.testing.assert_array_equal(got, total)
    np.testing.assert_array_equal(parts.max(axis=0, keepdims=True), largest)


@pytest.mark.parametrize("threads", THREADS)
def test_sums_in_float64(threads: int) -> None:
    rng = np.random.default_rng(0)
    X, table, weights = (rng.normal(size=(40, m)).astype(np.float32) for m in (11, 3, 1))
    total = np.ones((11, 3))
    run = module(sources.wide_source(), threads)
    run.call("add_wide_product", 40, 11, 3, X, table, weights, total, blocks=2)
    expected = 1.0 + X.astype(float).T @ (table.astype(float) * weights)
    np.testing.assert_allclose(total, expected, rtol=1e-13)


@pytest.mark.parametrize("threads", [1, 256, GPU])
@pytest.mark.parametrize("columns", [1, 2, 700, 1024, 1025, 5000])
def test_rows_are_sorted(columns: int, threads: int) -> None:
    rng = np.random.default_rng(columns)
    x = rng.integers(-50, 50, (2, columns)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[rng.random(x.shape) < 0.1] = np.inf
    out = np.zeros_like(x)
    run = module(sources.sort_source(), threads)
    run.call("sort_tiles", 2, columns, x, out, blocks=3)
    for name, number in sources.sort_launches(columns):
        run.call(name, 2, columns, *([number] if number else []), out, blocks=3)
    np.testing.assert_array_equal(out, np.sort(x, axis=1))


@pytest.mark.parametrize("threads", [1, 64, GPU])
def test_matrices_are_turned_and_tables_rounded(threads: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(70, 45)).astype(np.float32)
    out = np.zeros((45, 70), np.float32)
    run = module(sources.move_source(), threads)
    run.call("transpose_tiles", 70, 45, x, out, blocks=2)
    np.testing.assert_array_equal(out, x.T)
    for k in (1, 32, 33, 70):
        square = np.where(np.triu(np.ones((k, k), bool)), rng.normal(size=(k, k)), np.nan)
        whole = np.fmax(square, square.T).astype(np.float32)
        half = square.astype(np.float32)
        run.call("mirror_tiles", k, half, blocks=2)
        np.testing.assert_array_equal(half, whole)
    x[0, :4] = np.inf, -np.inf, np.nan, 0
    half = np.zeros(x.shape, np.uint16)
    run.call("to_bfloat16", x.size, x, half)
    back = (half.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(back, x, rtol=2.0**-8)
    ties = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8], np.float32)  # half-way: to even
    run.call("to_bfloat16", 2, ties, half)
    np.testing.assert_array_equal(half.reshape(-1)[:2], [0x3F80, 0x3F82])


@pytest.mark.parametrize("threads", THREADS)
def test_factorizations_begin_and_end(threads: int) -> None:
    """What the library gives by columns is turned, with signs; without factors it is NaN."""
    rng, run = np.random.default_rng(0), module(sources.algebra_source(), threads)
    n, k = 40, 9
    a, info = rng.normal(size=(k, k)), np.full((1, 2), 7, np.int32)
    given = a.copy()
    run.call("check_matrix", k, given, info)
    np.testing.assert_array_equal(given, a)
    assert not info.any()
    given[4, 2] = np.inf
    run.call("check_matrix", k, given, info)
    assert info[0, 1] and not given.any()

    fine, failed = np.array([[0, 0]], np.int32), np.array([[3, 0]], np.int32)
    tall = rng.normal(size=(k, n))  # by columns
    r, signs, q = np.zeros((k, k)), np.zeros((1, k)), np.zeros((n, k))
    run.call("end_upper", n, k, tall, r, signs, blocks=2)
    run.call("end_orthonormal", n, k, tall, signs, q, blocks=2)
    turns = np.where(tall[:, :k].diagonal() < 0, -1.0, 1.0)
    np.testing.assert_array_equal(r, np.triu(tall[:, :k].T) * turns[:, None])
    np.testing.assert_array_equal(q, tall.T * turns)
    vectors, wanted = np.zeros((k, k)), a.T.copy()
    a[3] = wanted[:, 3] = -1.0  # the first of equal ones decides
    wanted *= np.where(wanted[np.abs(wanted).argmax(axis=0), range(k)] < 0, -1.0, 1.0)
    for status, found in ((fine, True), (failed, False), (info, False)):
        factor, turned, values = a.copy(), np.zeros((n, k)), np.ones((1, k))
        run.call("end_vectors", k, a, values, vectors, status, blocks=2)
        np.testing.assert_array_equal(vectors, wanted if found else np.nan)
        assert np.isnan(values).all() != found
        if status is not info:
            run.call("end_cholesky", k, factor, status, blocks=2)
            run.call("end_columns", n, k, tall, turned, status, blocks=2)
            np.testing.assert_array_equal(factor, np.tril(a) if found else np.nan)
            np.testing.assert_array_equal(turned, tall.T if found else np.nan)


@pytest.mark.parametrize("threads", THREADS)
def test_columns_are_chosen_in_any_order(threads: int) -> None:
    X, rng = counts(40, 90), np.random.default_rng(0)
    indptr, n, run = X.indptr.astype(np.int64), 40, module(sources.selection_source(), threads)
    for at in (rng.integers(0, 90, 130), np.arange(3, 80, dtype=np.int64)):
        wanted, m = X.toarray()[:, at], at.size
        first, after = np.zeros(90, np.int32), np.zeros(m, np.int32)
        starts, found = np.zeros(n + 1, np.int64), np.zeros(3, np.int64)
        run.call("link_columns", m, at, 90, first, after, found, blocks=2)
        run.call("column_lengths", n, first, after, indptr, X.indices, starts, blocks=2)
        run.call("length_starts", n, starts, found)
        assert found.tolist() == [np.count_nonzero(wanted), 0, 0]
        columns, values = np.zeros(found[0], np.int32), np.zeros(found[0], np.float32)
        lists = (n, first, after, indptr, X.indices, X.data, starts, columns, values)
        run.call("copy_columns", *lists, blocks=2)
        np.testing.assert_array_equal(starts[1:], np.cumsum((wanted != 0).sum(axis=1)))
        np.testing.assert_array_equal(columns, wanted.nonzero()[1])
        np.testing.assert_array_equal(values, wanted[wanted.nonzero()])
        run.call("unlink_columns", m, at, 90, first, blocks=2)
        assert not first.any()


KERNEL = r'extern "C" __global__ void (?:BL_TEAMED )?(?:__launch_bounds__\([^)]*\) )?(\w+)\('
EVERY = {
    "transposed": sources.transposed_source(256),
    "transposed one": sources.transposed_source(1),
    "added": sources.transposed_source(256, to="float"),
    "added, rounded": sources.transposed_source(256, table="bfloat16", to="float"),
    "added to doubles": sources.transposed_source(6, to="double"),
    "added one": sources.transposed_source(1, "double", "double", "double", "i64", to="float"),
    "exact": sources.exact_source(),
    "wide": sources.wide_source(),
    "masked": sources.masked_source(),
    "selection": sources.selection_source(),
    "gram": sources.gram_source(),
    "nonnegative": sources.nonnegative_source(),
    "sort": sources.sort_source(),
    "sort of keys": sources.sort_source("u64"),
    "keys": sources.keys_source(),
    "move": sources.move_source(),
    "merge": sources.merge_source(),
    "merge of doubles": sources.merge_source("double"),
    "tokens": sources.tokens_source(),
    "order": sources.order_source(),
    "states": sources.states_source(4),
    "states of tokens": sources.states_source(2),
    "index": sources.index_source(),
    "index of many": sources.index_source("i64"),
    "top": sources.top_source(),
    "gibbs": sources.gibbs_source(100),
    "gibbs, sums of rows": sources.gibbs_source(100, summed=True),
    "draws": sources.draws_source(),
    "gibbs, most in registers": sources.gibbs_source(1024),
    "gibbs, sums, most in registers": sources.gibbs_source(2048),
    "topic counts": sources.topic_counts_source(1024),
    "gibbs, most topics": sources.gibbs_source(2**16),
    "kept topics": sources.kept_source(100),
    "kept topics, many sums": sources.kept_source(1024),
    "kept topics, sums, most in registers": sources.kept_source(2048),
    "kept topics, most topics": sources.kept_source(2**16),
    "lists of topics": sources.lists_source(100),
    "lists of topics, most topics": sources.lists_source(2**16),
    "moves": sources.moves_source(100),
    "algebra": sources.algebra_source(),
    "cholesky": sources.cholesky_source(100, gram=True, masked=True, scaled=True),
}


def test_every_kernel_has_its_floor() -> None:
    folder, docs = Path(cuda.__file__).parent, Path(__file__).parents[2] / "docs" / "gpu-kernels.md"
    if not docs.exists():
        pytest.skip("the documentation is not here")
    page, texts = docs.read_text(), [*folder.glob("kernels/*.cu")]
    names = {name for text in texts for name in re.findall(KERNEL, text.read_text())}
    assert len(names) > 30
    assert not [name for name in names if f"`{re.sub('_(32|64)$', '', name)}`" not in page]


TWINS = {
    "merge of doubles", "states of tokens", "index of many", "gibbs, sums, most in registers",
    "gibbs, most in registers", "gibbs, most topics", "kept topics, many sums",
    "kept topics, sums, most in registers", "kept topics, most topics",
    "lists of topics, most topics", "added, rounded", "added to doubles", "added one",
    "transposed one", "sort of keys",
}  # fmt: skip
"""Modules that have the text of another, for another type or number of topics: they are slow, and
compiled for one kind of cards.
"""
COMPILED = [
    *((name, "90") for name in EVERY if name not in TWINS),
    *rarely(*((name, other) for name in EVERY if name not in TWINS for other in ("80", "100"))),
    *rarely(*((name, "90") for name in sorted(TWINS))),
]


@pytest.mark.parametrize("name, architecture", COMPILED)
def test_modules_compile_and_keep_to_registers(name: str, architecture: str) -> None:
    needed = resources(nvrtc(EVERY[name], architecture))
    assert needed
    for kernel, needs in needed.items():
        assert needs.frame == 0, (kernel, needs)
        assert needs.registers <= (250 if "most in registers" in name else 168), (kernel, needs)
        if name == "cholesky":
            assert needs.blocks(sources.solvers(100)) >= 4, (kernel, needs)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 32, 100, 130, 256, 1000])
def test_modules_of_every_k_compile(k: int) -> None:
    for architecture in TEXTS:
        assert nvrtc(sources.gibbs_source(k), architecture)
        if k <= MOST:
            for flag in (False, True):
                for teams in (False, True):
                    source = sources.cholesky_source(
                        k, gram=flag, masked=flag, scaled=flag, teams=teams
                    )
                    needed = resources(nvrtc(source, architecture))
                    assert not any(needs.frame for needs in needed.values())


@pytest.mark.parametrize("threads", THREADS)
def test_numbers_too_small_to_be_normal_count_as_zero(threads: int) -> None:
    """What is read, and what is computed; normal ones stay. On the CPU they are numbers."""
    text = """
extern "C" __global__ void halves(i64 n, const float* a, float* out) {
  for (i64 e = BL_THREAD; e < n; e += BL_THREADS) out[e] = a[e] * (a[e] < 1e-38f ? 2.0f : 0.5f);
}
"""
    least = np.finfo(np.float32).tiny
    a = np.array([least, 2 * least, 1e-40, 1e-38, -1e-42, 0.0, 1.0], np.float32)
    expected = np.array([0, least, 0, 0, 0, 0, 0.5], np.float32)
    out = np.empty_like(a)
    module(sources.library_source() + text, threads).call("halves", a.size, a, out)
    np.testing.assert_array_equal(out, expected)
