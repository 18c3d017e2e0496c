"""What every kind of configured data offers: how it becomes a source of blocks."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel

from .errors import DataError
from .holdout.row_filter import RowFilter
from .holdout.samples import Reading, Samples
from .holdout.split import HoldBy, split_by_contents
from .source import DataSource


class DataKind(BaseModel, extra="forbid"):
    """A mapping of the YAML file below `data.train` or `data.eval`, told apart by its `kind`.

    Fields are the keys. A kind that streams writes `open_source`; one whose rows are all in
    memory subclasses `MemoryKind` and writes `load`.
    """

    def files(self) -> Iterator[Path]:
        """Local files and folders that must exist; they are looked for before anything is read."""
        yield from ()

    def in_memory(self) -> Iterator[Path]:
        """Those of `files` whose contents are all in memory at once."""
        yield from ()

    def settled(self, train: "DataKind | None" = None) -> Self:
        """The same with what only the data can say: that is what a run writes down, and reads new
        data by. train: of data to evaluate on, the settled kind of the training data.
        """
        return self

    @abstractmethod
    def open_source(self, reading: Reading, like: DataSource | None = None) -> DataSource:
        """The data as blocks.

        like: the source that the model is trained on, for data that it is evaluated on: these
        have its columns (same number, same meaning) and its targets. Raises `DataError`.
        """

    def elsewhere(self, path: str, *, labelled: bool) -> Self | None:
        """The same kind of data from another place, for a model that was trained on these; None
        where the end of a name says how to read it. labelled: with targets and weights.
        """
        return None

    def conversion(self, path: str) -> tuple[str, Mapping[str, Any]] | None:
        """Format and options by which `learn convert` would read such data elsewhere, where no
        `elsewhere` says how, and the name does not say it all.
        """
        return None

    def hold_out(
        self, share: float, reading: Reading, held: Reading, by: HoldBy | None = None
    ) -> tuple[DataSource, DataSource]:
        """The source to train on, and one of the rows that are held out of it.

        reading, held: how each part is read. Which rows, `split_rows` says: a share of all, by a
        hash of the row's number, whatever the order they are read in; by: "contents", a hash of
        what is in it. Here both sources read all rows and each drops those of the other. Raises
        `DataError` if a part is empty.
        """
        check_rows_held(by)
        train, other = self.open_source(reading), self.open_source(held)
        seed = reading.seed
        marks = split_by_contents(other, share, seed) if by == "contents" else None
        return (
            RowFilter(train, share, seed, held=False, marks=marks),
            RowFilter(other, share, seed, held=True, marks=marks),
        )


class MemoryKind(DataKind):
    """A kind of data whose rows are all read into memory at once."""

    def in_memory(self) -> Iterator[Path]:
        """All of them."""
        yield from self.files()

    @abstractmethod
    def load(self, like: DataSource | None = None) -> Samples:
        """All rows; like: as for `open_source`. Raises `DataError`."""

    def open_source(self, reading: Reading, like: DataSource | None = None) -> DataSource:
        """The rows as blocks."""
        return self.load(like).source(reading)

    def hold_out(
        self, share: float, reading: Reading, held: Reading, by: HoldBy | None = None
    ) -> tuple[DataSource, DataSource]:
        """Both parts, each with its own rows only."""
        check_rows_held(by)
        train, other = self.load().split(share, reading.seed, contents=by == "contents")
        return train.source(reading), other.source(held)


def check_rows_held(by: HoldBy | None) -> None:
    """Raises `DataError` for what only ratings can be held out by."""
    if by not in (None, "rows", "contents"):
        raise DataError(
            f"holdout: by: {by} is for ratings; of these data whole rows are held out: by: rows, "
            "or by: contents."
        )
