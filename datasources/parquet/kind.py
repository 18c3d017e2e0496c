"""What a configuration may say about Parquet files."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, PositiveFloat, PositiveInt

from ..data_kind import DataKind
from ..errors import DataError
from ..holdout.samples import Reading
from ..remote import HdfsDriver, Patience
from ..source import DataSource
from .columns import Dense, Feature, Sparse
from .content import Digest
from .hugectr_metadata import check_rows, read_metadata
from .rows import Nulls
from .source import MEMORY, ParquetSource


class DenseColumn(BaseModel, extra="forbid"):
    """Numbers: `{dense: embedding, width: 64}`; a name alone will do where the type says it."""

    dense: str = Field(description="column of numbers, or of lists of as many each")
    width: PositiveInt | None = Field(None, description="numbers of a list; null: its type says it")

    def part(self) -> Dense:
        """For `ParquetSource`."""
        return Dense(self.dense, self.width)


class SparseColumns(BaseModel, extra="forbid"):
    """Non-zeros: `{indices: words, values: counts, size: 50000}`."""

    indices: str = Field(description="column of integers (a category) or of lists of them")
    values: str | None = Field(None, description="column with as many numbers; null: all are 1")
    size: PositiveInt | None = Field(
        None, description="features: indices are below it; null: 1 more than the largest"
    )

    def part(self) -> Sparse:
        """For `ParquetSource`."""
        return Sparse(self.indices, self.values, self.size)


class HdfsOptions(BaseModel, extra="forbid"):
    """How hdfs:// is read."""

    driver: HdfsDriver | None = Field(
        None, description="null: libhdfs where it is set up, else hdfs-native"
    )


class ParquetData(DataKind):
    """Parquet files: `{kind: parquet, path: s3://bucket/day-*.parquet, features: [{indices: words,
    values: counts}], targets: [click]}`.

    Rows are not in memory: `shuffle: true` visits row groups in another order in each pass, as
    `shuffle: blocks` does, and the rows of one in order.
    """

    kind: Literal["parquet"] = "parquet"
    path: str | list[str] = Field(
        description="file, folder or pattern, local or a URL (hdfs, webhdfs, s3, gs, az, http, "
        "https, memory, ...); or a list of these"
    )
    features: list[str | DenseColumn | SparseColumns] | DenseColumn | SparseColumns | None = Field(
        None,
        description="columns that are features; null: those that HugeCTR's _metadata.json in the "
        "folder `path` names, and its labels are the targets",
    )
    targets: list[str | DenseColumn] | None = Field(
        None, description="columns to predict, numbers; null: none, or the labels of the metadata"
    )
    weights: str | None = Field(None, description="column with the weights of the rows")
    ids: str | None = Field(None, description="column with the names of the rows")
    nulls: Nulls = Field("error", description="read them as 0, or leave out rows that have one")
    memory: PositiveInt = Field(
        MEMORY, description="most bytes of a row group, decoded, and of a block"
    )
    digest: Digest = Field(
        "samples",
        description="what tells a resumed run that files have changed: samples of large files, or "
        "all bytes, read once when a run starts",
    )
    hdfs: HdfsOptions = HdfsOptions()
    timeout: PositiveFloat = Field(30.0, description="seconds that a server may be silent")
    attempts: PositiveInt = Field(10, description="how often a server is asked, in all")

    def files(self) -> Iterator[Path]:
        """Local paths that are no patterns."""
        for path in self._paths():
            if "://" not in path and not any(letter in path for letter in "*?["):
                yield Path(path)

    def elsewhere(self, path: str, *, labelled: bool) -> Self:
        """The same columns of other files."""
        labels: dict[str, Any] = {} if labelled else {"targets": [], "weights": None}
        return self.model_copy(update={"path": path, **labels})

    def open_source(self, reading: Reading, like: DataSource | None = None) -> ParquetSource:
        """The rows as blocks; those to evaluate on have the columns of `like`."""
        patience = Patience(self.timeout, self.attempts)
        paths: Sequence[str] = self._paths()
        targets: Sequence[Dense | str] = [
            given if isinstance(given, str) else given.part() for given in self.targets or ()
        ]
        features: Sequence[Feature]
        expected: Sequence[int] | None = None
        if self.features is None:
            if len(paths) != 1:
                raise DataError("kind: parquet: no features; name columns that are.")
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
            block_rows=reading.block_rows,
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
    """A name alone is a dense column."""
    return Dense(given) if isinstance(given, str) else given.part()


def sized_like(features: Sequence[Feature], like: DataSource) -> Sequence[Feature]:
    """Features with the sizes that the model was trained with, where these were counted.

    like: the source it was trained on. Raises `DataError` if it has other features.
    """
    trained = [part for part in getattr(like, "features", ()) if isinstance(part, Sparse)]
    given = [part for part in features if isinstance(part, Sparse)]
    if all(part.size is not None for part in given):
        return features
    if len(trained) != len(given):
        raise DataError(
            f"kind: parquet: {len(given)} sparse features to evaluate on, but {len(trained)} to "
            "train on; say their sizes, or name the same ones."
        )
    sizes = {
        mine: replace(mine, size=theirs.size) for mine, theirs in zip(given, trained, strict=True)
    }
    return [sizes[part] if isinstance(part, Sparse) else part for part in features]
