"""Matrix factorisation of ratings and of implicit feedback, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, Self

import numpy as np

from blocklearn.answers import shown
from blocklearn.models import ALS as ALSModel

from ...recommendation.recommend import as_csr
from ..base import Array, Tensors
from ..constructor import estimator
from ..parameters import configured
from ..scikit import check_is_fitted
from .factors import FactorEstimator

WEIGHTS = {
    "reg": "regularization",
    "row_reg": "row_regularization",
    "bias_reg": "bias_regularization",
}
"""The fields of the model's penalty, and the parameters that set them."""
MOST_ROWS = 2**31  # of users or items


@estimator
class ALS(FactorEstimator):
    """Factorise X [users x items] by alternating least squares.

    Entries that X does not store are unknown ("explicit": values are ratings) or count as seen zero
    times ("implicit": values say how often or how long). Zeros of a dense X are not stored entries.

    Parameters
    ----------
        n_components: number of factors.
        loss: "explicit" or "implicit".
        regularization: weight of the squared factors. "auto": it and the two below are chosen on a
            held-out tenth of the entries, by up to 10 trainings of 5 passes. Up to 10,000 ratings
            are held out in turn, in 5 parts.
        weighted: multiply `regularization` by the number of a row's entries. The library implicit
            corresponds to False.
        row_regularization: added to the weight of the squares of each row's factors.
        bias_regularization: weight of the square of a bias. None: that of the row's factors.
        biases: fit biases of users and items. None: only with the explicit loss.
        alpha: implicit loss only: what an entry of 1 adds to its confidence.
        solver: "cg" or "cholesky".
        cg_steps: conjugate gradient steps of the solver "cg".
        max_iter: passes over users and items.
        batch_size: rows of a block, at most. None: up to 8192.
        random_state: seed of the initial factors.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto"; used by training, predictions and
            lists.

    Attributes
    ----------
        user_factors_: float32 [users x K]; also `user_factors`.
        item_factors_: float32 [items x K]; also `item_factors`.
        mean_: float; the prediction is mean_ + user_factors_[u] . item_factors_[i].
        components_: item_factors_.T.
        n_iter_: number of passes.
        chosen_: the three regularizations that "auto" chose, by name; otherwise empty.
        tried_: all that it tried: a list of such dicts with the "score" of each, RMSE or NDCG@10.
        user_ids_, item_ids_: after `fit` of a frame, the ids of users and items: int64 if all are
            whole numbers, else texts.
        user_items_: after `fit` of a frame, what it holds: CSR [users x items].
        n_features_in_, feature_names_in_: as in scikit-learn.

    K is n_components, or n_components + 2 with biases.

    >>> import blocklearn as bl
    >>> X = bl.sparse([[5, 4, 0, 1], [4, 0, 1, 0], [1, 0, 5, 4], [0, 1, 4, 5.0]])
    >>> als = bl.ALS(n_components=2, max_iter=5, random_state=0).fit(X)
    >>> ids, scores = als.recommend(1, X[[1]], N=2)
    >>> ids.tolist()
    [1, 3]
    """

    open_parameters: ClassVar[Mapping[str, str]] = WEIGHTS

    n_components: int = 64
    _: KW_ONLY
    loss: Literal["explicit", "implicit"] = "explicit"
    regularization: float | Literal["auto"] = "auto"
    weighted: bool = True
    row_regularization: float = 0.0
    bias_regularization: float | None = None
    biases: bool | None = None
    alpha: float = 1.0
    solver: Literal["cg", "cholesky"] = "cg"
    cg_steps: int = 3
    max_iter: int = 15

    # ------------------------------------------------------------- users and items one by one

    def partial_fit_users(self, userids: Any, user_items: Any) -> Self:
        """Find new factors for these users and keep those of the items.

        userids: whole numbers [n]; unknown numbers add users.
        user_items: sparse [n x items], all known entries of these users.

        If numbers are skipped, the users in between get factors without known entries.
        """
        check_is_fitted(self)
        if hasattr(self, "user_ids_"):
            raise ValueError(
                "ALS: the users were fitted with ids, so they cannot be changed by number. Fit on "
                "a matrix."
            )
        ids = numbers_of(userids)
        known = as_csr(user_items, "user_items", (ids.size, len(self.item_factors_)))
        found = self._predictions(known)
        constants, _ = self._model().constants()
        self.user_factors_ = updated(self.user_factors_, ids, found, constants)
        return self

    def partial_fit_items(self, itemids: Any, item_users: Any) -> Self:
        """Find new factors for these items and keep those of the users.

        itemids: whole numbers [n]; unknown numbers add items.
        item_users: sparse [n x users], all known entries of these items.
        """
        check_is_fitted(self)
        ids = numbers_of(itemids)
        known = as_csr(item_users, "item_users", (ids.size, len(self.user_factors_)))
        count = max(int(ids.max()) + 1, len(self.item_factors_))
        if count > len(self.item_factors_) and hasattr(self, "feature_names_in_"):
            raise ValueError(
                "ALS: the items were fitted with names, so none can be added by number. Fit on a "
                "matrix without names, or update known items only."
            )
        found = self._predictions(known, side=1)
        _, constants = self._model().constants()
        self.item_factors_ = updated(self.item_factors_, ids, found, constants)
        self.n_features_in_ = count
        return self

    # ------------------------------------------------------------- details

    def _model(self) -> ALSModel:
        same = ("loss", "weighted", "biases", "alpha", "solver", "cg_steps")
        names = {"rank": "n_components"} | WEIGHTS | {name: name for name in same}
        model = configured(self, ALSModel, names)
        return model.model_copy(update=self._chosen_fields())

    @property
    def _implicit(self) -> bool:
        return self.loss == "implicit"

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        return {
            "user_factors_": tensors("users"),
            "item_factors_": tensors("items"),
            "_rank": self.n_components,
            "mean_": float(tensors("mean")[0, 0]),
        }

    def _tensors(self, rows: int) -> dict[str, Array]:
        return {
            "users": self.user_factors_,
            "items": self.item_factors_,
            "mean": np.array([[self.mean_]], np.float32),
        }


def numbers_of(ids: Any) -> Array:
    """Return numbers of users or items as int64 [n].

    Raises:
        ValueError: `ids` is empty, no list, or holds anything but whole numbers from 0 to
            2**31 - 1.
    """
    numbers = np.atleast_1d(np.asarray(ids))
    whole = numbers.size and numbers.ndim == 1 and numbers.dtype.kind in "iu"
    if not whole or numbers.min() < 0 or numbers.max() >= MOST_ROWS:
        raise ValueError(
            f"ids={shown(ids)}: must be one or more whole numbers from 0 to 2**31 - 1, in a list. "
            "Rows up to the largest are made: number new users and items on from the last."
        )
    return numbers.astype(np.int64)


def updated(factors: Array, ids: Array, found: Array, constants: Array) -> Array:
    """Return a copy of `factors` whose rows `ids` are `found`.

    The copy gets as many more rows as `ids` needs. New rows that `ids` skips are `constants`.
    """
    more = max(0, int(ids.max()) + 1 - len(factors))
    copy = np.concatenate([factors, np.tile(constants, (more, 1))])
    copy[ids] = found
    return copy
