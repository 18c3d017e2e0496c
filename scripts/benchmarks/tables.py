"""What does a table cost of which a block reads few rows?

    scripts/bench tables --json tables.json

LDA on blocks of 1,024 documents. "Whole" steps all words in each block; "resting" only those that
occur. Both settle, or could, at the end of a pass of 16 blocks. The figure is the processor time of
a block, the median of rounds in turns. The learner itself chooses by the sizes of a block.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import blocklearn as bl
from blocklearn.matcache import Mat
from blocklearn.models import LDA
from blocklearn.optimizers import StreamingAverage

from .data import facts, power_law
from .machine import describe
from .report import Ratio, Report, Row, table

PEER_NAMES: tuple[str, ...] = ()


class Whole(StreamingAverage):
    """Steps all rows in each block."""

    def let_rest(self, values: Mapping[str, Mat]) -> dict[str, Mat]:
        """Let none rest."""
        return {}


SYSTEMS = {"whole": Whole, "resting": StreamingAverage}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--words", default="10000,100000,1000000", help="numbers of columns")
    parser.add_argument("--blocks", type=int, default=16, help="of a pass")
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--length", type=int, default=30, help="mean tokens of a document")
    parser.add_argument("--rounds", type=int, default=5, help="timed, of one pass each")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Time passes of both ways, in turns."""
    rows = 1024
    if args.quick:
        args.words, args.blocks, args.topics, args.rounds, rows = "2000", 2, 3, 1, 32
    report = Report("tables", "processor time of a block", {}, describe())
    for words in map(int, args.words.split(",")):
        X = power_law(rows * args.blocks, words, args.length)
        report.data = facts(X, "power law")
        for inference in ("vb", "cvb0", "gibbs"):
            learners = {
                system: bl.Learner(
                    LDA(topics=args.topics, inference=inference, warm_up=0),
                    X,
                    optimizer=make(tau0=11.0),
                    block_rows=rows,
                    threads=1,
                    verbose=False,
                ).fit()
                for system, make in SYSTEMS.items()
            }
            found: dict[str, list[float]] = {system: [] for system in learners}
            for _ in range(args.rounds + 1):  # the first one records
                for system, learner in learners.items():
                    found[system].append(timed(learner))
            settings = {"words": words, "inference": inference}
            for system, learner in learners.items():
                rests = bool(learner.model.column_sums)
                seconds = median(found[system][1:])
                quality = {"rests": rests}
                report.rows.append(Row(system, bl.__version__, settings, seconds, quality))
                learner.close()
            whole, resting = report.rows[-2:]
            ratio = round(whole.seconds / resting.seconds, 2)
            report.ratios.append(Ratio(f"{inference}, {words:,}", "whole", "resting", ratio))
    return report


def timed(learner: Any) -> float:
    """Return the processor seconds of a block, in one more pass."""
    learner.passes += 1
    begun = time.process_time()
    learner.fit()
    return (time.process_time() - begun) / learner.train.blocks


def show(report: Report) -> str:
    """Return a table."""
    lines = [
        [*row.settings.values(), row.system, row.quality["rests"], row.seconds * 1e3]
        for row in report.rows
    ]
    return table(["words", "inference", "way", "rows rest", "ms a block"], lines)
