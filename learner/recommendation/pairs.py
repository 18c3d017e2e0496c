"""Predict single pairs of users and items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.answers import answered
from blocklearn.datasources import Ids
from blocklearn.durable import new_file
from blocklearn.models import FactorModel

from ..figures import number
from ..learner import Learner
from ..storage.table_file import table_writer
from .factors import Factors, factors_of

PART = 2**16  # pairs whose factors are fetched, or written, at a time


@dataclass(frozen=True)
class Pairs:
    """Predictions for n pairs.

    users, items: n ids each.
    values: float32 [n], the predictions.
    user_known, item_known: bool [n], whether the model knows them.
    """

    users: Ids
    items: Ids
    values: NDArray[np.float32]
    user_known: NDArray[np.bool_]
    item_known: NDArray[np.bool_]

    def lines(self) -> Iterator[str]:
        """Yield a line per pair: `ann Alien 4.53`; of an unknown user, with a note."""
        notes = {(True, True): "", (False, True): "user unknown", (True, False): "item unknown"}
        for user, item, value, *known in self._records():
            note = notes.get((known[0], known[1]), "both unknown")
            yield f"{user} {item} {number(value)}{note and f'  ({note})'}"

    def json_lines(self) -> Iterator[str]:
        """Yield one JSON object per pair, with the names of the columns of `write`."""
        names = ("user", "item", "prediction", "user_known", "item_known")
        for record in self._records():
            yield json.dumps(dict(zip(names, record, strict=True)), ensure_ascii=False)

    def write(self, path: Path) -> None:
        """Write a .parquet, .csv or .tsv file; it is complete or absent.

        Columns: `user`, `item` (text), `prediction` (float32), `user_known`, `item_known` (bool).
        """
        import pyarrow as pa

        table = pa.table(
            {
                "user": self.users.arrow.cast(pa.string()),
                "item": self.items.arrow.cast(pa.string()),
                "prediction": self.values,
                "user_known": self.user_known,
                "item_known": self.item_known,
            }
        )
        with (
            new_file(path) as temporary,
            table_writer(temporary, path.suffix, table.schema) as write,
        ):
            for start in range(0, max(len(table), 1), PART):
                write(table.slice(start, PART))

    def _records(self) -> Iterator[tuple[str, str, float, bool, bool]]:
        columns = (self.values.tolist(), self.user_known.tolist(), self.item_known.tolist())
        return zip(self.users, self.items, *columns, strict=True)


@answered
def predict_pairs(learner: Learner, users: Any, items: Any) -> Pairs:
    """Predict the pairs (users[i], items[i]).

    users, items: ids (str) or numbers of rows and columns (int), n of each.

    A user or item that the model does not know has no factors. The prediction is then the mean of
    the ratings plus the bias of the other one; without biases, and with the implicit loss, it is
    the mean, or 0.

    Raises:
        ConfigError: the model has no factors of users and items.
        ValueError: the numbers of users and items differ.
    """
    factors = factors_of(learner)
    who, what = as_ids(users), as_ids(items)
    if len(who) != len(what):
        raise ValueError(f"{len(who):,} users and {len(what):,} items; pairs need as many of each.")
    user_rows = factors.names("user").numbers(who)
    item_rows = factors.names("item").numbers(what)
    values = pair_values(learner, factors, user_rows, item_rows)
    return Pairs(who, what, values, user_rows >= 0, item_rows >= 0)


def pair_values(
    learner: Learner, factors: Factors, users: NDArray[np.int64], items: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the predictions of n pairs, float32 [n].

    factors: of `learner`. users, items: int64 [n], their numbers; -1: unknown.
    """
    model = learner.model
    assert isinstance(model, FactorModel)  # factors_of has checked it
    values, unknown = np.empty(len(users), np.float32), model.constants()
    for start in range(0, len(users), PART):
        part = slice(start, start + PART)
        rows = (
            np.where(found[part, None] < 0, constant, table[found[part]])
            for table, found, constant in (
                (factors.users, users, unknown[0]),
                (factors.items, items, unknown[1]),
            )
        )
        values[part] = np.einsum("nk,nk->n", *rows) + np.float32(factors.offset)
    return values


def as_ids(given: Any) -> Ids:
    """Return ids, or numbers of rows or columns as their text."""
    if isinstance(given, Ids):
        return given
    return Ids([str(one) for one in np.atleast_1d(np.asarray(given)).tolist()])
