"""Measure passes of whole trainings by `Learner` on CPU and GPU. Needs pydantic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from scripts.benchmarks.data import power_law

from .measure import Row, Scale, floor

PAPER_LDA = 3.6e6  # documents an hour: BIDMach, K = 256
PAPER_ALS = 150.0  # seconds: BIDMach, rank 100, of the small Netflix data


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the rows of LDA, ALS and GLM."""
    try:
        import blocklearn.models  # noqa: F401
    except ImportError as error:
        yield Row("trainings", note=f"not run: {error}")
        return
    yield from lda(scale)
    if not scale.late:
        yield from glm(scale)
    if not scale.late:
        yield from als(scale)


def _pass(model: Any, data: Any, device: str, **options: Any) -> tuple[float, Any]:
    """Return the seconds of the second pass, and the learner's progress."""
    import blocklearn as bl

    learner = bl.Learner(model, train=data, passes=1, device=device, **options).fit()
    learner.passes, begun = 2, time.perf_counter()
    learner.fit()
    spent = time.perf_counter() - begun
    progress = learner.progress
    assert progress.allocations_after_warmup == 0
    learner.close()
    return spent, progress


def lda(scale: Scale) -> Iterator[Row]:
    """Yield documents an hour at K = 256."""
    import blocklearn as bl

    documents, words, k = scale.of(100_000, 60), scale.of(50_000, 50), scale.of(256, 5)
    X = power_law(documents, words)
    model = bl.models.LDA(topics=k, inference="vb", inner_iterations=5)
    options = {"block_rows": scale.of(8192, 30)}
    spent, progress = _pass(model, X, "cuda:0", **options)
    cpu, _ = _pass(model, X[: documents // 20 or 1], "cpu", **options)
    hourly = documents / spent * 3600
    least = floor(4.0 * X.nnz * k * 7, 4.0 * X.nnz * k * 6)
    yield Row(
        f"LDA training, K = {k}, V = {words:,}: a pass",
        spent,
        cpu * documents / (documents // 20 or 1),
        least,
        f"{hourly:,.0f} documents/h, {hourly / PAPER_LDA:.1f} x the paper; "
        f"{progress.gflops:,.0f} gflops",
    )
    other, _ = _pass(model, X, "cuda:0", index="device", **options)
    faster, than = ("device", "host") if other < spent else ("host", "device")
    yield Row("the same with index: device", other, None, least, f"{faster} is faster than {than}")
    other, _ = _pass(model, X, "cuda:0", tables="bfloat16", **options)
    least = floor(2.0 * X.nnz * k * 7, 4.0 * X.nnz * k * 6)
    yield Row(
        "the same with tables: bfloat16", other, None, least, f"{spent / other:.2f} x as fast"
    )


def glm(scale: Scale) -> Iterator[Row]:
    """Yield passes over the same rows with 1 and 300 targets."""
    import blocklearn as bl

    n, m = scale.of(200_000, 60), scale.of(50_000, 40)
    X, rng = power_law(n, m), np.random.default_rng(0)
    first = None
    for targets in (1, scale.of(300, 3)):
        Y = (rng.random((n, targets)) < 0.1).astype(np.float32)
        options = {"block_rows": scale.of(8192, 30), "optimizer": bl.optimizers.AdaGrad()}
        spent, _ = _pass(bl.models.GLM(), (X, Y), "cuda:0", **options)
        first = first or spent
        least = floor(4.0 * X.nnz * targets * 4, 4.0 * X.nnz * targets)
        yield Row(
            f"GLM, {targets} targets: a pass", spent, None, least, f"{spent / first:.2f} x 1 target"
        )


def als(scale: Scale) -> Iterator[Row]:
    """Yield a pass (users, then items) on data of the small Netflix shape.

    The data have as many ratings as fit.
    """
    import blocklearn as bl

    users, items, ratings = scale.of(480_189, 50), scale.of(17_770, 30), scale.of(20_000_000, 400)
    rng = np.random.default_rng(0)
    at = rng.integers(0, users, ratings), (items * rng.random(ratings) ** 2).astype(np.int64)
    R = sp.csr_array((rng.integers(1, 6, ratings).astype(np.float32), at), shape=(users, items))
    for rank in (scale.of(20, 2), scale.of(100, 3), scale.of(1000, 4)):
        if scale.late:
            return
        options = {"block_rows": scale.of(16384, 20)}
        spent, _ = _pass(bl.models.ALS(rank=rank), R, "cuda:0", **options)
        times = 2 * (3 + 1)  # both sides; three steps and a residual read each row of the table
        least = floor(4.0 * R.nnz * rank * times, 4.0 * R.nnz * rank * times)
        whole = spent * 100e6 / R.nnz
        yield Row(
            f"ALS, rank {rank}, {R.nnz:,} ratings: a pass",
            spent,
            None,
            least,
            f"{whole:.2f} s for 100 M ratings (paper, rank 100, all passes: {PAPER_ALS:.0f} s)",
        )
