"""Rankings of items learned from implicit feedback, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal

from blocklearn.models import Ranking as RankingModel

from ..base import Array, Tensors
from ..constructor import estimator
from ..parameters import configured
from .factors import FactorEstimator


@estimator
class Ranking(FactorEstimator):
    """Rank the items that a user does not have, by a sampled softmax over X [users x items].

    An entry of X above 0 says that the user has the item; how large it is does not matter.

    Parameters
    ----------
        n_components: number of factors.
        regularization: weight of half the squares of the factors, per positive entry. "auto":
            chosen on a held-out tenth of the entries, by 4 trainings of up to 5 passes.
        negatives: items that are drawn for each user in each pass.
        popularity: items are drawn by their number of users to this power; 0: all alike.
        steps: steps of each user's factors in a pass.
        max_iter: passes over the users.
        batch_size: users of a block; items move after each block.
        random_state: seed of the initial factors and of the negatives.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto"; used by training, predictions and
            lists.

    Attributes
    ----------
        user_factors_: float32 [users x K]; also `user_factors`.
        item_factors_: float32 [items x K]; also `item_factors`.
        components_: item_factors_.T.
        n_iter_: number of passes.
        chosen_: {"regularization": the number that "auto" chose}; otherwise empty.
        tried_: all that it tried: a list of such dicts with the "score" of each, NDCG@10.
        user_ids_, item_ids_: after `fit` of a frame, the ids of users and items: int64 if all are
            whole numbers, else texts.
        user_items_: after `fit` of a frame, what it holds: CSR [users x items].
        n_features_in_, feature_names_in_: as in scikit-learn.

    K is n_components + 1. The score of an item for a user is user_factors_[u] . item_factors_[i].

    >>> import blocklearn as bl
    >>> X = bl.sparse([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 1, 1, 1]])
    >>> ranking = bl.Ranking(2, regularization=0.1, max_iter=20, random_state=0).fit(X)
    >>> ids, scores = ranking.recommend(0, X[[0]], N=2)
    >>> ids.tolist()
    [2, 3]
    """

    open_parameters: ClassVar[Mapping[str, str]] = {"reg": "regularization"}
    mean_ = 0.0

    n_components: int = 64
    _: KW_ONLY
    regularization: float | Literal["auto"] = "auto"
    negatives: int = 64
    popularity: float = 0.5
    steps: int = 3
    max_iter: int = 30
    batch_size: int = 64

    def _model(self) -> RankingModel:
        same = ("negatives", "popularity", "steps")
        names = {"rank": "n_components", "reg": "regularization"} | {name: name for name in same}
        return configured(self, RankingModel, names).model_copy(update=self._chosen_fields())

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        return {
            "user_factors_": tensors("users"),
            "item_factors_": tensors("items"),
            "_rank": self.n_components,
            "_squares": tensors("users_squares"),
        }

    def _tensors(self, rows: int) -> dict[str, Array]:
        return {
            "users": self.user_factors_,
            "items": self.item_factors_,
            "users_squares": self._squares,
        }
