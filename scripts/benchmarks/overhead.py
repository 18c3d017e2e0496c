"""What does a block cost the main thread beside its kernels?

    scripts/bench overhead --json after.json --before before.json

Blocks are tiny, so their kernels have almost no work. The figure is the processor time of the
thread that trains, for each block: Python, launches, binding of blocks, and the tiny kernels. The
reader has a thread of its own and is not counted. Rounds of all models alternate; the figure is
the median round.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.matcache import colsum, rowmax, total
from blocklearn.models import ALS, GLM, LDA, NMF
from blocklearn.optimizers import AdaGrad

from .data import facts
from .machine import describe
from .report import Report, Row, table

PEER_NAMES: tuple[str, ...] = ()
COLUMNS = 40


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
        return {"rows": bl.Sum(total(block.weights), total(block.weights))}

    def predict(self, block: bl.Block) -> Any:
        """Return 1 at the nearest centre."""
        return self._nearest(block.X).mat()


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--rows", type=int, default=8, help="of a block")
    parser.add_argument("--blocks", type=int, default=64, help="of a pass")
    parser.add_argument("--rounds", type=int, default=5, help="of two passes each, timed")
    parser.add_argument("--only", metavar="a,b", help="names of models")
    parser.add_argument("--before", type=Path, help="JSON of an earlier run, to compare with")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Time the blocks of all models, in turns."""
    if args.quick:
        args.blocks, args.rounds = 4, 1
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
        model, data, optimizer = makers[name]
        learner = bl.Learner(model, data, optimizer=optimizer, block_rows=args.rows, threads=1)
        learners[name] = learner.fit()
        timed(learner, 2)  # warm: every branch was taken, every recording made
    rounds: dict[str, list[float]] = {name: [] for name in learners}
    for _ in range(args.rounds):
        for name, learner in learners.items():
            rounds[name].append(timed(learner, 2))
    before = {} if args.before is None else earlier(args.before)
    for name, learner in learners.items():
        seconds = median(rounds[name])
        quality = {"before": before.get(name)}
        report.rows.append(Row("blocklearn", bl.__version__, {"model": name}, seconds, quality))
        learner.close()
    return report


def models(X: Any, rng: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Return models, their data and their optimizers (None: the model's own), by name."""
    few, many = ((rng.random((X.shape[0], n)) < 0.3).astype(np.float32) for n in (1, 300))
    by_block, by_row = AdaGrad(rate=0.5), AdaGrad(rate=0.5, step_per="row")
    return {
        "lda vb": (LDA(topics=4, inference="vb"), X, None),
        "lda cvb0": (LDA(topics=4, inference="cvb0"), X, None),
        "lda gibbs": (LDA(topics=4, inference="gibbs", warm_up=0), X, None),
        "glm 1 by block": (GLM(), (X, few), by_block),
        "glm 1 by row": (GLM(), (X, few), by_row),
        "glm 300 by block": (GLM(), (X, many), by_block),
        "als cg": (ALS(rank=4), X, None),
        "als cholesky": (ALS(rank=4, solver="cholesky"), X, None),
        "nmf": (NMF(components=4), X, None),
        "k-means": (KMeans(), X, None),
    }


def timed(learner: Any, passes: int) -> float:
    """Return the processor time of the calling thread for a block, in seconds."""
    learner.passes += passes
    done, begun = learner.progress.work.blocks, time.thread_time()
    learner.fit()
    spent = time.thread_time() - begun
    return spent / (learner.progress.work.blocks - done)


def earlier(path: Path) -> dict[str, float]:
    """Return the seconds of an earlier run, by model."""
    return {row.settings["model"]: row.seconds for row in Report.read(path).rows}


def show(report: Report) -> str:
    """Return a table, with the figures of an earlier run beside these."""
    lines: list[list[Any]] = []
    for row in report.rows:
        name, before = row.settings["model"], row.quality["before"]
        gain = None if before is None else before / row.seconds
        before = None if before is None else before * 1e6
        lines.append([name, before, row.seconds * 1e6, gain])
    return table(["us a block", "before", "after", "times as fast"], lines)
