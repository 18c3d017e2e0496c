"""Reads rows of a table file: hashed categories, numbers, targets and weights."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy import sparse

from ..arrays.feature_hashing import hash_features
from ..arrays.hashed_names import MOST_BITS, HashedWords, SeenNames
from ..arrays.moments import Moments
from ..data_kind import DataKind, MemoryKind, Separator, check_apart
from ..errors import DataError
from ..holdout.samples import Reading, Samples
from ..holdout.split import HoldBy
from ..listing import identity_of
from ..memory.batches import categories, numbers
from ..memory.iterable import IterableSource
from ..source import DataSource
from .alike import check_alike
from .read_numbers import read_numbers
from .read_table import read_table
from .records import table_of


class TableData(MemoryKind):
    """A CSV or Parquet file whose columns are features, targets and weights.

    `{kind: table, path: clicks.csv, targets: [click], categorical: [country, ad], numeric: [price],
    interactions: [[country, ad]]}`. Columns that no key names are not read.

    With `stream`, memory does not grow with the file. The file is then read once more to count its
    rows, and `shuffle` is not possible.
    """

    kind: Literal["table"] = "table"
    path: Path = Field(description=".csv or .tsv file (may be packed: .csv.gz), or .parquet file")
    targets: list[str] = Field([], description="columns to predict, numbers")
    classes: bool | list[str] = Field(
        False,
        description="whether `targets` is one column with the class of each row, as text: each "
        "class becomes a target; true: those of the training data, which the run stores in its "
        "configuration; or the classes",
    )
    weights: str | None = Field(None, description="column with the weights of the rows")
    ids: str | None = Field(
        None, description="column with the names of the rows; not with `stream`"
    )
    numeric: list[str] = Field([], description="columns whose numbers are features as they are")
    categorical: list[str] = Field(
        [], description="columns of text or whole numbers: each value is a feature of its own"
    )
    hash_bits: int = Field(
        20, ge=1, le=MOST_BITS, description="2**hash_bits columns for the categorical columns"
    )
    interactions: list[tuple[str, str]] = Field(
        [], description="pairs of categorical columns: each pair of values is a feature, too"
    )
    separator: Separator = None
    nulls: Literal["error", "zero"] = Field(
        "error",
        description="missing numeric features: error or zero; missing categories are left out",
    )

    standardize: bool | dict[str, tuple[float, float]] = Field(
        False,
        description="subtract the mean of `numeric` columns and divide by the deviation; true: "
        "those of the training data, which the run stores in its configuration; or by column",
    )
    stream: bool = Field(
        False,
        description="read the file anew in each pass, in its order, instead of keeping its rows",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that features exist and that interactions name categories."""
        if not self.categorical and not self.numeric:
            raise ValueError("no features: name columns in `categorical` or `numeric`")
        check_apart(self.targets, [*self.categorical, *self.numeric])
        if self.ids is not None and self.stream:
            raise ValueError("ids: must be left out with `stream`, whose rows have no names")
        if self.classes and len(self.targets) > 1:
            raise ValueError(f"classes: `targets` has {len(self.targets)} columns: must have one")
        for a, b in self.interactions:
            for name in (a, b):
                if name not in self.categorical:
                    raise ValueError(f"interactions: {name!r}: must be one of `categorical`")
            if a == b:
                raise ValueError(f"interactions: {a!r} with itself: must be two different columns")
        if isinstance(self.standardize, dict):
            for name in self.numeric:
                if self.standardize.get(name, (0.0, 0.0))[1] <= 0.0:
                    raise ValueError(f"standardize: {name!r}: must have [mean, deviation > 0]")
        return self

    @property
    def group(self) -> tuple[str, int] | None:
        """The column of `targets` and the number of its classes, if it has two or more."""
        if not self.targets or not isinstance(self.classes, list) or len(self.classes) < 2:
            return None
        return self.targets[0], len(self.classes)

    @property
    def dense(self) -> bool:
        """Whether all features are numbers."""
        return not self.categorical

    @property
    def fields(self) -> Mapping[str, Literal["number", "category"]]:
        """The columns that are features."""
        found: dict[str, Literal["number", "category"]] = dict.fromkeys(self.numeric, "number")
        return found | dict.fromkeys(self.categorical, "category")

    def features_of(self, records: Sequence[Any]) -> Any:
        """Return the features of records, by the rules for the file."""
        table = table_of(records, self.fields)
        return self.model_copy(update={"path": Path("rows")})._features(table, 0)

    def files(self) -> Iterator[Path]:
        """Yield the path of the table."""
        yield self.path

    @property
    def reads_whole(self) -> bool:
        """Whether the rows stay in memory: they do not if they are read anew in each pass."""
        return not self.stream

    def elsewhere(self, path: str, *, labelled: bool) -> Self:
        """Return the same columns of another file."""
        labels: dict[str, Any] = {} if labelled else {"targets": [], "weights": None}
        return self.model_copy(update={"path": Path(path), **labels})

    def settled(self, train: DataKind | None = None) -> Self:
        """Return a copy with the numbers and names that `standardize` and `classes: true` mean."""
        of_train = train if isinstance(train, TableData) else None
        if of_train is not None:
            check_alike(self, of_train)
        found: dict[str, Any] = {}
        if self.standardize is True:
            known = of_train is not None and of_train.numeric == self.numeric
            found["standardize"] = of_train.standardize if known and of_train else self._moments()
        if self.classes is True and self.targets:
            known = of_train is not None and isinstance(of_train.classes, list)
            found["classes"] = of_train.classes if known and of_train else self._classes()
        return self.model_copy(update=found) if found else self

    def open_source(self, reading: Reading, like: DataSource | None = None) -> DataSource:
        """Return all rows as blocks, from memory or read anew in each pass."""
        if not self.stream:
            return super().open_source(reading, like)
        identity = identity_of(self.path)
        settled, seen = self.settled(), SeenNames()
        keeping: SeenNames | None = seen

        def batches(_: int) -> Iterator[tuple[Any, Any, Any]]:
            for batch in settled._batches(keeping):
                if identity_of(self.path) != identity:
                    raise DataError(
                        f"{self.path}: the file was replaced or changed while it was in use. Start "
                        "again, and leave the file alone meanwhile."
                    )
                yield batch

        source = IterableSource(  # reads all rows once
            batches,
            block_rows=reading.rows_of_block(),
            names=self._names(seen),
            target_names=settled._target_names(),
        )
        keeping = None
        return source

    def hold_out(
        self, share: float, reading: Reading, held: Reading, by: HoldBy | None = None
    ) -> tuple[DataSource, DataSource]:
        """Return both parts; each reads a stream by itself."""
        hold_out = DataKind.hold_out if self.stream else MemoryKind.hold_out
        return hold_out(self, share, reading, held, by)

    def load(self, like: DataSource | None = None) -> Samples:
        """Read all rows."""
        settled, seen = self.settled(), SeenNames()
        batches = list(settled._batches(seen))
        if not batches:
            raise DataError(f"{self.path}: has no rows.")
        X, targets, weights = zip(*batches, strict=True)
        return Samples(
            sparse.vstack(X, "csr") if self.categorical else np.concatenate(X),
            self._names(seen),
            np.concatenate(targets) if self.targets else None,
            settled._target_names(),
            None if self.weights is None else np.concatenate(weights),
            None if self.ids is None else self._ids(self.ids),
        )

    def _ids(self, column: str) -> list[str]:
        """Return the name of each row; those of rows without one are empty."""
        found = [batch[column].to_pylist() for batch in self._read([], [column])]
        return ["" if name is None else str(name) for names in found for name in names]

    def _names(self, seen: SeenNames) -> Sequence[str]:
        if not self.categorical:
            return self.numeric
        return HashedWords(self.hash_bits, self.numeric, seen)

    def _target_names(self) -> list[str] | None:
        if self.targets and isinstance(self.classes, list):
            return self.classes
        return self.targets or None

    def _classes(self) -> list[str]:
        """Return all classes of the column of targets, sorted."""
        found: set[str] = set()
        row = 0
        for batch in self._read([], self.targets):
            found |= set(self._labels(batch, row))
            row += batch.num_rows
        return sorted(found)

    def _labels(self, batch: Any, row: int) -> list[str]:
        """Return the class of each row; row: number of the first."""
        found = [None if text is None else str(text) for text in batch[self.targets[0]].to_pylist()]
        if None in found:
            raise DataError(
                f"{self.path}: column {self.targets[0]!r}: row {row + found.index(None)} is empty; "
                "leave such rows out."
            )
        return [text for text in found if text is not None]

    def _members(self, batch: Any, row: int, classes: list[str]) -> np.ndarray[Any, Any]:
        """Return 1 for the class of each row and else 0, float32 [rows x classes]."""
        place = {name: number for number, name in enumerate(classes)}
        table = np.zeros((batch.num_rows, len(classes)), np.float32)
        for i, name in enumerate(self._labels(batch, row)):
            if name not in place:
                raise DataError(
                    f"{self.path}: column {self.targets[0]!r}: row {row + i} has the class "
                    f"{name[:40]!r}, which the training data do not have. Leave such rows out."
                )
            table[i, place[name]] = 1.0
        return table

    def _read(self, numbers: Sequence[str], text: Sequence[str]) -> Iterator[Any]:
        """Read batches of these columns."""
        return read_table(self.path, numbers=numbers, text=text, separator=self.separator)

    def _batches(self, seen: SeenNames | None = None) -> Iterator[tuple[Any, Any, Any]]:
        """Yield features, targets (or None) and weights (or None) of batches of rows.

        seen: keeps the names of the hashed features.
        """
        classes = self.classes if self.targets and isinstance(self.classes, list) else None
        weights = [] if self.weights is None else [self.weights]
        labels = weights if classes else [*self.targets, *weights]
        text = [*self.categorical, *(self.targets if classes else ())]
        row = 0
        for batch in self._read([*self.numeric, *labels], text):
            found = read_numbers(batch, labels, str(self.path), row, "error")
            targets = found[:, : len(self.targets)] if self.targets and not classes else None
            if classes:
                targets = self._members(batch, row, classes)
            if batch.num_rows:
                yield self._features(batch, row, seen), targets, found[:, -1] if weights else None
            row += batch.num_rows

    def _moments(self) -> dict[str, tuple[float, float]]:
        """Return mean and deviation of the numeric columns, without missing values."""
        found = {name: Moments() for name in self.numeric}
        with np.errstate(over="ignore", invalid="ignore"):  # found when the rows are read
            for batch in self._read(self.numeric, []):
                for name, moments in found.items():
                    column = numbers(batch[name], f"{self.path}: column {name!r}")
                    moments.add(column.compressed())
        scaling = {name: (moments.mean, moments.deviation) for name, moments in found.items()}
        return {
            name: pair if np.isfinite(pair).all() else (0.0, 1.0) for name, pair in scaling.items()
        }

    def _features(self, batch: Any, row: int, seen: SeenNames | None = None) -> Any:
        """Return numbers, then hashed categories: CSR, or a table without categories.

        seen: keeps the names of the hashed features.
        """
        scaling = self.standardize if isinstance(self.standardize, dict) else {}
        table = read_numbers(batch, self.numeric, str(self.path), row, self.nulls, scaling)
        if not self.categorical:
            return table
        columns = {
            name: categories(batch[name], f"{self.path}: column {name!r}")
            for name in self.categorical
        }
        hashed = hash_features(columns, self.hash_bits, interactions=self.interactions, seen=seen)
        return sparse.hstack([sparse.csr_array(table), hashed], "csr") if self.numeric else hashed
