"""Gaussian mixtures as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, Self

import numpy as np

from blocklearn.models import GaussianMixture as MixtureModel

from ...training.inputs.texts import refuse_texts
from ..base import MOST, Array, LearnerEstimator, Tensors
from ..constraints import Rule, one_of
from ..constructor import estimator
from ..parameters import configured
from ..scikit import (
    CALLER,
    ConvergenceWarning,
    DensityMixin,
    check_is_fitted,
    with_callbacks,
)
from ..validation import validated

FORMS = {"full": "full", "diag": "diagonal", "spherical": "spherical"}
KEPT = ("covariances", "log_determinants", "counts")


@estimator
class GaussianMixture(DensityMixin, LearnerEstimator):
    """Describe rows by k normal distributions, dense or sparse.

    Parameters
    ----------
        n_components: number of distributions.
        covariance_type: "full", "diag" or "spherical".
        reg_covar: added to each variance.
        update_components: "batch", once a pass, or "online", after each block. "batch" never lowers
            the likelihood of the training rows, unless variances are so small that float32 cannot
            tell them from 0 beside the squares of a column.
        forget: online only: the share of a block's weight that remains a pass later.
        tol: training ends when the mean log density of the rows changes by less in a pass.
        max_iter: passes, at most.
        batch_size: rows of a block, at most. None: 32 to 4096, about 4 blocks a pass; online 16.
        random_state: seed.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto"; used by training and predictions.

    Attributes
    ----------
        weights_: float32 [components], sum 1.
        means_: float32 [components x features].
        covariances_: float32, `reg_covar` included: full [components x features x features], diag
            [components x features], spherical [components].
        precisions_cholesky_: shaped like them. Full: upper triangles U, U U' is the inverse of the
            covariance. Otherwise: 1 / standard deviation.
        lower_bound_: mean log density of the rows, before the last step.
        converged_: whether it changed by less than `tol`.
        n_iter_: number of passes.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + np.tile(np.eye(4, 2), (10, 1))
    >>> mixture = bl.GaussianMixture(n_components=2, random_state=0).fit(X)
    >>> mixture.weights_.tolist(), np.sort(mixture.means_[:, 0]).round(2).tolist()
    ([0.5, 0.5], [0.25, 9.25])
    """

    _rules: ClassVar[Mapping[str, Rule]] = {"covariance_type": one_of(*FORMS)}

    n_components: int = 1
    _: KW_ONLY
    covariance_type: Literal["full", "diag", "spherical"] = "full"
    reg_covar: float = 1e-6
    update_components: Literal["batch", "online"] = "batch"
    forget: float = 0.3
    tol: float = 1e-3
    max_iter: int = 100

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X, from scratch; y is ignored.

        Warns (`ConvergenceWarning`) if all passes are used and the density still changes.
        """
        X = self._check(X, reset=True)
        self._fit(X, {"X": X})
        batch = self.update_components == "batch"
        if batch and not self.converged_ and self.n_iter_ >= self.max_iter:
            warnings.warn(
                f"GaussianMixture: not converged after max_iter={self.max_iter} passes; raise it, "
                "or raise tol, or raise reg_covar if variances are near 0.",
                ConvergenceWarning,
                stacklevel=CALLER,
            )
        return self

    def fit_predict(self, X: Any, y: Any = None) -> Array:
        """Train on X, and return the most probable component of each row; y is ignored."""
        labels: Array = self.fit(X).predict(X)
        return labels

    def predict(self, X: Any) -> Array:
        """Return the most probable component of each row, int64 [n]."""
        found: Array = self.predict_proba(X).argmax(axis=1)
        return found

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each component, float32 [n x components]."""
        check_is_fitted(self)
        return self._predictions(self._check(X, reset=False))

    def score_samples(self, X: Any) -> Array:
        """Return the logarithm of the density of each row, float64 [n]."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        starts = range(0, X.shape[0], MOST)
        return np.concatenate([self._densities(X[i : i + MOST]) for i in starts])

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion of the model on X: smaller is better."""
        return self._criterion(X, float(np.log(X.shape[0])))

    def aic(self, X: Any) -> float:
        """Return Akaike's information criterion of the model on X: smaller is better."""
        return self._criterion(X, 2.0)

    # ------------------------------------------------------------- details

    def _criterion(self, X: Any, price: float) -> float:
        """Return -2 log p(X), and `price` for each free number of the model."""
        k, d = self.means_.shape
        each = {"full": d * (d + 1) // 2, "diag": d, "spherical": 1}[self.covariance_type]
        numbers = k * (1 + d + each) - 1
        found: float = -2.0 * self.score(X) * X.shape[0] + numbers * price
        return found

    def _densities(self, X: Any) -> Array:
        rows = np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), np.float64)
        logs = np.log(np.maximum(self.weights_, 1e-30)) + self._kept["log_determinants"][0]
        parts = []
        for log, mean, factor in zip(logs, self.means_, self.precisions_cholesky_, strict=True):
            z = rows - mean
            z = z @ factor if self.covariance_type == "full" else z * factor
            parts.append(log - 0.5 * (z * z).sum(axis=1))
        constant = 0.5 * rows.shape[1] * np.log(2.0 * np.pi)
        found: Array = np.logaddexp.reduce(parts, axis=0) - constant
        return found

    def _check(self, X: Any, *, reset: bool) -> Any:
        """Return X as scikit-learn validates it."""
        refuse_texts(X)
        least = 2 if reset else 1
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float32, "reset": reset}
        return validated(self, X, ensure_min_samples=least, **options)

    def _model(self) -> MixtureModel:
        same = ("reg_covar", "update_components", "forget")
        names = {"components": "n_components", "tolerance": "tol"} | {name: name for name in same}
        return configured(self, MixtureModel, names, covariance=FORMS[self.covariance_type])

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        covariances = self._by_component(tensors("covariances"))
        d = len(tensors("means"))
        ridge = np.eye(d) if self.covariance_type == "full" else 1.0
        return {
            "weights_": tensors("weights")[0],
            "means_": tensors("means").T,
            "covariances_": (covariances + self.reg_covar * ridge).astype(np.float32),
            "precisions_cholesky_": self._by_component(tensors("factors")),
            "lower_bound_": float(tensors("bound")[0, 0]),
            "converged_": bool(abs(tensors("change")[0, 0]) < self.tol),
            "_kept": {name: tensors(name) for name in KEPT},
        }

    def _by_component(self, table: Array) -> Array:
        """Return a table of the model as scikit-learn has it."""
        if self.covariance_type == "full":
            d = len(table)
            return table.reshape(d, -1, d).swapaxes(0, 1)
        return table[0] if self.covariance_type == "spherical" else table.T

    def _tensors(self, rows: int) -> dict[str, Array]:
        means, factors = np.ascontiguousarray(self.means_.T), self.precisions_cholesky_
        if factors.ndim == 3:  # full covariances
            factors = np.concatenate(factors, axis=1)
        else:
            factors = np.broadcast_to(factors.T, means.shape)
        kept: dict[str, Array] = self._kept
        return {"weights": self.weights_[None], "means": means, "factors": factors.copy(), **kept}

    def __sklearn_tags__(self) -> Any:
        """Declare dense or sparse input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
