"""The learnt factors of users and items, or the vectors of words, and their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import DataError, Ids
from blocklearn.models import FactorModel, WordVectors

from ..errors import ConfigError
from ..learner import Learner

Side = Literal["user", "item", "word"]
MENTIONED = 5  # unknown ids that a message lists


@dataclass(frozen=True)
class Factors:
    """Factors; the prediction is offset + users[user] . items[item].

    Attributes:
        users: float32 [n x K], not copied from the learner.
        items: float32 [m x K], not copied from the learner; of a model of words, their vectors.
        offset: the mean that is added to each product.
        rank: how many of the K numbers, from the first, are factors; the others are biases.
        user_ids: the ids of the users; None: their numbers are their ids.
        item_ids: the ids of the items; None: their numbers are their ids.
    """

    users: NDArray[Any]
    items: NDArray[Any]
    offset: float
    rank: int
    user_ids: Ids | None
    item_ids: Ids | None

    def numbers(self, side: Side, given: Any) -> NDArray[np.int64]:
        """Return the numbers of users, items or words, int64.

        given: ids (str), or numbers (int); None: all.

        Raises:
            DataError: an id is unknown, or a number out of range.
            TypeError: `given` has neither ids nor numbers.
        """
        count = len(self.table(side))
        if given is None:
            return np.arange(count)
        if not isinstance(given, Ids):
            given = [given] if isinstance(given, str) else given
            array = np.atleast_1d(np.asarray(given))
            huge = array.dtype.kind == "O" and all(isinstance(number, int) for number in array.flat)
            if array.dtype.kind in "iu" or huge:
                return check_range(array, side, count).astype(np.int64)
            if array.size and array.dtype.kind not in "UO":
                raise TypeError(
                    f"{side}s of dtype {array.dtype}; pass ids (str), or numbers (int) of "
                    f"{'rows' if side == 'user' else 'columns'} of the training data."
                )
            given = Ids(array.tolist())
        found = self.names(side).numbers(given)
        if (found < 0).any():
            raise DataError(unknown(f"{side}s", given, found))
        return found

    def table(self, side: Side) -> NDArray[Any]:
        """Return the factors of all users, items or words."""
        return self.users if side == "user" else self.items

    def ids(self, side: Side) -> Ids | None:
        """Return the ids of all users, items or words; None: their numbers are their ids."""
        return self.user_ids if side == "user" else self.item_ids

    def names(self, side: Side) -> Ids:
        """Return the ids of all users, items or words: their numbers if they have no ids."""
        ids, table = self.ids(side), self.table(side)
        return Ids.numbered(len(table)) if ids is None else ids


def unknown(what: str, given: Ids, found: NDArray[np.int64]) -> str:
    """Return a message like `2 of 9 users are unknown to the model: 'ann', 'bob'`.

    found: int64, the places of the ids `given`, or -1 for unknown ones.
    """
    missing = np.flatnonzero(found < 0)
    some = ", ".join(repr(given[int(i)]) for i in missing[:MENTIONED])
    more = ", ..." if missing.size > MENTIONED else ""
    return f"{missing.size:,} of {len(given):,} {what} are unknown to the model: {some}{more}"


def factors_of(learner: Learner, side: Side = "item") -> Factors:
    """Return the factors that `learner` has trained or loaded.

    side: "word": vectors of words, as factors of items without users.

    Raises:
        ConfigError: the model has no factors of users and items, or no vectors of words.
        ValueError: nothing is trained yet.
    """
    model = learner.model
    items = None if learner.names is None else Ids(learner.names)
    if side == "word":
        if not isinstance(model, WordVectors):
            raise ConfigError(
                [f"a model of kind {type(model).__name__} has no vectors of words; WordVectors has"]
            )
        vectors = learner.parameter("vectors")
        return Factors(vectors[:0], vectors, 0.0, vectors.shape[1], None, items)
    if not isinstance(model, FactorModel):
        raise ConfigError(
            [
                f"a model of kind {type(model).__name__} has no factors of users and items; "
                "ALS and Ranking have"
            ]
        )
    return Factors(
        learner.row_state("users"),
        items_of(learner, model),
        float(learner.parameter("mean")[0, 0]) if model.has_mean else 0.0,
        model.factors,
        None if learner.row_names is None else Ids(learner.row_names),
        items,
    )


def items_of(learner: Learner, model: FactorModel) -> NDArray[Any]:
    """Return the rows of all items, float32 [m x K]; do not change them."""
    if "items" in model.row_states:
        return learner.row_state("items")
    return learner.parameter("items")


def check_range(numbers: NDArray[Any], side: str, count: int) -> NDArray[Any]:
    """Return `numbers`, or raise `DataError` unless all are from 0 to count - 1."""
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if wrong.size:
        raise DataError(
            f"{side} {wrong[0]:,}, but {side}s are numbered from 0 to {count - 1:,}. Pass ids as "
            "str."
        )
    return numbers
