"""k-means as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import resolve
from blocklearn.models import KMeans as KMeansModel

from ...training.inputs.texts import refuse_texts
from ..base import Array, LearnerEstimator, Tensors
from ..constraints import check_parameters
from ..constructor import estimator
from ..parameters import configured
from ..parts import threads_for
from ..scikit import ClusterMixin, check_is_fitted, sparse_distances, with_callbacks
from ..transformer import Transformer
from ..validation import validated
from .nearest import cosine_distances, distances, lengthened, nearest


@estimator
class KMeans(Transformer, ClusterMixin, LearnerEstimator):
    """Cluster rows by their nearest centres, dense or sparse.

    Parameters
    ----------
        n_clusters: number of centres.
        update_centres: "online", after each block, or "batch", once a pass. "batch" never raises
            the sum of squared distances.
        forget: online only: the share of a block's weight that remains a pass later.
        spherical: whether directions of rows are compared, not positions.
        max_iter: passes. All of them are made; there is no tolerance.
        batch_size: rows of a block, at most. None: 32 to 4096, about 16 blocks a pass.
        random_state: seed.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto"; used by training and predictions.

    Attributes
    ----------
        cluster_centers_: float32 [clusters x features].
        labels_: int32 [n], the clusters of the rows that `fit` was given.
        n_iter_: number of passes.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + np.eye(40, 2)
    >>> labels = bl.KMeans(n_clusters=2, random_state=0).fit_predict(X)
    >>> sorted(np.bincount(labels).tolist()), len(set(labels[:20].tolist()))
    ([20, 20], 1)
    """

    n_clusters: int = 8
    _: KW_ONLY
    update_centres: Literal["online", "batch"] = "online"
    forget: float = 0.3
    spherical: bool = False
    max_iter: int = 10

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X, from scratch; y is ignored."""
        X = self._check(X, reset=True)
        self._fit(X, {"X": X})
        self.labels_ = self._labels(X)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Make one more pass, over X, whose rows are new; y is ignored."""
        X = self._check(X, reset=not self._has_begun())
        return self._go_on(X)

    def predict(self, X: Any) -> Array:
        """Return the number of the nearest centre of each row, int32 [n]."""
        check_is_fitted(self)
        return self._labels(self._check(X, reset=False))

    def transform(self, X: Any) -> Array:
        """Return the distances of rows from centres, float32 [n x clusters].

        They are 1 - cosine if `spherical`.
        """
        check_is_fitted(self)
        X = self._check(X, reset=False)
        centres = np.asarray(self.cluster_centers_, np.float32)
        if not sp.issparse(X):
            of_dense = cosine_distances if self.spherical else distances
            return of_dense(X, centres, threads_for(X.size, self.n_jobs))
        if self.spherical:
            X = lengthened(X)
        return np.asarray(sparse_distances(X, centres, cosine=self.spherical), np.float32)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean squared distance of rows from their centres, or of 1 - cosine."""
        check_is_fitted(self)
        (far,) = self._evaluated(self._check(X, reset=False)).values()
        return -far

    # ------------------------------------------------------------- details

    def _check(self, X: Any, *, reset: bool) -> Any:
        """Return X as scikit-learn validates it."""
        check_parameters(self)
        refuse_texts(X)
        return validated(self, X, accept_sparse="csr", dtype=np.float32, reset=reset)

    def _labels(self, X: Any) -> Array:
        centres = np.ascontiguousarray(self.cluster_centers_, np.float32)
        fit = centres.shape == (self.n_clusters, X.shape[1])
        if sp.issparse(X) or not fit or resolve(self.device) != "cpu":
            return self._predictions(X)[:, 0].astype(np.int32)
        return nearest(X, centres, threads_for(X.size, self.n_jobs), directions=self.spherical)

    def _model(self) -> KMeansModel:
        same = ("update_centres", "forget", "spherical")
        names = {"clusters": "n_clusters"} | {name: name for name in same}
        return configured(self, KMeansModel, names)

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        return {"cluster_centers_": tensors("centres").T, "_counts": tensors("counts")}

    def _tensors(self, rows: int) -> dict[str, Array]:
        centres = np.ascontiguousarray(self.cluster_centers_.T, np.float32)
        return {"centres": centres, "counts": self._counts}

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])
