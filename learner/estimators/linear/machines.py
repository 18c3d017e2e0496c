"""Factorization machines as scikit-learn estimators: linear estimators with pairs of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from blocklearn.models import FM, GLM, BlockSize, Model
from blocklearn.optimizers import Optimizer

from ..base import Array, Tensors, rows_of
from ..constructor import estimator
from ..parameters import Solver
from ..row_weights import in_float64
from .base import GRADIENTS, LinearEstimator
from .classifier import GLMClassifier
from .moments import Moments
from .regressor import GLMRegressor
from .units import IN_UNITS_OF_Y, Units, usable

STEPS = 50  # of a pass


@dataclass(eq=False, repr=False)
class Machine(LinearEstimator):
    """Linear estimator whose scores have a weight for each pair of features, too."""

    n_components: int = 8
    _: KW_ONLY
    fields: Sequence[int] | None = None
    init_scale: float = 0.1
    alpha: float | None = 1e-5
    solver: Solver = "adagrad"
    max_iter: int = 10

    SOLVERS = GRADIENTS
    _kind: ClassVar[type[GLM]] = FM
    _linear: ClassVar[bool] = False
    _names: ClassVar[dict[str, str]] = {
        "intercept": "fit_intercept",
        "factors": "n_components",
        "start": "init_scale",
        "fields": "fields",
    }

    def _block_rows(self, data: Any, model: Model, optimizer: Optimizer | None) -> int:
        """Return `batch_size`, or about 50 blocks a pass, each of which is a step."""
        if self.batch_size is None and not (optimizer is not None and optimizer.steps_by_pass):
            return BlockSize(STEPS).of(rows_of(data))
        return super()._block_rows(data, model, optimizer)

    def _units_of(self, data: Any, optimizer: Optimizer | None) -> Units | None:
        """Return units of the targets alone: products of features have no centre."""
        if self.loss not in IN_UNITS_OF_Y or sp.issparse(data[1]) or not usable(data):
            return None
        X, Y, weights = data if len(data) == 3 else (*data, None)
        w = in_float64(X.shape[0], weights)
        if not w.any():
            return None
        targets = Moments.of(Y, w).unit(centred=self.fit_intercept)
        return Units(np.zeros(X.shape[1]), np.ones(X.shape[1]), *targets)

    def _fit(self, data: Any, told: dict[str, Any], optimizer: Optimizer | None = None) -> Self:
        self._stream_units = self._units  # also for further rows
        return super()._fit(data, told, optimizer)

    def _go_on(self, data: Any, optimizer: Optimizer | None = None, of_rows: Any = None) -> Self:
        if not self._has_begun():
            self._stream_units = self._units_of(data, optimizer)
        self._units = self._stream_units
        try:
            return super()._go_on(self._in_units(data), optimizer, of_rows)
        finally:
            self._units = None

    def _in_units(self, data: Any) -> Any:
        if self._units is None:
            return data
        X, Y, *weights = data
        return (X, self._units.targets(Y.toarray() if sp.issparse(Y) else Y), *weights)

    def _terms(self) -> tuple[()]:
        return ()  # the model's own penalties are for the units of `fit`

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        factors = tensors("factors")
        return super()._learned(tensors) | {"factors_": factors * self._factor_unit(factors)}

    def _tensors(self, rows: int) -> dict[str, Array]:
        factors = np.asarray(self.factors_, np.float32)
        return super()._tensors(rows) | {"factors": factors / self._factor_unit(factors)}

    def _factor_unit(self, factors: Array) -> Array:
        """Return the unit of each column of factors, whose products of two are in those of Y."""
        if self._units is None:
            return np.ones(factors.shape[1], np.float32)
        spread = np.sqrt(self._units.spread, dtype=np.float32)
        return np.tile(spread, factors.shape[1] // spread.size)


@estimator
class FMClassifier(Machine, GLMClassifier):
    """Factorization machine for two classes, several classes, or any number of labels per row.

    The score of a row is that of `GLMClassifier` plus x_a x_b (V_a . V_b) for each pair of features
    a and b, so pairs that never occurred together have a weight, too. Penalties act on factors as
    on weights.

    Parameters
    ----------
        n_components: numbers that describe a feature in pairs.
        fields: field-aware factors: the number of columns of each field, in their order; None: no
            fields.
        init_scale: first factors are uniform between -init_scale and init_scale.
        solver: "adagrad" makes a step for each block; others as in `GLMClassifier`, but neither
            "newton" nor "dual".
        max_iter: passes; "lbfgs" may need fewer.
        batch_size: rows of a block, at most. None: 32 to 1024, about 50 blocks a pass.
        loss, alpha, l1_ratio, fit_intercept, class_weight, tol, random_state, n_jobs, device: as
            in `GLMClassifier`.

    Attributes
    ----------
        coef_: float32 [1 or classes x features].
        intercept_: float32 [1 or classes].
        factors_: float32 [features x components * outputs]; column f * outputs + t is factor f of
            output t. With F fields there are F * F times as many.
        classes_, n_iter_, n_features_in_, feature_names_in_: as in `GLMClassifier`.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (200, 1))
    >>> same = X[:, 0] == X[:, 1]  # no weights of single features tell it
    >>> model = bl.FMClassifier(2, init_scale=0.5, random_state=0).fit(X, same)
    >>> model.score(X, same)
    1.0
    """

    _: KW_ONLY
    loss: str = "log_loss"


@estimator
class FMRegressor(Machine, GLMRegressor):
    """Factorization machine for one number or count, or many at once.

    Losses and `shape` are those of `GLMRegressor`, other parameters those of `FMClassifier`. For
    "squared_error", "huber" and "quantile", targets are divided by their deviations, so that their
    units do not matter; penalties are those of targets of deviation 1. The deviations are those of
    `fit`, or of the first rows of `partial_fit`.

    Attributes
    ----------
        coef_: float32 [features] or [targets x features].
        intercept_: float32 [targets].
        factors_: float32 [features x components * targets], see `FMClassifier`.
        n_iter_, n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> y = X[:, 0] * X[:, 1]
    >>> model = bl.FMRegressor(2, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _: KW_ONLY
    loss: str = "squared_error"
