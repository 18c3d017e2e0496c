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
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import blocklearn as bl
from blocklearn.learner.command_line.launching import mpiexec
from blocklearn.learner.engines.cost import Network, best_degrees
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Bytes, Exchange
from blocklearn.learner.engines.lines import LINE, Lines
from blocklearn.learner.engines.merging import CrewMerger
from blocklearn.matcache import MatCache, from_array
from blocklearn.matcache.merge import add

from . import scale_als
from .data import power_law
from .machine import describe
from .report import Report, Row, table
from .scale_needed import Needed, whole_settle_seconds
from .scale_network import NETWORKS, shared_seconds

PEER_NAMES: tuple[str, ...] = ()
FEW, TEXTS, CLICKS = 4, 16, 128
"""Blocks of a short pass, and of long ones of LDA and of the GLM: their difference is timed."""

NBYTES = 4 * LINE


@dataclass(frozen=True)
class Local:
    """Seconds of the loops of a merge for one line, by one thread, on this machine.

    every: all loops of a merge in which all numbers travel, of four workers.
    """

    digest: float
    take: float
    put: float
    add: float
    every: float

    @staticmethod
    def measured(lines: int) -> Local:
        """Time each on `lines` lines."""
        array = np.random.default_rng(0).normal(size=lines * LINE).astype(np.float32)
        own, ids = Lines([array]), np.arange(0, lines, 2)
        part, total = own.take(ids), np.zeros(array.size)
        return Local(
            seconds(own.digests) / lines,
            seconds(lambda: own.take(ids)) / ids.size,
            seconds(lambda: own.put(ids, part)) / ids.size,
            seconds(lambda: add(array, total)) / lines,
            per_line_of_all(lines),
        )


class Silent(Exchange):
    """The connection of a worker of four, whose others give zeros at once."""

    def __init__(self) -> None:
        super().__init__(0, 4)

    def _swap(self, parts: list[Bytes], failed: bool) -> tuple[list[bool], list[Bytes]]:
        return [False] * self.size, [np.zeros(parts[0].size, np.uint8) for _ in parts]

    def close(self) -> None:
        """Do nothing."""


def per_line_of_all(lines: int) -> float:
    """Return the seconds of all loops for a line, if all numbers travel."""
    mat = from_array(MatCache(threads=1), np.ones((lines, LINE), np.float32), "x")
    merger = CrewMerger(Crew(Silent()))
    return seconds(lambda: merger.merge([("mean", [mat])], 0.5)) / lines


