"""What does a block cost the main thread beside its kernels?

    scripts/bench overhead --json after.json --before before.json

Blocks are tiny, so their kernels have almost no work. The figure is the processor time of the
thread that trains, for each block: Python, launches, binding of blocks, and the tiny kernels.
Rounds of all models alternate; the figure is the median round, and the best one is beside it.

"Kept" blocks are those of earlier passes. "Read" ones are gathered anew in each pass, since rows
are shuffled; the thread that trains does it, because they are small. "Device" blocks are those of
the CUDA backend over a driver that does nothing, at once. "Rows" are the same of data whose rows
stay on the device, shuffled in each pass, with an index made there. `--card` takes a real device
for these two: the figure then has the processor time of its driver, without that of waiting, and no
stand-ins are timed.

The second table is the speed of replicas over stand-ins of devices: a block ends with a sleep of
0.85 ms without the interpreter's lock. It shows how many devices one process can feed. Each replica
has as many blocks a pass, whatever their number. A sleep takes longer than it should, more so on a
busy machine, so the last column compares with as many threads that only sleep, timed in turns.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.datasources.memory.order import Shuffle
from blocklearn.matcache import colsum, exp, rowmax, total
from blocklearn.models import ALS, GLM, LDA, NMF
from blocklearn.optimizers import AdaGrad

from .data import facts
from .idle_device import idle_devices
from .machine import describe
from .report import Report, Row, table

PEER_NAMES: tuple[str, ...] = ()
COLUMNS = 40
DEVICE_SECONDS = 0.85e-3  # of a stand-in's block
WAYS: dict[str, tuple[Shuffle, str]] = {  # how blocks are read: order of rows, and device
    "kept": ("blocks", "cpu"),
    "read": (True, "cpu"),
    "device": ("blocks", "cuda"),
    "rows": (True, "cuda"),
}


class Expressions(bl.Model):
    """Computes `exp(A) * B + A` of 10,000 elements, `times` times a block."""

    times: int = 1

    def allocate(self, shapes: Any, rng: Any) -> None:
        """Make the operands and the results."""
        self.A, self.B = (self.scratch(name, 100, 100) for name in "AB")
        self.out = [self.parameter(f"C{n}", 100, 100) for n in range(self.times)]

    def update(self, block: bl.Block) -> None:
        """Compute the results."""
        for out in self.out:
            out <<= exp(self.A) * self.B + self.A

    def score(self, block: bl.Block) -> Any:
        """Count the rows."""
        return {"weight": bl.Sum(total(block.weights), total(block.weights))}

    def predict(self, block: bl.Block) -> Any:
        """Return a row of zeros for each row."""
        return (block.weights * 0.0).mat()


class KMeans(bl.Model):
    """Mini-batch k-means, as docs/custom-model.md has it."""

    clusters: int = 8

    def allocate(self, shapes: Any, rng: Any) -> None:
        """Make the centres, one a column, and the weight of their rows."""
        d, k = shapes.columns, self.clusters
        self.centres = self.parameter("centres", d, k, rng.uniform(d, k))
        self.counts = self.parameter("counts", 1, k, 1.0)

    def _nearest(self, X: Any) -> Any:
        score = 2.0 * (X @ self.centres) - colsum(self.centres * self.centres)
        return score == rowmax(score)

    def update(self, block: bl.Block) -> None:
        """Move the centres towards their rows."""
        assigned = self._nearest(block.X) * block.weights
        n = colsum(assigned)
        self.counts <<= self.counts + n
        self.centres <<= self.centres + (block.X.T @ assigned - n * self.centres) / self.counts

    def score(self, block: bl.Block) -> Any:
        """Count the rows."""
        return {"weight": bl.Sum(total(block.weights), total(block.weights))}

    def predict(self, block: bl.Block) -> Any:
        """Return 1 at the nearest centre."""
        return self._nearest(block.X).mat()


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--rows", type=int, default=8, help="of a block")
    parser.add_argument("--blocks", type=int, default=64, help="of a pass")
    parser.add_argument("--rounds", type=int, default=5, help="timed")
    parser.add_argument("--passes", type=int, default=16, help="of a round; each begins with a fit")
    parser.add_argument("--only", metavar="a,b", help="names of models")
    parser.add_argument("--replicas", default="1,2,4,8", help="numbers of stand-ins of devices")
    parser.add_argument("--card", action="store_true", help="use the first GPU, not a stand-in")
    parser.add_argument("--before", type=Path, help="JSON of an earlier run, to compare with")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Time the blocks of all models, in turns."""
    if args.quick:
        args.blocks, args.rounds, args.passes = 4, 1, 2
    rng = np.random.default_rng(0)
    shape = (args.rows * args.blocks, COLUMNS)
    X = sp.csr_array(rng.poisson(0.3, shape).astype(np.float32))
    report = Report("overhead", "a block, main thread", facts(X, "small counts"), describe())
    makers = models(X, rng)
    chosen = args.only.split(",") if args.only else list(makers)
    if unknown := set(chosen) - makers.keys():
        raise ValueError(f"--only: no {min(unknown)} here; there are {', '.join(makers)}.")
    learners = {}
    for name in chosen:
        model, (data, Y), optimizer = makers[name]
        for way, (shuffle, device) in WAYS.items():
            source = MatrixSource(data, targets=Y, block_rows=args.rows, shuffle=shuffle)
            settings: Any = {"optimizer": optimizer, "device": device, "threads": 1, "passes": 2}
            settings["index"] = "device" if way == "rows" else "auto"
            with nullcontext() if args.card else idle_devices():
                learner = bl.Learner(model, source, verbose=False, **settings).fit()
            learners[name, way] = learner
            timed(learner, 2)  # warm: every branch was taken, every recording made
    rounds: dict[tuple[str, str], list[float]] = {case: [] for case in learners}
    for _ in range(args.rounds):
        for case, learner in learners.items():
            rounds[case].append(timed(learner, args.passes))
    before = {} if args.before is None else earlier(args.before)
    for (name, way), learner in learners.items():
        found = rounds[name, way]
        settings = {"model": name, "blocks": way}
        quality = {"before": before.get((name, way)), "best": min(found)}
        report.rows.append(Row("blocklearn", bl.__version__, settings, median(found), quality))
        learner.close()
    for count in () if args.card else map(int, args.replicas.split(",")):
        ours, alone = stand_ins(X, count, args)
        settings = {"model": "lda vb", "replicas": count}
        quality = {"blocks_a_second": 1 / ours, "alone": 1 / alone}
        report.rows.append(Row("blocklearn", bl.__version__, settings, ours, quality))
    return report


