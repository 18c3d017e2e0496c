"""Ratings as records of a file: a user, an item and a number each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Places = Callable[[Sequence[int]], list[str]]
MERGE = "Choose how to merge them with duplicates: last, sum or mean."


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a file.

    rating: None if each record counts as 1.
    timestamp: None if there are no times.
    keys: what these columns are called in a configuration and in messages.
    """

    user: str = "user"
    item: str = "item"
    rating: str | None = "rating"
    timestamp: str | None = None
    keys: tuple[str, str, str, str] = ("user", "item", "rating", "timestamp")

    def among(self, names: Sequence[str], place: str, hint: str = "") -> Columns:
        """Match these columns with `names`, the columns of the file at `place`.

        A file with only users, items and perhaps times has no ratings: each record counts as 1.
        Raises `DataError`, ending with `hint`, for a column that is missing, is twice in the file,
        or has two roles.
        """
        rating = self.rating
        if rating not in names and set(names) <= {self.user, self.item, self.timestamp}:
            rating = None
        roles = (self.user, self.item, rating, self.timestamp)
        for key, name in zip(self.keys, roles, strict=True):
            if name is not None and list(names).count(name) != 1:
                many = "two columns" if name in names else "no column"
                ones = ", or counts each record as 1: null" if key == self.keys[2] else ""
                raise DataError(
                    f"{place}: {many} {name!r}; its columns are {', '.join(map(repr, names))}. "
                    f"In a configuration, `{key}: NAME` says which has the {key}s{ones}; of data "
                    f"for a trained model, call the column {name!r}."
                    f"{'' if name in names else hint}"
                )
        found = replace(self, rating=rating)
        if len(set(found.wanted)) < len(found.wanted):
            twice = next(name for name in found.wanted if found.wanted.count(name) > 1)
            raise DataError(
                f"{place}: the column {twice!r} cannot be two of {', '.join(self.keys[:-1])} and "
                f"{self.keys[-1]}."
            )
        return found

    @property
    def wanted(self) -> list[str]:
        """The names of the columns to read."""
        names = (self.user, self.item, self.rating, self.timestamp)
        return [name for name in names if name is not None]


@dataclass(frozen=True)
class Coded:
    """A column of ids: record i has the id `ids[codes[i]]`.

    codes: int [n].
    ids: an Arrow array of distinct strings or whole numbers.
    """

    codes: npt.NDArray[Any]
    ids: pa.Array


@dataclass(frozen=True)
class Table:
    """n records of one file.

    path: of the file.
    values: float32 [n]; None if all are 1.
    times: numbers [n]; None if there are none.
    places: returns the places of records by number (`ratings.csv:17`), for messages.
    value: what a value is called.
    merge: a sentence that says how to merge records of the same user and item.
    """

    path: str
    users: Coded
    items: Coded
    values: npt.NDArray[np.float32] | None
    times: npt.NDArray[Any] | None
    places: Places
    merge: str = MERGE
    value: str = "rating"


def coded(column: pa.ChunkedArray) -> Coded:
    """Encode a column of strings or whole numbers without nulls, dictionary or plain."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = column.unify_dictionaries().combine_chunks()
    return Coded(array.indices.to_numpy(), array.dictionary)


def times_of(column: pa.ChunkedArray, name: str, path: str) -> npt.NDArray[Any]:
    """Return a column of times as int64 numbers, or float64 if it has fractions.

    Numbers stay as they are; dates and times become nanoseconds. Raises `DataError` for others.
    """
    import pyarrow as pa

    kind = column.type
    if column.null_count:
        raise DataError(f"{path}: the column {name!r} has {column.null_count:,} gaps; fill them.")
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("s"))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("ns", kind.tz if pa.types.is_timestamp(kind) else None))
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError(
            f"{path}: the column {name!r} has values such as {str(column[0])!r} for `timestamp`, "
            "but must have numbers or dates (2024-05-01 or 2024-05-01 13:45:00)."
        )
    times: npt.NDArray[Any] = column.to_numpy()
    if times.dtype.kind != "f":
        return times.astype(np.int64, copy=False)
    if not np.isfinite(times).all():
        raise DataError(f"{path}: the column {name!r} has a value that is not a finite number.")
    return times.astype(np.float64, copy=False)
