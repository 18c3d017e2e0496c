"""Matrices drawn beside another one, entry by entry, and programs that read both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.matcache import (
    Draws,
    MatCache,
    ShapeError,
    Sparse,
    SparseInput,
    SparseMat,
    StaleValueError,
    Table,
    alias_table,
    from_array,
    from_sparse,
    grad,
    kernel_text,
    named,
    rowmax,
    rownnz,
    rowsum,
    rowwise,
    sddmm,
    sigmoid,
)
from blocklearn.matcache.cuda import Cuda
from tests.support import cuda_host
from tests.support.cubin import nvrtc
from tests.support.cuda_device import HostDriver

KINDS = ["plain", "empty rows", "one huge row", "no entries"]


@rowwise
def pairs(X: Sparse, N: Sparse, x: Any, Y: Table, popular: Any) -> Any:
    """Bayesian personalised ranking: slopes of each positive, and of its negative."""
    missed = X * sigmoid(sddmm(x, Y, N) - sddmm(x, Y, X))
    lost = N * missed
    step = missed @ Y - lost @ Y
    return missed, lost, step, rowsum(N * popular) + rowmax(sddmm(x, Y, N)), rownnz(N)


def matrix(kind: str, rows: int, columns: int, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    table = (rng.random((rows, columns)) < 0.3) * rng.uniform(0.5, 2, (rows, columns))
    match kind:
        case "empty rows":
            table[::2] = 0
        case "one huge row":
            table[:], table[rows // 2] = 0, 1
        case "no entries":
            table[:] = 0
    return sp.csr_array(table.astype(np.float32))


def drawn(cache: MatCache, X: SparseMat, stream: int = 0, block: int = 0) -> SparseMat:
    key = from_array(cache, np.array([[7, 1, block]]))
    weights = from_array(cache, np.arange(1.0, X.shape[1] + 1)[None])
    return Draws(key).beside(X, alias_table(weights), stream=stream)


def host(found: SparseMat) -> sp.csr_array:
    """Return a sparse result, as it lies, and check its offsets."""
    read, pattern = found.cache.backend.read, found.pattern
    starts = read(pattern.indptr)
    assert starts[-1] == read(pattern.counts)[0] == found.nnz
    columns = read(pattern.indices)[: found.nnz]
    return sp.csr_array((found.numpy(), columns, starts), shape=found.shape)


def check(cache: MatCache, kind: str, rows: int, columns: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = matrix(kind, rows, columns, seed)
    x, Y = rng.normal(size=(rows, k)), rng.normal(size=(columns, k))
    popular = rng.normal(size=(1, columns))
    X = from_sparse(cache, data)
    N = drawn(cache, X)
    n = host(N)
    assert (n.indptr == data.indptr).all() and (n.data == 1).all()
    arrays = [from_array(cache, a.astype(np.float32)) for a in (x, Y, popular)]
    found = pairs(X, N, *arrays)

    own = np.repeat(np.arange(rows), np.diff(data.indptr))
    of = {name: (x[own] * Y[a.indices]).sum(1) for name, a in (("X", data), ("N", n))}
    missed = data.data / (1 + np.exp(of["X"] - of["N"]))
    step, mass = np.zeros((rows, k)), np.zeros((rows, 1))
    np.add.at(step, own, missed[:, None] * (Y[data.indices] - Y[n.indices]))
    np.add.at(mass, own, popular[0, n.indices][:, None])
    best = np.full((rows, 1), -np.inf)
    np.maximum.at(best, own, of["N"][:, None])
    for result, places in zip(found[:2], (data, n), strict=True):
        assert np.allclose(result.numpy(), missed, rtol=1e-5, atol=1e-6)
        assert (host(result).indices == places.indices).all()
    for result, wanted in zip(found[2:], (step, mass + best, np.diff(data.indptr)), strict=True):
        assert np.allclose(result.numpy().reshape(rows, -1), wanted.reshape(rows, -1),
                           rtol=1e-4, atol=1e-5)  # fmt: skip
    turned = sp.csr_array((missed, n.indices, data.indptr), shape=data.shape).T @ x
    assert np.allclose((found[1].T @ arrays[0]).numpy(), turned, rtol=1e-4, atol=1e-5)
    wanted = pairs.reference(data, n, x, Y, popular)
    assert np.allclose(wanted[2], step) and (wanted[1].indices == n.indices).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 40])
def test_a_program_reads_two_patterns(memory: MatCache, kind: str, k: int) -> None:
    check(memory, kind, 37, 11, k, seed=k)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 70), st.integers(1, 30), st.integers(0, 999))
def test_of_any_shape(kind: str, rows: int, columns: int, seed: int) -> None:
    with MatCache(threads=2) as cache:
        check(cache, kind, rows, columns, 3, seed)


def test_columns_are_drawn_by_weight_and_counter(memory: MatCache) -> None:
    data = sp.csr_array(np.ones((2000, 10), np.float32))
    X = from_sparse(memory, data)
    first, again = drawn(memory, X), drawn(memory, X)
    assert (host(first).indices == host(again).indices).all()
    share = np.bincount(host(first).indices, minlength=10) / 20000
    assert np.abs(share - np.arange(1, 11) / 55).max() < 0.01
    others = [drawn(memory, X, stream=1), drawn(memory, X, block=1)]
    assert all((host(first).indices != host(other).indices).mean() > 0.5 for other in others)


def test_the_backends_and_threads_draw_the_same() -> None:
    data, found = matrix("plain", 700, 50, 3), []
    backends = [Cuda(HostDriver())] if cuda_host.available() else []
    for threads, backend in [(1, None), (8, None), *((2, b) for b in backends)]:
        with MatCache(threads=threads, backend=backend) as cache:
            found.append(host(drawn(cache, from_sparse(cache, data))).indices)
    assert all((indices == found[0]).all() for indices in found)


def test_blocks_of_any_size_are_drawn_anew(memory: MatCache) -> None:
    """Nothing is allocated for a later block, unless it is larger than any before."""
    ragged = matrix("plain", 20, 9, 8)
    blocks = [matrix(kind, 20, 9, seed) for seed, kind in enumerate(KINDS)]
    blocks.append(sp.csr_array(sp.vstack([ragged[:6], sp.csr_array((14, 9))]), dtype=np.float32))
    entries = SparseInput(memory, "X", 20, 9, capacity=max(b.nnz for b in blocks), indexed=False)
    x, Y = from_array(memory, np.ones((20, 3))), from_array(memory, np.ones((9, 3)))
    key, popular = named(memory, "key", (1, 3), np.int64), from_array(memory, np.ones((1, 9)))
    table = alias_table(popular)

    def update(block: sp.csr_array) -> tuple[SparseMat, SparseMat, Any]:
        X = entries.bind(indptr=block.indptr.astype(np.int64),
                         indices=block.indices.astype(np.int32), values=block.data)  # fmt: skip
        N = Draws(key).beside(X, table)
        return X, N, pairs(X, N, x, Y, popular)

    for number, block in enumerate(blocks):
        key.set(np.array([[7, 1, number]]))
        _, N, found = update(block)
        assert (host(N).indptr == block.indptr).all()
        assert (found[4].numpy().ravel() == np.diff(block.indptr)).all()
        assert (found[1].T @ x).numpy()[:, 0].sum() == pytest.approx(block.data.sum() / 2)
        memory.freeze()
    _, N, _ = update(blocks[0])
    X = entries.bind(indptr=blocks[1].indptr.astype(np.int64),
                     indices=blocks[1].indices.astype(np.int32), values=blocks[1].data)  # fmt: skip
    with pytest.raises(StaleValueError, match="Draw anew"):
        pairs(X, N, x, Y, popular)


def test_a_larger_block_makes_more_room(memory: MatCache) -> None:
    entries = SparseInput(memory, "X", 20, 9, capacity=3, indexed=False)
    for kind in ("no entries", "one huge row", "plain"):
        block = matrix(kind, 20, 9, 2)
        X = entries.bind(indptr=block.indptr.astype(np.int64),
                         indices=block.indices.astype(np.int32), values=block.data)  # fmt: skip
        assert (host(drawn(memory, X)).indptr == block.indptr).all()


def test_weights_that_are_out_of_range_give_nan(memory: MatCache) -> None:
    X = from_sparse(memory, matrix("plain", 20, 9, 1))
    key = from_array(memory, np.array([[7, 1, 0]]))
    N = Draws(key).beside(X, alias_table(from_array(memory, -np.ones((1, 9)))))
    assert np.isnan(N.numpy()).all() and (host(N).indices == 0).all()


def test_what_does_not_fit_is_named(memory: MatCache) -> None:
    X, other = (from_sparse(memory, matrix("plain", 20, 9, seed)) for seed in (1, 2))
    N, x = drawn(memory, X), from_array(memory, np.ones((20, 3), np.float32))
    Y, popular = from_array(memory, np.ones((9, 3))), from_array(memory, np.ones((1, 9)))
    with pytest.raises(ShapeError, match=r"different patterns of non-zeros.*Draws\.beside"):
        pairs(other, N, x, Y, popular)
    with pytest.raises(ShapeError, match="both X and X.T"):
        pairs(X.T, N, x, Y, popular)
    with pytest.raises(ShapeError, match=r"program over columns"):
        pairs(X.T, N.T, x, Y, popular)
    with pytest.raises(ShapeError, match="9 columns"):
        Draws(from_array(memory, np.array([[7, 1, 0]]))).beside(X, alias_table(Y[:5, :1].mat()))
    with pytest.raises(ShapeError, match="dense"):
        drawn(memory, x)  # type: ignore[arg-type]

    @rowwise
    def loss(X: Sparse, N: Sparse, x: Any, Y: Table) -> Any:
        return rowsum(sddmm(x, Y, N) - sddmm(x, Y, X))

    with pytest.raises(ShapeError, match=r"grad.*one sparse"):
        grad(loss, "x")(X, N, x, Y)
    for device in ("cpu", "cuda"):
        assert "indices1" in kernel_text(loss, X, N, x, Y, device=device)


def test_the_kernels_compile_for_devices() -> None:
    k = 3
    with MatCache(threads=1) as cache:
        X = from_sparse(cache, matrix("plain", 20, 9, 1))
        shapes = [(20, k), (9, k), (1, 9)]
        others = [from_array(cache, np.ones(shape)) for shape in shapes]
        text = kernel_text(pairs, X, drawn(cache, X), *others, device="cuda")
    assert nvrtc(text)
