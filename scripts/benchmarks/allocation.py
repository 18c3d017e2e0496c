"""What does it cost to allocate results for every block instead of finding them in the cache?

    scripts/bench allocation --data acl/docword.npz --rounds 21

AMD EPYC 2.6 GHz (AVX-512), 2 threads, 2026-11-21, quiet. K=100, blocks of 1,024 random documents.
Milliseconds per block, ratio of pairs, bytes allocated per block (0 with the cache on):

                                    on      off    off / on    allocated when off
    LDA update, vb                2.93     3.08        1.05               374,112
    LDA update, cvb0              3.35     3.47        1.04               373,696
    LDA update, gibbs            15.89    21.38        1.30            30,655,992
    exp(A) * B + A, 10,000       0.066    0.077        1.16                40,016
    exp(A) * B + A, 10,000,000    2.51     5.25        2.15            40,000,264
    A @ B, 16,384 x 100 x 100     2.72     1.98        0.71             6,553,560
    X.T @ A, 14,391 x 1,024 x 100 0.354    0.422       1.19             5,757,984

Large results that are cheap to compute gain the factor of 2 to 5 of BIDMach's paper. An LDA update
gains 4 to 30 %: expressions are fused, so few results are left to allocate.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, get_args

import numpy as np

import blocklearn
from blocklearn.datasources import HostBlock, MatrixSource
from blocklearn.matcache import (
    DenseInput,
    MatCache,
    SparseInput,
    exp,
    from_array,
    from_sparse,
    named,
)
from blocklearn.models import LDA, Block, Randomness, Shapes

from .data import facts, load, power_law
from .machine import describe
from .report import Ratio, Report, Row, table
from .turns import seconds_of, times_in_turns

PEER_NAMES = ("numpy",)  # the same expression in plain NumPy: a temporary for each operator
Call = Callable[[], Any]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz, SciPy CSR, documents x words; default: "
                        "random documents by Zipf's law")  # fmt: skip
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1024, help="documents of a block")
    parser.add_argument("--rounds", type=int, default=15, help="pairs of runs; the median counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Measure LDA's update and single expressions, with the cache on and off in turns."""
    if args.quick:
        args.topics, args.batch, args.rounds = 8, 64, 2
    if args.data is None:
        X, name = power_law(4 * args.batch, 14_391), "power law"
    else:
        X, name = load(args.data, 4 * args.batch)
    report = Report("allocation", "one block", facts(X, name), describe())
    for inference in get_args(LDA.model_fields["inference"].annotation):
        calls, caches = lda_update(X, inference, args)
        compare(report, f"LDA update, {inference}", calls, caches, args.rounds)
    for elements in (10_000,) if args.quick else (10_000, 100_000, 1_000_000, 10_000_000):
        calls, caches = elementwise(elements, args.threads, peers)
        compare(report, f"exp(A) * B + A, {elements:,} elements", calls, caches, args.rounds)
    for rows in (args.batch,) if args.quick else (args.batch, 16 * args.batch):
        calls, caches = dense_product(rows, args.topics, args.threads, peers)
        label = f"A @ B, {rows:,} x {args.topics} x {args.topics}"
        compare(report, label, calls, caches, args.rounds)
    block = X[: args.batch]
    calls, caches = sparse_product(block, args.topics, args.threads, peers)
    label = f"X.T @ A, {block.shape[1]:,} x {block.shape[0]:,} x {args.topics}"
    compare(report, label, calls, caches, args.rounds)
    report.machine["load_after"] = describe()["load_before"]
    return report


def compare(
    report: Report, case: str, calls: dict[str, Call], caches: dict[str, CountingCache], rounds: int
) -> None:
    """Time the calls in turns, count their allocations, and add rows and ratios."""
    for call in calls.values():  # compiles and fills the cache
        call()
        call()
    caches["cache on"].freeze()  # an allocation is an error from here on
    repeats = max(1, min(200, int(0.02 / (seconds_of(calls["cache on"]) + 1e-9))))
    timed = {name: partial(seconds_of, call, repeats) for name, call in calls.items()}
    times = times_in_turns(timed, rounds)
    for name, call in calls.items():
        cache = caches.get(name)
        arrays, bytes_ = (cache.stats().allocations, cache.allocated) if cache else (0, 0)
        quality: dict[str, Any] = {"peak_bytes": traced_peak(call)}
        if cache:
            quality["allocated_bytes"] = cache.allocated - bytes_
            quality["allocations"] = cache.stats().allocations - arrays
        version = np.__version__ if name == "numpy" else blocklearn.__version__
        settings = {"case": case, "repeats": repeats}
        report.rows.append(Row(name, version, settings, median(times[name]), quality))
        if name != "cache on":
            pairs = [a / b for a, b in zip(times[name], times["cache on"], strict=True)]
            note = f"median of {rounds} pairs, {min(pairs):.2f} to {max(pairs):.2f}"
            value = round(median(pairs), 3)
            report.ratios.append(Ratio(f"seconds, {case}", name, "cache on", value, note))
    for cache in caches.values():
        cache.close()


