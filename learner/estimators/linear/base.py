"""The base class of estimators of generalised linear models."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp

from blocklearn import optimizers
from blocklearn.matcache import resolve
from blocklearn.models import GLM, Model, Shapes
from blocklearn.models.glm.links import KINKED, LinkName
from blocklearn.optimizers import Optimizer

from ...training.inputs.texts import refuse_texts
from ..base import MOST, Array, LearnerEstimator, Tensors, in_chunks, rows_of
from ..constraints import AMOUNT, ANYTHING, FRACTION, Rule, check_parameters
from ..dense_scores import dense_scores
from ..parameters import LinearParameters, configured, tolerance_of, whole
from ..parts import threads_for
from ..row_weights import with_weights
from ..scikit import CALLER, ConvergenceWarning, check_is_fitted
from ..sparse_scores import sparse_scores
from ..validation import validated
from .dual import DualProblem, by_dual
from .gaps import check_count, refuse_gaps
from .newton import by_newton
from .rounding import warn_of_rounding
from .seen import Seen
from .units import IN_UNITS_OF_Y, Units, largest_of, unusual, usable

if TYPE_CHECKING:
    from blocklearn.mixins import Mixin

    from ...learner import Learner

CARRIED = 4096  # rows of a block, where steps are by single rows or by pass
GRADIENTS = ("sgd", "adagrad", "rmsprop", "adam", "ftrl", "conjugate-gradient", "lbfgs")
"""Optimizers that take gradients, and that a name is enough for."""


class LinearEstimator(LinearParameters, LearnerEstimator):
    """Estimator with `coef_` and `intercept_`."""

    loss: str
    alpha: float | None
    SOLVERS: ClassVar[Sequence[str]] = ("dual", "newton", *GRADIENTS)
    _rules: ClassVar[Mapping[str, Rule]] = {"alpha": AMOUNT, "tol": FRACTION, "solver": ANYTHING}
    _kind: ClassVar[type[GLM]] = GLM
    _names: ClassVar[dict[str, str]] = {"intercept": "fit_intercept"}  # of fields: their parameters
    _units: Units | None = None
    _linear: ClassVar[bool] = True  # whether scores are linear in the features
    _derived: ClassVar[dict[str, str]] = {"l1": "alpha", "l2": "alpha", "shape": "shape"}
    _seen: Seen | None = None  # the rows of a fit by full passes, and of `partial_fit` since
    _pace: float | None = None  # share of AdaGrad's rate, by the first rows that tell it
    _own_alpha: float = 1e-4  # where alpha is None

    @property
    def _auto(self) -> bool:
        """Whether the solver is chosen from the loss and the data."""
        return isinstance(self.solver, str) and self.solver == "auto"

    @abstractmethod
    def _links(self) -> Mapping[str, LinkName]:
        """Return the link of each loss."""

    def _model(self, output: Literal["mean", "score"] = "score", **labels: Any) -> GLM:
        alpha, share = self._checked_alpha(), float(self.l1_ratio)
        l2 = 0.0 if self._terms() else alpha * (1.0 - share)
        labels |= {"l1": alpha * share, "l2": l2}
        labels |= {"link": self._links()[self.loss], "output": output}
        return configured(self, self._kind, self._names, **labels)

    def _checked_alpha(self) -> float:
        """Return the weight of the penalty."""
        return self._own_alpha if self.alpha is None else float(self.alpha)

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        return self._found(tensors("W"), tensors("intercept").ravel(), self._units)

    def _found(self, W: Array, b: Array, units: Units | None) -> dict[str, Any]:
        """Return the learned attributes, made from weights [features x targets] in some units."""
        if units is not None:
            W, b = units.original(W, b)
        return {"coef_": W.T, "intercept_": b}

    def _tensors(self, rows: int) -> dict[str, Array]:
        W, b = np.atleast_2d(self.coef_).T, np.ravel(self.intercept_)
        if self._units is not None:
            W, b = self._units.inside(W, b)
        W = np.ascontiguousarray(W, np.float32)
        return {"W": W, "intercept": np.array(b, np.float32).reshape(1, -1)}

    def _predictor(self, block_rows: int, model: Any) -> Learner:
        learner = super()._predictor(block_rows, model)
        learner.data.targets = int(np.size(self.intercept_))
        return learner

    def _predictions(self, X: Any, model: Any = None, *, side: int = 0) -> Array:
        scores = model is None or model.output == "score"
        plain = self._linear and scores and resolve(self.device) == "cpu"
        found = self._scores(X) if plain else None
        return super()._predictions(X, model, side=side) if found is None else found

    def _scores(self, X: Any) -> Array | None:
        """Return X @ W + b without a learner; None: X has to be read by one."""
        W, b = self._tensors(1).values()
        if sp.issparse(X):
            return sparse_scores(X, W, b, threads_for(X.nnz, self.n_jobs))
        return dense_scores(X, W, b, threads_for(X.size, self.n_jobs))

    def to_learner(self) -> Learner:
        """Return a learner that predicts means of targets (probabilities)."""
        learner = super().to_learner()
        learner.model.output = "mean"
        return learner

    def plot_weights(
        self,
        num_features: int = 8,
        *,
        feature_names: Sequence[str] | None = None,
        path: str | Path | None = None,
    ) -> Any:
        """Draw the largest weights of each target or class, with signs; return the figure.

        num_features: bars for each target, at most. Of more than 12 targets, the first are drawn.
        feature_names: None: `feature_names_in_`, else numbers.
        path: file to write, such as weights.png. Raises ImportError without Matplotlib, of the
        extra `plots`.
        """
        from ...showing.plots import bar_charts
        from .weight_charts import largest_weights

        check_is_fitted(self)
        return bar_charts(largest_weights(self, num_features, feature_names), path)

    # ------------------------------------------------------------- solvers

    def _solver(self, *, passes: bool) -> Optimizer | None:
        """Return the optimizer of `fit` (passes) or of `partial_fit`; None: the model's own."""
        name, solver = type(self).__name__, self.solver
        if self._auto:
            smooth = self.loss != "hinge" and not self._checked_alpha() * self.l1_ratio
            solver = "lbfgs" if passes and smooth else "adagrad"
        if not isinstance(solver, Optimizer) and solver not in self.SOLVERS:
            raise ValueError(
                f"{name}: solver={solver!r}: must be auto, {', '.join(self.SOLVERS)}, or an "
                "optimizer such as blocklearn.optimizers.AdaGrad(rate=0.5)."
            )
        if solver == "adagrad":
            return None
        if solver in ("lbfgs", "dual", "newton"):  # the last two are for `fit` alone
            chosen: Optimizer = optimizers.LBFGS(tolerance=tolerance_of(self))
        else:
            chosen = optimizers.OPTIMIZERS[solver]() if isinstance(solver, str) else solver
        if chosen.steps_by_pass and not passes:
            raise ValueError(
                f"{name}: solver={self.solver!r} needs all rows in every pass, so it has no "
                'partial_fit; use solver="adagrad".'
            )
        begun = self._has_begun() and not passes and isinstance(chosen, optimizers.FTRL)
        if begun and "optimizer.W.z" not in self._stream.tensors:
            raise ValueError(
                f"{name}: ftrl starts from zero and cannot continue from coefficients of another "
                "solver; start again with ftrl, or use another solver."
            )
        return chosen

    def _solve(self, X: Any, Y: Any, sample_weight: Any, y: Any) -> Self:
        """Fit the targets Y, which are y in the form that a model learns."""
        told = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        data = with_weights(X, Y, sample_weight)
        found = by_dual(self, data, told) if self._linear else None
        ends = self.loss not in KINKED
        if found is None and self._linear and usable(data):
            found = by_newton(self, data, told)
            ends |= found is not None  # also at kinks
        optimizer = None if found is not None else self._solver(passes=True)
        full_pass = found is not None or (optimizer is not None and optimizer.steps_by_pass)
        if found is not None:
            self._seen, converged = found
        else:
            try:
                self._units = self._units_of(data, optimizer)
                if optimizer is None:
                    optimizer = self._paced(self._model(), data)
                self._fit(self._in_units(data), told, optimizer)
            finally:
                self._units = None
            self._seen, converged = Seen.of(*data) if full_pass and self._linear else None, False
        stopped = self.n_iter_ < whole(self, "max_iter")  # by a callback, if not converged
        why = None
        if self.loss in KINKED and isinstance(optimizer, optimizers.ConjugateGradient):
            why = (
                f"conjugate gradients stop at kinks of loss={self.loss!r}, perhaps far above the "
                'optimum; use solver="lbfgs".'
            )
        elif full_pass and ends and not (converged or stopped):
            why = (
                f"not converged after max_iter={self.max_iter} passes; raise it, or scale the "
                "features, or raise alpha."
            )
        if why is not None:
            text = f"{type(self).__name__}: {why}"
            warnings.warn(text, ConvergenceWarning, stacklevel=CALLER + 1)
        return self

    def _go_on(self, data: Any, optimizer: Optimizer | None = None, of_rows: Any = None) -> Self:
        check_count(self, data[1])
        seen, own = self._seen, optimizer is None
        if seen is not None and own and usable(data) and not self._checked_alpha() * self.l1_ratio:
            from .refining import refine  # imports L-BFGS, which fits in memory do not need

            self._seen = refine(self, seen, data)
            return self
        super()._go_on(data, optimizer, of_rows)
        self._seen = None if seen is None else seen.merged(Seen.of(*data))
        return self

    def _units_of(self, data: Any, optimizer: Optimizer | None) -> Units | None:
        """Return the units to solve in; None: those of the data."""
        if not self._auto or optimizer is None or not usable(data):
            return None
        X, Y, weights = data if len(data) == 3 else (*data, None)
        own = self.loss in IN_UNITS_OF_Y
        odd = unusual(largest_of(X)) or (own and unusual(largest_of(Y)))
        if self.loss != "quantile" and not odd:
            return None
        l2 = self._checked_alpha()
        return Units.of(X, Y, weights, centred=self.fit_intercept, of_targets=own, l2=l2)

    def _in_units(self, data: Any) -> Any:
        if self._units is None:
            return data
        X, Y, *weights = data
        return (self._units.columns(X), self._units.targets(Y), *weights)

    def _terms(self) -> Sequence[Mixin]:
        """Return the penalty on weights in the units of the data, where `fit` solves in others."""
        alpha = self._checked_alpha()
        if self._units is None or not alpha:
            return ()
        return [self._units.penalty(alpha, 1 if self.loss == "quantile" else 2)]

    def _dual_problem(self, X: Any, Y: Any, weights: Any = None) -> DualProblem | None:
        """Return the problem as dual ascent takes it; None: the loss has no dual for it."""
        return None

    def _block_rows(self, data: Any, model: Model, optimizer: Optimizer | None) -> int:
        """Return the number of rows in a training block.

        This is `batch_size`. If that is None, and steps are by single rows or by pass, the result
        does not depend on the size, so the fastest one is used.
        """
        if self.batch_size is not None:
            return super()._block_rows(data, model, optimizer)
        rows = rows_of(data)
        if rows <= MOST:  # they are one block, whatever the steps
            return in_chunks(MOST, rows)
        own = self._own(model, data) if optimizer is None else None
        free = own.takes_rows if own is not None else bool(optimizer and optimizer.steps_by_pass)
        return in_chunks(CARRIED if free else MOST, rows)

    def _own(self, model: Model, data: Any) -> Optimizer | None:
        """Return the model's own optimizer for the data."""
        X, Y = data[:2]
        (rows, columns), targets = X.shape, 1 if Y.ndim == 1 else Y.shape[1]
        on_gpu, dense = resolve(self.device) != "cpu", not sp.issparse(X)
        shapes = Shapes(rows, columns, rows, targets, dense=dense, on_gpu=on_gpu)
        return model.optimizer_for(shapes, ())

    # ------------------------------------------------------------- checks

    def _check(self, X: Any) -> Any:
        """Return X to predict for, as scikit-learn validates it."""
        check_parameters(self)
        check_is_fitted(self)
        refuse_texts(X)
        return validated(self, X, accept_sparse="csr", dtype="numeric", reset=False)

    def _check_both(self, X: Any, y: Any, *, reset: bool, **options: Any) -> Any:
        """Return X and y to train on, as scikit-learn validates them."""
        refuse_texts(X)
        refuse_gaps(y)
        options |= {"accept_sparse": "csr", "dtype": "numeric", "multi_output": True}
        found = validated(self, X, y, reset=reset, **options)
        warn_of_rounding(self, *found, numbers=options.get("y_numeric", False))
        return found

    def __sklearn_tags__(self) -> Any:
        """Declare sparse input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
