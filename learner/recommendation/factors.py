"""What a model of users and items has learnt, and which users and items these are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import DataError, Ids
from blocklearn.models import ALS

from ..errors import ConfigError
from ..learner import Learner

MENTIONED = 5  # unknown ids of a message


@dataclass(frozen=True)
class Factors:
    """The prediction for a user and an item is offset + users[user] . items[item].

    users: float32 [n x K], items: float32 [m x K], not copied from the learner. rank: of these K
    numbers the first ones, which say what users and items are like (others are biases). user_ids,
    item_ids: what they are called, None if they have numbers only, which are their ids then.
    """

    users: NDArray[Any]
    items: NDArray[Any]
    offset: float
    rank: int
    user_ids: Ids | None
    item_ids: Ids | None

    def numbers(self, side: Literal["user", "item"], given: Any) -> NDArray[np.int64]:
        """Numbers of users or items: `given` ones, or where they stand if they are ids (str).

        None: all of them. Raises `DataError` for ids that the model does not know and numbers out
        of range, `TypeError` for what is neither.
        """
        count = len(self.users if side == "user" else self.items)
        if given is None:
            return np.arange(count)
        if not isinstance(given, Ids):
            given = [given] if isinstance(given, str) else given
            array = np.atleast_1d(np.asarray(given))
            if array.dtype.kind in "iu":
                return check_range(array.astype(np.int64), side, count)
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

    def names(self, side: Literal["user", "item"]) -> Ids:
        """What all users or items are called: by their numbers, where they have no ids."""
        ids, table = (self.user_ids, self.users) if side == "user" else (self.item_ids, self.items)
        return Ids.numbered(len(table)) if ids is None else ids


def unknown(what: str, given: Ids, found: NDArray[np.int64]) -> str:
    """`2 of 9 users are unknown to the model: 'ann', 'bob'`. found: places of `given`, or -1."""
    missing = np.flatnonzero(found < 0)
    some = ", ".join(repr(given[int(i)]) for i in missing[:MENTIONED])
    more = ", ..." if missing.size > MENTIONED else ""
    return f"{missing.size:,} of {len(given):,} {what} are unknown to the model: {some}{more}"


def factors_of(learner: Learner) -> Factors:
    """The factors that `learner` has trained or loaded. Raises `ConfigError` if its model has none,
    `ValueError` if nothing is trained yet.
    """
    model = learner.model
    if not isinstance(model, ALS):
        raise ConfigError(
            [f"a model of kind {type(model).__name__} has no factors of users and items"]
        )
    return Factors(
        learner.row_state("users"),
        learner.row_state("items"),
        float(learner.parameter("mean")[0, 0]),
        model.rank,
        None if learner.row_names is None else Ids(learner.row_names),
        None if learner.names is None else Ids(learner.names),
    )


def check_range(numbers: NDArray[np.int64], side: str, count: int) -> NDArray[np.int64]:
    """Numbers of users or items that there are."""
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if wrong.size:
        raise DataError(
            f"{side} {wrong[0]:,}, but {side}s are numbered from 0 to {count - 1:,}; their ids, if "
            "they have some, are passed as str."
        )
    return numbers
