"""Truncated SVD and principal components as scikit-learn estimators."""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import resolve
from blocklearn.models import SVD
from blocklearn.models.svd import LEAST

from ...training.inputs.texts import refuse_texts
from ...training.states.state import State
from ..base import Array, LearnerEstimator, Tensors
from ..callbacks import telling
from ..constraints import COUNT, Rule, check_parameters
from ..constructor import estimator
from ..dense_scores import dense_scores
from ..linear.moments import ROUNDING, Moments
from ..linear.passes import Progress
from ..parameters import configured, seed_of, whole
from ..parts import threads_for
from ..scikit import check_is_fitted, with_callbacks
from ..sparse_scores import sparse_scores
from ..transformer import Transformer
from ..validation import validated
from .gram import directions, worth_gram

NEAR = 10.0  # times the variance, squares of means that leave float32 most digits of it
FAR = 1e4  # times the variance, squares of means that leave float32 three digits of it
SUMS = ("means", "sum_of_squares", "rows")


class Directions(Transformer, LearnerEstimator):
    """Base of estimators with `components_` [components x features], orthonormal."""

    n_components: int | None
    n_oversamples: int
    exact: bool
    max_iter: int
    least_rows: ClassVar[int] = 1

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X, from scratch; y is ignored."""
        X = self._check(X, reset=True)
        self._k = min(X.shape) if self.n_components is None else self.n_components
        return self if self._fit_at_once(X) else self._fit(X, {"X": X})

    def transform(self, X: Any) -> Array:
        """Return the rows in the directions, float32 [n x components]."""
        check_parameters(self)
        check_is_fitted(self)
        X = self._check(X, reset=False)
        found = self._coordinates(X)
        return self._predictions(X) if found is None else found

    @abstractmethod
    def _model(self) -> SVD:
        """Return the model that the parameters describe."""

    @abstractmethod
    def inverse_transform(self, X: Any) -> Array:
        """Return rows [n x features] from their coordinates X [n x components]."""

    # ------------------------------------------------------------- details

    def _check(self, X: Any, *, reset: bool) -> Any:
        """Return X as scikit-learn validates it."""
        refuse_texts(X)
        k = self.n_components
        found = validated(
            self,
            X,
            accept_sparse="csr",
            dtype=np.float32,
            reset=reset,
            ensure_min_samples=self.least_rows if reset else 1,
        )
        if reset and isinstance(k, int | np.integer) and k > found.shape[1]:
            raise ValueError(
                f"{type(self).__name__}: n_components={k}: must be at most the number of features; "
                f"X has n_features={found.shape[1]}. Lower it."
            )
        return found

    def _fit_at_once(self, X: Any) -> bool:
        """Train by X'X, without a learner; return False where a learner has to do it."""
        check_parameters(self)
        model, passes = self._model(), whole(self, "max_iter")
        if sp.issparse(X) or resolve(self.device) != "cpu":
            return False
        if not (self.exact or worth_gram(X.shape, model.components + model.oversampling, passes)):
            return False
        begun, threads = time.perf_counter(), threads_for(X.size, self.n_jobs)
        found = directions(X, model.components, centred=model.center, threads=threads)
        if found is None:
            return False
        with telling(self, {"X": X}, 1, self._learned) as hooks:
            for hook in hooks:
                hook.start(found.__getitem__, Progress(1))
                hook.pass_end(found.__getitem__, Progress(1))
            for name, value in self._learned(found.__getitem__).items():
                setattr(self, name, value)
            self._seed, self.n_iter_, self.n_samples_seen_ = seed_of(self.random_state), 1, len(X)
            position = {"pass": 1, "block": 0, "rows": len(X), "best": None}
            self._keep_stream(State({}, position | {"seconds": time.perf_counter() - begun}))
        return True

    def _coordinates(self, X: Any) -> Array | None:
        """Return rows in the directions, without a learner; None: it has to read X."""
        model, sparse = self._model(), sp.issparse(X)
        if model.whiten or (sparse and model.center) or resolve(self.device) != "cpu":
            return None
        tensors, threads = self._tensors(1), threads_for(X.size, self.n_jobs)
        V = tensors["components"]
        if sparse:
            return sparse_scores(X, V, np.zeros((1, V.shape[1]), np.float32), threads)
        return dense_scores(X, V, None, threads, tensors["means"].ravel() if model.center else None)

    def _tensors(self, rows: int) -> dict[str, Array]:
        V = np.ascontiguousarray(self.components_.T, np.float32)
        return {"components": V, "singular_values": self.singular_values_[None], **self._sums}

    def _directions(self, tensors: Tensors) -> dict[str, Any]:
        return {
            "components_": tensors("components").T,
            "singular_values_": tensors("singular_values")[0],
            "_sums": {name: tensors(name) for name in SUMS},
        }


