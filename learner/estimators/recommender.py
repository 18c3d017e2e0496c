"""Lists of items and of what is similar, called as in the library implicit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from blocklearn.matcache import make_backend, resolve
from blocklearn.matcache.containers.backend import Backend

from ..recommendation.factors import Factors
from ..recommendation.recommend import (
    as_csr,
    checked_length,
    lists_of,
    of_matrix,
    of_unit_length,
    parts_of,
)
from ..recommendation.top_lists import top_lists
from .base import Array
from .parameters import threads_of
from .scikit import check_is_fitted

PAIRS = 2**16  # whose factors are fetched at a time


class Recommender:
    """For an estimator that has `user_factors_`, `item_factors_` and `mean_`.

    Users and items are numbers. Lists come as (ids int32, scores float32), best first: [N] each for
    a single user or item, [n x N] for several; where there are no more, -1 and -inf.
    """

    user_factors_: Array
    item_factors_: Array
    mean_: float
    n_components: int
    n_jobs: int | None
    device: str
    _predictions: Callable[..., Array]

    @property
    def user_factors(self) -> Array:
        """`user_factors_`, as implicit calls it."""
        return self.user_factors_

    @property
    def item_factors(self) -> Array:
        """`item_factors_`, as implicit calls it."""
        return self.item_factors_

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
        """The N items with the highest predictions for each user.

        user_items: sparse, a row [x items] for each of the users: items that he has, which are not
        listed (filter_already_liked_items), and which his factors are found from (recalculate_user:
        he may be new, and his number does not matter). filter_items: not listed for anybody.
        items: all that may be listed.
        """
        check_is_fitted(self)
        factors, ids = self._factors(), np.atleast_1d(userid)
        known = None
        if filter_already_liked_items or recalculate_user:
            known = as_csr(user_items, "user_items", (ids.size, len(factors.items)))
        if recalculate_user:
            rows = self._predictions(known)
        else:
            rows = factors.users[factors.numbers("user", ids)]
        chosen = self._chosen("item", items, filter_items)
        left_out = known if filter_already_liked_items else None
        count = checked_length(N, len(factors.items) if chosen is None else chosen.size)
        blocks = of_matrix(np.arange(ids.size), left_out)
        lists = lists_of(factors, rows, blocks, count, chosen, self._opened)
        return joined(((block.ids, block.scores) for block in lists), single=np.ndim(userid) == 0)

    def predict_pairs(self, userids: Any, itemids: Any) -> Array:
        """The prediction for each user and the item beside him: float32 [n], or one number for one
        of each; a single user goes with all items, a single item with all users.

        It is not called `predict`, because scikit-learn's has rows like those of X. Raises
        `DataError` for users and items that were not there in training, ValueError where there are
        not as many of the one as of the other.
        """
        check_is_fitted(self)
        factors = self._factors()
        users, items = factors.numbers("user", userids), factors.numbers("item", itemids)
        if users.size != items.size and 1 not in (np.size(userids), np.size(itemids)):
            raise ValueError(
                f"{users.size:,} users and {items.size:,} items; pairs have one of each."
            )
        users, items = np.broadcast_arrays(users, items)
        found = np.empty(users.size, np.float32)
        for start in range(0, users.size, PAIRS):
            part = slice(start, start + PAIRS)
            rows = factors.users[users[part]], factors.items[items[part]]
            found[part] = np.einsum("nk,nk->n", *rows) + np.float32(factors.offset)
        return found.reshape(np.broadcast(userids, itemids).shape)

    def similar_items(
        self,
        itemid: Any,
        N: int = 10,
        recalculate_item: bool = False,
        item_users: Any = None,
        filter_items: Any = None,
        items: Any = None,
    ) -> tuple[Array, Array]:
        """The N items most like each item, itself the first; scores are cosines of factors.

        recalculate_item: find its factors from item_users, sparse, a row [x users] for each.
        filter_items: not listed. items: all that may be listed.
        """
        check_is_fitted(self)
        factors, ids = self._factors(), np.atleast_1d(itemid)
        if recalculate_item:
            known = as_csr(item_users, "item_users", (ids.size, len(factors.users)))
            rows = self._predictions(known, side=1)
        else:
            rows = factors.items[factors.numbers("item", ids)]
        chosen = self._chosen("item", items, filter_items)
        return self._similar(factors.items, rows, N, chosen, single=np.ndim(itemid) == 0)

    def similar_users(
        self, userid: Any, N: int = 10, filter_users: Any = None, users: Any = None
    ) -> tuple[Array, Array]:
        """The N users most like each user: see `similar_items`."""
        check_is_fitted(self)
        factors = self._factors()
        rows = factors.users[factors.numbers("user", userid)]
        chosen = self._chosen("user", users, filter_users)
        return self._similar(factors.users, rows, N, chosen, single=np.ndim(userid) == 0)

    # ------------------------------------------------------------- details

    def _opened(self) -> Backend:
        return make_backend(resolve(self.device), threads_of(self.n_jobs))

    def _factors(self) -> Factors:
        users, items = (
            np.ascontiguousarray(table, np.float32)
            for table in (self.user_factors_, self.item_factors_)
        )
        return Factors(users, items, self.mean_, self.n_components, None, None)

    def _chosen(self, side: Any, given: Any, left_out: Any) -> Array | None:
        """Numbers of what may be listed, ascending; None: everything."""
        if given is not None and left_out is not None:
            raise ValueError(f"give {side}s, or filter_{side}s that are not listed; not both.")
        if given is None and left_out is None:
            return None
        factors = self._factors()
        if given is not None:
            found = np.unique(factors.numbers(side, given))
        else:
            found = np.setdiff1d(factors.numbers(side, None), factors.numbers(side, left_out))
        if not found.size:
            raise ValueError(f"there are no {side}s left that may be listed.")
        return found

    def _similar(
        self, table: Array, rows: Array, N: int, chosen: Array | None, *, single: bool
    ) -> tuple[Array, Array]:
        table = table if chosen is None else table[chosen]
        rows = of_unit_length(rows[:, : self.n_components])
        parts, size = parts_of(np.arange(len(rows)))

        def lists() -> Iterator[tuple[Array, Array]]:
            with top_lists(
                table, checked_length(N, len(table)), self._opened,
                columns=self.n_components, block_rows=size, unit=True,
            ) as top:  # fmt: skip
                for part in parts:
                    ids, scores = top.of(rows[part])
                    yield ids if chosen is None else chosen.astype(np.int32)[ids], scores

        return joined(lists(), single=single)


def joined(blocks: Iterable[tuple[Array, Array]], *, single: bool) -> tuple[Array, Array]:
    """Ids and scores of all blocks; of a single row, [N] each."""
    ids, scores = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return (ids[0], scores[0]) if single else (ids, scores)
