"""The E-step of LDA as one kernel, which needs nothing but the matrix layer; and its peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from blocklearn.matcache import exppsi, from_array, from_sparse, named, repeat, rowwise, sddmm
from scripts.benchmarks.data import power_law

from .measure import Row, Scale, agreement, cache_on, floor, fresh, seconds_of

ITERATIONS = 5


@rowwise
def e_step(X: Any, theta: Any, phi: Any, alpha: Any, iterations: Any) -> Any:
    """As in models/lda.py."""
    for _ in repeat(iterations):
        theta <<= exppsi(theta * ((X / sddmm(theta, phi, X)) @ phi) + alpha)
    return X / sddmm(theta, phi, X)


def rows(scale: Scale) -> Iterator[Row]:
    """The E-step for several K, then what others need for the same."""
    words = scale.of(50_000, 60)
    X = power_law(scale.of(20_000, 30), words)
    for k in (scale.of(32, 4), scale.of(100, 5), scale.of(256, 8), scale.of(1000, 9)):
        phi = np.random.default_rng(0).random((words, k), np.float32) + 0.01
        spent, found = _ours("cuda:0", X, phi, scale)
        cpu, note = None, _rate(X)
        if k <= 256:
            cpu, expected = _ours("cpu", X, phi, scale)
            note = f"{agreement(found, expected)}; {note}"
        yield Row(f"LDA E-step, K = {k}", spent, cpu, _floor(X, k), note)
    for k in (scale.of(100, 5), scale.of(256, 8)):
        phi = np.random.default_rng(0).random((words, k), np.float32) + 0.01
        spent, found = _ours("cuda:0", X, phi, scale, rounds_tables=True)
        cpu, expected = _ours("cpu", X, phi, scale, rounds_tables=True)
        least, note = _floor(X, k, rounded=words), agreement(found, expected)
        yield Row(f"LDA E-step, K = {k}, table in bfloat16", spent, cpu, least, note)
    k = scale.of(256, 8)
    phi = np.random.default_rng(0).random((words, k), np.float32) + 0.01
    for name, peer in PEERS.items():
        try:
            yield Row(f"the same, K = {k}: {name}", peer(X, phi), None, _floor(X, k))
        except ImportError as error:
            yield Row(f"the same: {name}", note=f"not installed: {error}")
        except Exception as error:  # others' troubles are no failure of ours
            yield Row(f"the same: {name}", note=f"does not work: {type(error).__name__}: {error}")


def _floor(X: Any, k: int, rounded: int = 0) -> float:
    """A row of the table for each non-zero and iteration, twice read in an iteration by cache only;
    2 products with it: 4 flops for 4 bytes. rounded: rows of a table that is rounded to bfloat16
    first: 2 bytes.
    """
    numbers = float(X.nnz) * k * (ITERATIONS + 1)
    nbytes = 2.0 * numbers + 6.0 * rounded * k if rounded else 4.0 * numbers
    return floor(nbytes + 12.0 * X.nnz, 4.0 * numbers)


def _rate(X: Any) -> str:
    return f"{X.shape[0]:,} documents, {X.nnz:,} non-zeros"


def _ours(
    device: str, X: Any, phi: Any, scale: Scale, *, rounds_tables: bool = False
) -> tuple[float, Any]:
    """Seconds, and the topics of each document."""
    with cache_on(device) as cache:
        cache.rounds_tables = rounds_tables
        x, table = from_sparse(cache, X), from_array(cache, phi)
        alpha = from_array(cache, np.full((1, phi.shape[1]), 0.1, np.float32))
        theta = named(cache, "theta", (X.shape[0], phi.shape[1]))

        def work() -> None:
            nonlocal theta
            theta <<= 1.0
            fresh(table)
            e_step(x, theta, table, alpha, ITERATIONS)

        return seconds_of(cache, work, 0.01 if scale.quick else 0.2), theta.numpy()


def _timed(work: Callable[[], Any], wait: Callable[[], Any], least: float = 0.3) -> float:
    for _ in range(2):
        work()
    wait()
    calls, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < least:
        work()
        wait()
        calls += 1
    return (time.perf_counter() - begun) / calls


PARTS = 2**27  # numbers that peers, who store a row of the table for each non-zero, take at a time


def _torch(compiled: bool) -> Callable[[Any, Any], float]:
    def run(X: Any, phi: Any) -> float:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")
        k, documents = (
            phi.shape[1],
            max(1, min(X.shape[0], PARTS // phi.shape[1] * X.shape[0] // X.nnz)),
        )
        part = X[:documents].tocoo()
        on = {"device": "cuda"}
        r, c = (torch.tensor(a, dtype=torch.long, **on) for a in (part.row, part.col))
        x, table = torch.tensor(part.data, **on), torch.tensor(phi, **on)

        def step(theta: Any) -> Any:
            words = table[c]
            for _ in range(ITERATIONS):
                ratio = x / (theta[r] * words).sum(1)
                sums = torch.zeros_like(theta).index_add_(0, r, ratio[:, None] * words)
                theta = torch.exp(torch.digamma(theta * sums + 0.1)).clamp(min=1e-20)
            return x / (theta[r] * words).sum(1)

        run = torch.compile(step) if compiled else step
        start = torch.ones(documents, k, **on)
        spent = _timed(lambda: run(start), torch.cuda.synchronize)
        return spent * X.nnz / part.nnz

    return run


def _cupy(X: Any, phi: Any) -> float:
    """With CuPy's own pool, and cupyx.scipy.sparse for the product with the table."""
    import cupy
    import cupyx.scipy.sparse as csp
    from cupyx.scipy.special import digamma

    k, documents = (
        phi.shape[1],
        max(1, min(X.shape[0], PARTS // phi.shape[1] * X.shape[0] // X.nnz)),
    )
    part = X[:documents].tocsr()
    on, table = csp.csr_matrix(part), cupy.asarray(phi)
    r = cupy.repeat(cupy.arange(documents), cupy.asarray(np.diff(part.indptr)).tolist())
    words = table[on.indices]
    x = on.data.copy()

    def step() -> Any:
        theta = cupy.ones((documents, k), cupy.float32)
        for _ in range(ITERATIONS):
            on.data[:] = x / (theta[r] * words).sum(1)
            theta = cupy.maximum(cupy.exp(digamma(theta * (on @ table) + 0.1)), 1e-20)
        return x / (theta[r] * words).sum(1)

    spent = _timed(step, cupy.cuda.get_current_stream().synchronize)
    return spent * X.nnz / part.nnz


PEERS: dict[str, Callable[[Any, Any], float]] = {
    "PyTorch, eager": _torch(False),
    "PyTorch, torch.compile": _torch(True),
    "CuPy and cupyx": _cupy,
}
