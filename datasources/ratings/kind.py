"""Configure ratings as data."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from ..data_kind import MemoryKind, Separator
from ..holdout.samples import Reading, Samples
from ..holdout.split import HoldBy
from ..ids import Ids
from ..source import DataSource, row_names
from .files import read_ratings
from .matrix import Duplicates, Ratings
from .split import split_ratings

log = logging.getLogger(__name__)


class RatingsKind(MemoryKind):
    """A kind of ratings: users are rows, items are columns."""

    @abstractmethod
    def open(
        self, users: Sequence[str] | None = None, items: Sequence[str] | None = None
    ) -> Ratings:
        """Read the ratings. users, items: keep only these, the ids that a model knows."""

    def load(self, like: DataSource | None = None) -> Samples:
        """Load all ratings, without users and items that `like` does not have."""
        if like is None:
            return self.open().samples()
        return self.open(
            row_names(like) or Ids.numbered(like.shape.total_rows), like.names
        ).samples()

    def hold_out(
        self, share: float, reading: Reading, held: Reading, by: HoldBy | None = None
    ) -> tuple[DataSource, DataSource]:
        """Split the ratings into two parts; both have all users and all items."""
        train, other = split_ratings(self.open(), share, reading.seed, by or "entries")
        source = train.samples().source(reading)
        return source, other.samples().source(held.like(source))


class RatingsData(RatingsKind):
    """Ratings from a file: `{kind: ratings, path: ratings.csv}`. Users become rows."""

    kind: Literal["ratings"] = "ratings"
    path: Path = Field(description=".csv, .tsv or .txt (perhaps .gz), .parquet, .npz or .mtx file")
    user: str = Field("user", description="name of the column of users")
    item: str = Field("item", description="name of the column of items")
    rating: str | None = Field(
        "rating", description="name of the column of ratings; null: each record counts as 1"
    )
    timestamp: str | None = Field(None, description="name of the column of times, if any")
    columns: list[str] | None = Field(
        None, description="names of all columns, if the first line does not have them"
    )
    separator: Separator = None
    duplicates: Duplicates = Field(
        "error", description="policy for several records of one user and item"
    )

    def files(self) -> Iterator[Path]:
        """Yield the file."""
        yield self.path

    def open(
        self, users: Sequence[str] | None = None, items: Sequence[str] | None = None
    ) -> Ratings:
        """Read the ratings. users, items: keep only these, the ids that a model knows."""
        ratings = read_ratings(
            self.path, **self.model_dump(exclude={"kind", "path"}), users=users, items=items
        )
        if ratings.dropped:
            log.warning(
                "%s: %s of %s ratings are of users or items that the model does not know, and are "
                "left out",
                self.path,
                f"{ratings.dropped:,}",
                f"{ratings.dropped + ratings.matrix.nnz:,}",
            )
        return ratings
