"""What does a table cost of which a block reads few rows?

    scripts/bench tables --json tables.json

LDA, online k-means and NMF on blocks of 1,024 documents. "Whole" steps all words in each block;
"resting" only those that occur, where these are at most half of all. The figure is the processor
time of a block in passes of 16, the median of rounds in turns. A learner chooses by the sizes.
"""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import Any
from unittest.mock import patch

import blocklearn as bl
from blocklearn.learner.training.replicas.block_input import Intake
from blocklearn.models import LDA, NMF, KMeans, Model

from .data import facts, power_law
from .machine import describe
from .report import Ratio, Report, Row, table

PEER_NAMES: tuple[str, ...] = ()


SYSTEMS = {
    "whole": patch.object(Intake, "few_occur", new=False),
    "resting": nullcontext(),
}
"""In what a learner is made."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--words", default="10000,100000,1000000", help="numbers of columns")
    parser.add_argument("--blocks", type=int, default=16, help="of a pass")
    parser.add_argument("--topics", type=int, default=20, help="or clusters")
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
        for name, model in models_of(args.topics).items():
            learners = {
                system: trained(model.model_copy(), X, rows, made_in)
                for system, made_in in SYSTEMS.items()
            }
            found: dict[str, list[float]] = {system: [] for system in learners}
            for _ in range(args.rounds + 1):  # the first one records
                for system, learner in learners.items():
                    found[system].append(timed(learner))
            settings = {"words": words, "model": name}
            for system, learner in learners.items():
                rests = learner.model.few_occur
                seconds = median(found[system][1:])
                quality = {"rests": rests}
                report.rows.append(Row(system, bl.__version__, settings, seconds, quality))
                learner.close()
            whole, resting = report.rows[-2:]
            ratio = round(whole.seconds / resting.seconds, 2)
            report.ratios.append(Ratio(f"{name}, {words:,}", "whole", "resting", ratio))
    return report


def models_of(topics: int) -> dict[str, Model]:
    """Return the models by name."""
    models: dict[str, Model] = {
        inference: LDA(topics=topics, inference=inference, warm_up=0)
        for inference in ("vb", "cvb0", "gibbs")
    }
    return models | {
        "k-means": KMeans(clusters=topics),
        "k-means, directions": KMeans(clusters=topics, spherical=True),
        "NMF, KL loss": NMF(components=topics, loss="kullback-leibler"),
    }


def trained(model: Model, X: Any, rows: int, made_in: AbstractContextManager[Any]) -> Any:
    """Return a learner of one pass. made_in: see SYSTEMS."""
    with made_in:
        return bl.Learner(model, X, block_rows=rows, threads=1, verbose=False).fit()


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
    return table(["words", "model", "way", "rows rest", "ms a block"], lines)
