"""How long do kernels compile, for a first model and for another width?

    scripts/bench compile --json compile.json

Each model trains in a process of its own, with nothing compiled: on some rows, for one pass. The
figure is the processor time of the process, and of those that compile for it, for its first fit. It
includes all imports but NumPy's and SciPy's, with Python's bytecode of all packages on disk.
`clock` is what passes meanwhile. `again` is the processor time of the same fit once more, when all
is compiled. `other width` is a fit with another number of topics, factors or targets (of inputs for
one target), less `again`: what its own kernels cost. Models without a width have none. Garbage is
collected before each fit: Python's first full collection takes 0.1 to 0.2 s, once in a process, in
a fit or at its end.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from .data import facts
from .machine import describe
from .report import Report, Row, table

PEER_NAMES: tuple[str, ...] = ()
ROWS, COLUMNS = 256, 300


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--widths", default="32,50", metavar="K,K", help="the first and another")
    parser.add_argument("--only", metavar="a,b", help="names of models")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Fit every model in a process without compiled kernels."""
    first, other = (int(k) for k in args.widths.split(","))
    names = args.only.split(",") if args.only else list(fits())
    if unknown := set(names) - fits().keys():
        raise ValueError(f"--only: no {min(unknown)} here; there are {', '.join(fits())}.")
    import blocklearn as bl

    report = Report("compile", "the first fit, of all threads", facts(counts(), ""), describe())
    for name in names:
        cold, again, wide, clock = alone(name, first, other)
        quality = {"clock": clock, "again": again, "other width": max(0.0, wide - again)}
        settings = {"model": name, "width": first, "other width": other}
        report.rows.append(Row("blocklearn", bl.__version__, settings, cold, quality))
    return report


def counts() -> Any:
    """Return small counts [rows x columns]."""
    import numpy as np
    import scipy.sparse as sp

    numbers = np.random.default_rng(0).poisson(0.2, (ROWS, COLUMNS)).astype(np.float32)
    return sp.csr_array(numbers)


def fits() -> dict[str, Callable[[int], Any]]:
    """Return functions that fit a model of some width, by name."""
    import numpy as np

    import blocklearn as bl  # which imports the rest in fits

    X = counts()
    dense, links = X[:, :20].toarray(), X[:, :ROWS]
    y = (X.sum(axis=1) > 60).astype(np.float32)
    words = [[f"word{n}" for n in row.nonzero()[0]] for row in X.toarray()]

    def targets(k: int) -> Any:
        return (np.random.default_rng(k).random((ROWS, k)) < 0.3).astype(np.float32)

    def train(model: Any, data: Any = X, optimizer: Any = None) -> None:
        bl.Learner(model, train=data, optimizer=optimizer, passes=1).fit()

    return {
        "lda vb": lambda k: train(bl.models.LDA(topics=k, inference="vb")),
        "lda cvb0": lambda k: train(bl.models.LDA(topics=k, inference="cvb0")),
        "lda gibbs": lambda k: train(bl.models.LDA(topics=k, inference="gibbs", warm_up=0)),
        "als cg": lambda k: train(bl.models.ALS(rank=k, reg=0.05)),
        "als cholesky": lambda k: train(bl.models.ALS(rank=k, reg=0.05, solver="cholesky")),
        "kmeans": lambda k: train(bl.models.KMeans(clusters=k)),
        "nmf": lambda k: train(bl.models.NMF(components=k)),
        "glm by block": lambda k: train(bl.models.GLM(), (X, targets(k)), bl.optimizers.AdaGrad()),
        "glm by row": lambda k: train(
            bl.models.GLM(), (X, targets(k)), bl.optimizers.AdaGrad(step_per="row")
        ),
        "LatentDirichletAllocation": lambda k: bl.LatentDirichletAllocation(n_components=k).fit(X),
        "ALS": lambda k: bl.ALS(n_components=k, regularization=0.05).fit(X),
        "NMF": lambda k: bl.NMF(n_components=k).fit(X),
        "GLMClassifier": lambda k: bl.GLMClassifier().fit(X[:, : 100 + k], y),
        "GLMRegressor": lambda k: bl.GLMRegressor().fit(X[:, : 100 + k], y),
        "FMClassifier": lambda k: bl.FMClassifier(n_components=k).fit(X, y),
        "FMRegressor": lambda k: bl.FMRegressor(n_components=k).fit(X, y),
        "KMeans": lambda k: bl.KMeans(n_clusters=k).fit(X),
        "GaussianMixture": lambda k: bl.GaussianMixture(n_components=k // 8).fit(dense),
        "PCA": lambda k: bl.PCA(n_components=k).fit(X),
        "TruncatedSVD": lambda k: bl.TruncatedSVD(n_components=k).fit(X),
        "WordVectors": lambda k: bl.WordVectors(n_components=k).fit(words),
        "Ranking": lambda k: bl.Ranking(n_components=k).fit(X),
        "PageRank": lambda _: bl.PageRank().fit(links),
        "ConnectedComponents": lambda _: bl.ConnectedComponents().fit(links),
        "TriangleCount": lambda _: bl.TriangleCount().fit(links),
    }


def alone(name: str, first: int, other: int) -> list[float]:
    """Return the seconds that `timed` prints, from a process that has no compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"BLOCKLEARN_CACHE": folder, "NUMBA_CACHE_DIR": folder}
        own |= {"PYTHONPYCACHEPREFIX": bytecode(), "PYTHONDONTWRITEBYTECODE": ""}
        code = f"from {__name__} import timed; timed({name!r}, {first}, {other})"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | own,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise OSError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


@cache
def bytecode() -> str:
    """Return a folder with Python's bytecode of what a fit imports, as installing leaves it."""
    folder = tempfile.mkdtemp(prefix="bytecode-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    own = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
    parts = "blocklearn", "blocklearn.models", "blocklearn.optimizers"
    imports = "; ".join(f"from {part} import *" for part in parts)
    code = f"from {__name__} import fits; {imports}; fits(); ALS()"
    subprocess.run([sys.executable, "-c", code], env=os.environ | own, check=True)
    return folder


def timed(name: str, first: int, other: int) -> None:
    """Print the processor seconds of three fits: the first, the same again, another width.

    After them, the seconds of the first by the clock.
    """
    fit = fits()[name]
    seconds, clock = [], []
    for width in (first, first, other):
        gc.collect()
        begun, at = spent(), time.perf_counter()
        fit(width)
        seconds.append(spent() - begun)
        clock.append(time.perf_counter() - at)
    print(json.dumps([*seconds, clock[0]]))


def spent() -> float:
    """Return the processor seconds of this process, and of its children that have ended."""
    return time.process_time() + sum(os.times()[2:4])


def show(report: Report) -> str:
    """Return a table."""
    others = ["clock", "again", "other width"]
    lines = [
        [row.settings["model"], row.seconds, *(row.quality[name] for name in others)]
        for row in report.rows
    ]
    return table(["s of processor time", "first fit", "its clock", *others[1:]], lines)
