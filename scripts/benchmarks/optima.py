"""How fast does a fit reach its optimum: our linear estimators, and scikit-learn's solvers?

    scripts/bench optima --data docword.npz --target y.npy

Of two classes, or of numbers, with the penalty 1 / n, each loss and each tolerance. All use one
thread, and fit in turns; the median counts, in processor seconds. The objective is that of the
training rows, computed here for all: mean loss + |W|^2 / (2 n). Two differences between solvers
remain: some have a penalty of the intercept, and `tol` means something else in each.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import blocklearn as bl

from .data import facts
from .fits import auc, data
from .machine import describe
from .report import Report, Row, table

PEER_NAMES: tuple[str, ...] = ("linear_svc", "logistic", "liblinear", "ridge")
OURS = "blocklearn"
Make = Callable[..., Any]
LOSSES: dict[str, Callable[[Any], Any]] = {
    "log_loss": lambda margins: np.logaddexp(0.0, -margins),
    "hinge": lambda margins: np.maximum(0.0, 1.0 - margins),
    "squared_hinge": lambda margins: np.maximum(0.0, 1.0 - margins) ** 2,
}
"""Losses, as functions of y * score, with y = -1 or 1."""
NUMBERS = "squared_error"  # the loss of other targets
TOLERANCES: list[dict[str, Any]] = [{}, *({"tol": tol} for tol in (1e-3, 1e-2, 1e-1, 1.0))]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the task's own options."""
    parser.add_argument("--data", type=Path, help="see `glm`; default: made rows")
    parser.add_argument("--target", type=Path, help=".npy of two classes, or of numbers")
    parser.add_argument("--rounds", type=int, default=3, help="fits; the median counts")


def run(args: argparse.Namespace, peers: list[str]) -> Report:
    """Fit each loss with every system and tolerance, in turns."""
    if args.quick:
        args.rounds = 1
    args.short = args.classes = args.labels = 0
    X, y, name = data(args)
    y = y[:, 0] if y.ndim == 2 else y
    numbers = np.unique(y).size > 2
    y = y.astype(np.float64) if numbers else y == y.max()
    order = np.random.RandomState(0).permutation(len(y))
    held = max(1, len(y) // 10)
    test, train = np.sort(order[:held]), np.sort(order[held:])
    about = facts(X[train], name)
    report = Report("optima", "processor time of a fit", about, describe())
    warnings.simplefilter("ignore")  # that a fit has not converged
    for loss in [NUMBERS] if numbers else LOSSES:
        found: dict[tuple[str, str], list[Row]] = {}
        for round_ in range(args.rounds + 1):
            for system, version, settings, make in systems(loss, peers, len(train)):
                if not round_ and system != OURS:
                    continue  # only ours has something to load
                model = make(**settings)
                begun = time.process_time()
                model.fit(X[train], y[train])
                seconds = time.process_time() - begun
                told = ", ".join(f"{name} {value}" for name, value in settings.items())
                about = {"loss": loss, "told": told or "defaults"}
                quality = {
                    "objective": objective(model, loss, X[train], y[train]),
                    "held out": held_out(model, loss, X[test], y[test]),
                }
                rows = found.setdefault((system, told), [])
                if round_:
                    rows.append(Row(system, version, about, seconds, quality))
        for rows in found.values():
            rows[0].settings["seconds_of_runs"] = [round(row.seconds, 4) for row in rows]
            rows[0].seconds = float(np.median([row.seconds for row in rows]))
            report.rows.append(rows[0])
    return report


def objective(model: Any, loss: str, X: Any, y: Any) -> float:
    """Return the mean loss + |W|^2 / (2 n) of a fitted model. y: bool or numbers [n]."""
    if loss == NUMBERS:
        losses = np.square(model.predict(X) - y) / 2.0
    else:
        losses = LOSSES[loss](np.where(y, 1.0, -1.0) * model.decision_function(X))
    return float(losses.mean() + np.square(model.coef_).sum() / (2 * len(y)))


def held_out(model: Any, loss: str, X: Any, y: Any) -> float:
    """Return the AUC of classes, or R2 of numbers."""
    if loss == NUMBERS:
        return float(model.score(X, y))
    return auc(model.decision_function(X), y, [0, 1])


def systems(
    loss: str, peers: list[str], rows: int
) -> Iterator[tuple[str, str, dict[str, Any], Make]]:
    """Yield name, version, settings and maker of all systems that have a loss."""
    import sklearn
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    def linear_svc(**how: Any) -> Any:
        return LinearSVC(loss=loss, **how)

    def liblinear(**how: Any) -> Any:
        return LogisticRegression(solver="liblinear", **how)

    def ours(**how: Any) -> Any:
        if loss == NUMBERS:
            return bl.GLMRegressor(alpha=1.0 / rows, n_jobs=1, random_state=0, **how)
        return bl.GLMClassifier(loss, n_jobs=1, random_state=0, **how)

    for settings in ({}, {"tol": 1e-2}, {"tol": 1e-6}):
        yield OURS, bl.__version__, settings, ours
    if loss == NUMBERS and "ridge" in peers:
        for solver in ("auto", "sparse_cg", "sag", "lsqr"):
            for tolerance in TOLERANCES[:3]:
                yield "ridge", sklearn.__version__, tolerance | {"solver": solver}, Ridge
    for name in peers:
        fits = {NUMBERS: (), "log_loss": ("logistic", "liblinear")}.get(loss, ("linear_svc",))
        if name not in fits:
            continue
        make = {"linear_svc": linear_svc, "liblinear": liblinear, "logistic": LogisticRegression}
        both = name == "liblinear" or loss == "squared_hinge"  # primal and dual; hinges: dual only
        for side in [{}, {"dual": True}] if both else [{}]:
            for tolerance in TOLERANCES:
                yield name, sklearn.__version__, tolerance | side, make[name]


def show(report: Report) -> str:
    """Return a table of all systems."""
    lines = []
    for row in report.rows:
        same = [r for r in report.rows if r.settings["loss"] == row.settings["loss"]]
        lowest = min(r.quality["objective"] for r in same)
        above = row.quality["objective"] / lowest - 1.0
        lines.append([
            row.settings["loss"], row.system, row.settings["told"], row.seconds,
            f"{row.quality['objective']:.6f}", f"{above:.1e}", f"{row.quality['held out']:.4f}",
        ])  # fmt: skip
    head = ["loss", "", "settings", "seconds", "objective", "above the lowest", "held out"]
    return table(head, lines)
