"""Estimators with `coef_` and `intercept_`: their models, and what these predict."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import resolve
from blocklearn.models import GLM
from blocklearn.models.glm.links import LinkName

from ..base import Array, LearnerEstimator, Tensors
from ..dense_scores import dense_scores
from ..parameters import LinearParameters, configured
from ..parts import threads_for
from ..scikit import check_is_fitted
from ..sparse_scores import sparse_scores
from .units import Units
from .weight_charts import largest_weights

if TYPE_CHECKING:
    from blocklearn.mixins import Mixin

    from ...learner import Learner


class LinearPredictor(LinearParameters, LearnerEstimator):
    """Estimator with `coef_` and `intercept_`, whatever finds them."""

    loss: str
    alpha: float | None
    _kind: ClassVar[type[GLM]] = GLM
    _names: ClassVar[dict[str, str]] = {"intercept": "fit_intercept"}  # of fields: their parameters
    _linear: ClassVar[bool] = True  # whether scores are linear in the features
    _derived: ClassVar[dict[str, str]] = {"l1": "alpha", "l2": "alpha", "shape": "shape"}
    _units: Units | None = None
    _class_weights: Sequence[float] | None = None  # of classifiers
    _own_alpha: float = 1e-4  # where alpha is None

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

    def _terms(self) -> Sequence[Mixin]:
        """Return the penalty on weights in the units of the data, where `fit` solves in others."""
        alpha = self._checked_alpha()
        if self._units is None or not alpha:
            return ()
        return [self._units.penalty(alpha, 1 if self.loss == "quantile" else 2)]

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

        check_is_fitted(self)
        names = feature_names
        if names is None:
            names = getattr(self, "feature_names_in_", None)
        classes = getattr(self, "classes_", None)
        charts = largest_weights(np.atleast_2d(self.coef_), num_features, names, classes)
        return bar_charts(charts, path)
