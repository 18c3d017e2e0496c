"""Linear and Poisson regression, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from blocklearn.models.glm.links import LinkName

from ..configuration.guesses import answered
from .base import Array, Tensors
from .linear import LinearEstimator, Solver, with_weights
from .scikit import RegressorMixin, with_callbacks


class GLMRegressor(RegressorMixin, LinearEstimator):
    """Linear or Poisson regression of one target or of many at once.

    `fit` minimises the objective of `GLMClassifier` with another loss: (prediction - y)^2 / 2
    ("squared_error"), or that of counts with the mean exp(score) ("poisson"). For one target,
    scikit-learn's Ridge(alpha) corresponds to n times this alpha.

    y: [n] or [n x targets], dense or sparse. Parameters: see `GLMClassifier`.

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

    @answered
    def __init__(
        self,
        loss: str = "squared_error",
        *,
        alpha: float = 1e-4,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        solver: Solver = "auto",
        max_iter: int = 100,
        tol: float = 1e-4,
        batch_size: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on X [n x features] and its targets y [n] or [n x targets], from scratch.

        sample_weight: [n]; 0 is as if the row were absent, 2 as if it occurred twice.
        """
        X, y = self._check_targets(X, y, reset=True)
        return self._solve(X, y, sample_weight, y)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Make one more pass, over X."""
        optimizer = self._solver(passes=False)
        X, y = self._check_targets(X, y, reset=not self._has_begun())
        return self._go_on(with_weights(X, y, sample_weight), optimizer)

    def predict(self, X: Any) -> Array:
        """Return the mean of each row's targets, [n] or [n x targets].

        The result is float32 if X is, else float64.
        """
        X = self._check(X)
        found = self._predictions(X, self._model("mean"))
        found = found.astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False)
        return found.ravel() if self.coef_.ndim == 1 else found

    # ------------------------------------------------------------- details

    def _links(self) -> Mapping[str, LinkName]:
        return {"squared_error": "linear", "poisson": "poisson"}

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        found = super()._learned(tensors)
        return found | {"coef_": found["coef_"][0]} if self._single else found

    def _check_targets(self, X: Any, y: Any, *, reset: bool) -> Any:
        X, y = self._check_both(X, y, reset=reset, y_numeric=True)
        values = y.data if sp.issparse(y) else y
        if self.loss == "poisson" and values.size and values.min() < 0:
            raise ValueError(
                f"GLMRegressor: y has {values.min():g}, but counts (poisson) must not be negative."
            )
        self._single = y.ndim == 1
        return X, y

    def __sklearn_tags__(self) -> Any:
        """Declare any number of targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags
