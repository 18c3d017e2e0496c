"""What does a call of a trained estimator take: a row predicted, a hundred rows learned?

    scripts/bench calls

Estimators of 2,000 rows are called beside scikit-learn's, in turns: `predict` or `transform` of one
row, of 1,000 and of `--rows`, and `partial_fit` of 100 rows after 100 others. The least of all
rounds counts, in processor seconds of one thread (`OMP_NUM_THREADS=1`). Dense rows have 20 columns;
sparse ones 5,000, with 20 non-zeros at most.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import blocklearn as bl

from .machine import describe
from .report import Ratio, Report, Row, table

PEER_NAMES: tuple[str, ...] = ("scikit-learn",)
FITTED, PREDICTED, LEARNED = 2_000, (1, 1_000), 100  # rows
IN_A_ROW = 3  # calls of a system before the next one has its turn


class Pair(NamedTuple):
    """An estimator and the one of scikit-learn beside it; None: it has none."""

    name: str
    ours: Any
    theirs: Any
    X: Any
    y: Any = None


class Call(NamedTuple):
    """A call, by system. rows: that it gets."""

    name: str
    what: str
    rows: int
    system: str
    run: Callable[[], Any]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--rows", type=int, default=30_000, help="of the largest prediction")
    parser.add_argument("--rounds", type=int, default=20, help="the least of them counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Time every call of every system, in turns."""
    if args.quick:
        args.rounds, args.rows = 3, FITTED
    about = {"fitted": FITTED, "rows": args.rows, "columns": [20, 5_000], "sparse nnz a row": 20}
    report = Report("calls", "least processor time of a call", about, describe())
    warnings.simplefilter("ignore")  # that a few passes do not converge
    for pair in pairs(args.rows, 2 if args.quick else None):
        calls = list(calls_of(pair, args.rows, bool(peers)))
        least = [float("inf")] * len(calls)
        for _ in range(args.rounds):
            for number, call in enumerate(calls):
                for _ in range(IN_A_ROW):
                    begun = time.process_time()
                    call.run()
                    least[number] = min(least[number], time.process_time() - begun)
        for call, seconds in zip(calls, least, strict=True):
            settings = {"of": call.name, "call": call.what, "rows": call.rows}
            report.rows.append(Row(call.system, versions()[call.system], settings, seconds, {}))
    report.ratios = list(ratios(report.rows))
    return report


def versions() -> dict[str, str]:
    """Return the versions of both packages."""
    import sklearn

    return {"blocklearn": bl.__version__, "scikit-learn": sklearn.__version__}


def pairs(rows: int, some: int | None) -> Iterator[Pair]:
    """Yield the estimators, each with its data. some: only so many."""
    from sklearn import cluster, decomposition, linear_model, mixture
    from sklearn.base import clone

    dense, sparse = data(max(rows, FITTED))
    label = (dense[:, 0] + 0.5 * dense[:, 1] > 0).astype(np.int64)
    one: dict[str, Any] = {"n_jobs": 1, "random_state": 0}
    short: dict[str, Any] = {"max_iter": 3}
    full: dict[str, Any] = {"covariance_type": "full", "max_iter": 5}
    linear, sgd = bl.GLMClassifier(**one), linear_model.SGDClassifier(loss="log_loss")
    found = [
        Pair("linear classifier, dense", linear, sgd, dense, label),
        Pair("k-means, dense", bl.KMeans(8, **one), cluster.MiniBatchKMeans(8, n_init=1), dense),
        Pair("linear classifier, sparse", clone(linear), clone(sgd), sparse, label),
        Pair(
            "linear regressor, dense",
            bl.GLMRegressor(**one),
            linear_model.SGDRegressor(),
            dense,
            dense[:, 0],
        ),
        Pair("factorization machine, sparse", bl.FMClassifier(**short, **one), None, sparse, label),
        Pair(
            "mixture, full, dense",
            bl.GaussianMixture(5, **full, **one),
            mixture.GaussianMixture(5, **full),
            dense,
        ),
        Pair("PCA, dense", bl.PCA(5, **one), decomposition.PCA(5), dense),
        Pair("SVD, sparse", bl.TruncatedSVD(5, **one), decomposition.TruncatedSVD(5), sparse),
        Pair(
            "NMF, sparse",
            bl.NMF(5, **short, **one),
            decomposition.MiniBatchNMF(5, **short),
            sparse,
        ),
        Pair(
            "LDA, sparse",
            bl.LatentDirichletAllocation(10, **short, **one),
            decomposition.LatentDirichletAllocation(10, **short),
            sparse,
        ),
    ]
    yield from found[:some]


def data(rows: int) -> tuple[Any, Any]:
    """Return dense rows, and sparse rows of counts, float32."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(rows, 20)).astype(np.float32)
    columns = np.sort(rng.integers(0, 5_000, (rows, 20)), axis=1).astype(np.int32)
    columns = np.maximum.accumulate(columns, axis=1)
    counts = rng.integers(1, 4, rows * 20).astype(np.float32)
    starts = np.arange(0, rows * 20 + 1, 20, dtype=np.int32)
    sparse = sp.csr_array((counts, columns.ravel(), starts), shape=(rows, 5_000))
    sparse.sum_duplicates()
    return dense, sparse


def calls_of(pair: Pair, rows: int, peers: bool) -> Iterator[Call]:
    """Fit the estimators of a pair, and yield their calls."""
    from sklearn.base import clone, is_classifier

    both = {"blocklearn": pair.ours, "scikit-learn": pair.theirs if peers else None}
    for system, estimator in both.items():
        if estimator is None:
            continue
        given = (pair.X,) if pair.y is None else (pair.X, pair.y)
        estimator.fit(*(each[:FITTED] for each in given))
        what = "predict" if hasattr(estimator, "predict") else "transform"
        for count in (*PREDICTED, rows):
            call = partial(getattr(estimator, what), pair.X[:count])
            yield Call(pair.name, what, count, system, call)
        if hasattr(estimator, "partial_fit"):
            few = [each[:LEARNED] for each in given]
            learning = clone(estimator)
            classes = {"classes": np.unique(pair.y)} if is_classifier(estimator) else {}
            learning.partial_fit(*few, **classes)
            call = partial(learning.partial_fit, *few)
            yield Call(pair.name, "partial_fit", LEARNED, system, call)


def ratios(rows: list[Row]) -> Iterator[Ratio]:
    """Yield scikit-learn's seconds / ours, for each call that both have."""
    times = {(row.system, *row.settings.values()): row.seconds for row in rows}
    for (system, *call), seconds in times.items():
        theirs = times.get(("scikit-learn", *call))
        if system == "blocklearn" and theirs is not None:
            name, what, count = call
            value = round(theirs / max(seconds, 1e-9), 2)
            yield Ratio(f"{name}: {what}, {count} rows", "scikit-learn", "blocklearn", value)


def show(report: Report) -> str:
    """Return a table with a line for each call, in milliseconds."""
    times: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in report.rows:
        times.setdefault(tuple(row.settings.values()), {})[row.system] = 1e3 * row.seconds
    lines = [
        [name, what, rows, of.get("blocklearn"), of.get("scikit-learn")]
        for (name, what, rows), of in times.items()
    ]
    return table(["", "call", "rows", "blocklearn, ms", "scikit-learn, ms"], lines)
