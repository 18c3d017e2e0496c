"""How far do merges of several workers scale?

    scripts/bench scale --json scale.json

Simulated: the network, of a stated latency and bandwidth, and up to 256 workers, each a processor
of this kind with one thread. Measured on this machine, by one thread: a block of training (of a GLM
on tables of full size), and loops of a merge (digests, copies, sums). Drawn: which rows the blocks
of each worker touch, by Zipf's law. A worker sends and receives at the same time; an exchange ends
when the last worker has all.

"dense" sends all numbers; "differing" sends what differs to all; "needed" fetches the rows of a
block from their owners while the block before trains, and gives them back. Its loops are measured
whole, those of the busiest worker, and overlap with nothing. Rows of LDA (vb) rest: before a merge
they are brought up to date, by their owners or by all workers, which is measured, too. ALS gives
all workers the factors of a side ("rows").
Efficiency is the time of training / the time of training and merging.

`--workers` of MPI on this machine calibrate it: their merges are measured and predicted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from functools import partial

import numpy as np
from numpy.typing import NDArray

from blocklearn.learner.command_line.launching import mpiexec
from blocklearn.learner.engines.cost import Network
from blocklearn.learner.engines.lines import LINE

from . import scale_als
from .machine import describe
from .report import Report, Row, table
from .scale_lines import Local, Traffic, merge_seconds
from .scale_loads import Workload, distinct, workloads
from .scale_needed import Needed
from .scale_network import NETWORKS

PEER_NAMES: tuple[str, ...] = ()


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--words", type=int, default=1_000_000, help="words of LDA")
    parser.add_argument("--topics", type=int, default=256)
    parser.add_argument("--trained-topics", type=int, default=64, help="that are trained on")
    parser.add_argument("--features", type=int, default=2**28, help="features of the GLM")
    parser.add_argument("--sync", default="1,8", help="blocks of a worker between merges")
    parser.add_argument("--counts", default="2,4,16,64,256", help="numbers of workers")
    parser.add_argument("--workers", default="2,4", help="of MPI here, to calibrate; '': none")
    parser.add_argument("--users", type=int, default=10_000_000, help="of ALS")
    parser.add_argument("--items", type=int, default=1_000_000, help="of ALS")
    parser.add_argument("--ratings", type=int, default=10**9, help="of ALS")
    parser.add_argument("--rank", type=int, default=64, help="of ALS")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Measure, calibrate, simulate."""
    rows, lines = 1024, 2**18
    if args.quick:
        args.words, args.topics, args.features = 2000, 64, 2**14
        args.trained_topics = 16
        args.counts, args.workers, rows, lines = "2,4", "", 32, 2**8
        args.users, args.items, args.ratings, args.rank = 2000, 500, 20_000, 8
    local = Local.measured(lines)
    report = Report("scale", "a block and its share of a merge", asdict(local), describe())
    for workers in filter(None, args.workers.split(",")):
        report.rows += calibrated(int(workers), local)
    for load in workloads(args, rows):
        for sync in map(int, args.sync.split(",")):
            for workers in map(int, args.counts.split(",")):
                report.rows += simulated(load, sync, workers, local)
    sizes = scale_als.Sizes(args.users, args.items, args.ratings, args.rank)
    report.rows += scale_als.simulated(sizes, [*map(int, args.counts.split(","))], quick=args.quick)
    return report


def simulated(load: Workload, sync: int, workers: int, local: Local) -> list[Row]:
    """Return a row for each way and network."""
    rng = np.random.default_rng(workers)

    def draw() -> list[list[NDArray[np.int32]]]:
        return [[load.touched(rng) for _ in range(sync)] for _ in range(workers)]

    rows = [distinct(np.concatenate(own)).astype(np.int64) for own in draw()]
    differing = Traffic.of(load.lines, [load.lines_of(some) for some in rows])
    widths = [load.width] * load.tables
    needed = Needed(load.rows, widths, draw, rests=load.settle > 0)
    found = []
    for name, network in NETWORKS.items():
        ways = {
            "dense": load.settle
            + load.tables * merge_seconds(load.lines, workers, None, local, network),
            "differing": load.settle
            + load.tables * merge_seconds(load.lines, workers, differing, local, network),
            "needed": needed.merge(network, load.block),
        }
        for way, merge in ways.items():
            train = sync * load.block
            settings = {"model": load.name, "sync": sync, "network": name}
            quality = {
                "block": load.block,
                "merge": merge,
                "efficiency": train / (train + merge),
                "workers": workers,
            }
            found.append(Row(way, "simulated", settings, (train + merge) / sync, quality))
    return found


def calibrated(workers: int, local: Local) -> list[Row]:
    """Measure merges of workers of MPI on this machine, and predict them."""
    command = mpiexec(workers, [sys.executable, "-P", "-m", "scripts.benchmarks.scale_worker"])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"calibration with {workers} workers failed: {done.stderr[-500:]}")
    found = json.loads(done.stdout)
    network = Network(found["latency"] / (workers - 1), found["bandwidth"])
    rng, rows = np.random.default_rng(0), []
    for share, times in found["merges"].items():
        touched = [
            np.flatnonzero(rng.random(found["lines"]) < float(share)) for _ in range(workers)
        ]
        same = [[own.astype(np.int32)] for own in touched]
        needed = Needed(found["lines"], [LINE], partial(list, same))
        traffic = Traffic.of(found["lines"], touched)
        ways = {
            "dense": merge_seconds(found["lines"], workers, None, local, network),
            "differing": merge_seconds(found["lines"], workers, traffic, local, network),
            "needed": needed.merge(network, 0.0),
        }
        for way, predicted in ways.items():
            settings = {"model": f"{float(share):.0%} touched", "sync": 1, "network": "here, MPI"}
            clock, processor = times[way]
            quality = {
                "merge": clock,
                "processor": processor,
                "predicted": predicted,
                "workers": workers,
                "latency": network.latency,
                "bandwidth": network.bandwidth,
            }
            rows.append(Row(way, "measured", settings, clock, quality))
    return rows


def show(report: Report) -> str:
    """Return two tables: the calibration, and the simulation."""
    head = ["model", "blocks", "network", "workers", "way", "merge, ms", "predicted or efficiency"]
    lines = [
        [
            *row.settings.values(),
            row.quality["workers"],
            row.system,
            row.quality["merge"] * 1e3,
            predicted(row) if "predicted" in row.quality else f"{row.quality['efficiency']:.0%}",
        ]
        for row in report.rows
    ]
    blocks = {row.settings["model"]: row.quality.get("block") for row in report.rows}
    trained = [f"{name}: {t * 1e3:.1f} ms a block" for name, t in blocks.items() if t]
    return "\n".join([table(head, lines), *trained, "per line, us: " + per_line(report)])


def predicted(row: Row) -> str:
    """Return the predicted time of a merge, and the processor time that it took."""
    return "{predicted:.1f} ms; processor {processor:.1f}".format(
        **{name: 1e3 * row.quality[name] for name in ("predicted", "processor")}
    )


def per_line(report: Report) -> str:
    """Return the measured loops."""
    return ", ".join(f"{name} {value * 1e6:.3f}" for name, value in report.data.items())
