"""Configured ratings and links that come with Python, so that examples need no download."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field
from scipy import sparse

from ..data_kind import MemoryKind
from ..holdout.samples import Samples
from ..ids import Ids
from ..ratings.kind import RatingsKind
from ..ratings.matrix import Ratings
from ..source import DataSource
from .calls import python_calls
from .imports import python_imports
from .time_zones import time_zones


class StdlibRatings(RatingsKind):
    """Ratings that are made in memory, without a file."""

    @abstractmethod
    def make(self) -> Ratings:
        """Make all ratings."""

    def open(
        self, users: Sequence[str] | None = None, items: Sequence[str] | None = None
    ) -> Ratings:
        """Return the ratings, restricted to `users` and `items` if both are given."""
        ratings = self.make()
        if users is None or items is None:
            return ratings
        return among(ratings, Ids(users), Ids(items))


class TimeZones(StdlibRatings):
    """Hours that clocks were ahead of UTC: `{kind: time-zones}`. Months are rows.

    See `time_zones`.
    """

    kind: Literal["time-zones"] = "time-zones"

    def make(self) -> Ratings:
        """Return the hours of every zone in every month."""
        return time_zones()


class PythonCalls(StdlibRatings):
    """Calls in Python's library: `{kind: python-calls}`. Functions are rows.

    See `python_calls`.
    """

    kind: Literal["python-calls"] = "python-calls"
    min_functions: int = Field(5, ge=1, description="least number of functions that call a name")
    min_names: int = Field(3, ge=1, description="least number of those names that a function calls")

    def make(self) -> Ratings:
        """Return how often each function calls each name."""
        calls = python_calls(min_functions=self.min_functions, min_names=self.min_names)
        return Ratings(calls.counts, Ids(calls.documents), Ids(calls.vocabulary))


class PythonImports(MemoryKind):
    """Imports in Python's library: `{kind: python-imports}`. Rows and columns are modules.

    See `python_imports`.
    """

    kind: Literal["python-imports"] = "python-imports"

    def load(self, like: DataSource | None = None) -> Samples:
        """Return which module imports which."""
        return python_imports().samples()


def among(ratings: Ratings, users: Ids, items: Ids) -> Ratings:
    """Return the ratings of these users and items as rows and columns, in this order."""
    entries = ratings.matrix.tocoo()
    rows, columns = (
        users.numbers(ratings.users)[entries.row],
        items.numbers(ratings.items)[entries.col],
    )
    known = (rows >= 0) & (columns >= 0)
    matrix = sparse.csr_array(
        (entries.data[known], (rows[known], columns[known])), shape=(len(users), len(items))
    )
    matrix.sort_indices()
    dropped = ratings.dropped + int((~known).sum())
    return replace(ratings, matrix=matrix, users=users, items=items, times=None, dropped=dropped)
