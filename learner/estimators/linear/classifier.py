"""Logistic and softmax regression and linear support vector machines, as an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from scipy.special import expit, softmax

from blocklearn.answers import shown
from blocklearn.models import GLM, Target
from blocklearn.models.glm.links import HINGES, LinkName
from blocklearn.models.glm.solvers.dual_problem import Link

from ..base import Array
from ..constraints import AMOUNT, Rule, check_parameters, one_of
from ..constructor import estimator
from ..row_weights import in_float64, times_class_weights, weights_of, with_weights
from ..scikit import ClassifierMixin, available_if, column_or_1d, with_callbacks
from .base import LinearEstimator
from .classes import Classes, refuse_mixture
from .dual import DualProblem

if TYPE_CHECKING:
    from ...learner import Learner

LEAST_SUM = 1e-20  # of weights of rows


def has_probabilities(estimator: GLMClassifier) -> bool:
    """Return whether the loss is a likelihood."""
    return estimator.loss == "log_loss"


@estimator
class GLMClassifier(ClassifierMixin, LinearEstimator):
    """Linear classifier for two classes, several classes, or any number of labels per row.

    `fit` minimises sum(w c loss) / sum(w) plus
    alpha * (l1_ratio * ||W||_1 + (1 - l1_ratio) / 2 * ||W||^2). w is the `sample_weight` of a row,
    c the weight of its class. scikit-learn's LogisticRegression(C) corresponds to
    alpha = 1 / (C n), n = sum(w). Class weights are not divided out: as in scikit-learn, all of
    them times 2 is the same as C times 2, or half of alpha.

    If solver="auto" chooses L-BFGS, it scales columns to standard units where they need it, and
    scales the result back. The objective stays that of the data as they are. Newton's method suits
    columns of any units.

    y: classes [n], or labels [n x labels] of 0 and 1, dense or sparse. Each label is a problem of
    its own; all are solved together.

    Parameters
    ----------
        loss: "log_loss" (several classes: one softmax), "hinge" or "squared_hinge" (each class
            against the rest). The last is the default of scikit-learn's LinearSVC.
        alpha: weight of the penalty. None: 1 / n in `fit`, n the sum of the weights of rows, which
            is scikit-learn's LogisticRegression(C=1); 1e-4 in a `partial_fit` without a `fit`.
        l1_ratio: share of the L1 norm in the penalty, 0 to 1.
        fit_intercept: learn an intercept.
        class_weight: a mapping by class, "balanced" or None.
        solver: one of the following, or an optimizer of `blocklearn.optimizers`. "dual" (dual
            ascent) and "newton" are for rows in memory, on the CPU. "dual" takes an L2 penalty
            only. With an L1 penalty, the steps of "newton" are by coordinate descent; with
            "hinge" they are those of an interior point. Newton's method is not for "hinge" where X
            is sparse, or has several thousand rows and columns; there other losses begin with the
            diagonal of a Hessian. It takes neither hinge with several classes and class_weight.
            Sparse X of up to 64 columns, or a third of whose numbers are not 0, counts as dense if
            a copy takes at most 256 MiB. "lbfgs" and "conjugate-gradient" make a step for each
            pass, and find the optimum; at the kinks of "hinge" the second may stop far above it.
            "adagrad", "ftrl", "sgd", "adam" and "rmsprop" make a step for each block, so they need
            few passes. "auto" is "dual" for "hinge" where "newton" is not for it, and for 1,000
            sparse rows or more, unless the penalty is tiny for their length (or small, of two
            classes and columns that occur equally often), otherwise "newton". If neither is
            possible, it is
            "lbfgs" for a smooth objective, and "adagrad" otherwise and in `partial_fit`.
        max_iter: passes over the data, at most. Where X is sparse and has fewer rows than columns,
            a pass of "newton" is a step, of up to 200 products with X.
        tol: L-BFGS and Newton's method stop when the norm of the gradient falls below tol times
            the first norm. Dual ascent stops when its estimated distance to the optimum falls below
            tol times the first distance, an interior point when the objective is within
            (tol / 10)^2 of a constant's loss from the optimum.
        batch_size: rows of a block, at most. None: 1024; 4096 where steps take a pass, or AdaGrad
            steps by single rows (sparse X, few targets).
        random_state: seed.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto"; used by training and predictions.

    Attributes
    ----------
        coef_: float32 [1 or classes x features].
        intercept_: float32 [1 or classes].
        classes_: the classes, or the numbers of the labels.
        n_iter_: number of passes.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import blocklearn as bl
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0]]
    >>> bl.GLMClassifier(random_state=0).fit(X, ["no", "no", "yes", "yes"]).predict([[2.5, 0.5]])
    array(['yes'], dtype='<U3')
    """

    _rules: ClassVar[Mapping[str, Rule]] = {
        "loss": one_of("log_loss", *HINGES),
        "alpha": AMOUNT.or_none(),
    }

    loss: str = "log_loss"
    _: KW_ONLY
    alpha: float | None = None
    class_weight: Any = None

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on X [n x features] and its classes or labels y, from scratch.

        sample_weight: [n]; 0 is as if the row were absent, 2 as if it occurred twice.
        """
        check_parameters(self)
        X, y = self._check_labelled(X, y, reset=True)
        if self.alpha is None:
            self._own_alpha = 1.0 / sum_of_weights(X.shape[0], sample_weight)
        self._classes = Classes.of(y, type(self).__name__)
        self.classes_ = self._classes.names
        self._class_weights = self._classes.weights(self.class_weight, y, sample_weight)
        return self._solve(X, self._classes.columns(y), sample_weight, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train on further rows.

        In a stream, this is one more pass, over X. After `fit` by "newton", "lbfgs", "dual" or
        "conjugate-gradient", solvers "auto" and "adagrad" move the coefficients to suit the new
        rows, too, as far as the number of earlier rows allows: L-BFGS passes over X until it has
        converged, in 100 passes or `max_iter` at most. Each call adds 1 to `n_iter_`.

        classes: all classes of the stream; needed in the first call, unless y has labels.
        sample_weight: [n], as in `fit`.
        """
        check_parameters(self)
        optimizer = self._solver(passes=False)
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"{type(self).__name__}: class_weight={self.class_weight!r} needs all rows at "
                "once; for partial_fit give a weight for each class, or sample_weight."
            )
        first = not self._has_begun()
        X, y = self._check_labelled(X, y, reset=first)
        if first or classes is not None:
            given = Classes.given(y, classes, type(self).__name__)
            known = first or given.kind == self._classes.kind
            if not known or not (first or np.array_equal(given.names, self.classes_)):
                raise ValueError(
                    f"{type(self).__name__}: classes={shown(classes)}, but at first they were "
                    f"{self.classes_.tolist()}."
                )
            self._classes, self.classes_ = given, given.names
        self._class_weights = self._classes.weights(self.class_weight, y, sample_weight)
        data = with_weights(X, self._classes.columns(y), sample_weight)
        return self._go_on(data, optimizer)

    # ------------------------------------------------------------- predictions

    def decision_function(self, X: Any) -> Array:
        """Return scores, float32 [n], [n x classes] or [n x labels].

        Of two classes, [n] has the scores of the second one.
        """
        scores = self._predictions(self._check(X))
        return scores.ravel() if self._classes.kind == "binary" else scores

    def predict(self, X: Any) -> Array:
        """Return the class of each row [n]; for labels, 0 and 1 [n x labels]."""
        scores = self.decision_function(X)
        return self._classes.decided(scores)

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Return probabilities, float32 [n x classes] or [n x labels]."""
        scores = self.decision_function(X)
        if self._classes.kind == "binary":
            return np.column_stack([expit(-scores), expit(scores)])
        found: Array = expit(scores) if self._classes.kind == "labels" else softmax(scores, axis=1)
        return found

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the probabilities."""
        found: Array = np.log(self.predict_proba(X))
        return found

    # ------------------------------------------------------------- details

    def to_learner(self) -> Learner:
        """Return a learner that names its targets after classes; of two classes, the second."""
        learner = super().to_learner()
        names = self.classes_[1:] if self._classes.kind == "binary" else self.classes_
        learner.data.target_names = list(map(str, names))
        return learner

    def _links(self) -> Mapping[str, LinkName]:
        return {
            "log_loss": "softmax" if self._classes.kind == "classes" else "logistic",
            "hinge": "hinge",
            "squared_hinge": "squared_hinge",
        }

    def _dual_problem(self, X: Any, Y: Any, weights: Any = None) -> DualProblem | None:
        own = in_float64(X.shape[0], weights)
        w = times_class_weights(own, Y[:, None] if Y.ndim == 1 else Y, self._class_weights)
        l2 = self._checked_alpha() * own.sum() / max(w.sum(), 1e-300)
        return DualProblem.of(X, Y, w, l2, cast("Link", self._links()[self.loss]))

    def _model(self, output: Any = "score", **labels: Any) -> GLM:
        weights = self._class_weights
        if weights is not None and self.loss in HINGES and len(weights) > 2:
            each = [Target(column=i, class_weight={1: w}) for i, w in enumerate(weights)]
            labels["targets"] = each
        elif weights is not None:
            labels["class_weight"] = dict(enumerate(weights))
        return super()._model(output, **labels)

    def _check_labelled(self, X: Any, y: Any, *, reset: bool) -> Any:
        refuse_mixture(y, f"{type(self).__name__}: y")
        X, y = self._check_both(X, y, reset=reset)
        single = y.ndim == 2 and y.shape[1] == 1
        return X, column_or_1d(y, warn=True) if single else y

    def __sklearn_tags__(self) -> Any:
        """Declare that rows may have several labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def sum_of_weights(rows: int, sample_weight: Any) -> float:
    """Return the sum of the weights of rows, 1 if it is 0, which `fit` refuses later.

    sample_weight: [n], a number or None.

    Raises:
        ValueError: it is too small for alpha = 1 / sum.
    """
    if sample_weight is None:
        return float(rows)
    total = float(weights_of(rows, sample_weight).sum(dtype=np.float64))
    if 0.0 < total < LEAST_SUM:
        raise ValueError(
            f"sample_weight adds up to {total:g}: must be at least {LEAST_SUM:g} for alpha=None, "
            "which is 1 / sum. Multiply the weights by a number, or give alpha."
        )
    return total if total > 0.0 else 1.0
