"""What would a pass take on a GPU, at least, by bytes, operations and launches? Needs no GPU.

    scripts/bench gpu-model --card H200

It is a floor, not a measurement: see `learner/training/plans/gpu_time.py`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import blocklearn as bl
from blocklearn.learner.training.plans.gpu_time import CARDS

from .data import facts, power_law
from .machine import describe
from .report import Report, Row, table

PEER_NAMES: tuple[str, ...] = ()


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--card", default="H200", choices=CARDS)
    parser.add_argument("--rows", type=int, default=8192, help="of a block")
    parser.add_argument("--columns", type=int, default=50_000)
    parser.add_argument("--topics", type=int, default=256)
    parser.add_argument("--rank", type=int, default=100)
    parser.add_argument("--targets", type=int, default=300)


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Estimate an update of each model."""
    if args.quick:
        args.rows, args.columns, args.topics, args.rank, args.targets = 40, 60, 5, 3, 3
    X = power_law(args.rows, args.columns)
    report = Report("gpu-model", f"one block on one {args.card}", facts(X, "power law"), describe())
    card = CARDS[args.card]
    for name, (model, data, options) in models(args, X).items():
        learner = bl.Learner(model, data, block_rows=args.rows, verbose=False, **options)
        update = learner.assembly().gpu_floor(card)
        learner.close()
        quality = {
            "bytes": update.nbytes,
            "flops": update.flops,
            "launches": update.launches,
            "copied": update.copied,
            "kernels": update.kernels,
            "host": update.host,
        }
        row = Row("floor", bl.__version__, {"model": name}, update.seconds(card), quality)
        report.rows.append(row)
    return report


def models(args: argparse.Namespace, X: Any) -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Return models, their data and options, by name."""
    Y = (np.random.default_rng(0).random((X.shape[0], args.targets)) < 0.1).astype(np.float32)
    by_block = {"optimizer": bl.optimizers.AdaGrad()}
    found: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        f"LDA {way}": (bl.models.LDA(topics=args.topics, inference=way, assignments="fresh"), X, {})
        for way in ("vb", "cvb0", "gibbs")
    }
    kept = {"inference": "gibbs", "assignments": "kept", "warm_up": 1, "fresh_passes": 0}
    found["LDA gibbs, kept topics"] = bl.models.LDA(topics=args.topics, **kept), X, {}
    for solver in ("cg", "cholesky"):
        found[f"ALS {solver}"] = bl.models.ALS(rank=args.rank, solver=solver), X, {}
    found["NMF"] = bl.models.NMF(components=args.rank), X, {}
    found[f"GLM {args.targets} targets"] = bl.models.GLM(), (X, Y), by_block
    found["GLM 1 target"] = bl.models.GLM(), (X, Y[:, :1]), by_block
    links = power_law(args.rows, args.rows)
    found |= {
        "FM": (bl.models.FM(), (X, Y[:, :1]), {}),
        f"ranking, rank {args.rank}": (bl.models.Ranking(rank=args.rank), X, {}),
        f"k-means, {args.rank} clusters": (bl.models.KMeans(clusters=args.rank), X, {}),
        f"mixture of {args.rank} Gaussians": (
            bl.models.GaussianMixture(components=args.rank),
            X,
            {},
        ),
        f"SVD, {args.rank} components": (bl.models.SVD(components=args.rank), X, {}),
        "PageRank": (bl.models.PageRank(), links, {}),
        "components of a graph": (bl.models.Components(), links, {}),
        "triangles": (bl.models.Triangles(), links, {}),
        f"word vectors of {args.rank}": (bl.models.WordVectors(dimensions=args.rank), links, {}),
    }
    return found


def show(report: Report) -> str:
    """Return a table."""
    lines = [
        [
            row.settings["model"],
            row.seconds * 1e3,
            row.quality["kernels"] * 1e3,
            row.quality["bytes"] / 1e6,
            row.quality["flops"] / 1e9,
            row.quality["launches"],
            row.quality["copied"] / 1e6,
        ]
        for row in report.rows
    ]
    head = ["", "ms at least", "ms of kernels", "MB", "Gflop", "launches", "MB copied"]
    return table(head, lines)
