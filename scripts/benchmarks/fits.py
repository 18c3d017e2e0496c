"""How fast is a whole `fit`: GLMClassifier, and scikit-learn's linear classifiers?

    scripts/bench fits --data docword.npz --target y.npy
    scripts/bench fits --data X.npz --target Y.npz --labels 20
    scripts/bench fits --short 983

All use one thread, and fit in turns; the median counts, in processor seconds. The score is the AUC
of a held-out tenth, the mean over labels or classes. Of more than 10 labels, scikit-learn fits 10,
spread over all; its time is extrapolated, and the AUC of all systems is that of these 10. Fits
before the clock starts compile, and load what is loaded once in a process. For one target `first`
is what a new process takes, imports and all, with the defaults and one thread.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models.glm.areas import area

from .data import load
from .first_fit import first_fit
from .glm import features
from .glm_systems import sample
from .machine import describe
from .report import Ratio, Report, Row, table

PEER_NAMES: tuple[str, ...] = ("logistic", "liblinear", "sgd")
OURS = "GLMClassifier"
SHORT = (11_000, 500, 18)  # rows, features and non-zeros a row of --short


class System(NamedTuple):
    """A way to fit. scores: fits, and returns scores of the held-out rows [n x columns]."""

    name: str
    version: str
    settings: dict[str, Any]
    fit: Callable[[], Callable[[Any], Any]]
    times: float = 1.0  # factor of its seconds


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help="see `glm`; default: python-docs")
    parser.add_argument("--target", type=Path, help=".npy of classes, or .npz of labels 0 and 1")
    parser.add_argument("--labels", type=int, default=0, help="only the commonest ones")
    parser.add_argument("--classes", type=int, default=0, help="only the commonest ones")
    parser.add_argument("--short", type=int, default=0, metavar="T",
                        help="make T labels of rows of 500 features and 18 non-zeros")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, help="fits; the median counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Fit every system with each of its settings, in turns."""
    if args.quick:
        args.rounds = 1
    X, y, name = data(args)
    order = np.random.RandomState(0).permutation(X.shape[0])
    held = max(1, X.shape[0] // 10)
    test, train = np.sort(order[:held]), np.sort(order[held:])
    columns = sample(y.shape[1]) if y.ndim == 2 else list(range(np.unique(y).size))
    about = {
        "name": name, "rows": len(train), "columns": X.shape[1], "nnz": int(X[train].nnz),
        "targets": y.shape[1] if y.ndim == 2 else len(columns),
    }  # fmt: skip
    report = Report("fits", "processor time of a fit", about, describe())
    warnings.simplefilter("ignore")  # that a few passes do not converge
    systems = list(ours(X[train], y[train], columns))
    systems += list(theirs(X[train], y[train], columns, peers))
    systems = systems[:: 3 if args.quick else 1]
    found: list[list[tuple[float, float]]] = [[] for _ in systems]
    for round_ in range(args.rounds + 1):
        for system, results in zip(systems, found, strict=True):
            if not round_ and system.name != OURS:
                continue  # only ours has something to load
            begun = time.process_time()
            scores = system.fit()
            seconds = (time.process_time() - begun) * system.times
            if round_:
                results.append((seconds, auc(scores(X[test]), y[test], columns)))
    for system, results in zip(systems, found, strict=True):
        seconds, quality = np.median(results, axis=0).tolist()
        settings = system.settings | {"seconds_of_runs": [round(s, 4) for s, _ in results]}
        report.rows.append(Row(system.name, system.version, settings, seconds, {"auc": quality}))
    report.ratios = list(ratios(report.rows))
    if y.ndim == 1:
        report.data["first"] = first_fits(X[train], y[train], [OURS, *peers], args.rounds)
    return report


def first_fits(X: Any, y: Any, names: list[str], rounds: int) -> dict[str, float]:
    """Return the seconds of first fits, medians of processes in turns.

    "GLMClassifier, nothing compiled" is the first one on a machine.
    """
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        sp.save_npz(Path(folder) / "X.npz", X)
        np.save(Path(folder) / "y.npy", y)
        found[f"{OURS}, nothing compiled"] = [first_fit(OURS, Path(folder), compiled=False)]
        for _ in range(rounds):
            for name in names:
                seconds = first_fit(name, Path(folder), compiled=True)
                found.setdefault(name, []).append(seconds)
    return {name: round(float(np.median(seconds)), 3) for name, seconds in found.items()}


def data(args: argparse.Namespace) -> tuple[Any, Any, str]:
    """Return X, y and a name: classes [n], or labels [n x T]."""
    if args.short or args.target is None:
        X, Y = short_rows(args.short or 3)
        return X, Y, f"{Y.shape[1]} made labels"
    counts, name = load(args.data)
    X = features(counts)
    X = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    y = sp.load_npz(args.target) if args.target.suffix == ".npz" else np.load(args.target)
    if args.classes:
        found, sizes = np.unique(y, return_counts=True)
        kept = np.isin(y, found[np.argsort(-sizes)[: args.classes]])
        X, y = X[kept], y[kept]
    if sp.issparse(y):
        y = (y.toarray() > 0).astype(np.int8)
        y = y[:, np.argsort(-y.sum(axis=0, dtype=int))[: args.labels or None]]
    return X, y, name


def short_rows(labels: int) -> tuple[Any, Any]:
    """Return rows like those of a table of codes, and labels that depend on 12 factors.

    Rows have length 1. A feature's popularity falls by its rank; a label has 0.5 to 30 % of rows.
    """
    rows, columns, each = SHORT
    rng = np.random.default_rng(0)
    popular = np.log(1.0 / (np.arange(columns) + 3.0)) + rng.gumbel(size=(rows, columns))
    places = np.sort(np.argpartition(-popular, each, axis=1)[:, :each], axis=1)
    values = rng.lognormal(0.0, 0.5, (rows, each))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    starts = np.arange(0, rows * each + 1, each)
    shape = rows, columns
    X = sp.csr_array((values.ravel().astype(np.float32), places.ravel(), starts), shape=shape)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    W = rng.standard_normal((columns, 12)) @ rng.standard_normal((12, labels))
    scores = X @ W
    scores = scores / scores.std(axis=0) + 0.5 * rng.standard_normal(scores.shape)
    shares = rng.uniform(0.005, 0.3, labels)
    cuts = [np.quantile(scores[:, j], 1.0 - shares[j]) for j in range(labels)]
    return X, (scores > cuts).astype(np.int8)


def ours(X: Any, y: Any, columns: list[int]) -> Iterator[System]:
    """Yield ours."""

    def fitted(settings: dict[str, Any]) -> Callable[[Any], Any]:
        model = bl.GLMClassifier(n_jobs=1, random_state=0, **settings).fit(X, y)

        def scores(rows: Any) -> Any:
            found = model.decision_function(rows)
            return found[:, columns] if y.ndim == 2 else found

        return scores

    for settings in [
        {},
        *({"max_iter": passes} for passes in (1, 2, 3)),
        *({"alpha": alpha, **more} for alpha in (1e-4, 1e-5) for more in ({}, {"max_iter": 2})),
    ]:
        yield System(OURS, bl.__version__, settings, lambda s=settings: fitted(s))


def theirs(X: Any, y: Any, columns: list[int], peers: list[str]) -> Iterator[System]:
    """Yield scikit-learn's."""
    import sklearn
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.multiclass import OneVsRestClassifier
    from threadpoolctl import threadpool_limits

    def fitted(make: Callable[[], Any], *, classes: bool) -> Callable[[Any], Any]:
        with threadpool_limits(1):
            if y.ndim == 1:
                model = make() if classes else OneVsRestClassifier(make())
                return model.fit(X, y).decision_function
            models = [make().fit(X, y[:, column]) for column in columns]
        return lambda rows: np.stack([model.decision_function(rows) for model in models], axis=1)

    times = 1.0 if y.ndim == 1 else y.shape[1] / len(columns)
    two = y.ndim == 2 or len(columns) == 2
    kinds: dict[str, tuple[Callable[..., Any], list[dict[str, Any]], bool]] = {
        "logistic": (LogisticRegression, [{}, {"C": 10.0}], True),
        "liblinear": (
            lambda **how: LogisticRegression(solver="liblinear", **how), [{}, {"C": 10.0}], two,
        ),
        "sgd": (
            lambda **how: SGDClassifier("log_loss", random_state=0, **how),
            [{"alpha": alpha, **more} for alpha in (1e-4, 1e-5) for more in
             ({}, {"max_iter": 1, "tol": None}, {"max_iter": 3, "tol": None})],
            True,
        ),
    }  # fmt: skip
    for name in peers:
        kind, grid, classes = kinds[name]
        for settings in grid:
            make = lambda kind=kind, s=settings: kind(**s)  # noqa: E731
            fit = lambda make=make, c=classes: fitted(make, classes=c)  # noqa: E731
            yield System(name, sklearn.__version__, settings, fit, times)


def auc(scores: Any, y: Any, columns: list[int]) -> float:
    """Return the mean AUC over labels, or of each class against the rest."""
    scores = scores[:, None] if scores.ndim == 1 else scores
    if y.ndim == 2:
        Y = y[:, columns]
    else:
        names = np.unique(y)
        Y = y[:, None] == (names[1:] if len(names) == 2 else names)[None]
    Y, ones = Y.astype(np.float32), np.ones(len(Y))
    usable = [t for t in range(Y.shape[1]) if 0 < Y[:, t].sum() < len(Y)]
    return float(np.mean([area(scores[:, t], Y[:, t], ones) for t in usable]))


def ratios(rows: list[Row]) -> Iterator[Ratio]:
    """Yield, for each peer, its seconds / ours to its AUC, and with the defaults of both."""
    mine = [row for row in rows if row.system == OURS]
    for peer in (row for row in rows if row.system != OURS):
        wanted = round(peer.quality["auc"], 4)
        there = [row for row in mine if round(row.quality["auc"], 4) >= wanted]
        best = min(there, key=lambda row: row.seconds) if there else None
        note = f"{told(peer)}: {wanted:.4f} after {peer.seconds:.3f} s; ours: "
        note += f"{told(best)}, {best.seconds:.3f} s" if best else "never"
        value = None if best is None else round(peer.seconds / best.seconds, 2)
        yield Ratio("seconds to the peer's AUC", f"{peer.system}, {told(peer)}", OURS, value, note)


def told(row: Row) -> str:
    """Return the settings of a system."""
    given = {k: v for k, v in row.settings.items() if k != "seconds_of_runs"}
    return ", ".join(f"{name} {value}" for name, value in given.items()) or "defaults"


def show(report: Report) -> str:
    """Return tables of all systems and of the ratios."""
    lines = [
        [row.system, told(row), f"{row.quality['auc']:.4f}", row.seconds] for row in report.rows
    ]
    notes = [f"{ratio.name}, {ratio.of}: {ratio.value} ({ratio.note})" for ratio in report.ratios]
    first = [f"first fit of a process, {n}: {s} s" for n, s in report.data.get("first", {}).items()]
    return "\n".join([table(["", "settings", "AUC", "seconds"], lines), *notes, *first])
