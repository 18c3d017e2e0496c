"""Lists of recommended and of similar items, with the names of the library implicit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from blocklearn.answers import answered
from blocklearn.datasources import Ids
from blocklearn.matcache import make_backend, resolve
from blocklearn.matcache.containers.backend import Backend

from ...recommendation.factors import Factors
from ...recommendation.parts import lists_of, of_matrix, parts_of
from ...recommendation.recommend import as_csr, checked_length, of_unit_length
from ...recommendation.top_lists import top_lists
from ..base import Array
from ..constraints import check_parameters
from ..parameters import threads_of
from ..scikit import check_is_fitted

Side = Literal["user", "item"]
PAIRS = 2**16  # pairs whose factors are fetched at a time


class Recommender:
    """Lists for an estimator with `user_factors_`, `item_factors_` and `mean_`.

    Users and items are numbers; after `fit` of a frame, they are the ids in it. A list is (ids,
    scores float32), best first: [N] each for a single user or item, [n x N] for several. Missing
    places are -1 (of texts, "") and -inf.
    """

    user_factors_: Array
    item_factors_: Array
    mean_: float
    _rank: int  # n_components of the last `fit`
    n_jobs: int | None
    device: str
    _predictions: Callable[..., Array]

    @property
    def user_factors(self) -> Array:
        """`user_factors_`, under implicit's name."""
        return self.user_factors_

    @property
    def item_factors(self) -> Array:
        """`item_factors_`, under implicit's name."""
        return self.item_factors_

    @answered
    def recommend(
        self,
        userid: Any,
        user_items: Any = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: Any = None,
        recalculate_user: bool = False,
        items: Any = None,
    ) -> tuple[Array, Array]:
        """Return the N items with the highest predictions for each user.

        userid: a number or id, or [n].
        user_items: sparse [n x items], the items that each user has; None after `fit` of a frame:
            those in it.
        N: length of the lists.
        filter_already_liked_items: leave out the items in `user_items`.
        filter_items: items left out for every user.
        recalculate_user: find factors from `user_items`; `userid` does not matter.
        items: all that may be listed.
        """
        check_is_fitted(self)
        factors, ids = self._factors(), np.atleast_1d(userid)
        numbers = None if recalculate_user else self._numbers(factors, "user", ids)
        known = None
        if filter_already_liked_items or recalculate_user:
            if user_items is None:
                user_items = self._had(numbers)
            known = as_csr(user_items, "user_items", (ids.size, len(factors.items)))
        rows = self._predictions(known) if numbers is None else factors.users[numbers]
        chosen = self._chosen(factors, "item", items, filter_items)
        left_out = known if filter_already_liked_items else None
        count = checked_length(N, len(factors.items) if chosen is None else chosen.size, "N")
        blocks = of_matrix(np.arange(ids.size), left_out)
        lists = lists_of(factors, rows, blocks, count, chosen, self._opened)
        found, scores = joined(
            ((block.ids, block.scores) for block in lists), count, single=np.ndim(userid) == 0
        )
        return self._named("item", found), scores

    @answered
    def predict_pairs(self, userids: Any, itemids: Any) -> Array:
        """Return the prediction for each pair (userids[i], itemids[i]), float32 [n].

        One user and one item give a number. A single user goes with all items, a single item with
        all users. The name is not `predict`, because scikit-learn's `predict` takes rows of X.

        Raises:
            DataError: a user or item was not in the training data.
            ValueError: the numbers of users and items differ.
        """
        check_is_fitted(self)
        factors = self._factors()
        users = self._numbers(factors, "user", userids)
        items = self._numbers(factors, "item", itemids)
        if users.size != items.size and 1 not in (np.size(userids), np.size(itemids)):
            raise ValueError(
                f"{users.size:,} users and {items.size:,} items; pairs need as many of each."
            )
        users, items = np.broadcast_arrays(users, items)
        found = np.empty(users.size, np.float32)
        for start in range(0, users.size, PAIRS):
            part = slice(start, start + PAIRS)
            rows = factors.users[users[part]], factors.items[items[part]]
            found[part] = np.einsum("nk,nk->n", *rows) + np.float32(factors.offset)
        return found.reshape(np.broadcast(userids, itemids).shape)

    @answered
    def similar_items(
        self,
        itemid: Any,
        N: int = 10,
        recalculate_item: bool = False,
        item_users: Any = None,
        filter_items: Any = None,
        items: Any = None,
    ) -> tuple[Array, Array]:
        """Return the N items most similar to each item, itself the first.

        Scores are cosines of factors.

        itemid: a number or [n].
        N: length of the lists.
        recalculate_item: find the items' factors from `item_users`.
        item_users: sparse [n x users].
        filter_items: items left out.
        items: all that may be listed.
        """
        check_is_fitted(self)
        factors, ids = self._factors(), np.atleast_1d(itemid)
        if recalculate_item:
            known = as_csr(item_users, "item_users", (ids.size, len(factors.users)))
            rows = self._predictions(known, side=1)
        else:
            rows = factors.items[self._numbers(factors, "item", ids)]
        chosen = self._chosen(factors, "item", items, filter_items)
        return self._similar("item", factors, rows, N, chosen, one=np.ndim(itemid) == 0)

    @answered
    def similar_users(
        self, userid: Any, N: int = 10, filter_users: Any = None, users: Any = None
    ) -> tuple[Array, Array]:
        """Return the N users most similar to each user: see `similar_items`."""
        check_is_fitted(self)
        factors = self._factors()
        rows = factors.users[self._numbers(factors, "user", userid)]
        chosen = self._chosen(factors, "user", users, filter_users)
        return self._similar("user", factors, rows, N, chosen, one=np.ndim(userid) == 0)

    def plot_similar_items(
        self,
        itemids: Sequence[Any],
        N: int = 8,
        *,
        item_names: Sequence[str] | None = None,
        path: str | Path | None = None,
    ) -> Any:
        """Draw the cosines of the items most similar to some items; return the Matplotlib figure.

        itemids: numbers or ids of items. item_names: of all items; None: their numbers or ids.
        path: file to write, such as similar.png. Raises ImportError without Matplotlib, of the
        extra `plots`.
        """
        from ...showing.plots import bar_charts

        charts: dict[str, dict[str, float]] = {}
        factors = self._factors()
        own = factors.names("item")
        names = own if item_names is None else item_names
        chosen = self._numbers(factors, "item", itemids)
        lists, cosines = self.similar_items(own.take(chosen).arrow.to_pylist(), N + 1)
        for item, others, values in zip(chosen, lists, cosines, strict=True):
            found = zip(own.numbers(others.astype(str).tolist()), values, strict=True)
            pairs = [(number, value) for number, value in found if number not in (item, -1)]
            bars = {str(names[int(number)]): float(value) for number, value in pairs[:N]}
            charts[str(names[int(item)])] = bars
        return bar_charts(charts, path)

    # ------------------------------------------------------------- details

    def _opened(self) -> Backend:
        return make_backend(resolve(self.device), threads_of(self.n_jobs))

    def _factors(self) -> Factors:
        check_parameters(self)
        users, items = (
            np.ascontiguousarray(table, np.float32)
            for table in (self.user_factors_, self.item_factors_)
        )
        ids = self._ids("user"), self._ids("item")
        return Factors(users, items, self.mean_, self._rank, *ids)

    def _ids(self, side: Side) -> Ids | None:
        """Return the ids of users or items, as texts; None: their numbers are their ids."""
        found = getattr(self, f"{side}_ids_", None)
        return None if found is None else Ids(found.astype(str).tolist())

    def _numbers(self, factors: Factors, side: Side, given: Any) -> Array:
        """Return the numbers of users or items, given by their numbers or ids.

        Raises ValueError where they are no list.
        """
        if np.ndim(given) > 1:
            raise ValueError(
                f"{type(self).__name__}: {side}s of shape {np.shape(given)}: must be one id, or a "
                "list of ids. Pass ids[0], or ids.ravel()."
            )
        if hasattr(self, f"{side}_ids_"):
            given = np.atleast_1d(np.asarray(given)).astype(str)
        return factors.numbers(side, given)

    def _named(self, side: Side, numbers: Array) -> Array:
        """Return the ids of users or items; their numbers if they have no ids."""
        ids = getattr(self, f"{side}_ids_", None)
        if ids is None:
            return numbers
        missing = ids.dtype.type(-1 if ids.dtype.kind == "i" else "")
        found: Array = np.where(numbers < 0, missing, ids[numbers])
        return found

    def _had(self, numbers: Array | None) -> Any:
        """Return the items of users in the frame of `fit`."""
        if numbers is None or not hasattr(self, "user_items_"):
            raise ValueError(
                f"{type(self).__name__}: user_items=None: must be a SciPy sparse matrix, with the "
                "items of each user as a row. Or pass filter_already_liked_items=False."
            )
        return self.user_items_[numbers]

    def _chosen(self, factors: Factors, side: Side, given: Any, left_out: Any) -> Array | None:
        """Return the numbers that may be listed, ascending; None: all."""
        if given is not None and left_out is not None:
            raise ValueError(f"{side}s, filter_{side}s: give one of them, not both.")
        if given is None and left_out is None:
            return None
        if given is not None:
            found = np.unique(self._numbers(factors, side, given))
        else:
            every = factors.numbers(side, None)
            found = np.setdiff1d(every, self._numbers(factors, side, left_out))
        if not found.size:
            raise ValueError(f"{side}s, filter_{side}s: no {side}s left to list.")
        return found

    def _similar(
        self, side: Side, factors: Factors, rows: Array, N: int, chosen: Array | None, *, one: bool
    ) -> tuple[Array, Array]:
        """Return the users or items among the `chosen` whose factors are nearest to `rows`."""
        table = factors.table(side) if chosen is None else factors.table(side)[chosen]
        rows = of_unit_length(rows[:, : self._rank])
        parts, size = parts_of(np.arange(len(rows)))
        length = checked_length(N, len(table), "N")

        def lists() -> Iterator[tuple[Array, Array]]:
            with top_lists(
                table, length, self._opened,
                columns=self._rank, block_rows=size, unit=True,
            ) as top:  # fmt: skip
                for part in parts:
                    ids, scores = top.of(rows[part])
                    yield ids if chosen is None else chosen.astype(np.int32)[ids], scores

        found, scores = joined(lists(), length, single=one)
        return self._named(side, found), scores


def joined(
    blocks: Iterable[tuple[Array, Array]], length: int, *, single: bool
) -> tuple[Array, Array]:
    """Return ids and scores of all blocks [n x length]; for a single row, [length] each."""
    none = np.empty((0, length), np.int32), np.empty((0, length), np.float32)
    ids, scores = (np.concatenate(parts) for parts in zip(none, *blocks, strict=True))
    return (ids[0], scores[0]) if single else (ids, scores)


def id_array(ids: Ids) -> Array:
    """Return ids as int64 if all are whole numbers in the digits 0 to 9, else as texts."""
    found = np.array(list(ids))
    whole = all(id_.isascii() and id_.isdecimal() and (id_[0] != "0" or id_ == "0") for id_ in ids)
    return found.astype(np.int64) if whole and found.dtype.itemsize // 4 < 19 else found