def traced_peak(call: Call) -> int:
    """Return the bytes that tracemalloc saw one call add at most."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


class CountingCache(MatCache):
    """A cache that adds up its allocations, including those that were freed."""

    allocated = 0  # bytes

    def result(self, key: Any, shape: tuple[int, int], dtype: Any, label: str) -> Any:
        """Return the container for the result `key`, and count a new one."""
        before = self.stats().allocations
        slot = super().result(key, shape, dtype, label)
        if self.stats().allocations > before:
            self.allocated += slot.nbytes
        return slot


def both_caches(threads: int) -> dict[str, CountingCache]:
    """Return the two compared caches by the name of their row."""
    return {
        "cache on": CountingCache(threads=threads),
        "cache off": CountingCache(threads=threads, enabled=False),
    }


def lda_update(
    X: Any, inference: Any, args: argparse.Namespace
) -> tuple[dict[str, Call], dict[str, CountingCache]]:
    """Return training steps on blocks of X in memory, as the learner makes them."""
    source = MatrixSource(X, block_rows=args.batch)
    blocks = [HostBlock(source.shape) for _ in range(source.blocks)]
    for index, block in enumerate(blocks):
        source.read(0, index, block)
    caches = both_caches(args.threads)
    steps = {
        name: Step(cache, LDA(topics=args.topics, inference=inference), blocks)
        for name, cache in caches.items()
    }
    return dict(steps), caches


class Step:
    """Called, it trains a model on the next block, starting over after the last one."""

    def __init__(self, cache: MatCache, model: LDA, blocks: list[HostBlock]) -> None:
        shape = blocks[0].shape
        self.model, self.blocks, self.at = model, blocks, 0
        model.attach(cache)
        model.allocate(Shapes(shape.rows, shape.columns, shape.total_rows), Randomness(cache, 0))
        self.optimizer = model.default_optimizer()
        self.optimizer.attach(cache, model.parameters)
        self.X = SparseInput(cache, "X", shape.rows, shape.columns, shape.nnz)
        self.row_ids = DenseInput(cache, "row_ids", (shape.rows, 1), np.int64)
        self.key = named(cache, "key of the block", (1, 3), np.int64)
        self.weights = from_array(cache, np.ones((shape.rows, 1), np.float32), "weights")

    def __call__(self) -> None:
        """Bind the block, update, step."""
        host = self.blocks[self.at]
        self.at = (self.at + 1) % len(self.blocks)
        X = self.X.bind(
            indptr=host.indptr, indices=host.indices, values=host.values, active=host.active,
            active_count=host.n_active, starts=host.starts, t_rows=host.t_rows, t_pos=host.t_pos,
        )  # fmt: skip
        row_ids = self.row_ids.bind(host.row_ids.reshape(-1, 1))
        self.key.set(np.array([[0, host.pass_, host.index]]))
        self.model.updates.clear()
        self.model.update(Block(X, host.rows, row_ids, self.key, Y=None, weights=self.weights))
        self.optimizer.step(self.model.parameters, self.model.updates)


def elementwise(
    elements: int, threads: int, peers: list[str]
) -> tuple[dict[str, Call], dict[str, CountingCache]]:
    """Return exp(A) * B + A, where A is a new block at each call."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, elements // 100, 100), dtype=np.float32)

    def with_cache(cache: MatCache) -> Call:
        block, B = DenseInput(cache, "A", a.shape, np.float32), from_array(cache, b, "B")

        def call() -> Any:
            A = block.bind(a)
            return (exp(A) * B + A).mat()

        return call

    return variants(with_cache, threads, peers, lambda: np.exp(a) * b + a)


def dense_product(
    rows: int, k: int, threads: int, peers: list[str]
) -> tuple[dict[str, Call], dict[str, CountingCache]]:
    """Return A @ B, where A is a new block at each call."""
    rng = np.random.default_rng(0)
    a, b = rng.random((rows, k), dtype=np.float32), rng.random((k, k), dtype=np.float32)

    def with_cache(cache: MatCache) -> Call:
        block, B = DenseInput(cache, "A", a.shape, np.float32), from_array(cache, b, "B")
        return lambda: (block.bind(a) @ B).mat()

    return variants(with_cache, threads, peers, lambda: a @ b)


def sparse_product(
    X: Any, k: int, threads: int, peers: list[str]
) -> tuple[dict[str, Call], dict[str, CountingCache]]:
    """Return X.T @ A, the shape of a gradient: X sparse, A a new block at each call."""
    a = np.random.default_rng(0).random((X.shape[0], k), dtype=np.float32)

    def with_cache(cache: MatCache) -> Call:
        block, x = DenseInput(cache, "A", a.shape, np.float32), from_sparse(cache, X, "X")
        return lambda: (x.T @ block.bind(a)).mat()

    return variants(with_cache, threads, peers, lambda: X.T @ a)


def variants(
    with_cache: Callable[[MatCache], Call], threads: int, peers: list[str], plain: Call
) -> tuple[dict[str, Call], dict[str, CountingCache]]:
    """Return the expression with the cache on, off, and in NumPy if that is wanted."""
    caches = both_caches(threads)
    calls = {name: with_cache(cache) for name, cache in caches.items()}
    if "numpy" in peers:
        calls["numpy"] = plain
    return calls, caches


def show(report: Report) -> str:
    """Return one line per case and system."""
    ratio = {(r.name, r.of): (r.value, r.note) for r in report.ratios}
    lines = []
    for row in report.rows:
        case = row.settings["case"]
        value, _ = ratio.get((f"seconds, {case}", row.system), (None, ""))
        quality = row.quality
        lines.append(
            [
                case, row.system, row.seconds * 1e3, quality.get("allocations"),
                quality.get("allocated_bytes"), quality["peak_bytes"], value,
            ]
        )  # fmt: skip
    head = ["case", "system", "ms/block", "arrays", "bytes/block", "traced peak", "/ cache on"]
    return f"{table(head, lines)}\n\nload {report.machine['load_before']}"
