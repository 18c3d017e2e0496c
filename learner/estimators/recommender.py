"""Lists of recommended and of similar items, with the names of the library implicit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blocklearn.matcache import make_backend, resolve
from blocklearn.matcache.containers.backend import Backend

from ..recommendation.factors import Factors
from ..recommendation.parts import lists_of, of_matrix, parts_of
from ..recommendation.recommend import as_csr, checked_length, of_unit_length
from ..recommendation.top_lists import top_lists
from .base import Array
from .parameters import threads_of
from .scikit import check_is_fitted

PAIRS = 2**16  # pairs whose factors are fetched at a time


class Recommender:
    """Lists for an estimator with `user_factors_`, `item_factors_` and `mean_`.

    Users and items are numbers. A list is (ids int32, scores float32), best first: [N] each for a
    single user or item, [n x N] for several. Missing places are -1 and -inf.
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
        """`user_factors_`, under implicit's name."""
        return self.user_factors_

    @property
    def item_factors(self) -> Array:
        """`item_factors_`, under implicit's name."""
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
        """Return the N items with the highest predictions for each user.

        userid: a number or [n].
        user_items: sparse [n x items], the items that each user has.
        N: length of the lists.
        filter_already_liked_items: leave out the items in `user_items`.
        filter_items: items left out for every user.
        recalculate_user: find factors from `user_items`; `userid` does not matter.
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
        """Return the prediction for each pair (userids[i], itemids[i]), float32 [n].

        One user and one item give a number. A single user goes with all items, a single item with
        all users. The name is not `predict`, because scikit-learn's `predict` takes rows of X.

        Raises:
            DataError: a user or item was not in the training data.
            ValueError: the numbers of users and items differ.
        """
        check_is_fitted(self)
        factors = self._factors()
        users, items = factors.numbers("user", userids), factors.numbers("item", itemids)
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
            rows = factors.items[factors.numbers("item", ids)]
        chosen = self._chosen("item", items, filter_items)
        return self._similar(factors.items, rows, N, chosen, single=np.ndim(itemid) == 0)

    def similar_users(
        self, userid: Any, N: int = 10, filter_users: Any = None, users: Any = None
    ) -> tuple[Array, Array]:
        """Return the N users most similar to each user: see `similar_items`."""
        check_is_fitted(self)
        factors = self._factors()
        rows = factors.users[factors.numbers("user", userid)]
        chosen = self._chosen("user", users, filter_users)
        return self._similar(factors.users, rows, N, chosen, single=np.ndim(userid) == 0)

    def plot_similar_items(
        self,
        itemids: Sequence[int],
        N: int = 8,
        *,
        item_names: Sequence[str] | None = None,
        path: str | Path | None = None,
    ) -> Any:
        """Draw the cosines of the items most similar to some items; return the Matplotlib figure.

        itemids: numbers of items. item_names: of all items; None: their numbers.
        path: file to write, such as similar.png. Raises ImportError without Matplotlib, of the
        extra `plots`.
        """
        from ..showing.plots import bar_charts

        numbers, cosines = self.similar_items(np.asarray(itemids), N + 1)
        charts: dict[str, dict[str, float]] = {}
        names = range(len(self.item_factors_)) if item_names is None else item_names
        for item, others, values in zip(itemids, numbers, cosines, strict=True):
            pairs = [(o, v) for o, v in zip(others, values, strict=True) if o not in (item, -1)]
            bars = {str(names[int(other)]): float(value) for other, value in pairs[:N]}
            charts[str(names[item])] = bars
        return bar_charts(charts, path)

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
        """Return the numbers that may be listed, ascending; None: all."""
        if given is not None and left_out is not None:
            raise ValueError(f"{side}s, filter_{side}s: give one of them, not both.")
        if given is None and left_out is None:
            return None
        factors = self._factors()
        if given is not None:
            found = np.unique(factors.numbers(side, given))
        else:
            found = np.setdiff1d(factors.numbers(side, None), factors.numbers(side, left_out))
        if not found.size:
            raise ValueError(f"{side}s, filter_{side}s: no {side}s left to list.")
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
    """Return ids and scores of all blocks; for a single row, [N] each."""
    ids, scores = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return (ids[0], scores[0]) if single else (ids, scores)