def stand_ins(X: Any, count: int, args: argparse.Namespace) -> tuple[float, float]:
    """Return the seconds of a block over stand-ins of devices: of replicas, of sleeps alone.

    Both are the medians of rounds, in turns.
    """
    whole = sp.csr_array(sp.vstack([X] * count))
    source = MatrixSource(whole, block_rows=args.rows, shuffle="blocks")
    settings: Any = {"replicas": count, "sync_every": args.blocks, "threads": count}
    learner = bl.Learner(LDA(topics=4, inference="vb"), source, verbose=False, **settings)
    learner.passes = 4
    learner.fit()
    for replica in learner.team.replicas:  # type: ignore[union-attr]
        replica.cache.backend.end_block = lambda: time.sleep(DEVICE_SECONDS)
    ours, alone = [], []
    for _ in range(args.rounds):
        done, begun = learner.progress.work.blocks, time.perf_counter()
        learner.passes += 1 if args.quick else 8
        learner.fit()
        ours.append((time.perf_counter() - begun) / (learner.progress.work.blocks - done))
        alone.append(sleeps(count, 8 * args.blocks))
    learner.close()
    return median(ours), median(alone)


def sleeps(threads: int, each: int) -> float:
    """Return the seconds of a block of stand-ins, in threads that only sleep."""

    def sleep() -> None:
        for _ in range(each):
            time.sleep(DEVICE_SECONDS)

    begun = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(sleep) for _ in range(threads)]:
            done.result()
    return (time.perf_counter() - begun) / (threads * each)


def models(X: Any, rng: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Return models, their data and their optimizers (None: the model's own), by name."""
    few, many = ((rng.random((X.shape[0], n)) < 0.3).astype(np.float32) for n in (1, 300))
    by_block, by_row = AdaGrad(rate=0.5), AdaGrad(rate=0.5, step_per="row")
    return {
        "lda vb": (LDA(topics=4, inference="vb"), (X, None), None),
        "lda cvb0": (LDA(topics=4, inference="cvb0"), (X, None), None),
        "lda gibbs": (LDA(topics=4, inference="gibbs", warm_up=0), (X, None), None),
        "glm 1 by block": (GLM(), (X, few), by_block),
        "glm 1 by row": (GLM(), (X, few), by_row),
        "glm 300 by block": (GLM(), (X, many), by_block),
        "als cg": (ALS(rank=4), (X, None), None),
        "als cholesky": (ALS(rank=4, solver="cholesky"), (X, None), None),
        "nmf": (NMF(components=4), (X, None), None),
        "k-means": (KMeans(), (X, None), None),
        "1 expression": (Expressions(), (X, None), None),
        "11 expressions": (Expressions(times=11), (X, None), None),
    }


def timed(learner: Any, passes: int) -> float:
    """Return the processor time of the calling thread for a block, in seconds.

    The time of waiting for a device is not in it: CUDA's driver spins.
    """
    learner.passes += passes
    backend, waited = learner.team.first.cache.backend, 0.0
    done, begun = learner.progress.work.blocks, time.thread_time()
    if backend.kind == "cpu":
        learner.fit()
    else:
        wait = backend.driver.synchronize

        def waits(what: Any) -> None:
            nonlocal waited
            before = time.thread_time()
            wait(what)
            waited += time.thread_time() - before

        with mock.patch.object(backend.driver, "synchronize", waits):
            learner.fit()
    spent = time.thread_time() - begun - waited
    return spent / (learner.progress.work.blocks - done)


def earlier(path: Path) -> dict[tuple[str, str], float]:
    """Return the seconds of an earlier run, by model and way of reading."""
    rows = [row for row in Report.read(path).rows if "replicas" not in row.settings]
    # the first reports had no ways: all blocks came from the reader's thread
    ways = [(row, row.settings.get("blocks", "read")) for row in rows]
    return {(row.settings["model"], way): row.seconds for row, way in ways}


def show(report: Report) -> str:
    """Return a table of models, beside the figures of an earlier run, and one of stand-ins."""
    lines: list[list[Any]] = []
    speeds: list[list[Any]] = []
    for row in report.rows:
        if "replicas" in row.settings:
            one = speeds[0][1] if speeds else 1 / row.seconds
            share = 1 / row.seconds / row.quality["alone"]
            speeds.append([row.settings["replicas"], 1 / row.seconds, 1 / row.seconds / one, share])
            continue
        before = row.quality["before"]
        gain = None if before is None else before / row.seconds
        before = None if before is None else before * 1e6
        figures = [before, row.seconds * 1e6, row.quality["best"] * 1e6, gain]
        lines.append([row.settings["model"], row.settings["blocks"], *figures])
    found = table(["us a block", "blocks", "before", "after", "best", "times as fast"], lines)
    return found + "\n\n" + table(["stand-ins", "blocks/s", "times one", "of sleeps"], speeds)
