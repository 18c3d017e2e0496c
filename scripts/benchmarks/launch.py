"""What do launches cost on a CUDA device, and what do CUDA graphs save?

    scripts/bench launch --updates 200

Blocks are small, so that the device has almost no work and an update takes the time of its
launches. With graphs an update is one launch; without, one for each kernel. It has not run on
a GPU yet.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import blocklearn as bl
from blocklearn.matcache import DeviceError

from .data import facts, power_law
from .machine import describe
from .report import Ratio, Report, Row, table

PEER_NAMES: tuple[str, ...] = ()
SYSTEMS = {"graphs": True, "plain launches": False}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--updates", type=int, default=200, help="of each way, timed")
    parser.add_argument("--documents", type=int, default=64, help="of a block")
    parser.add_argument("--topics", type=int, default=32)
    parser.add_argument("--device", default="cuda")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Time updates of LDA, of NMF and of a GLM with graphs and without, in turns."""
    if args.quick:
        args.updates, args.topics = 8, 4
    X = power_law(args.documents * 4, 2000)
    report = Report("launch", "one update", facts(X, "power law"), describe())
    for name, (model, data) in models(args, X).items():
        learner = bl.Learner(model, train=data, block_rows=args.documents, device=args.device)
        try:
            learner.fit()
        except DeviceError as error:
            raise ValueError(str(error)) from error
        for system, graphs in SYSTEMS.items():
            report.rows.append(timed(learner, name, system, graphs, args.updates))
        learner.close()
        with_graphs, plain = report.rows[-2:]
        value = round(with_graphs.seconds / plain.seconds, 3)
        report.ratios.append(Ratio(f"seconds, {name}", "graphs", "plain launches", value))
    return report


def models(args: argparse.Namespace, X: Any) -> dict[str, tuple[Any, Any]]:
    """Return models and their data, by name."""
    Y = (np.random.default_rng(0).random((X.shape[0], 4)) < 0.3).astype(np.float32)
    return {
        "LDA, vb": (bl.models.LDA(topics=args.topics, inference="vb"), X),
        "NMF": (bl.models.NMF(components=args.topics), X),
        "GLM": (bl.models.GLM(l1=1e-4), (X, Y)),
    }


def timed(learner: Any, name: str, system: str, graphs: bool, updates: int) -> Row:
    """Return the seconds of an update and its number of launches."""
    launcher = learner.team.first.cache.backend.launcher
    launcher.graphs = graphs
    learner.passes += 3  # sequences are recorded, captured, replayed
    learner.fit()
    before, begun = (launcher.launches, launcher.replays), time.perf_counter()
    passes = -(-updates // learner.train.blocks)
    learner.passes += passes
    learner.fit()
    spent, done = time.perf_counter() - begun, passes * learner.train.blocks
    quality = {
        "launches": (launcher.launches - before[0]) / done,
        "graphs": (launcher.replays - before[1]) / done,
    }
    return Row(system, bl.__version__, {"model": name}, spent / done, quality)


def show(report: Report) -> str:
    """Return a table."""
    lines = [
        [
            f"{row.settings['model']}: {row.system}",
            row.seconds * 1e6,
            row.quality["launches"],
            row.quality["graphs"],
        ]
        for row in report.rows
    ]
    return table(["", "us an update", "single launches", "graphs"], lines)
