"""The base class of estimators of generalised linear models."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from blocklearn import optimizers
from blocklearn.matcache import resolve
from blocklearn.models import Model, Shapes
from blocklearn.models.glm.links import KINKED
from blocklearn.optimizers import Optimizer

from ...training.inputs.texts import refuse_texts
from ...training.states.state import State
from ..base import MOST, in_chunks, rows_of
from ..constraints import AMOUNT, ANYTHING, FRACTION, Rule, check_parameters
from ..parameters import tolerance_of, whole
from ..row_weights import with_weights
from ..scikit import CALLER, ConvergenceWarning, check_is_fitted
from ..validation import validated
from .dual import DualProblem, may_ascend
from .gaps import check_count, refuse_gaps
from .newton import NewtonProblem
from .passes import Fit, by_passes
from .predictor import LinearPredictor
from .rounding import warn_of_rounding
from .seen import Seen
from .units import IN_UNITS_OF_Y, Units, largest_of, unusual, usable

CARRIED = 4096  # rows of a block, where steps are by single rows or by pass
GRADIENTS = ("sgd", "adagrad", "rmsprop", "adam", "ftrl", "conjugate-gradient", "lbfgs")
"""Optimizers that take gradients, and that a name is enough for."""


class LinearEstimator(LinearPredictor):
    """A linear predictor with the solvers that fit it."""

    SOLVERS: ClassVar[Sequence[str]] = ("dual", "newton", *GRADIENTS)
    _rules: ClassVar[Mapping[str, Rule]] = {"alpha": AMOUNT, "tol": FRACTION, "solver": ANYTHING}
    _seen: Seen | None = None  # the rows of a fit by full passes, and of `partial_fit` since
    _pace: float | None = None  # share of AdaGrad's rate, by the first rows that tell it

    @property
    def _auto(self) -> bool:
        """Whether the solver is chosen from the loss and the data."""
        return self._named("auto")

    def _named(self, solver: str) -> bool:
        """Return whether this is the name of the solver."""
        return isinstance(self.solver, str) and self.solver == solver

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
        optimizer, fit = None, self._in_memory(data) if self._linear else None
        if fit is not None:
            by_passes(self, fit, self.tol, told, lambda one: self._found(one.W, one.b, fit.units))
            self._seen, short = fit.seen(), fit.ends and not fit.solver.converged
        else:
            optimizer = self._solver(passes=True)
            full_pass = optimizer is not None and optimizer.steps_by_pass
            try:
                self._units = self._units_of(data, optimizer)
                if optimizer is None:
                    optimizer = self._paced(self._model(), data)
                self._fit(self._in_units(data), told, optimizer)
            finally:
                self._units = None
            self._seen = Seen.of(*data) if full_pass and self._linear else None
            short = full_pass and self.loss not in KINKED
        why = None
        if self.loss in KINKED and isinstance(optimizer, optimizers.ConjugateGradient):
            why = (
                f"conjugate gradients stop at kinks of loss={self.loss!r}, perhaps far above the "
                'optimum; use solver="lbfgs".'
            )
        elif short and self.n_iter_ >= whole(self, "max_iter"):  # no callback has stopped it
            why = (
                f"not converged after max_iter={self.max_iter} passes; raise it, or scale the "
                "features, or raise alpha."
            )
        if why is not None:
            text = f"{type(self).__name__}: {why}"
            warnings.warn(text, ConvergenceWarning, stacklevel=CALLER + 1)
        return self

    def _in_memory(self, data: Any) -> Fit | None:
        """Return a fit that needs no learner, if `solver` names one, or one suits the data."""
        hinge, weights = self.loss == "hinge", self._class_weights
        if self._named("dual") or (self._auto and may_ascend(self.loss, self.device, *data[:2])):
            self._model()  # checks the parameters
            dual, given = self._dual_problem(*data), (self.l1_ratio, weights, self.device)
            why = "does not take this loss" if dual is None else dual.obstacle(*given)
            self._refuse("dual", why, "adagrad" if hinge else "lbfgs")
            if dual is not None and why is None and (not self._auto or dual.suits):
                return dual.fit(data, self.fit_intercept)
        if (self._named("newton") or self._auto) and usable(data):
            newton = NewtonProblem.of(self._model(), weights, *data)
            why = newton.obstacle(self.device)
            self._refuse("newton", why, "adagrad" if hinge or newton.l1 else "lbfgs")
            if why is None and (not self._auto or newton.suits):
                return newton.fit(self.fit_intercept)
        return None

    def _refuse(self, solver: str, why: str | None, other: str) -> None:
        """Raise ValueError if this solver is named; `why` tells what it cannot do, or is None."""
        if why is not None and self._named(solver):
            name = type(self).__name__
            raise ValueError(f'{name}: solver="{solver}" {why}. Use solver="{other}".')

    def _go_on(self, data: Any, optimizer: Optimizer | None = None, of_rows: Any = None) -> Self:
        if self._has_begun():
            check_count(self, data[1], np.size(self.intercept_))
        seen, own = self._seen, optimizer is None
        if seen is not None and own and usable(data) and not self._checked_alpha() * self.l1_ratio:
            self._refine(seen, data)
            return self
        super()._go_on(data, optimizer, of_rows)
        self._seen = None if seen is None else seen.merged(Seen.of(*data))
        return self

    def _refine(self, seen: Seen, data: Any) -> None:
        """Move the coefficients to suit `data`, too. seen: what is known of earlier rows."""
        from .refining import LEAST_PASSES, Anchored, anchors_of, bends_of  # imports L-BFGS

        X, Y = data[:2]
        self._model()  # checks the parameters
        new = Seen.of(*data)
        both = seen.merged(new)
        units = both.units(
            centred=self.fit_intercept and not sp.issparse(X),
            of_targets=self.loss in IN_UNITS_OF_Y and not sp.issparse(Y),
        )
        W, _ = units.inside(np.atleast_2d(self.coef_).T, np.ravel(self.intercept_))
        shape, weights = getattr(self, "shape", None), self._class_weights
        bends = bends_of(self.loss, shape, W, seen.targets, units, weights)
        anchors = anchors_of(seen, new, units, bends)
        position, rows = self._stream.position, self.n_samples_seen_
        self._units = units
        try:
            optimizer = Anchored(tolerance=tolerance_of(self), anchors=anchors)
            passes = max(whole(self, "max_iter"), LEAST_PASSES)
            learner = self._learner(self._in_units(data), passes=passes, optimizer=optimizer)
            learner.restore(State(self._tensors(rows_of(data)), {}))
            self._train(learner)
        finally:
            self._units = None
        more = {"pass": 1, "rows": rows_of(data), "seconds": self._stream.position["seconds"]}
        counted = {name: position[name] + number for name, number in more.items()}
        self._keep_stream(State({}, self._stream.position | counted))
        self.n_iter_, self.n_samples_seen_ = counted["pass"], rows + rows_of(data)
        self._seen = both

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

    @abstractmethod
    def _dual_problem(self, X: Any, Y: Any, weights: Any = None) -> DualProblem | None:
        """Return the problem as dual ascent takes it; None: the loss has no dual for it."""

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