@dataclass(frozen=True)
class Workload:
    """A model whose table is merged.

    - rows, width: of the table, in float32.
    - tokens: non-zeros of a block. block: seconds in which one thread trains on it.
    - tables: how many such tables are merged.
    - settle: seconds in which one thread brings rows up to date that rest; 0: none do.
    """

    name: str
    rows: int
    width: int
    tokens: int
    block: float
    tables: int = 1
    settle: float = 0.0

    @property
    def lines(self) -> int:
        """The lines of a table."""
        return -(-self.rows * self.width // LINE)

    def touched(self, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw the rows that a block touches, ascending."""
        words = zipf(rng, self.rows, self.tokens)
        if self.width < LINE:  # features are hashed: frequent ones are not neighbours
            words = words * 2654435761 % self.rows
        return distinct(words).astype(np.int32)

    def lines_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the lines of rows, ascending."""
        if self.width < LINE:
            return distinct(rows * self.width // LINE)
        each = -(-self.width // LINE)
        return (rows[:, None] * each + np.arange(each)).reshape(-1)


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers, each once, ascending: faster than `np.unique`."""
    found = np.sort(numbers)
    return found[np.diff(found, prepend=-1) > 0]


def zipf(rng: np.random.Generator, rows: int, count: int) -> NDArray[np.int64]:
    """Draw words with the probabilities of `data.power_law`, by the integral of its density."""
    power, shift = 0.07, 2.7
    low, high = shift**-power, (rows + shift) ** -power
    drawn = (low - rng.random(count) * (low - high)) ** (-1 / power) - shift
    return np.minimum(drawn.astype(np.int64), rows - 1)


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


def workloads(args: argparse.Namespace, rows: int) -> list[Workload]:
    """Train on some blocks of each, to know their time: that of LDA grows with the topics."""
    texts, clicks = power_law(TEXTS * rows, args.words), hashed(CLICKS * rows, args.features)
    y = (np.random.default_rng(0).random(clicks.shape[0]) < 0.5).astype(np.float32)

    def lda(blocks: int) -> bl.Learner:
        model = bl.models.LDA(topics=args.trained_topics, inference="vb")
        return bl.Learner(model, texts[: blocks * rows], block_rows=rows, threads=1, verbose=False)

    def glm(blocks: int) -> bl.Learner:
        return bl.Learner(
            bl.models.GLM(),
            (clicks[: blocks * rows], y[: blocks * rows]),
            optimizer=bl.optimizers.AdaGrad(step_per="row"),
            block_rows=rows,
            threads=1,
            verbose=False,
        )

    more = args.topics / args.trained_topics
    settle = whole_settle_seconds(args.words, args.topics)
    block = more * block_seconds(lda, TEXTS)
    return [
        Workload("LDA", args.words, args.topics, texts.nnz // TEXTS, block, settle=settle),
        Workload("GLM", args.features, 1, clicks.nnz // CLICKS, block_seconds(glm, CLICKS), 2),
    ]


def hashed(rows: int, features: int) -> sp.csr_array:
    """Return rows of about 100 features, drawn by Zipf's law: frequent ones are not neighbours."""
    rng = np.random.default_rng(0)
    ends = np.cumsum(np.maximum(1, rng.lognormal(np.log(100) - 0.125, 0.5, rows)).astype(np.int64))
    drawn = zipf(rng, features, int(ends[-1])) * 2654435761 % features
    ones, starts = np.ones(drawn.size, np.float32), np.concatenate([[0], ends])
    X = sp.csr_array((ones, drawn.astype(np.int32), starts), (rows, features))
    X.sum_duplicates()
    return X


def block_seconds(made: Callable[[int], bl.Learner], many: int) -> float:
    """Return the processor seconds that a pass takes for each block, without those of its end.

    made: returns a learner that has so many blocks. many: blocks of the long pass.
    """
    short, long = (pass_seconds(made(blocks)) for blocks in (FEW, many))
    return (long - short) / (many - FEW)


def pass_seconds(learner: bl.Learner) -> float:
    """Return the processor seconds of a pass: the least of three after the first."""
    found = []
    for passes in range(1, 5):
        learner.passes = passes
        begun = time.process_time()
        learner.fit()
        found.append(time.process_time() - begun)
    learner.close()
    return min(found[1:])


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


@dataclass(frozen=True)
class Traffic:
    """Lines of exchanges 3 and 4, of the worker with the most.

    - sent, arriving: to their owners, and there. back_out, back_in: merged lines.
    """

    sent: int
    arriving: int
    back_out: int
    back_in: int

    @staticmethod
    def of(lines: int, touched: Sequence[NDArray[np.int64]]) -> Traffic:
        """Count them. touched: lines that differ, by worker."""
        n = len(touched)
        counts, by_owner = np.zeros(lines, np.int32), np.zeros(lines, np.bool_)
        for rank, own in enumerate(touched):
            counts[own] += 1
            by_owner[own[own % n == rank]] = True
        differ = np.flatnonzero(counts)
        owned = np.bincount(differ % n, minlength=n)
        sent = np.array([np.count_nonzero(own % n != rank) for rank, own in enumerate(touched)])
        arriving = np.bincount(differ % n, counts[differ] - by_owner[differ], n)
        lacking = differ[by_owner[differ] & (counts[differ] < n)]  # another gives the old line
        extra = np.bincount(lacking % n, minlength=n)
        most = sent + np.roll(extra, 1), arriving + extra, owned * (n - 1), differ.size - owned
        return Traffic(*(int(part.max()) for part in most))


def merge_seconds(
    lines: int, n: int, traffic: Traffic | None, local: Local, network: Network
) -> float:
    """Return the seconds of a merge of `n` workers. traffic: None if all numbers travel."""
    if traffic is None:
        moved = network.exchange(lines * NBYTES, [n]) + shared_seconds(network, lines * NBYTES, n)
        return moved + lines * local.every
    return (
        network.exchange(8 * lines, best_degrees(n, 8 * lines, network))
        + network.exchange(lines / 4, best_degrees(n, lines / 4, network))
        + busiest(traffic.sent, traffic.arriving, n, network)
        + busiest(traffic.back_out, traffic.back_in, n, network)
        + lines * local.digest
        + traffic.sent * local.take
        + traffic.arriving * (local.put + local.add)
        + traffic.back_in * (local.take + local.put)
    )


def busiest(out: int, into: int, n: int, network: Network) -> float:
    """Return the seconds of the worker that sends or receives the most lines."""
    most = max(out, into) * NBYTES
    degrees = best_degrees(n, most, network)
    more = sum((degree - 1) / degree for degree in degrees) / ((n - 1) / n)
    return sum(degree - 1 for degree in degrees) * network.latency + more * most / network.bandwidth


# ------------------------------------------------------------- calibration


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


def seconds(work: Callable[[], Any], rounds: int = 5) -> float:
    """Return the least processor seconds of a call, after a first one."""
    found = []
    for _ in range(rounds + 1):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found[1:])


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
