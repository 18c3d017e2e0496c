"""How near is `block_rows: auto` to the best number of rows in a block?

    scripts/bench block-rows --data docword.npz

Trains each model on data of one shape, with `auto` and with every size of a grid. The clock is the
processor time of training on one thread, without scores. The goal of a shape is within 1 % of the
best score that any size reached; a size that never gets there has no time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models import GLM, LDA, NMF

from .data import facts, load
from .machine import describe
from .report import Report, Row, table

PEER_NAMES: tuple[str, ...] = ()
GRID = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
NEAR = 0.01  # of the best score


@dataclass(frozen=True)
class Case:
    """A model, and rows to train on and to score: X, or (X, Y); `lower` scores are better."""

    model: Callable[[], Any]
    train: Any
    held: Any
    score: str
    lower: bool = True


class Clock(bl.Hook):
    """Notes processor seconds and the score after every pass; stops when `budget` is spent."""

    def __init__(self, score: str, budget: float) -> None:
        self.score, self.budget, self.spent = score, budget, 0.0
        self.curve: list[dict[str, Any]] = []
        self._begun = time.process_time()

    def block(self, learner: Any, progress: Any) -> None:
        """Add the time of the block."""
        now = time.process_time()
        self.spent, self._begun = self.spent + now - self._begun, now

    def pass_end(self, learner: Any, progress: Any) -> None:
        """Note the score, whose own time is left out."""
        value = float(progress.scores[self.score])
        self.curve.append({"seconds": self.spent, "score": value})
        progress.stop = self.spent > self.budget
        self._begun = time.process_time()


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz, SciPy CSR, documents x words; default: "
                        "the docstrings of Python's standard library")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=4.0, help="of processor time, each size")
    parser.add_argument("--topics", type=int, default=50, help="and factors of the other models")
    parser.add_argument("--only", metavar="a,b", help="shapes, by name")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Train every case with every size."""
    if args.quick:
        args.seconds, args.topics = 0.01, 4
    X, name = load(args.data, 600 if args.quick else 0)
    found = cases(X, args.topics)
    chosen = args.only.split(",") if args.only else list(found)
    if unknown := set(chosen) - found.keys():
        raise ValueError(f"--only: no {min(unknown)} here; there are {', '.join(found)}.")
    report = Report("block-rows", "to within 1 % of the best score", facts(X, name), describe())
    for label in chosen:
        case = found[label]
        rows = (case.train[0] if isinstance(case.train, tuple) else case.train).shape[0]
        sizes = [size for size in GRID if size < rows] + [rows, "auto"]
        curves: dict[Any, Any] = {}
        for size in sizes[-3:] if args.quick else sizes:
            trained(case, size, 0.0)  # compiles its kernels
            curves[size] = trained(case, size, args.seconds)
        sign = 1 if case.lower else -1
        best = min(sign * point["score"] for _, curve in curves.values() for point in curve)
        goal = best + NEAR * abs(best)
        for size, (number, curve) in curves.items():
            passed = [p["seconds"] for p in curve if sign * p["score"] <= goal]
            settings = {"shape": label, "rows": rows, "block_rows": size, "size": number}
            quality = {"score": case.score, "best": min(sign * p["score"] for p in curve) * sign,
                       "reached": passed[0] if passed else None}  # fmt: skip
            row = Row("blocklearn", bl.__version__, settings, curve[-1]["seconds"], quality)
            row.curve = curve
            report.rows.append(row)
    return report


def trained(case: Case, size: Any, budget: float) -> tuple[int, list[dict[str, Any]]]:
    """Return the rows of a block, and the curve of one training."""
    clock = Clock(case.score, budget)
    learner = bl.Learner(case.model(), case.train, case.held, passes=60, block_rows=size, threads=1,
                         hooks=[clock], verbose=False)  # fmt: skip
    learner.fit().close()
    return learner.data.block_rows, clock.curve


def cases(X: Any, k: int) -> dict[str, Case]:
    """Return shapes cut from the counts X [documents x words], and made ones, by name."""
    rng = np.random.default_rng(0)
    n, order = X.shape[0], rng.permutation(X.shape[0])
    common = np.sort(np.argsort(-np.asarray(X.sum(0)).ravel())[:300])
    merge = sp.csr_array((np.ones(n), (np.arange(n) // 40, np.arange(n))))
    sets = {
        "all": X[order],
        "8000 documents": X[order[:8000]],
        "2000 documents": X[order[:2000]],
        "40 merged into one": merge @ X,
        "300 commonest words": X[order[:8000]][:, common],
    }
    found = {}
    for name, data in sets.items():
        train, held = cut(sp.csr_array(data).astype(np.float32))
        for inference in ("gibbs", "cvb0", "vb"):
            model = lambda inference=inference: LDA(topics=k, inference=inference)  # noqa: E731
            found[f"lda {inference} on {name}"] = Case(model, train, held, "perplexity")
    train, held = cut(sp.csr_array(sets["8000 documents"]).astype(np.float32))
    found["nmf on 8000 documents"] = Case(lambda: NMF(components=k), train, held, "rmse")
    mix = rng.gamma(0.3, size=(5000, 20)) @ rng.gamma(0.3, size=(20, 200))
    train, held = cut((mix + 0.01 * rng.random(mix.shape)).astype(np.float32))
    found["nmf on dense rows"] = Case(lambda: NMF(components=20), train, held, "rmse")
    features = rng.normal(size=(40_000, 50)).astype(np.float32)
    said = features @ rng.normal(size=50) + 2 * rng.normal(size=40_000) > 0
    (train, held), (y, y_held) = cut(features), cut(said.astype(np.float32)[:, None])
    found["glm on tall rows"] = Case(GLM, (train, y), (held, y_held), "auc", lower=False)
    wide = sp.csr_array(sets["8000 documents"]).astype(np.float32)
    many = (wide @ (rng.normal(size=(X.shape[1], 100)) / 9) > 1).astype(np.float32)
    (train, held), (y, y_held) = cut(wide), cut(many)
    found["glm on wide rows"] = Case(GLM, (train, y), (held, y_held), "auc", lower=False)
    return found


def cut(X: Any) -> tuple[Any, Any]:
    """Return the first nine tenths of the rows, and the rest."""
    at = X.shape[0] - max(1, min(X.shape[0] // 10, 1000))
    return X[:at], X[at:]


def show(report: Report) -> str:
    """Return a table: a line for each shape."""
    lines: list[list[Any]] = []
    for label in dict.fromkeys(row.settings["shape"] for row in report.rows):
        rows = [row for row in report.rows if row.settings["shape"] == label]
        (auto,) = (row for row in rows if row.settings["block_rows"] == "auto")
        timed = [row for row in rows if row is not auto and row.quality["reached"] is not None]
        best = min(timed, key=lambda row: row.quality["reached"], default=None)
        ours = auto.quality["reached"]
        theirs = None if best is None else best.quality["reached"]
        ratio = None if ours is None or theirs is None else ours / theirs
        size = None if best is None else best.settings["size"]
        own = auto.settings["rows"], auto.settings["size"], ours, auto.quality["best"]
        lines.append([label, *own, size, theirs, ratio])
    head = ["shape", "rows", "auto", "s", "best score", "best size", "s", "auto / best"]
    return table(head, lines)
