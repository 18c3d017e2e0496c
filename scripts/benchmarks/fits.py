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
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models.glm.scoring.areas import area

from .data import load
from .first_fit import first_fit
from .glm import features
from .glm_systems import sample
from .machine import describe
from .report import Report
from .turns import OURS, System, in_turns, ratios
from .turns import show as show_table

PEER_NAMES: tuple[str, ...] = ("logistic", "liblinear", "sgd")
CLASS = "GLMClassifier"
SHORT = (11_000, 500, 18)  # rows, features and non-zeros a row of --short


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
    in_turns(report, systems, args.rounds, "auc", lambda f: auc(f(X[test]), y[test], columns))
    report.ratios = list(ratios(report.rows, "auc", 4))
    if y.ndim == 1:
        report.data["first"] = first_fits(X[train], y[train], [CLASS, *peers], args.rounds)
    return report


def first_fits(X: Any, y: Any, names: list[str], rounds: int) -> dict[str, float]:
    """Return the seconds of first fits, medians of processes in turns.

    "GLMClassifier, nothing compiled" is the first one on a machine. Of more than two classes,
    liblinear is left out, which has no fit for them.
    """
    names = [name for name in names if name != "liblinear" or np.unique(y).size == 2]
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        sp.save_npz(Path(folder) / "X.npz", X)
        np.save(Path(folder) / "y.npy", y)
        found[f"{CLASS}, nothing compiled"] = [first_fit(CLASS, Path(folder), compiled=False)]
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
    """Yield ours; training returns what scores held-out rows [n x columns]."""

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
        fitted(settings)  # compiles
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


def show(report: Report) -> str:
    """Return tables of all systems and of the ratios."""
    first = [f"first fit of a process, {n}: {s} s" for n, s in report.data.get("first", {}).items()]
    return "\n".join([show_table(report, "auc", 4), *first])
