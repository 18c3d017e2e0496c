"""Is generated code as fast as a handwritten kernel for the same E-step of LDA?

    scripts/bench kernels --data acl/docword.npz --rounds 21

AMD EPYC 2.6 GHz (AVX-512), one thread of two cores, 2026-11-21, quiet. 1,024 abstracts, 76,433
non-zeros, 20 iterations; 4 flops per non-zero, topic and iteration.

                         K=32            K=100           K=256
    inference          vb  cvb0        vb  cvb0        vb  cvb0
    generated          38    42        58    69        85   101    gflops
    hand-blocked       39    42        58    70        90   103    gflops
    hand-plain          5     5        36    38        52    56    gflops
    generated / hand 1.00  1.01      1.00  1.02      1.07  1.03    seconds, to hand-blocked

Yes: within 7 % of a kernel blocked by hand, and 1.6 to 1.8 times as fast as plain loops (8 times at
K=32; the cause is unknown). SGEMM reaches 133 gflops. The rows of the table that a document
needs stay in the first two caches over its iterations, so main memory (44 GB/s) is not the limit.

Layout decides everything: the same hand kernel on a table in Fortran order takes 20 times as long,
so all systems get C order and 64-byte alignment.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numba
import numpy as np

import blocklearn
from blocklearn.matcache import MatCache, from_array, from_sparse, named
from blocklearn.models.lda.inference import infer_cvb0, infer_vb

from .data import aligned, facts, load, power_law
from .hand_kernels import HAND, table_reader
from .machine import best_seconds, describe, limits
from .report import Ratio, Report, Row, table
from .turns import seconds_of, times_in_turns

PEER_NAMES = tuple(HAND)
GENERATED = {"vb": infer_vb, "cvb0": infer_cvb0}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz, SciPy CSR, documents x words; default: "
                        "random documents by Zipf's law, as long as abstracts")  # fmt: skip
    parser.add_argument("--topics", type=int, nargs="+", default=[32, 100, 256])
    parser.add_argument("--documents", type=int, default=1024, help="of the block that is timed")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=15, help="pairs of runs; the median counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Time every kernel on one block, in one thread, in turns."""
    if args.quick:
        args.topics, args.documents, args.iterations, args.rounds = [32], 64, 3, 2
    if args.data is None:
        X, name = power_law(args.documents, 14_391), "power law"
    else:
        X, name = load(args.data, args.documents)
    report = Report(
        "kernels",
        f"one E-step of the block, {args.iterations} iterations, one thread",
        facts(X, name),
        describe() | limits(quick=args.quick),
    )
    for topics in args.topics:
        report.machine[f"table_read_gb_per_s_{topics}"] = table_speed(X, topics, args.iterations)
        for inference in GENERATED:
            case(report, X, topics, inference, peers, args)
    report.machine["load_after"] = describe()["load_before"]
    return report


def case(
    report: Report, X: Any, topics: int, inference: str, peers: list[str], args: argparse.Namespace
) -> None:
    """Measure all systems for one number of topics and one inference."""
    rng = np.random.default_rng(0)
    phi = aligned((rng.dirichlet(np.full(X.shape[1], 0.1), topics).T + 1e-9).astype(np.float32))
    alpha, iterations = np.full((1, topics), 0.1, np.float32), args.iterations
    systems = {"generated": generated(X, phi, alpha, inference, iterations)}
    for peer in peers:
        systems[peer] = by_hand(HAND[peer](topics, inference), X, phi, alpha, iterations)
    results = {name: system() for name, system in systems.items()}  # compiles, too
    reference = np.linalg.norm(results["generated"])
    for name in peers:
        error = np.linalg.norm(results[name] - results["generated"]) / reference
        if not error < 1e-3:  # float32, other orders of summation, many iterations
            raise ValueError(f"{name}: theta differs from the generated kernel's by {error:.1e}.")
    timed = {name: partial(seconds_of, system) for name, system in systems.items()}
    times = times_in_turns(timed, args.rounds)
    flops = 4 * X.nnz * topics * iterations
    for name, seconds in times.items():
        middle = median(seconds)
        gflops = flops / middle / 1e9
        version = blocklearn.__version__ if name == "generated" else f"numba {numba.__version__}"
        quality = {
            "gflops": round(gflops, 2),
            "share_of_sgemm": round(gflops / report.machine["sgemm_gflops"], 3),
            # a row of phi is read once per non-zero and iteration: 4 flops for 4 bytes
            "table_gb_per_s": round(gflops, 2),
            "best_seconds": min(seconds),
        }
        settings = {"inference": inference, "topics": topics, "iterations": iterations}
        report.rows.append(Row(name, version, settings, middle, quality))
        if name != "generated":
            pairs = [a / b for a, b in zip(times["generated"], seconds, strict=True)]
            label = f"seconds, {inference}, K={topics}"
            note = f"median of {len(pairs)} pairs, {min(pairs):.2f} to {max(pairs):.2f}"
            report.ratios.append(Ratio(label, "generated", name, round(median(pairs), 3), note))


