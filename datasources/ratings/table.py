"""Ratings as they stand in a file: a user, an item and a number, record by record."""

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


@dataclass(frozen=True)
class Columns:
    """What the columns of a file are called. rating: None where each record counts as 1.
    timestamp: None where there is none.
    """

    user: str = "user"
    item: str = "item"
    rating: str | None = "rating"
    timestamp: str | None = None

    def among(self, names: Sequence[str], place: str, hint: str = "") -> Columns:
        """These columns of a file that has columns called `names`, at `place`.

        A file of users and items alone (and times) has no ratings: each record counts as 1. Raises
        `DataError` for a column that the file does not have, or has twice, or that is said to be
        two things; its message ends with `hint`.
        """
        rating = self.rating
        if rating not in names and set(names) <= {self.user, self.item, self.timestamp}:
            rating = None
        for key, name in [
            ("user", self.user),
            ("item", self.item),
            ("rating", rating),
            ("timestamp", self.timestamp),
        ]:
            if name is not None and list(names).count(name) != 1:
                many = "two columns" if name in names else "no column"
                ones = ", or counts each record as 1: null" if key == "rating" else ""
                raise DataError(
                    f"{place}: {many} {name!r}; its columns are {', '.join(map(repr, names))}. "
                    f"`{key}: NAME` says which has the {key}s{ones}.{'' if name in names else hint}"
                )
        found = replace(self, rating=rating)
        if len(set(found.wanted)) < len(found.wanted):
            twice = next(name for name in found.wanted if found.wanted.count(name) > 1)
            raise DataError(
                f"{place}: the column {twice!r} cannot be two of user, item, rating and timestamp."
            )
        return found

    @property
    def wanted(self) -> list[str]:
        """Their names."""
        names = (self.user, self.item, self.rating, self.timestamp)
        return [name for name in names if name is not None]


@dataclass(frozen=True)
class Coded:
    """A column of ids: record i has the id `ids[codes[i]]`. codes: int [n]; ids: distinct, an Arrow
    array of strings or whole numbers.
    """

    codes: npt.NDArray[Any]
    ids: pa.Array


@dataclass(frozen=True)
class Table:
    """n records of one file.

    path: of the file. values: float32 [n], None: 1 each; times: numbers [n], None where there are
    none. places: says where the records with these numbers stand (`ratings.csv:17`), for messages.
    """

    path: str
    users: Coded
    items: Coded
    values: npt.NDArray[np.float32] | None
    times: npt.NDArray[Any] | None
    places: Places


def coded(column: pa.ChunkedArray) -> Coded:
    """A column of ids, strings or whole numbers, without gaps; as dictionaries or not."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = column.unify_dictionaries().combine_chunks()
    return Coded(array.indices.to_numpy(), array.dictionary)


def times_of(column: pa.ChunkedArray, name: str, path: str) -> npt.NDArray[Any]:
    """A column of times as numbers that ascend with time: int64, or float64 where it has fractions.

    Numbers are taken as they are, dates and times in nanoseconds. Raises `DataError` for others.
    """
    import pyarrow as pa

    kind = column.type
    if column.null_count:
        raise DataError(f"{path}: the column {name!r} has {column.null_count:,} gaps.")
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
        raise DataError(f"{path}: the column {name!r} has a value that is no finite number.")
    return times.astype(np.float64, copy=False)
