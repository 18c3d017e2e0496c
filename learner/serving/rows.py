"""Features of rows that requests give as JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from blocklearn.datasources import DataError, DataKind, Finder
from blocklearn.datasources.arrays.hashed_names import HashedWords
from blocklearn.datasources.text.words import words

MENTIONED = 5  # unknown names that a message lists
LARGEST = float(np.finfo(np.float32).max)
FORMS = "a text, a list of words or numbers, or an object with a number for each name of a column"


class Columns:
    """Finds columns by name.

    names: of the columns; None: their numbers are their names.
    """

    def __init__(self, names: Sequence[str] | None, count: int) -> None:
        """Prepare the search, if there are names."""
        self.names, self.count = names, count
        known = names is None or isinstance(names, HashedWords)
        self._finder = None if known or names is None else Finder(names)

    def number(self, name: str) -> int:
        """Return the number of a column, -1 if it is unknown."""
        if self._finder is not None:
            return self._finder.number(name)
        if isinstance(self.names, HashedWords):
            return self.names.column(name)
        if len(name) > 18 or not (name.isascii() and name.isdigit()):
            return -1
        return int(name) if int(name) < self.count else -1

    def numbers(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of each of `names`, -1 for unknown ones."""
        return np.array([self.number(name) for name in names], np.int64)


@dataclass(frozen=True)
class RowReader:
    """Makes features of rows as `learn predict` makes them of files.

    columns: of the model.
    kind: the kind of the training data; None: unknown.
    dense: whether the model takes dense rows.
    counts: whether values must not be negative.
    texts: whether a text is split into words; else a list of names is items, and must be known.
    """

    columns: Columns
    kind: DataKind | None
    dense: bool
    counts: bool
    texts: bool

    def read(self, rows: Sequence[Any], *, skip_unknown: bool) -> tuple[Any, list[int]]:
        """Return X [rows x columns], and how many names of each row are left out.

        X is a float32 array, or `csr_array` for models of sparse data.

        Raises:
            DataError: a row has another form, a number is not finite, or a name is unknown.
        """
        if self.kind is not None and self.kind.fields is not None:
            return self.kind.features_of(rows), [0] * len(rows)
        unknown: list[int] = []
        indptr, columns, values = [0], [], []
        for number, row in enumerate(rows):
            left_out = 0
            for column, value in self._entries(row, number, skip_unknown):
                if column < 0:
                    left_out += 1
                    continue
                columns.append(column)
                values.append(value)
            indptr.append(len(columns))
            unknown.append(left_out)
        shape = (len(rows), self.columns.count)
        parts = (np.array(values, np.float32), np.array(columns, np.int32), np.array(indptr))
        matrix = sparse.csr_array(parts, shape=shape)
        matrix.sum_duplicates()  # and sorts; hashed words may share a column
        return matrix.toarray() if self.dense else matrix, unknown

    def _entries(self, row: Any, number: int, skip: bool) -> Iterator[tuple[int, float]]:
        """Yield the columns of a row with their values; column -1: a name is left out."""
        where = f"rows[{number}]"
        if isinstance(row, str) and self.texts:
            yield from self._named(Counter(words(row)), where, skip=True)
        elif isinstance(row, list) and row and all(isinstance(entry, str) for entry in row):
            yield from self._named(Counter(row), where, skip=skip or self.texts)
        elif isinstance(row, dict):
            numbers = {n: self._value(v, f"{where}.{n[:40]}") for n, v in row.items()}
            if (
                self.dense
                and self.columns.names is not None
                and not numbers.keys() >= set(self.columns.names)
            ):
                missing = next(name for name in self.columns.names if name not in numbers)
                raise DataError(f"{where}: {missing!r} is missing.")
            yield from self._named(numbers, where, skip=skip)
        elif isinstance(row, list):
            if len(row) != self.columns.count:
                raise DataError(
                    f"{where}: {len(row):,} numbers: must be {self.columns.count:,}, one for each "
                    "column."
                )
            found = (self._value(value, f"{where}[{i}]") for i, value in enumerate(row))
            yield from ((i, value) for i, value in enumerate(found) if value or self.dense)
        else:
            raise DataError(f"{where}: must be {FORMS}.")

    def _named(
        self, values: Mapping[str, float], where: str, *, skip: bool
    ) -> Iterator[tuple[int, float]]:
        columns = self.columns.numbers(list(values))
        unknown = [n for n, column in zip(values, columns, strict=True) if column < 0]
        if unknown and not skip:
            raise DataError(f"{where}: {unknown_names('names', unknown, len(values))}")
        yield from zip(columns.tolist(), values.values(), strict=True)

    def _value(self, value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DataError(f"{where}: must be a number.")
        number = float(value) if abs(value) < sys.float_info.max else float("inf")
        if not abs(number) <= LARGEST:
            raise DataError(f"{where}: must be a finite number of float32.")
        if self.counts and number < 0:
            raise DataError(f"{where}={number:g}: counts must not be negative.")
        return number


def unknown_names(what: str, unknown: Sequence[str], count: int) -> str:
    """Return a message like `2 of 9 users are unknown to the model: 'ann', 'bob'.`."""
    some = ", ".join(repr(name[:40]) for name in unknown[:MENTIONED])
    more = ", ..." if len(unknown) > MENTIONED else "."
    return (
        f"{len(unknown):,} of {count:,} {what} are unknown to the model: {some}{more} "
        '"skip_unknown": true leaves them out.'
    )
