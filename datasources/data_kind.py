"""The base classes of configured data: how each kind becomes a source of blocks."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from blocklearn.fields import Named

from .errors import DataError
from .holdout.row_filter import RowFilter
from .holdout.samples import Reading, Samples
from .holdout.split import HoldBy, split_by_contents
from .source import DataSource

Separator = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=1,
        description="separates fields of text; null: a tab in .tsv files, else a comma",
    ),
]


class DataKind(Named, extra="forbid"):
    """A mapping below `data.train` or `data.eval` in YAML, selected by its `kind`.

    The fields are the keys. A kind that streams implements `open_source`. A kind whose rows are
    all in memory subclasses `MemoryKind` and implements `load`.
    """

    def files(self) -> Iterator[Path]:
        """Yield local files and folders that must exist; checked before reading."""
        yield from ()

    @property
    def reads_whole(self) -> bool:
        """Whether all rows are read into memory at once."""
        return False

    def in_memory(self) -> Iterator[Path]:
        """Yield those of `files` that are read into memory whole."""
        yield from self.files() if self.reads_whole else ()

    def settled(self, train: "DataKind | None" = None) -> Self:
        """Return a copy with every setting that only the data can provide.

        A run stores this copy and reads new data with it.

        train: the settled kind of the training data, if `self` is the data to evaluate on.
        """
        return self

    @abstractmethod
    def open_source(self, reading: Reading, like: DataSource | None = None) -> DataSource:
        """Open the data as a source of blocks.

        like: the source that the model is trained on, if these data are to evaluate on. They then
        get its columns (same number, same meaning) and its targets.

        Raises `DataError`.
        """

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each document, for data that have texts.

        Names are those of the rows of the source.
        """
        yield from ()

    def dates(self) -> Iterator[tuple[str, date]]:
        """Yield the name and the date of each document that has a date."""
        yield from ()

    def elsewhere(self, path: str, *, labelled: bool) -> Self | None:
        """Return the same kind of data at another path, to predict from.

        labelled: read targets and weights too. Returns None where the file name alone decides how
        to read it.
        """
        return None

    def conversion(self, path: str) -> tuple[str, Mapping[str, Any]] | None:
        """Return the format and options with which `learn convert` reads such data.

        Needed only where `elsewhere` returns None and the file name does not decide everything.
        """
        return None

    @property
    def group(self) -> tuple[str, int] | None:
        """The name of the column whose classes are the targets, and their number.

        None: targets are no classes of one column, or `settled` has not found them yet.
        """
        return None

    @property
    def dense(self) -> bool:
        """Whether the rows are dense: a number for each column."""
        return False

    @property
    def fields(self) -> Mapping[str, Literal["number", "category"]] | None:
        """The fields of a record, for kinds with rules by field, see `features_of`.

        None: a row is numbers by the names of columns, or a text.
        """
        return None

    def features_of(self, records: Sequence[Any]) -> Any:
        """Return X [rows x columns] of records given in Python, by the rules for a file.

        Only for kinds that have `fields`. Raises `DataError`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no fields.")

    def hold_out(
        self, share: float, reading: Reading, held: Reading, by: HoldBy | None = None
    ) -> tuple[DataSource, DataSource]:
        """Return a source of the rows to train on and a source of the rows held out.

        - share: the share of the rows to hold out.
        - reading, held: how each of the two parts is read.
        - by: None or "rows" chooses rows by a hash of their number (`split_rows`), whatever the
          order of reading; "contents" by a hash of their contents (`split_by_contents`).

        Here both sources read all rows, and each drops the rows of the other. Raises `DataError`
        if a part is empty.
        """
        check_rows_held(by)
        train = self.open_source(reading)
        other = self.open_source(held.like(train))
        seed = reading.seed
        marks = split_by_contents(other, share, seed) if by == "contents" else None
        return (
            RowFilter(train, share, seed, held=False, marks=marks),
            RowFilter(other, share, seed, held=True, marks=marks),
        )


class MemoryKind(DataKind):
    """A kind of data whose rows are all read into memory at once."""

    @property
    def reads_whole(self) -> bool:
        """True: all rows are."""
        return True

    @abstractmethod
    def load(self, like: DataSource | None = None) -> Samples:
        """Read all rows; `like` is as for `open_source`. Raises `DataError`."""

    def rows_for(self, reading: Reading, like: DataSource | None = None) -> Samples:
        """Read all rows for a run; a kind whose checks differ by the model overrides this."""
        return self.load(like)

    def open_source(self, reading: Reading, like: DataSource | None = None) -> DataSource:
        """Load the rows and return them as blocks."""
        return self.rows_for(reading, like).source(reading)

    def hold_out(
        self, share: float, reading: Reading, held: Reading, by: HoldBy | None = None
    ) -> tuple[DataSource, DataSource]:
        """Return both parts, each with its own rows in memory only."""
        check_rows_held(by)
        rows = self.rows_for(reading)
        train, other = rows.split(share, reading.seed, contents=by == "contents")
        source = train.source(reading)
        return source, other.source(held.like(source))


def check_rows_held(by: HoldBy | None) -> None:
    """Raise `DataError` if `by` is a rule that only ratings have."""
    if by not in (None, "rows", "contents"):
        raise DataError(
            f"holdout: by: {by} is for ratings; of these data whole rows are held out: by: rows, "
            "or by: contents."
        )


def check_apart(targets: Sequence[str], features: Sequence[str]) -> None:
    """Raise ValueError if a column is a target and a feature."""
    for name in features:
        if name in targets:
            raise ValueError(
                f"{name!r} is a target and a feature: must be one of both, or the model reads what "
                "it is to predict. Leave it out of the features"
            )
