"""How fast are the operations of Table 1 of the BIDMach paper, beside NumPy and SciPy?

    scripts/bench table1 --rounds 7

AMD EPYC 2.6 GHz, 2 threads, 2026-11-22, beside other programs (load 6), medians of three pairs:
SGEMM of 2,048: 119 gflops, 1.35 times NumPy's seconds; a sparse matrix of 5 M non-zeros times 1 and
256 columns: 0.66 and 0.09 of SciPy's; sampled products 0.05; sorts of rows 0.99 on one thread, on
two 0.50 to 0.74 of that; random numbers 0.38; log(exp(x)) 1.57.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import numpy as np
import scipy

import blocklearn
from blocklearn.matcache import MatCache, available_threads

from .data import facts
from .machine import describe, limits
from .operations import OPERATIONS, Operation, matrix
from .report import Ratio, Report, Row, table

PEER_NAMES = ("numpy",)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--threads", type=int, default=available_threads(), help="of ours")
    parser.add_argument("--rounds", type=int, default=7, help="pairs of runs; the median counts")
    parser.add_argument("--part", type=int, default=4, help="sizes are those for a GPU, over this")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Time each operation, ours and that of NumPy or SciPy in turns."""
    if args.quick:
        args.rounds = 2

    def size(full: int, quick: int) -> int:
        return quick if args.quick else max(quick, full // args.part)

    machine = describe() | limits(quick=args.quick)
    data = facts(matrix(size), "columns at random") | {"threads": args.threads}
    report = Report("table1", "one operation", data, machine)
    for name, make in OPERATIONS.items():
        with MatCache(threads=args.threads) as cache:
            measure(report, name, make(cache, size), args.rounds, peers)
    return report


def measure(report: Report, name: str, work: Operation, rounds: int, peers: list[str]) -> None:
    """Add the rows and the ratio of an operation.

    Raises:
        ValueError: the results differ.
    """
    systems = {"blocklearn": lambda: work.run().slot.data()}
    if peers:
        systems["numpy"] = work.plain
    results = {system: call() for system, call in systems.items()}  # compiles, too
    if peers and name != "random numbers":
        check(name, results)
    times: dict[str, list[float]] = {system: [] for system in systems}
    for turn in range(rounds):
        for system in list(systems)[:: 1 if turn % 2 else -1]:
            begun = time.perf_counter()
            systems[system]()
            times[system].append(time.perf_counter() - begun)
    versions = {
        "blocklearn": blocklearn.__version__,
        "numpy": f"NumPy {np.__version__}, SciPy {scipy.__version__}",
    }
    for system, seconds in times.items():
        middle = median(seconds)
        quality = {
            "gflops": work.flops / middle / 1e9 if work.flops else None,
            "gb_per_s": work.nbytes / middle / 1e9,
        }
        report.rows.append(Row(system, versions[system], {"operation": name}, middle, quality))
    if peers:
        pairs = [a / b for a, b in zip(times["blocklearn"], times["numpy"], strict=True)]
        report.ratios.append(
            Ratio(f"seconds, {name}", "blocklearn", "numpy", round(median(pairs), 3))
        )


def check(name: str, results: dict[str, Any]) -> None:
    """Raise ValueError if ours differs from NumPy's by more than float32 allows."""
    ours, theirs = (results[system].reshape(-1) for system in ("blocklearn", "numpy"))
    error = np.abs(ours - theirs).max() / np.abs(theirs).max()
    if not error < 1e-4:
        raise ValueError(f"{name}: the result differs from NumPy's by {error:.1e} of the largest.")


def show(report: Report) -> str:
    """Return a table."""
    ratios = {ratio.name.removeprefix("seconds, "): ratio.value for ratio in report.ratios}
    lines = []
    for row in report.rows:
        if row.system != "blocklearn":
            continue
        name = row.settings["operation"]
        theirs = [r for r in report.rows if r.settings == row.settings and r is not row]
        lines.append([
            name, row.seconds * 1e3, theirs[0].seconds * 1e3 if theirs else None,
            ratios.get(name), row.quality["gflops"], row.quality["gb_per_s"],
        ])  # fmt: skip
    head = ["", "ms", "NumPy ms", "ours / NumPy", "gflops", "GB/s"]
    machine = report.machine
    return (
        f"{table(head, lines)}\n\n{report.data['threads']} threads; one thread: SGEMM "
        f"{machine['sgemm_gflops']} gflops, copy {machine['copy_gb_per_s']} GB/s; "
        f"load {machine['load_before']}"
    )