@estimator
class TruncatedSVD(Directions):
    """Find the directions in which rows are largest: X [n x features] ~ Z @ components_.

    Parameters
    ----------
        n_components: number of directions.
        n_oversamples: further directions while training: more need fewer passes.
        exact: whether X.T X itself is summed up: for few features, 1,000 or so. `fit` does so, too,
            where X is dense, on the CPU, and X.T X takes no longer than the passes: that is one
            pass, in float64.
        max_iter: passes. All of them are made, if not `exact`; there is no tolerance.
        batch_size: rows of a block, at most. None: about 8 blocks a pass.
        random_state: seed.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto"; used by training and predictions.

    Attributes
    ----------
        components_: float32 [components x features], orthonormal, largest first.
        singular_values_: float32 [components].
        explained_variance_: [components], variances of the columns of `transform(X)`.
        explained_variance_ratio_: [components], their shares in the variance of X.
        n_iter_: number of passes.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.outer(np.arange(1.0, 31.0), [3.0, 4.0])
    >>> bl.TruncatedSVD(n_components=1, random_state=0).fit(X).components_.round(2).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """

    n_components: int = 2
    _: KW_ONLY
    n_oversamples: int = 10
    exact: bool = False
    max_iter: int = 8

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X; y is ignored. Variances are measured again if means are far from 0."""
        super().fit(X)
        sums, mean = self._sums, self._sums["means"][:, 0].astype(np.float64)
        if mean @ mean > NEAR * (sums["sum_of_squares"] / sums["rows"] - mean @ mean).item():
            X = self._check(X, reset=False)
            ones = np.ones(X.shape[0])
            self.explained_variance_ = Moments.of(self.transform(X), ones).variance
            whole = max(Moments.of(X, ones).variance.sum(), ROUNDING**2 * (mean @ mean))
            self.explained_variance_ratio_ = self.explained_variance_ / whole
        return self

    def inverse_transform(self, X: Any) -> Array:
        """Return X @ components_, [n x features], from coordinates X [n x components]."""
        check_is_fitted(self)
        found: Array = np.asarray(X) @ self.components_
        return found

    def _model(self) -> SVD:
        names = {"components": "n_components", "oversampling": "n_oversamples", "exact": "exact"}
        return configured(self, SVD, names)

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        found = self._directions(tensors)
        rows = max(float(found["_sums"]["rows"][0, 0]), 1.0)
        mean = found["_sums"]["means"][:, 0].astype(np.float64)
        squares = found["singular_values_"].astype(np.float64) ** 2
        variances = squares / rows - (found["components_"] @ mean) ** 2
        whole = float(found["_sums"]["sum_of_squares"][0, 0]) / rows - mean @ mean
        ratio = variances / whole if whole > 0 else np.zeros_like(variances)
        return found | {"explained_variance_": variances, "explained_variance_ratio_": ratio}


@estimator
class PCA(Directions):
    """Find the principal components of rows, dense or sparse.

    Sparse rows stay sparse: the mean is subtracted from sums.

    Parameters
    ----------
        n_components: number of components; None: as many as rows or features, whichever are fewer.
        whiten: whether coordinates are divided by their standard deviations.
        n_oversamples, exact, max_iter, batch_size, random_state, n_jobs, device: as in
            `TruncatedSVD`.

    Attributes
    ----------
        components_: float32 [components x features], orthonormal, largest variance first.
        mean_: float32 [features].
        singular_values_: float32 [components], of X - mean_.
        explained_variance_: [components], as in scikit-learn: divided by n - 1.
        explained_variance_ratio_: [components], their shares in the variance of X.
        n_components_: number of components.
        n_iter_: number of passes.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.outer(np.arange(1.0, 31.0), [3.0, 4.0]) + [100.0, 0.0]
    >>> bl.PCA(n_components=1, random_state=0).fit(X).explained_variance_ratio_.round(3).tolist()
    [1.0]
    """

    least_rows: ClassVar[int] = 2
    _rules: ClassVar[Mapping[str, Rule]] = {"n_components": COUNT.or_none()}

    n_components: int | None = None
    _: KW_ONLY
    whiten: bool = False
    n_oversamples: int = 10
    exact: bool = False
    max_iter: int = 8

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X, from scratch; y is ignored.

        Warns if X is sparse and its means are so far from 0 that float32 loses the variance: dense
        rows are shifted, sparse ones are not.
        """
        super().fit(X)
        mean, rows = self.mean_.astype(np.float64), float(self._sums["rows"][0, 0])
        whole = float(self._sums["sum_of_squares"][0, 0])
        if sp.issparse(X) and rows * (mean @ mean) > FAR * max(whole, 0.0):
            warnings.warn(
                "PCA: the means of columns are more than 100 times as large as their deviations. "
                "Sparse rows are not centred, so few digits of the variances are left: give a "
                "dense X, or subtract something near the mean first.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def inverse_transform(self, X: Any) -> Array:
        """Return X @ components_ + mean_, [n x features], from coordinates X [n x components].

        If `whiten`, X is first multiplied by its standard deviations.
        """
        check_is_fitted(self)
        Z = np.asarray(X) * self._lengths() if self.whiten else np.asarray(X)
        found: Array = Z @ self.components_ + self.mean_
        return found

    def _lengths(self) -> Array:
        """Return the standard deviations of the coordinates, float32 [components], never 0."""
        variances: Array = np.maximum(self.explained_variance_, LEAST)
        return np.sqrt(variances).astype(np.float32)

    def _model(self) -> SVD:
        names = {"oversampling": "n_oversamples", "exact": "exact", "whiten": "whiten"}
        if self.n_components is None:
            return configured(self, SVD, names, components=self._k, center=True)
        return configured(self, SVD, names | {"components": "n_components"}, center=True)

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        found = self._directions(tensors)
        squares = found["singular_values_"].astype(np.float64) ** 2
        whole, rows = (float(found["_sums"][name][0, 0]) for name in ("sum_of_squares", "rows"))
        return found | {
            "mean_": found["_sums"]["means"][:, 0],
            "n_components_": len(squares),
            "explained_variance_": squares / max(rows - 1.0, 1.0),
            "explained_variance_ratio_": squares / whole if whole > 0 else 0.0 * squares,
        }