def generated(X: Any, phi: Any, alpha: Any, inference: str, iterations: int) -> Callable[[], Any]:
    """Return a call of the model's own function, from Mats to the ratio on the non-zeros."""
    cache = MatCache(threads=1)
    x = from_sparse(cache, X)
    theta = named(cache, "theta", (X.shape[0], phi.shape[1]))
    tables = from_array(cache, phi, "phi"), from_array(cache, alpha, "alpha")

    def call() -> Any:
        nonlocal theta
        theta <<= 1.0
        GENERATED[inference](x, theta, *tables, iterations)
        return theta.slot.array

    return call


def by_hand(kernel: Any, X: Any, phi: Any, alpha: Any, iterations: int) -> Callable[[], Any]:
    """Return a call of a hand-written kernel on the same numbers, with all buffers allocated.

    The buffers lie as the cache's do, C-ordered from a multiple of 64 bytes. In Fortran order the
    same kernel takes 20 times as long, off the boundary up to 1.5 times.
    """
    theta = aligned(np.ones((X.shape[0], phi.shape[1]), np.float32))
    buffers = [
        aligned(X.indptr.astype(np.int64)), aligned(X.indices.astype(np.int32)),
        aligned(X.data), theta, aligned(phi), aligned(alpha), iterations,
        aligned(np.zeros(X.nnz, np.float32)), aligned(np.zeros(phi.shape[1], np.float32)),
    ]  # fmt: skip

    def call() -> Any:
        theta.fill(1.0)
        kernel(*buffers)
        return theta

    return call


def table_speed(X: Any, topics: int, iterations: int) -> float:
    """Return the GB/s at which one thread reads the rows of a table that X names."""
    read, phi = table_reader(topics), aligned(np.ones((X.shape[1], topics), np.float32))
    indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int32)
    sums = aligned(np.zeros(topics, np.float32))
    read(indptr, indices, phi, 1, sums)
    seconds = best_seconds(lambda: read(indptr, indices, phi, iterations, sums), 5)
    rows = int((np.diff(indptr) // 4 * 4).sum())  # it leaves out incomplete groups of four
    return round(4 * rows * topics * iterations / seconds / 1e9, 1)


def show(report: Report) -> str:
    """Return tables of speeds and of the machine's limits."""
    ratio = {(r.name, r.to): r.value for r in report.ratios}
    lines = []
    for row in report.rows:
        inference, topics = row.settings["inference"], row.settings["topics"]
        against = ratio.get((f"seconds, {inference}, K={topics}", row.system))
        limit = report.machine[f"table_read_gb_per_s_{topics}"]
        share = round(100 * row.quality["share_of_sgemm"])
        lines.append([
            row.system, inference, topics, row.seconds * 1e3, row.quality["gflops"], share,
            round(100 * row.quality["table_gb_per_s"] / limit), against,
        ])  # fmt: skip
    head = ["kernel", "inference", "K", "ms", "gflops", "% SGEMM", "% reads", "generated / it"]
    machine = report.machine
    reads = ", ".join(
        f"{value} at K={name.rpartition('_')[2]}"
        for name, value in machine.items()
        if name.startswith("table_read")
    )
    return (
        f"{table(head, lines)}\n\none thread: SGEMM {machine['sgemm_gflops']} gflops, copy "
        f"{machine['copy_gb_per_s']} GB/s, reading the rows of the table {reads} GB/s; "
        f"{report.data['nnz']:,} non-zeros; load {machine['load_before']}"
    )
