"""Measure passes of whole trainings by `Learner` on CPU and GPU. Needs pydantic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from scripts.benchmarks.data import power_law

from .measure import Row, Scale, floor

PAPER_LDA = 3.6e6  # documents an hour: BIDMach, K = 256
PAPER_ALS = 150.0  # seconds: BIDMach, rank 100, of the small Netflix data


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the rows of all models."""
    try:
        import blocklearn.models  # noqa: F401
    except ImportError as error:
        yield Row("trainings", note=f"not run: {error}")
        return
    for measured in (lda, others, glm, als):
        if not scale.late:
            yield from measured(scale)


class Spent(NamedTuple):
    """A later pass of a training.

    seconds: of its blocks, without plan, scores and checks.
    note: what the time went into, and what is wrong.
    """

    seconds: float
    gflops: float
    note: str


def _pass(model: Any, data: Any, device: str, **options: Any) -> Spent:
    """Train for a pass, then measure the next two."""
    import blocklearn as bl

    learner = bl.Learner(model, data, passes=1, device=device, verbose=False, **options).fit()
    before = learner.progress.work
    learner.passes = 3
    after = learner.fit().progress.work
    spent = {
        part: getattr(after, part) - getattr(before, part)
        for part in ("seconds", "read", "copy", "compute", "merge", "flops")
    }
    assert learner.progress.allocations_after_warmup == 0
    shares = ", ".join(
        f"{part} {100 * spent[part] / spent['seconds']:.0f} %"
        for part in ("read", "copy", "compute")
    )
    replays = device == "cpu" or learner.team.first.cache.backend.launcher.replays
    note = shares if replays else f"failed: no graph was replayed; {shares}"
    learner.close()
    return Spent(spent["seconds"] / 2, 1e-9 * spent["flops"] / spent["seconds"], note)


def others(scale: Scale) -> Iterator[Row]:
    """Yield passes of the other inferences, solvers and models."""
    import blocklearn as bl

    X = power_law(scale.of(50_000, 60), scale.of(50_000, 50))
    R = power_law(scale.of(50_000, 60), scale.of(17_770, 30), 200)
    k, rank = scale.of(256, 5), scale.of(100, 3)
    made = {
        f"LDA, gibbs, K = {k}": (bl.models.LDA(topics=k, inference="gibbs"), X),
        f"LDA, cvb0, K = {k}": (bl.models.LDA(topics=k, inference="cvb0"), X),
        f"ALS, Cholesky, rank {rank}": (bl.models.ALS(rank=rank, solver="cholesky"), R),
        f"NMF, {rank} parts": (bl.models.NMF(components=rank), X),
    }
    for name, (model, data) in made.items():
        if scale.late:
            return
        spent = _pass(model, data, "cuda:0", block_rows=scale.of(8192, 30))
        pace = f"{data.nnz / spent.seconds / 1e6:,.0f} M non-zeros/s"
        yield Row(f"{name}: a pass", spent.seconds, note=_noted(spent, pace))


def _noted(spent: Spent, *more: str) -> str:
    return "; ".join([spent.note, *more])


def lda(scale: Scale) -> Iterator[Row]:
    """Yield documents an hour at K = 256."""
    import blocklearn as bl

    documents, words, k = scale.of(100_000, 60), scale.of(50_000, 50), scale.of(256, 5)
    X = power_law(documents, words)
    model = bl.models.LDA(topics=k, inference="vb", inner_iterations=5)
    options = {"block_rows": scale.of(8192, 30)}
    ours = _pass(model, X, "cuda:0", **options)
    cpu = _pass(model, X[: documents // 20 or 1], "cpu", **options).seconds
    spent, hourly = ours.seconds, documents / ours.seconds * 3600
    least = floor(4.0 * X.nnz * k * 7, 4.0 * X.nnz * k * 6)
    yield Row(
        f"LDA training, K = {k}, V = {words:,}: a pass",
        spent,
        cpu * documents / (documents // 20 or 1),
        least,
        _noted(
            ours,
            f"{hourly:,.0f} documents/h, {hourly / PAPER_LDA:.1f} x the paper",
            f"{ours.gflops:,.0f} gflops",
        ),
    )
    both = {
        made: _pass(model, X, "cuda:0", index=made, **options).seconds
        for made in ("host", "device")
    }
    faster, than = sorted(both, key=lambda made: both[made])
    for made, other in both.items():
        note = f"{faster} is faster than {than}"
        yield Row(f"the same with index: {made}", other, None, least, note)
    other = _pass(model, X, "cuda:0", tables="bfloat16", **options).seconds
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
        ours = _pass(bl.models.GLM(), (X, Y), "cuda:0", **options)
        spent = ours.seconds
        first = first or spent
        least = floor(4.0 * X.nnz * targets * 4, 4.0 * X.nnz * targets)
        note = _noted(ours, f"{spent / first:.2f} x 1 target")
        yield Row(f"GLM, {targets} targets: a pass", spent, None, least, note)


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
        ours = _pass(bl.models.ALS(rank=rank), R, "cuda:0", **options)
        spent = ours.seconds
        times = 2 * (3 + 1)  # both sides; three steps and a residual read each row of the table
        least = floor(4.0 * R.nnz * rank * times, 4.0 * R.nnz * rank * times)
        whole = spent * 100e6 / R.nnz
        yield Row(
            f"ALS, rank {rank}, {R.nnz:,} ratings: a pass",
            spent,
            None,
            least,
            _noted(
                ours,
                f"{whole:.2f} s for 100 M ratings (paper, rank 100, all passes: {PAPER_ALS:.0f} s)",
            ),
        )
