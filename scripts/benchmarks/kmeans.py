"""How fast are clusters found: k-means, and scikit-learn's KMeans and MiniBatchKMeans?

    scripts/bench kmeans --data counts.npz
    scripts/bench kmeans --dense 64

All systems use one thread. The score is the mean squared distance of the training rows from their
centres. Every system makes several numbers of passes, so times to the same score can be compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import python_docs
from blocklearn.models import KMeans

from .machine import describe
from .report import Report
from .turns import System, in_turns
from .turns import show as show_table

PEER_NAMES: tuple[str, ...] = ("scikit-learn",)
FIGURE = "mean_squared_distance"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help=".npz of a sparse matrix [python-docs]")
    parser.add_argument("--dense", type=int, default=0, help="made rows with so many columns")
    parser.add_argument("--rows", type=int, default=50_000, help="of made rows")
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3, help="trainings; the median counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Train every system with each of its settings, in turns."""
    if args.quick:
        args.clusters, args.rounds = 4, 1
    X = rows(args)
    about = {"name": str(args.data or args.dense), "rows": X.shape[0], "columns": X.shape[1]}
    report = Report("kmeans", "processor time of training", about, describe())
    systems = list(ours(X, args.clusters))
    if "scikit-learn" in peers:
        systems += list(theirs(X, args.clusters))
    systems = systems[:: 3 if args.quick else 1]
    in_turns(report, systems, args.rounds, FIGURE, lambda centres: distance(X, centres))
    return report


def rows(args: argparse.Namespace) -> Any:
    """Return the rows to cluster."""
    if args.dense:
        rng = np.random.default_rng(0)
        centres = rng.normal(size=(2 * args.clusters, args.dense))
        X = centres[rng.integers(len(centres), size=args.rows)]
        return (X + rng.normal(size=X.shape)).astype(np.float32)
    found = python_docs().counts if args.data is None else sp.load_npz(args.data)
    X = sp.csr_array(found).astype(np.float32)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # scikit-learn's
    return X


def ours(X: Any, k: int) -> Iterator[System]:
    """Yield ours."""

    def trained(**settings: Any) -> Any:
        passes = settings.pop("passes")
        model = KMeans(clusters=k, **settings)
        learner = bl.Learner(model, X, passes=passes, threads=1, verbose=False).fit()
        return learner.parameter("centres").T

    for settings in [
        *({"passes": passes} for passes in (1, 2, 5, 10)),
        *({"update_centres": "batch", "passes": passes} for passes in (2, 5, 20)),
    ]:
        trained(**settings)  # compiles
        yield System("blocklearn", bl.__version__, settings, lambda s=settings: trained(**s))


def theirs(X: Any, k: int) -> Iterator[System]:
    """Yield scikit-learn's."""
    import sklearn
    from sklearn.cluster import KMeans as Lloyd
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    def trained(kind: Any, settings: dict[str, Any]) -> Any:
        with threadpool_limits(1):
            return kind(k, n_init=1, random_state=0, **settings).fit(X).cluster_centers_

    for kind in (MiniBatchKMeans, Lloyd):
        for passes in (1, 2, 5, 10, 20):
            settings = {"max_iter": passes}
            train = lambda kind=kind, s=settings: trained(kind, s)  # noqa: E731
            yield System(f"scikit-learn {kind.__name__}", sklearn.__version__, settings, train)


def distance(X: Any, centres: Any) -> float:
    """Return the mean squared distance of rows from the nearest of the centres, in float64."""
    C = np.asarray(centres, np.float64)
    squares = np.asarray((X * X).sum(axis=1), np.float64).reshape(-1)
    products = np.asarray(X @ C.T)
    return float((squares - (2.0 * products - (C * C).sum(axis=1)).max(axis=1)).mean())


def show(report: Report) -> str:
    """Return a table."""
    return show_table(report, FIGURE, 5)
