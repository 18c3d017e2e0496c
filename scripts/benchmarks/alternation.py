"""How long does one alternation of ALS take, beside cmfrec's, at which rank?

    scripts/bench alternation --data DIR --rank 20,50,100,200

DIR has folders of ratings, DIR/NAME/ratings.npz; without it, ratings are made. Explicit ratings,
biases, three steps of conjugate gradients and one thread on either side. Systems train in turns, in
processor seconds. cmfrec's alternation is a third of what three iterations add to one; ours is the
median of the passes after the first two.
"""

from __future__ import annotations

import argparse
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models import ALS

from .als import ranks
from .als_data import files_in, load, made, split
from .als_systems import BLOCK_ROWS
from .data import facts
from .machine import describe
from .report import Ratio, Report, Row, table

PEER_NAMES = ("cmfrec",)
OURS, REG, PASSES = "blocklearn", 0.1, 6
BOOKS = 53_000, 10_000, 1_000_000  # users, items, ratings drawn


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="[made ratings of books]")
    parser.add_argument("--rank", type=ranks, default=[20, 50, 100, 200], metavar="K,K")
    parser.add_argument("--rounds", type=int, default=3, help="in turns; the median counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Time both systems at each rank on each set, in turns."""
    if args.quick:
        args.rank, args.rounds = args.rank[:1], 1
    books = (60, 40, 900) if args.quick else BOOKS
    sets = [
        split("books", *made(*books)) if file is None else load(file)
        for file in files_in(args.data)
    ]
    about = facts(sets[0].train, sets[0].name)
    report = Report("alternation", "processor time of one alternation", about, describe())
    for ratings in sets:
        for rank in args.rank:
            compare(report, ratings.name, ratings.train, rank, args.rounds, peers)
    return report


def compare(report: Report, name: str, X: Any, rank: int, rounds: int, peers: list[str]) -> None:
    """Add the rows of a set and a rank, and the median of the rounds' ratios."""
    settings = {"set": name, "rank": rank, "ratings": X.nnz}
    ours, others = [], []
    for _ in range(rounds):
        ours.append(alternation(X, rank))
        others += [cmfrec_alternation(X, rank) for _ in peers]

    def add(system: str, number: str, seconds: list[float]) -> None:
        quality = {"ratings_per_s": round(X.nnz / median(seconds))}
        report.rows.append(Row(system, number, settings, median(seconds), quality))

    add(OURS, bl.__version__, ours)
    if others:
        add("cmfrec", version("cmfrec"), others)
        value = round(median(a / b for a, b in zip(ours, others, strict=True)), 2)
        report.ratios.append(Ratio(f"{name}, {rank}", OURS, "cmfrec", value))


class Times(bl.Hook):
    """Notes the processor time after each pass."""

    def __init__(self) -> None:
        self.noted: list[float] = []

    def pass_end(self, learner: bl.Learner, progress: bl.Progress) -> None:
        """Note the time."""
        self.noted.append(time.process_time())


def alternation(X: Any, rank: int) -> float:
    """Return the seconds of one pass of ours, when all is compiled and kept."""
    times, model = Times(), ALS(rank=rank, reg=REG)
    options: dict[str, Any] = {"passes": PASSES, "block_rows": BLOCK_ROWS, "threads": 1}
    bl.Learner(model, X, hooks=[times], **options).fit().close()
    return float(np.median(np.diff(times.noted)[1:]))


def cmfrec_alternation(X: Any, rank: int) -> float:
    """Return the seconds that an iteration adds to a fit of cmfrec."""
    from cmfrec import CMF

    entries = sp.coo_matrix(X)

    def seconds(iterations: int) -> float:
        begun = time.process_time()
        CMF(
            k=rank, lambda_=REG, niter=iterations, method="als", use_cg=True, max_cg_steps=3,
            finalize_chol=False, scale_lam=True, user_bias=True, item_bias=True, center=True,
            use_float=True, precompute_for_predictions=False, nthreads=1, random_state=1,
            verbose=False,
        ).fit(entries)  # fmt: skip
        return time.process_time() - begun

    seconds(1)  # loads the library
    return (seconds(4) - seconds(1)) / 3


def show(report: Report) -> str:
    """Return a table with a line for each set, rank and system, and the ratios."""
    lines = [[r.settings["set"], r.settings["rank"], r.system, r.seconds] for r in report.rows]
    notes = [f"{ratio.name}: {ratio.of} / {ratio.to} {ratio.value}" for ratio in report.ratios]
    return "\n".join([table(["set", "rank", "system", "seconds"], lines), *notes])
