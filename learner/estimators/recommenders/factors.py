"""The base class of estimators of users and items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from blocklearn.datasources.given import is_ratings, ratings_of
from blocklearn.matcache import resolve

from ...choosing.choose import choose
from ...recommendation.recommend import as_csr
from ...training.inputs.data import native_csr
from ...training.inputs.texts import refuse_texts
from ..base import Array, LearnerEstimator
from ..scikit import check_is_fitted, with_callbacks
from ..transformer import Transformer
from ..validation import validated
from .held_out import score_of
from .recommender import Recommender, id_array

if TYPE_CHECKING:
    from ...learner import Learner


class FactorEstimator(Recommender, Transformer, LearnerEstimator):
    """Estimator with factors of users and items, learned from X [users x items].

    open_parameters: the model's fields that may be chosen by trials, and the parameters that set
        them.
    """

    open_parameters: ClassVar[Mapping[str, str]] = {}

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X, from scratch; y is ignored.

        X: a matrix [users x items]; or a data frame or Arrow table with a column of users, one of
            items and perhaps one of ratings or counts, by their names: `user`, `item`, `rating`.
            Lists then take and return the ids in it.
        """
        X = self._entries(X, reset=True)
        self.chosen_: dict[str, Any] = {}
        self.tried_: list[dict[str, Any]] = []
        return self._fit(X, {"X": X})

    def transform(self, X: Any) -> Array:
        """Return factors of new users, float32 [n x K], from their known entries [n x items]."""
        check_is_fitted(self)
        return self._predictions(self._entries(X, reset=False))

    def score(self, X: Any, y: Any = None) -> float:
        """Score predictions of one half of each row's entries from the other half.

        The split into halves is fixed; the rows may be new users. Higher is better. Ratings: minus
        the root mean squared error. Implicit feedback: NDCG of lists of ten items.
        """
        check_is_fitted(self)
        X = self._entries(X, reset=False)
        X = as_csr(X, "X", X.shape)
        implicit, device = self._implicit, resolve(self.device)
        return score_of(self._predictions, self._factors(), X, implicit=implicit, device=device)

    # ------------------------------------------------------------- details

    @property
    def _implicit(self) -> bool:
        """Whether entries say what users have, not how they rate it."""
        return True

    @property
    def components_(self) -> Array:
        """Factors of the items, float32 [K x items]."""
        return self.item_factors_.T

    def _chosen_fields(self) -> dict[str, Any]:
        """Return the fields that were chosen, by name; empty if they were given."""
        chosen = getattr(self, "chosen_", {})
        return {f: chosen[name] for f, name in self.open_parameters.items() if chosen}

    def _decide(self, learner: Learner) -> None:
        choice = choose(learner)
        if choice is not None:
            fields = self.open_parameters.items()
            self.chosen_ = {name: choice.settings[field] for field, name in fields}
            self.tried_ = [
                {name: tried.settings[field] for field, name in fields} | {"score": tried.score}
                for tried in choice.tried
            ]

    def _entries(self, X: Any, *, reset: bool) -> Any:
        if is_ratings(X):
            return self._pivoted(X, reset=reset)
        refuse_texts(X)
        X = validated(self, X, accept_sparse="csr", dtype="numeric", reset=reset)
        if reset:
            for name in ("user_ids_", "item_ids_", "user_items_"):
                self.__dict__.pop(name, None)
        return X if sp.issparse(X) else native_csr(X)

    def _pivoted(self, frame: Any, *, reset: bool) -> Any:
        """Return a frame of users, items and ratings as CSR [users x items].

        reset: keep the ids, and the matrix; False: take the columns of the known items.
        """
        if not reset and not hasattr(self, "item_ids_"):
            raise ValueError(
                f"{type(self).__name__}: X is a frame of users and items: must be a matrix, as "
                "that of `fit` was."
            )
        items = None if reset else self._ids("item")
        found = ratings_of(frame, items=items, rated=not self._implicit)
        if reset:
            self.user_ids_, self.item_ids_ = id_array(found.users), id_array(found.items)
            self.user_items_ = found.matrix
            self.n_features_in_ = len(self.item_ids_)
            self.feature_names_in_ = np.array(list(found.items), object)
        return found.matrix
