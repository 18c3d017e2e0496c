"""Regression of numbers and counts, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import scipy.sparse as sp

from blocklearn import optimizers
from blocklearn.models import GLM, Model, Target
from blocklearn.models.glm.links import LINKS, LinkName, itself
from blocklearn.models.glm.solvers.dual_problem import NUMBERS, Link
from blocklearn.optimizers import Optimizer

from ..base import Array
from ..constraints import AMOUNT, Rule, check_parameters, one_of
from ..constructor import estimator
from ..row_weights import in_float64, weights_of, with_weights
from ..scikit import CALLER, ConvergenceWarning, RegressorMixin, with_callbacks
from .base import LinearEstimator
from .dual import DualProblem
from .moments import Moments, size_of_entries
from .units import IN_UNITS_OF_Y, Units, usable

OTHERS: tuple[LinkName, ...] = ("huber", "quantile", "poisson", "gamma", "tweedie")
"""Losses that are called like their links."""
NEAR = 0.99  # times the error of a constant, above which nothing was learned
WORSE = 1.5  # the same for quantiles: those far from the median are worse than the mean
OF_TEXTS = 0.1  # size of the features of a text, for which the model's rate is the best
LOOKED_AT = 10_000  # rows, evenly spaced
USUAL = 1e-4  # weight of the penalty


@estimator
class GLMRegressor(RegressorMixin, LinearEstimator):
    """Regression of one target or of many at once.

    `fit` minimises the objective of `GLMClassifier` with another loss:

    - "squared_error": (prediction - y)^2 / 2. For one target, scikit-learn's Ridge(alpha)
      corresponds to n times this alpha.
    - "huber": linear for errors above `shape` (1).
    - "quantile": the prediction is the quantile `shape` (0.5, the median). With an L1 penalty,
      scikit-learn's QuantileRegressor(alpha) has the same alpha.
    - "poisson", "gamma", "tweedie": the prediction is exp(score), for counts, for positive numbers,
      and for numbers of which some are 0. `shape` of tweedie is its power, 1 to 2 (1.5).

    solver="auto" is dual ascent for the first three losses, an L2 penalty, and 1,000 sparse rows or
    more, unless the penalty is tiny. Otherwise it is Newton's method. For "quantile" that is an
    interior point, which needs dense rows; where X is sparse, or has several thousand rows and
    columns, "auto" is L-BFGS, and AdaGrad with an L1 penalty. Sparse X counts as dense as in
    `GLMClassifier`. With "squared_error" and sparse X, a pass of Newton's method is a step of up
    to 200 products with X.
    "auto" suits columns and targets of any units: for L-BFGS it scales them to standard units where
    they need it, and scales the result back. The objective stays that of the data as they are.
    Other solvers take columns and targets as they are, and their steps suit values of size 1.

    alpha: weight of the penalty. None: 1e-4; for "quantile" 1e-4 / d, for "huber" 1e-4 if d is at
    most `shape`, else 1e-4 shape / d, d being the largest standard deviation of a target. So large
    targets are not penalised more than small ones. In a `partial_fit` without a `fit`, d is that of
    the first rows.

    shape: None: the number in brackets above. y: [n] or [n x targets], dense or sparse. Other
    parameters: see `GLMClassifier`.

    Attributes:
        coef_: float32 [features] or [targets x features].
        intercept_: float32 [targets].
        n_iter_: number of passes.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.arange(6.0).reshape(-1, 1)
    >>> bl.GLMRegressor(alpha=0.0).fit(X, 3 * X[:, 0] + 1).predict([[10.0]]).round(1)
    array([31.])
    """

    _rules: ClassVar[Mapping[str, Rule]] = {
        "loss": one_of("squared_error", *OTHERS),
        "shape": AMOUNT.or_none(),
        "alpha": AMOUNT.or_none(),
    }
    loss: str = "squared_error"
    _: KW_ONLY
    shape: float | None = None
    alpha: float | None = None

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on X [n x features] and its targets y [n] or [n x targets], from scratch.

        sample_weight: [n]; 0 is as if the row were absent, 2 as if it occurred twice.
        """
        check_parameters(self)
        self._check_shape()
        X, y = self._check_targets(X, y, reset=True)
        self._pace, self._own_alpha = None, self._usual_alpha(y, sample_weight)
        self._solve(X, y, sample_weight, y)
        self._warn_of_steps(X, y, sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on further rows X [n x features], y [n] or [n x targets]; weights as in `fit`.

        It makes one pass, or refines what `fit` has found: see `GLMClassifier.partial_fit`.
        """
        check_parameters(self)
        self._check_shape()
        optimizer = self._solver(passes=False)
        first = not self._has_begun()
        X, y = self._check_targets(X, y, reset=first)
        if first:
            self._own_alpha = self._usual_alpha(y, sample_weight)
        return self._go_on(with_weights(X, y, sample_weight), optimizer)

    def predict(self, X: Any) -> Array:
        """Return the mean of each row's targets, [n] or [n x targets].

        The result is float32 if X is, else float64.
        """
        X = self._check(X)
        same = LINKS[self._links()[self.loss]].mean is itself
        found = self._predictions(X, None if same else self._model("mean"))
        found = found.astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False)
        return found.ravel() if self.coef_.ndim == 1 else found

    # ------------------------------------------------------------- details

    def _links(self) -> Mapping[str, LinkName]:
        links: dict[str, LinkName] = {"squared_error": "linear"}
        return links | {name: name for name in OTHERS}

    def _check_shape(self) -> None:
        """Raise ValueError for a shape that the loss does not have, or out of bounds."""
        known = LINKS[self._links()[self.loss]].shape
        if self.shape is None or (known is not None and known.low < self.shape < known.high):
            return
        rule = "None"
        if known is not None:
            rule = f"between {known.low:g} and {known.high:g}, {known.what}"
        raise ValueError(
            f"{type(self).__name__}: shape={self.shape:g}: must be {rule}, for loss={self.loss!r}."
        )

    def _usual_alpha(self, y: Any, sample_weight: Any) -> float:
        """Return the weight of the penalty where alpha is None: `USUAL`, in the units of y.

        A loss that grows with absolute errors is small beside a penalty on squares, if targets are
        large. So this divides by the largest deviation of a target, in units of huber's `shape`.
        """
        if self.loss not in ("quantile", "huber") or not usable((y, y)):
            return USUAL
        weights = weights_of(y.shape[0], sample_weight)
        if not usable((y, y, weights)) or not weights.any():
            return USUAL  # `fit` refuses them
        spread = float(Moments.of(y, weights).unit(centred=self.fit_intercept)[1].max())
        if self.loss == "huber":
            spread = max(1.0, spread / (1.0 if self.shape is None else self.shape))
        return USUAL / spread

    def _model(self, output: Literal["mean", "score"] = "score", **labels: Any) -> GLM:
        if self._units is not None and self.loss == "huber":
            shape = 1.0 if self.shape is None else self.shape
            by_target = enumerate(shape / self._units.spread)
            labels["targets"] = [Target(column=i, shape=float(each)) for i, each in by_target]
        return super()._model(output, shape=self.shape, **labels)

    def _paced(self, model: Model, data: Any) -> Optimizer | None:
        """Return AdaGrad whose steps change scores by a share of the targets' deviation.

        The model's rate suits texts: rows of length 1, whose features have a size of `OF_TEXTS`.
        Steps as long on features of size 1 end far from the optimum, most of all where the mean is
        e^score.
        """
        X, Y = data[:2]
        own = self._own(model, data) if self._linear else None
        if not isinstance(own, optimizers.AdaGrad) or own.takes_rows or not usable(data):
            return None
        if self._pace is None:
            self._pace = self._pace_for(X, Y)
        share = 1.0 if self._pace is None else self._pace
        return own.model_copy(update={"rate": own.rate * share}) if share < 1.0 else None

    def _pace_for(self, X: Any, Y: Any) -> float | None:
        """Return the share of AdaGrad's rate that suits X and Y; None: Y has no spread to tell."""
        size = max(size_of_entries(X), 1e-30)
        if self.loss not in IN_UNITS_OF_Y or sp.issparse(Y):
            return OF_TEXTS / size
        spread = float(np.max(np.std(Y, axis=0, dtype=np.float64)))
        return OF_TEXTS * spread / size if spread > 0.0 else None

    def _warn_of_steps(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Warn where steps have not suited the data: the result is no better than a constant."""
        own = isinstance(self.solver, str) and self.solver in ("auto", "newton")
        if sp.issparse(y) or (own and self._seen is not None):
            return
        optimizer = self._solver(passes=True)
        if own and optimizer is not None and optimizer.steps_by_pass:
            return
        every = slice(None, None, -(-len(y) // LOOKED_AT))
        weights = weights_of(y.shape[0], sample_weight)[every]
        X, y = X[every], y[every]
        if not weights.sum() > 0.0:
            return
        mean = np.average(y, axis=0, weights=weights)
        found, constant = (
            float(np.average(np.abs(y - guess).reshape(len(y), -1).mean(1), weights=weights))
            for guess in (self._predictions(X, self._model("mean")).reshape(y.shape), mean)
        )
        if constant > 0.0 and not found <= (WORSE if self.loss == "quantile" else NEAR) * constant:
            warnings.warn(
                f"{type(self).__name__}: the result is no better than a constant: its mean "
                f"absolute error is {found:.3g}, that of the mean {constant:.3g}. Steps of solver="
                f"{self.solver!r} suit features and targets of size 1: scale X and y, raise "
                'max_iter, or use solver="auto" with l1_ratio=0.',
                ConvergenceWarning,
                stacklevel=CALLER + 1,
            )

    def _found(self, W: Array, b: Array, units: Units | None) -> dict[str, Any]:
        found = super()._found(W, b, units)
        return found | {"coef_": found["coef_"][0]} if self._single else found

    def _dual_problem(self, X: Any, Y: Any, weights: Any = None) -> DualProblem | None:
        link = cast("Link", self._links()[self.loss])
        if link not in NUMBERS or sp.issparse(Y):
            return None
        w = in_float64(X.shape[0], weights)
        if not usable((X, Y, w)) or not w.any():
            return DualProblem.of(X, Y, w, self._checked_alpha(), link)  # has an obstacle
        middle, spread = Moments.of(Y, w).unit(centred=self.fit_intercept)
        l2, default = self._checked_alpha(), LINKS[link].shape
        shapes = np.full(len(spread), 0.0 if default is None else self.shape or default.default)
        if link == "quantile":  # a loss of absolute errors, so the penalty has the unit of y
            spread[:] = spread.max()
            l2 *= float(spread[0])
        elif link == "huber":
            shapes /= spread
        units = Units(np.zeros(X.shape[1]), np.ones(X.shape[1]), middle, spread)
        return DualProblem.of(X, units.targets(Y), w, l2, link, shapes=shapes, units=units)

    def _check_targets(self, X: Any, y: Any, *, reset: bool) -> Any:
        X, y = self._check_both(X, y, reset=reset, y_numeric=True)
        name = type(self).__name__
        if y.dtype.kind not in "biuf":
            raise ValueError(f"{name}: y has dtype {y.dtype}, but targets must be numbers.")
        least = LINKS[self._links().get(self.loss, "linear")].range[0]
        if y.shape[0] and y.min() < least:
            must = "be positive" if least > 0 else "not be negative"
            raise ValueError(
                f"{name}: y has {y.min():g}, but targets of loss {self.loss!r} must {must}."
            )
        self._single = y.ndim == 1
        return X, y

    def __sklearn_tags__(self) -> Any:
        """Declare any number of targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.positive_only = LINKS[self._links().get(self.loss, "linear")].range[0] >= 0
        return tags
