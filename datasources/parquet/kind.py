"""Configure Parquet files as data."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, PositiveFloat, PositiveInt, model_validator

from ..data_kind import DataKind, check_apart
from ..errors import DataError
from ..holdout.samples import Reading
from ..remote import HdfsDriver, Patience
from ..source import DataSource
from .columns import Dense, Feature, Sparse
from .content import Digest
from .hugectr_metadata import check_rows, read_metadata
from .rows import Nulls
from .source import MEMORY, ParquetSource
from .where import Operation, Value


class DenseColumn(BaseModel, extra="forbid"):
    """Numbers: `{dense: embedding, width: 64}`; a bare name is enough if the type has the width."""

    dense: str = Field(description="column of numbers, or of lists of equal length")
    width: PositiveInt | None = Field(
        None, description="length of the lists; null: from the column's type"
    )

    def part(self) -> Dense:
        """Return the feature for `ParquetSource`."""
        return Dense(self.dense, self.width)


class SparseColumns(BaseModel, extra="forbid"):
    """Non-zeros: `{indices: words, values: counts, size: 50000}`."""

    indices: str = Field(description="column of integers (a category) or of lists of them")
    values: str | None = Field(
        None, description="column of values for the indices; null: all are 1"
    )
    size: PositiveInt | None = Field(
        None, description="number of features, above all indices; null: the largest index plus 1"
    )

    def part(self) -> Sparse:
        """Return the feature for `ParquetSource`."""
        return Sparse(self.indices, self.values, self.size)


class HdfsOptions(BaseModel, extra="forbid"):
    """Options for reading hdfs://."""

    driver: HdfsDriver | None = Field(
        None, description="null: libhdfs if it is set up, else hdfs-native"
    )


class ParquetData(DataKind):
    """Read Parquet files.

    `{kind: parquet, path: s3://bucket/day-*.parquet, features: [{indices: words, values: counts}],
    targets: [click]}`.

    Rows stay on disk. `shuffle: true` acts like `shuffle: blocks`: each pass visits row groups in
    a different order, and the rows of each group in order.
    """

    kind: Literal["parquet"] = "parquet"
    path: str | list[str] = Field(
        description="file, folder or pattern, local or a URL (hdfs, webhdfs, s3, gs, az, http, "
        "https, memory, ...); or a list of these"
    )
    features: list[str | DenseColumn | SparseColumns] | DenseColumn | SparseColumns | None = Field(
        None,
        description="feature columns; null: those of HugeCTR's _metadata.json in folder `path`, "
        "whose labels become the targets",
    )
    targets: list[str | DenseColumn] | None = Field(
        None, description="columns of numbers to predict; null: none, or the metadata's labels"
    )
    weights: str | None = Field(None, description="column with the weights of the rows")
    ids: str | None = Field(None, description="column with the names of the rows")
    nulls: Nulls = Field(
        "error", description="error, read nulls as 0, or leave out rows with nulls"
    )
    where: list[tuple[str, Operation, Value | list[Value]]] = Field(
        [],
        description="conditions [column, operation, value] that rows must all satisfy; operations: "
        "==, !=, <, <=, >, >=, and `in` and `not in` with a list of values",
    )
    memory: PositiveInt = Field(
        MEMORY, description="bytes of a decoded row group, and of a block, at most"
    )
    digest: Digest = Field(
        "samples",
        description="how a resumed run detects changed files: from samples of large files, or from "
        "all bytes, read once when a run starts",
    )
    hdfs: HdfsOptions = HdfsOptions()
    timeout: PositiveFloat = Field(30.0, description="seconds that a server may be silent")
    attempts: PositiveInt = Field(10, description="requests to a server before giving up")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        """Check that no column is a target and a feature."""
        given = self.features if isinstance(self.features, list) else [self.features]
        check_apart([_column(target) for target in self.targets or ()], [*map(_column, given)])
        return self

    @property
    def dense(self) -> bool:
        """Whether all features are named, and none of them is sparse."""
        given = self.features if isinstance(self.features, list) else [self.features]
        return not any(feature is None or isinstance(feature, SparseColumns) for feature in given)

    def files(self) -> Iterator[Path]:
        """Yield local paths that are not patterns."""
        for path in self._paths():
            if "://" not in path and not any(letter in path for letter in "*?["):
                yield Path(path)

    def elsewhere(self, path: str, *, labelled: bool) -> Self:
        """Return the same settings for other files, of which all rows are read."""
        labels: dict[str, Any] = {} if labelled else {"targets": [], "weights": None}
        return self.model_copy(update={"path": path, "where": [], **labels})

    def open_source(self, reading: Reading, like: DataSource | None = None) -> ParquetSource:
        """Open the rows as blocks; data to evaluate on get the columns of `like`."""
        patience = Patience(self.timeout, self.attempts)
        paths: Sequence[str] = self._paths()
        targets: Sequence[Dense | str] = [
            given if isinstance(given, str) else given.part() for given in self.targets or ()
        ]
        features: Sequence[Feature]
        expected: Sequence[int] | None = None
        if self.features is None:
            if len(paths) != 1:
                raise DataError("kind: parquet: no features; name at least one column.")
            described = read_metadata(paths[0], patience, self.hdfs.driver)
            features, paths, expected = described.features, described.paths, described.rows
            targets = described.targets if self.targets is None else targets
        else:
            given = self.features if isinstance(self.features, list) else [self.features]
            features = [feature_of(feature) for feature in given]
        source = ParquetSource(
            paths,
            features if like is None else sized_like(features, like),
            targets=targets,
            weights=self.weights,
            ids=self.ids,
            nulls=self.nulls,
            where=self.where,
            block_rows=reading.rows_of_block(),
            shuffle="blocks" if reading.shuffle else False,
            seed=reading.seed,
            memory=self.memory,
            hdfs=self.hdfs.driver,
            patience=patience,
            digest=self.digest,
        )
        if expected is not None:
            check_rows(source.files, expected)
        return source

    def _paths(self) -> list[str]:
        return [self.path] if isinstance(self.path, str) else self.path


def feature_of(given: str | DenseColumn | SparseColumns) -> Feature:
    """Return a feature; a bare name is a dense column."""
    return Dense(given) if isinstance(given, str) else given.part()


def sized_like(features: Sequence[Feature], like: DataSource) -> Sequence[Feature]:
    """Replace counted sizes of features with those that the model was trained with.

    like: the source of the training data. Raises `DataError` if its features differ.
    """
    trained = [part for part in getattr(like, "features", ()) if isinstance(part, Sparse)]
    given = [part for part in features if isinstance(part, Sparse)]
    if all(part.size is not None for part in given):
        return features
    if len(trained) != len(given):
        raise DataError(
            f"kind: parquet: {len(given)} sparse features to evaluate on, but {len(trained)} to "
            "train on; set their sizes, or name the same ones."
        )
    sizes = {
        mine: replace(mine, size=theirs.size) for mine, theirs in zip(given, trained, strict=True)
    }
    return [sizes[part] if isinstance(part, Sparse) else part for part in features]


def _column(given: str | DenseColumn | SparseColumns | None) -> str:
    """Return the name of a column, or that of indices."""
    if isinstance(given, SparseColumns):
        return given.indices
    return given.dense if isinstance(given, DenseColumn) else given or ""
