"""Fit a classifier by dual ascent, which reads the rows in memory and needs no learner."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import available_threads, resolve
from blocklearn.models.glm.dual import DualSolver, Link
from blocklearn.models.glm.links import HINGES

from ..training.states.state import State
from .base import Array
from .callbacks import TellCallbacks
from .parameters import seed_of, threads_of, whole
from .scikit import HAS_CALLBACKS

if TYPE_CHECKING:
    from .classifier import GLMClassifier

FEW_ROWS = 1000  # "auto" has L-BFGS for fewer, whose result does not depend on the order of rows
SLOW = 50.0  # mean of x_i'x_i / (4 l2 n); beyond, dual ascent needs hundreds of passes
MOST_BYTES = 2**30  # of labels and dual variables


@dataclass
class Progress:
    """The position of a fit, as callbacks see it."""

    passes: int
    pass_: int = 0
    stop: bool = False


@dataclass(frozen=True)
class DualProblem:
    """Rows, 0/1 columns and weights, as dual ascent takes them.

    Y: [n x k]; softmax: of the k classes. weights: [n], with those of classes.
    l2: penalty of the mean loss over `weights`. link: of all columns.
    """

    X: Any
    Y: Any
    weights: Array
    l2: float
    link: Link

    @classmethod
    def of(cls, estimator: GLMClassifier, X: Any, Y: Any, weights: Any = None) -> DualProblem:
        """Return the problem of an estimator.

        Y: as `Classes.columns` makes it. weights: of rows [n]; None: 1.
        """
        X = sp.csr_array(X, dtype=np.float32)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        Y = Y[:, None] if Y.ndim == 1 else Y
        weights = np.ones(X.shape[0]) if weights is None else np.asarray(weights, np.float64)
        total, of_classes = weights.sum(), estimator._class_weights
        if of_classes is not None:
            factors = np.asarray(of_classes)
            weights = weights * (factors[Y[:, 0].astype(int)] if Y.shape[1] == 1 else Y @ factors)
        l2 = estimator._checked_alpha() * total / max(weights.sum(), 1e-300)
        softmax = estimator._classes.kind == "classes"
        smooth: Link = "softmax" if softmax else "logistic"
        link = smooth if estimator.loss == "log_loss" else cast("Link", estimator.loss)
        return cls(X, Y, weights.astype(np.float32), l2, link)

    def obstacle(self, estimator: GLMClassifier) -> str | None:
        """Return why dual ascent cannot solve the problem; None: it can."""
        by_column = self.link in HINGES and self.Y.shape[1] > 1
        if by_column and estimator._class_weights is not None:
            return "takes class_weight of two classes only, where the loss is a hinge"
        if estimator.l1_ratio or not self.l2 > 0.0:
            return "needs an L2 penalty alone (alpha > 0, l1_ratio=0)"
        if resolve(estimator.device) != "cpu":
            return 'runs on device="cpu"'
        if not np.isfinite(self.X.data).all():
            return "takes X of float32, and X has larger values"
        if not (np.isfinite(self.weights) & (self.weights >= 0.0)).all() or not self.weights.any():
            return "takes weights of rows that are not negative"
        return None

    @property
    def suits(self) -> bool:
        """Whether dual ascent is fast here, and the memory small."""
        rows, columns = self.Y.shape
        if 8 * rows * columns > MOST_BYTES:
            return False
        squares = float(np.dot(self.X.data, self.X.data)) / rows  # of the length of a row
        total = float(self.weights.sum(dtype=np.float64))
        return bool(0.25 * squares <= SLOW * self.l2 * total)


def may_ascend(estimator: GLMClassifier, X: Any) -> bool:
    """Return whether "auto" considers dual ascent: X sparse, of enough rows, on the CPU."""
    auto = isinstance(estimator.solver, str) and estimator.solver == "auto"
    large = sp.issparse(X) and X.shape[0] >= FEW_ROWS
    return auto and large and resolve(estimator.device) == "cpu"


def by_dual(estimator: GLMClassifier, problem: DualProblem, told: dict[str, Any]) -> None:
    """Fit the estimator. told: what callbacks receive: X, y, metadata."""
    begun = time.perf_counter()
    seed, progress = seed_of(estimator.random_state), Progress(whole(estimator, "max_iter"))
    found = DualSolver(
        problem.X,
        problem.Y,
        problem.weights,
        l2=problem.l2,
        link=problem.link,
        intercept=estimator.fit_intercept,
    )

    def learned(found: DualSolver) -> dict[str, Any]:
        return {"coef_": found.W.T, "intercept_": found.b}

    told = {"estimator": estimator, **told}
    if HAS_CALLBACKS:
        root = estimator._init_callback_context(max_subtasks=progress.passes)
        root.call_on_fit_task_begin(**told)
        tell = TellCallbacks(root, told, learned)
        tell.start(found, progress)
    threads = threads_of(estimator.n_jobs) or available_threads()
    for number in found.passes(progress.passes, estimator.tol, seed, threads):
        progress.pass_ = number - 1
        progress.stop = found.converged
        if HAS_CALLBACKS:
            tell.pass_end(found, progress)
        if progress.stop:
            break
    for name, value in learned(found).items():
        setattr(estimator, name, value)
    estimator._seed = seed
    estimator.n_iter_ = progress.pass_ + 1
    estimator.n_samples_seen_ = rows = problem.X.shape[0]
    seconds = time.perf_counter() - begun
    position = {"pass": estimator.n_iter_, "block": 0, "rows": rows * estimator.n_iter_}
    estimator._stream = State({}, position | {"seconds": seconds, "best": None})
    if HAS_CALLBACKS:
        root.call_on_fit_task_end(**told, reconstruction_attributes={})
