"""How fast do the same trainings run on a GPU and on the CPU, and do they score the same?

    scripts/bench devices --data DIR/abstracts --devices cpu,cuda

The folder decides which models are trained, by its files, as of `scripts/bench all`: docword.npz
(topics, NMF), with y.npy a GLM of one target; X.npz and Y.npz: a GLM of many targets; ratings.npz:
ALS. Without a folder topics are those of the docstrings of Python's standard library.

Seconds are by the clock, from the third pass on, with what `fit()` begins and ends with. Kernels
are compiled or loaded in the first two. A twentieth of the rows is held out; ALS is scored on the
ratings that it learns from.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models import ALS, GLM, LDA, NMF
from blocklearn.optimizers import AdaGrad

from .data import facts, load
from .machine import describe
from .report import Ratio, Report, Row, table

PEER_NAMES: tuple[str, ...] = ()
HELD_OUT = 20  # one row of so many
FIRST = 2  # passes that are not timed


class Training(NamedTuple):
    """A model with its data.

    train, test: X or (X, Y).
    passes: of the training.
    score: the name of the score that is shown.
    """

    name: str
    model: Callable[[], Any]
    train: Any
    test: Any
    passes: int
    score: str
    options: dict[str, Any]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="a data set")
    parser.add_argument("--devices", default="cpu,cuda", help="to compare, the first one with all")
    parser.add_argument("--topics", default="100,1000", help="numbers of topics")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Train each model on each device."""
    names = args.devices.split(",")
    topics = [4] if args.quick else [int(number) for number in args.topics.split(",")]
    every = list(trainings(args.data, topics))
    if not every:
        files = "docword.npz, X.npz with Y.npz, ratings.npz"
        raise ValueError(f"--data {args.data}: none of {files} is there.")
    first, label = every[0].train, str(args.data or "python-docs")
    data = facts(first[0] if isinstance(first, tuple) else first, label)
    report = Report("devices", "passes after the second", data, describe())
    for training in every:
        passes = FIRST + 1 if args.quick else training.passes
        found = [trained(training, device, passes) for device in names]
        report.rows += found
        for name, row in zip(names[1:], found[1:], strict=True):
            value = round(found[0].seconds / row.seconds, 1)
            report.ratios.append(Ratio(f"seconds, {training.name}", names[0], name, value))
    return report


def trainings(folder: Path | None, topics: list[int]) -> Iterator[Training]:
    """Yield what the files of a data set are for. None: topics of docstrings."""
    by_block = {"optimizer": AdaGrad(), "block_rows": 1024}
    counts = None if folder is None else folder / "docword.npz"
    if counts is None or counts.exists():
        X, large = load(counts)[0], {"block_rows": 4096}
        words = split(X)
        for k in topics:
            for way, passes in (("gibbs", 20), ("cvb0", 10), ("vb", 10)):

                def lda(k: int = k, way: Any = way) -> Any:
                    return LDA(topics=k, inference=way, alpha=0.05, eta=0.05)

                name = f"LDA, {way}, K = {k:,}"
                yield Training(name, lda, *words, passes, "perplexity", large)
        yield Training("NMF, 40 parts", lambda: NMF(components=40), *words, 10, "rmse", large)
    if folder is None:
        return
    if counts is not None and counts.exists() and (folder / "y.npy").exists():
        y = np.load(folder / "y.npy").astype(np.float32)[:, None]
        yield Training("GLM, 1 target", GLM, *split(X, y), 10, "auc", by_block)
    if (folder / "Y.npz").exists():
        A, Y = (sp.csr_array(sp.load_npz(folder / f"{n}.npz")).astype(np.float32) for n in "XY")
        name = f"GLM, {Y.shape[1]} targets"
        yield Training(name, GLM, *split(A, Y.toarray()), 20, "auc", by_block)
    if (folder / "ratings.npz").exists():
        found = np.load(folder / "ratings.npz")
        shape = int(found["n_users"]), int(found["n_items"])
        R = sp.csr_array((found["rating"], (found["user"], found["item"])), shape=shape)
        for solver in ("cg", "cholesky"):

            def als(solver: Any = solver) -> Any:
                return ALS(rank=32, solver=solver)

            yield Training(f"ALS, {solver}, rank 32", als, R, R, 10, "rmse", {})


def split(*arrays: Any) -> tuple[Any, Any]:
    """Return the training rows and those that are held out; of several arrays as tuples."""
    order = np.random.default_rng(0).permutation(arrays[0].shape[0])
    held = order.size // HELD_OUT
    train, test = (tuple(a[rows] for a in arrays) for rows in (order[held:], order[:held]))
    return (train, test) if len(arrays) > 1 else (train[0], test[0])


def trained(training: Training, device: str, passes: int) -> Row:
    """Train on a device; return the seconds after the first passes, and the score."""
    settings = {"verbose": False, "device": device, **training.options}
    learner = bl.Learner(training.model(), training.train, passes=passes, **settings)
    learner.passes = FIRST
    learner.fit()
    learner.passes, begun = passes, time.perf_counter()
    learner.fit()
    spent = time.perf_counter() - begun
    quality = {training.score: learner.evaluate(training.test)[training.score]}
    learner.close()
    return Row(device, bl.__version__, {"model": training.name, "passes": passes}, spent, quality)


def show(report: Report) -> str:
    """Return a table."""
    lines = [
        [row.settings["model"], row.system, f"{FIRST + 1} to {row.settings['passes']}", row.seconds]
        + [f"{name} {value:.4f}" for name, value in row.quality.items()]
        for row in report.rows
    ]
    return table(["", "device", "passes", "seconds", "score"], lines)
