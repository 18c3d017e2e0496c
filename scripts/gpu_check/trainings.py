"""Measure passes of whole trainings by `Learner` on CPU and GPU. Needs pydantic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from scripts.benchmarks.data import power_law

from .measure import Row, Scale, floor

FEW, PASSES = 2, 10  # passes that are measured: the time of so many, and of so many more
TIMES = 3  # how often
NNZ = "non-zeros"
HASH = np.uint64(2654435761)  # multiplicative hashing (Knuth 6.4)
PAPER_LDA = 3.6e6  # documents an hour: BIDMach, K = 256
PAPER_ALS = 150.0  # seconds: BIDMach, rank 100, of the small Netflix data


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the rows of all models."""
    try:
        import blocklearn.models.base  # noqa: F401
    except ImportError as error:
        yield Row("trainings", note=f"not run: {error}")
        return
    for measured in (lda, others, glm, als, far):
        if not scale.late:
            yield from measured(scale)


class Spent(NamedTuple):
    """A later pass of a training.

    seconds: by the clock, without what a training begins and ends with.
    note: what the time went into, and what is wrong.
    """

    seconds: float
    gflops: float
    note: str


def _pass(model: Any, data: Any, device: str, **options: Any) -> Spent:
    """Train for two passes, which make all kernels and graphs; then measure, by the clock.

    A training begins with scores and ends with copies of what was learnt. So the time of a few
    passes is subtracted from that of more, three times; the note has the least and the most.
    """
    import blocklearn as bl

    learner = bl.Learner(model, data, passes=2, device=device, verbose=False, **options).fit()
    found = sorted(_further(learner) for _ in range(TIMES))
    seconds, work = found[TIMES // 2]
    assert learner.progress.allocations_after_warmup == 0
    shares = ", ".join(
        f"{part} {100 * getattr(work, part) / seconds:.0f} %"
        for part in ("read", "copy", "compute")
    )
    replays = device == "cpu" or learner.team.first.cache.backend.launcher.replays
    note = shares if replays else f"failed: no graph was replayed; {shares}"
    note += f"; {found[0][0] / PASSES * 1e3:.1f} to {found[-1][0] / PASSES * 1e3:.1f} ms"
    learner.close()
    return Spent(seconds / PASSES, 1e-9 * work.flops / seconds, note)


def _further(learner: Any) -> tuple[float, Any]:
    """Return the seconds and the work of `PASSES` passes, without what a training begins with."""
    clocks, works = [], []
    for passes in (FEW, FEW + PASSES):
        before, begun = learner.progress.work, time.perf_counter()
        learner.passes += passes
        works.append(learner.fit().progress.work - before)
        clocks.append(time.perf_counter() - begun)
    return max(clocks[1] - clocks[0], 1e-9), works[1] - works[0]


def _noted(spent: Spent, *more: str) -> str:
    return "; ".join([*more, spent.note])


def _pace(spent: Spent, count: int, unit: str) -> str:
    return f"{count / spent.seconds / 1e6:,.1f} M {unit}/s"


def documents(scale: Scale) -> Any:
    """Return word counts, [400,000 x 50,000] in full: the same 100,000 documents four times."""
    X = power_law(scale.of(100_000, 60), scale.of(50_000, 50))
    return sp.csr_array(sp.vstack([X] * 4, format="csr"))


def others(scale: Scale) -> Iterator[Row]:
    """Yield passes of the other inferences, and of NMF."""
    import blocklearn as bl

    X, k, rank = documents(scale), scale.of(256, 5), scale.of(100, 3)
    kept = {"assignments": "kept", "warm_up": 0, "fresh_passes": 0}
    made = {
        f"LDA, kept topics, K = {k}": bl.models.LDA(topics=k, **kept),
        f"LDA, gibbs, K = {k}": bl.models.LDA(topics=k, inference="gibbs", assignments="fresh"),
        f"LDA, cvb0, K = {k}": bl.models.LDA(topics=k, inference="cvb0"),
        f"NMF, {rank} parts": bl.models.NMF(components=rank),
    }
    for name, model in made.items():
        if scale.late:
            return
        spent = _pass(model, X, "cuda:0", block_rows=scale.of(8192, 30))
        yield Row(f"{name}: a pass", spent.seconds, note=_noted(spent, _pace(spent, X.nnz, NNZ)))


def lda(scale: Scale) -> Iterator[Row]:
    """Yield documents an hour at K = 256."""
    import blocklearn as bl

    X, k = documents(scale), scale.of(256, 5)
    model = bl.models.LDA(topics=k, inference="vb", inner_iterations=5)
    rows = scale.of(8192, 30)
    options = {"block_rows": rows}
    ours = _pass(model, X, "cuda:0", **options)
    part = X.shape[0] // 80 or 1
    cpu = _pass(model, X[:part], "cpu", **options).seconds
    spent, hourly = ours.seconds, X.shape[0] / ours.seconds * 3600
    least = floor(4.0 * X.nnz * k * 7, 4.0 * X.nnz * k * 6)
    yield Row(
        f"LDA, vb, K = {k}, V = {X.shape[1]:,}: a pass",
        spent,
        cpu * X.shape[0] / part,
        least,
        _noted(
            ours,
            _pace(ours, X.nnz, NNZ),
            f"{hourly:,.0f} documents/h, {hourly / PAPER_LDA:.1f} x the paper",
            f"{ours.gflops:,.0f} gflops",
        ),
    )
    stays = bl.datasources.MatrixSource(X, block_rows=rows, shuffle="blocks")
    variants: dict[str, tuple[Any, dict[str, Any]]] = {
        "blocks that stay the same": (stays, {}),
        "index: host": (X, {"index": "host", **options}),
        "tables: bfloat16": (X, {"tables": "bfloat16", **options}),
        f"blocks of {4 * rows:,} rows": (X, {"block_rows": 4 * rows}),
    }
    for name, (data, chosen) in variants.items():
        if scale.late:
            return
        other = _pass(model, data, "cuda:0", **chosen)
        note = _noted(other, f"{spent / other.seconds:.2f} x as fast", _pace(other, X.nnz, NNZ))
        yield Row(f"the same with {name}", other.seconds, note=note)


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
        first = first or ours.seconds
        least = floor(4.0 * X.nnz * targets * 4, 4.0 * X.nnz * targets)
        note = _noted(ours, _pace(ours, n, "rows"), f"{ours.seconds / first:.2f} x 1 target")
        yield Row(f"GLM, {targets} targets: a pass", ours.seconds, None, least, note)


def far(scale: Scale) -> Iterator[Row]:
    """Yield passes of a GLM of hashed features, with all and parts of its tables on the card."""
    import blocklearn as bl

    n, targets, features = scale.of(200_000, 60), scale.of(4, 2), scale.of(1 << 26, 1 << 9)
    X, rng = power_law(n, scale.of(1 << 22, 50)), np.random.default_rng(0)
    columns = (X.indices.astype(np.uint64) * HASH) % np.uint64(features)
    X = sp.csr_array((X.data, columns.astype(np.int32), X.indptr), shape=(n, features))
    X.sum_duplicates()
    Y = (rng.random((n, targets)) < 0.1).astype(np.float32)
    options = {"block_rows": scale.of(8192, 30), "optimizer": bl.optimizers.AdaGrad()}
    tables, whole = 8 * features * targets, None
    for share in (1.0, 0.1, 0.01):
        if scale.late:
            return
        most = None if share == 1.0 else int(share * tables)
        ours = _pass(bl.models.GLM(), (X, Y), "cuda:0", device_tables=most, **options)
        whole = whole or ours.seconds
        name = f"GLM, {features:,} features, {targets} targets, {share:.0%} of tables on the card"
        note = _noted(ours, _pace(ours, n, "rows"), f"{whole / ours.seconds:.2f} x all on the card")
        yield Row(f"{name}: a pass", ours.seconds, note=note)


def als(scale: Scale) -> Iterator[Row]:
    """Yield a pass (users, then items) on data of the shape of Netflix's, with fewer ratings."""
    import blocklearn as bl

    users, items, ratings = scale.of(480_189, 50), scale.of(17_770, 30), scale.of(40_000_000, 400)
    rng = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.cumsum(rng.poisson(ratings / users, users))])
    columns = (items * rng.random(indptr[-1], np.float32) ** 2).astype(np.int32)
    R = sp.csr_array((np.ones(indptr[-1], np.float32), columns, indptr), shape=(users, items))
    R.sum_duplicates()
    R.data[:] = rng.integers(1, 6, R.nnz)
    runs = [(scale.of(100, 3), "cg"), (scale.of(100, 3), "cholesky"), (scale.of(20, 2), "cg")]
    for rank, solver in [*runs, (scale.of(1000, 4), "cg")]:
        if scale.late:
            return
        model = bl.models.ALS(rank=rank, solver=solver)
        ours = _pass(model, R, "cuda:0", block_rows=scale.of(16384, 20))
        if solver == "cg":
            times = 2 * (3 + 1)  # both sides; three steps and a residual read each row of the table
            least = floor(4.0 * R.nnz * rank * times, 4.0 * R.nnz * rank * times)
        else:
            moved = 8.0 * R.nnz * rank
            least = floor(moved, 2.0 * R.nnz * rank**2 + (users + items) * rank**3 / 3)
        whole = ours.seconds * 100e6 / R.nnz
        pace = f"{whole:.3f} s for 100 M ratings (paper, rank 100, all passes: {PAPER_ALS:.0f} s)"
        name = f"ALS, {solver}, rank {rank}, {R.nnz:,} ratings: a pass"
        yield Row(name, ours.seconds, None, least, _noted(ours, pace))
