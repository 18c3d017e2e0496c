"""What does it cost to allocate results anew for every block, instead of finding them in the cache?

RESULT_PLACEHOLDER
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, get_args

import numpy as np

import blocklearn
from blocklearn.datasources import HostBlock, MatrixSource
from blocklearn.learner.replica import Replica
from blocklearn.matcache import DenseInput, MatCache, exp, from_array, from_sparse
from blocklearn.models import LDA

from .data import facts, load, power_law
from .machine import describe
from .report import Ratio, Report, Row, table

PEER_NAMES = ("numpy",)  # the same expression in plain NumPy: a temporary for each operator
Call = Callable[[], Any]


def options(parser: argparse.ArgumentParser) -> None:
    """What this task can be told, besides what all can."""
    parser.add_argument("--data", type=Path, help=".npz, SciPy CSR, documents x words; default: "
                        "random documents by Zipf's law")  # fmt: skip
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1024, help="documents of a block")
    parser.add_argument("--rounds", type=int, default=15, help="pairs of runs; the median counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """LDA's update, then single expressions; the cache on and off in turns."""
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
    report: Report, case: str, calls: dict[str, Call], caches: dict[str, MatCache], rounds: int
) -> None:
    """Time the calls in turns, count what they allocate, and add rows and ratios."""
    for call in calls.values():  # compiles and fills the cache
        call()
        call()
    start = time.perf_counter()
    calls["cache on"]()
    repeats = max(1, min(200, int(0.02 / (time.perf_counter() - start + 1e-9))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        order = list(calls.items())[:: 1 if turn % 2 else -1]  # nobody always runs after another
        for name, call in order:
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            times[name].append((time.perf_counter() - start) / repeats)
    for name, call in calls.items():
        cache = caches.get(name)
        before = None if cache is None else cache.stats()
        peak = traced_peak(call)
        quality: dict[str, Any] = {"peak_bytes": peak}
        if cache is not None and before is not None:
            after = cache.stats()
            quality["allocated_bytes"] = after.bytes - before.bytes
            quality["allocations"] = after.allocations - before.allocations
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
    """Bytes that one call held at most beyond what was there before, as tracemalloc sees it."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def lda_update(
    X: Any, inference: str, args: argparse.Namespace
) -> tuple[dict[str, Call], dict[str, MatCache]]:
    """A training step on the blocks of X in turn, already read; what the learner does per block."""
    source = MatrixSource(X, block_rows=args.batch)
    blocks = [HostBlock(source.shape) for _ in range(source.blocks)]
    for index, block in enumerate(blocks):
        source.read(0, index, block)
    calls: dict[str, Call] = {}
    caches: dict[str, MatCache] = {}
    for name in ("cache on", "cache off"):
        model = LDA(topics=args.topics, inference=inference)
        optimizer = model.default_optimizer()
        replica = Replica(model, optimizer, source.shape, seed=0, threads=args.threads)
        if name == "cache off":  # parameters and inputs stay where they are, results do not
            replica.cache.thaw()
            replica.cache.enabled = False
        caches[name] = replica.cache
        calls[name] = step_caller(replica, blocks)
    return calls, caches


def step_caller(replica: Replica, blocks: list[HostBlock]) -> Call:
    """A call that trains on the next block, from the first again after the last."""
    at = 0

    def call() -> None:
        nonlocal at
        replica.update(replica.bind(blocks[at]))
        at = (at + 1) % len(blocks)

    return call


def elementwise(
    elements: int, threads: int, peers: list[str]
) -> tuple[dict[str, Call], dict[str, MatCache]]:
    """exp(A) * B + A, where A is a block that is new at each call."""
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
) -> tuple[dict[str, Call], dict[str, MatCache]]:
    """A @ B, where A is a block that is new at each call."""
    rng = np.random.default_rng(0)
    a, b = rng.random((rows, k), dtype=np.float32), rng.random((k, k), dtype=np.float32)

    def with_cache(cache: MatCache) -> Call:
        block, B = DenseInput(cache, "A", a.shape, np.float32), from_array(cache, b, "B")
        return lambda: (block.bind(a) @ B).mat()

    return variants(with_cache, threads, peers, lambda: a @ b)


def sparse_product(
    X: Any, k: int, threads: int, peers: list[str]
) -> tuple[dict[str, Call], dict[str, MatCache]]:
    """X.T @ A for a sparse X, where A is a block that is new at each call: a gradient's shape."""
    a = np.random.default_rng(0).random((X.shape[0], k), dtype=np.float32)

    def with_cache(cache: MatCache) -> Call:
        block, x = DenseInput(cache, "A", a.shape, np.float32), from_sparse(cache, X, "X")
        return lambda: (x.T @ block.bind(a)).mat()

    return variants(with_cache, threads, peers, lambda: X.T @ a)


def variants(
    with_cache: Callable[[MatCache], Call], threads: int, peers: list[str], plain: Call
) -> tuple[dict[str, Call], dict[str, MatCache]]:
    """The same expression with the cache on, off, and in NumPy where that is asked for."""
    caches = {
        "cache on": MatCache(threads=threads),
        "cache off": MatCache(threads=threads, enabled=False),
    }
    calls = {name: with_cache(cache) for name, cache in caches.items()}
    if "numpy" in peers:
        calls["numpy"] = plain
    return calls, caches


def show(report: Report) -> str:
    """One line per case and system."""
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
