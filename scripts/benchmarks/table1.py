"""How fast are the operations of Table 1 of the BIDMach paper, beside NumPy and SciPy?

    scripts/bench table1 --rounds 7

Where there is a CUDA device, it computes the same; `--part 1` has sizes that fill it. No figure of
one is known: there was none.

AMD EPYC 2.6 GHz, 2 threads, 2026-11-22, beside other programs (load 6), medians of three pairs:
SGEMM of 2,048: 119 gflops, 1.35 times NumPy's seconds; a sparse matrix of 5 M non-zeros times 1 and
256 columns: 0.66 and 0.09 of SciPy's; sampled products 0.05; sorts of rows 0.99 on one thread, on
two 0.50 to 0.74 of that; random numbers 0.38; log(exp(x)) 1.57.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import scipy

import blocklearn
from blocklearn.matcache import MatCache, available_threads, make_backend
from blocklearn.matcache.devices import resolve

from .data import facts
from .machine import describe, limits
from .operations import OPERATIONS, Operation, matrix
from .report import Ratio, Report, Row, table
from .turns import times_in_turns

PEER_NAMES = ("numpy",)
QUEUED = 8  # calls that a device is given at a time


class System(NamedTuple):
    """What computes an operation.

    run: computes it once. wait: returns when that is done. numbers: of a result, as an array.
    calls: that are timed together.
    """

    version: str
    run: Callable[[], Any]
    wait: Callable[[], None] = lambda: None
    numbers: Callable[[Any], Any] = lambda result: result
    calls: int = 1

    def seconds(self) -> float:
        """Return the seconds of a call."""
        begun = time.perf_counter()
        for _ in range(self.calls):
            self.run()
        self.wait()
        return (time.perf_counter() - begun) / self.calls


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--threads", type=int, default=available_threads(), help="of ours")
    parser.add_argument("--rounds", type=int, default=7, help="pairs of runs; the median counts")
    parser.add_argument("--part", type=int, default=4, help="sizes are those for a GPU, over this")
    parser.add_argument("--device", default="auto", help="a GPU to measure as well, or cpu: none")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Time each operation in turns: ours, on a device if there is one, and NumPy's or SciPy's."""
    if args.quick:
        args.rounds = 2
    device = resolve(args.device)

    def size(full: int, quick: int) -> int:
        return quick if args.quick else max(quick, full // args.part)

    machine = describe() | limits(quick=args.quick)
    data = facts(matrix(size), "columns at random") | {"threads": args.threads, "device": device}
    report = Report("table1", "one operation", data, machine)
    for name, make in OPERATIONS.items():
        with MatCache(threads=args.threads) as cache, cache_on(device) as there:
            work = make(cache, size)
            systems = {"blocklearn": ours(cache, work)}
            if there is not None:
                systems[device] = ours(there, make(there, size))
            if peers:
                versions = f"NumPy {np.__version__}, SciPy {scipy.__version__}"
                systems["numpy"] = System(versions, work.plain)
            measure(report, name, work, systems, args.rounds)
    return report


@contextmanager
def cache_on(device: str) -> Iterator[MatCache | None]:
    """Yield a cache on a GPU, or None."""
    if device == "cpu":
        yield None
        return
    with MatCache(backend=make_backend(device, None)) as cache:
        yield cache


def ours(cache: MatCache, work: Operation) -> System:
    """Return how a cache computes an operation."""
    backend, version = cache.backend, blocklearn.__version__

    def numbers(found: Any) -> Any:
        return backend.host(found.slot.array)

    if backend.kind == "cpu":
        return System(version, work.run, numbers=numbers)
    return System(version, work.run, backend.drain, numbers, QUEUED)


def measure(
    report: Report, name: str, work: Operation, systems: dict[str, System], rounds: int
) -> None:
    """Add the rows and the ratios of an operation.

    Raises:
        ValueError: the results differ.
    """
    results = {}
    for label, system in systems.items():
        results[label] = system.numbers(system.run())  # compiles, too
        if label != "blocklearn" and (label, name) != ("numpy", "random numbers"):
            check(name, results["blocklearn"], results[label], label)
    times = times_in_turns({label: system.seconds for label, system in systems.items()}, rounds)
    for label, seconds in times.items():
        middle = median(seconds)
        quality = {
            "gflops": work.flops / middle / 1e9 if work.flops else None,
            "gb_per_s": work.nbytes / middle / 1e9,
        }
        settings = {"operation": name}
        report.rows.append(Row(label, systems[label].version, settings, middle, quality))
        if label != "blocklearn":
            pairs = [a / b for a, b in zip(times["blocklearn"], seconds, strict=True)]
            report.ratios.append(
                Ratio(f"seconds, {name}", "blocklearn", label, round(median(pairs), 3))
            )


def check(name: str, expected: Any, found: Any, label: str) -> None:
    """Raise ValueError if two results differ by more than float32 allows."""
    expected, found = expected.reshape(-1), found.reshape(-1)
    error = np.abs(expected - found).max() / np.abs(expected).max()
    if not error < 1e-4:
        raise ValueError(
            f"{name}: {label}'s result differs from ours by {error:.1e} of the largest."
        )


def show(report: Report) -> str:
    """Return a table."""
    device = report.data["device"]
    head, others = ["", "ms", "gflops", "GB/s"], []
    for label, title in (("numpy", "NumPy"), (device, device)):
        if any(row.system == label for row in report.rows):
            others.append(label)
            head += [f"{title} ms", f"ours / {title}"]
    head += [f"{device} gflops", f"{device} GB/s"] if device in others else []
    ratios = {(ratio.name, ratio.to): ratio.value for ratio in report.ratios}
    lines = []
    for name in OPERATIONS:
        rows = {row.system: row for row in report.rows if row.settings["operation"] == name}
        line: list[Any] = [name, rows["blocklearn"].seconds * 1e3, *figures(rows["blocklearn"])]
        for label in others:
            line += [rows[label].seconds * 1e3, ratios[f"seconds, {name}", label]]
        lines.append(line + (figures(rows[device]) if device in others else []))
    machine = report.machine
    return (
        f"{table(head, lines)}\n\n{report.data['threads']} threads; one thread: SGEMM "
        f"{machine['sgemm_gflops']} gflops, copy {machine['copy_gb_per_s']} GB/s; "
        f"load {machine['load_before']}"
    )


def figures(row: Row) -> list[Any]:
    """Return gflops and GB/s."""
    return [row.quality["gflops"], row.quality["gb_per_s"]]
