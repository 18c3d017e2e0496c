"""Matrix factorisation of ratings and of implicit feedback, as an estimator."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import resolve
from blocklearn.models import ALS as ALSModel

from ..recommendation.recommend import as_csr
from ..training.data import refuse_texts
from .base import Array, LearnerEstimator, Tensors
from .held_out import score_of
from .parameters import configured
from .recommender import Recommender
from .scikit import (
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    check_is_fitted,
    validate_data,
    with_callbacks,
)


class ALS(Recommender, ClassNamePrefixFeaturesOutMixin, TransformerMixin, LearnerEstimator):
    """Factors of users and items from X [users x items], by alternating least squares.

    What X does not store is unknown ("explicit": values are ratings), or has been seen zero times
    ("implicit": values say how often, how long). A dense X stands for its entries that are not 0.

    n_components: number of factors. regularization: of the squares of factors; weighted: times the
    number of a row's entries (the library implicit has False). biases: of users and items; None:
    with the explicit loss. alpha: implicit: what an entry of 1 adds to its confidence. solver:
    "cg", with cg_steps, or "cholesky". max_iter: passes over users and items. batch_size: rows of a
    block, at most. n_jobs: threads; None: all that the process may use. They never change the
    result. device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto": of training, predictions and
    lists.

    Learned: `user_factors_` float32 [users x K], `item_factors_` float32 [items x K] (without the
    underscore, too), `mean_`: the prediction is mean_ + user_factors_[u] . item_factors_[i]. K is
    n_components, and with biases two more. `components_` is item_factors_.T. `n_iter_` (passes),
    `n_features_in_`, `feature_names_in_`.

    >>> import blocklearn as bl
    >>> X = bl.sparse([[5, 4, 0, 1], [4, 0, 1, 0], [1, 0, 5, 4], [0, 1, 4, 5.0]])
    >>> als = bl.ALS(n_components=2, max_iter=5, random_state=0).fit(X)
    >>> ids, scores = als.recommend(1, X[[1]], N=2)
    >>> ids.tolist()
    [1, 3]
    """

    def __init__(
        self,
        n_components: int = 64,
        *,
        loss: Literal["explicit", "implicit"] = "explicit",
        regularization: float = 0.05,
        weighted: bool = True,
        biases: bool | None = None,
        alpha: float = 1.0,
        solver: Literal["cg", "cholesky"] = "cg",
        cg_steps: int = 3,
        max_iter: int = 15,
        batch_size: int = 1024,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.regularization = regularization
        self.weighted = weighted
        self.biases = biases
        self.alpha = alpha
        self.solver = solver
        self.cg_steps = cg_steps
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X [users x items], from scratch. y: does not matter."""
        X = self._entries(X, reset=True)
        return self._fit(X, {"X": X})

    def transform(self, X: Any) -> Array:
        """Factors of new users, float32 [n x K], from all that is known of them [n x items]."""
        check_is_fitted(self)
        return self._predictions(self._entries(X, reset=False))

    def score(self, X: Any, y: Any = None) -> float:
        """How well half of each row's entries, drawn once and for all, are predicted from the other
        half; the rows may be new users. Higher is better: explicit: minus the root of the mean
        squared error; implicit: NDCG of lists of ten.
        """
        check_is_fitted(self)
        X = self._entries(X, reset=False)
        X = as_csr(X, "X", X.shape)
        implicit, device = self.loss == "implicit", resolve(self.device)
        return score_of(self._predictions, self._factors(), X, implicit=implicit, device=device)

    # ------------------------------------------------------------- users and items one by one

    def partial_fit_users(self, userids: Any, user_items: Any) -> Self:
        """New factors for these users, from all that is known of them (sparse [users x items]).

        Those of the items stay. Users that were not there before are added; of others that this
        makes room for, nothing is known.
        """
        check_is_fitted(self)
        ids = numbers_of(userids)
        known = as_csr(user_items, "user_items", (ids.size, len(self.item_factors_)))
        found = self._predictions(known)
        constants, _ = self._model().constants()
        self.user_factors_ = updated(self.user_factors_, ids, found, constants)
        return self

    def partial_fit_items(self, itemids: Any, item_users: Any) -> Self:
        """The same for items, from all that is known of them [items x users]."""
        check_is_fitted(self)
        ids = numbers_of(itemids)
        known = as_csr(item_users, "item_users", (ids.size, len(self.user_factors_)))
        count = max(int(ids.max()) + 1, len(self.item_factors_))
        if count > len(self.item_factors_) and hasattr(self, "feature_names_in_"):
            raise ValueError(
                "ALS: items that were fitted with names cannot be added to by number; fit on a "
                "matrix without names, or only update items that are there."
            )
        found = self._predictions(known, side=1)
        _, constants = self._model().constants()
        self.item_factors_ = updated(self.item_factors_, ids, found, constants)
        self.n_features_in_ = count
        return self

    # ------------------------------------------------------------- details

    @property
    def components_(self) -> Array:
        """Factors of the items, [K x items]."""
        return self.item_factors_.T

    def _model(self) -> ALSModel:
        same = ("loss", "weighted", "biases", "alpha", "solver", "cg_steps")
        names = {"rank": "n_components", "reg": "regularization"} | {name: name for name in same}
        return configured(self, ALSModel, names)

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        return {
            "user_factors_": tensors("users"),
            "item_factors_": tensors("items"),
            "mean_": float(tensors("mean")[0, 0]),
        }

    def _tensors(self, rows: int) -> dict[str, Array]:
        return {
            "users": self.user_factors_,
            "items": self.item_factors_,
            "mean": np.array([[self.mean_]], np.float32),
        }

    def _entries(self, X: Any, *, reset: bool) -> Any:
        refuse_texts(X)
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=reset)
        return X if sp.issparse(X) else sp.csr_array(X)

    @property
    def _n_features_out(self) -> int:
        return int(self.item_factors_.shape[1])

    def __sklearn_tags__(self) -> Any:
        """Sparse data are the rule; float32 comes out."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def numbers_of(ids: Any) -> Array:
    """Numbers of users or items, int64 [n]. Raises ValueError for none, and for others."""
    numbers = np.atleast_1d(np.asarray(ids))
    if not numbers.size or numbers.dtype.kind not in "iu" or numbers.min() < 0:
        raise ValueError(f"ids: {ids!r}, but they are whole numbers from 0, one or more.")
    return numbers.astype(np.int64)


def updated(factors: Array, ids: Array, found: Array, constants: Array) -> Array:
    """A copy of `factors` with other rows at `ids`, as many more rows as that needs; of those that
    nobody has spoken of, `constants`.
    """
    more = max(0, int(ids.max()) + 1 - len(factors))
    copy = np.concatenate([factors, np.tile(constants, (more, 1))])
    copy[ids] = found
    return copy
