"""Read ratings from text: a record per line, fields between separators.

Arrow reads the file. After an error the file is read again, slowly, to name the line.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import TextIO, cast

import numpy as np

from ..errors import DataError
from ..separators import separator_hint
from .table import Columns, Table, coded, times_of

PARSED = 1 << 22  # bytes that a thread parses at once
DAMAGED = (zlib.error, EOFError, gzip.BadGzipFile)


@dataclass(frozen=True)
class TextFile:
    """A text file of records, which may be compressed (.gz).

    header: whether the first record has the names of the columns.
    names: of all columns.
    comments: lines of comments before the first record.
    """

    path: Path
    separator: str
    header: bool
    names: Sequence[str]
    comments: int

    @classmethod
    def at(
        cls, path: Path, separator: str | None, names: Sequence[str] | None, comments: int = 0
    ) -> TextFile:
        """Describe the file at `path`.

        separator: None: a tab in .tsv files, else a comma.
        names: of all columns; None: the first record has them.
        """
        if separator is None:
            separator = "\t" if ".tsv" in path.suffixes[-2:] else ","
        if names is not None:
            return cls(path, separator, False, names, comments)
        first = next(records(path, separator, comments), None)
        if first is None:
            raise DataError(f"{path}: the file has no records.")
        return cls(path, separator, True, first[1], comments)

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and fields of every record, without the header."""
        found = records(self.path, self.separator, self.comments)
        if self.header:
            next(found, None)
        return found

    def places(self, numbers: Sequence[int]) -> list[str]:
        """Return the places of records by number, such as `ratings.csv:17`."""
        wanted, lines = set(numbers), {}
        for number, (line, _) in enumerate(self.records()):
            if number in wanted:
                lines[number] = line
                if len(lines) == len(wanted):
                    break
        return [f"{self.path}:{lines[number]}" for number in numbers]

    def fault(self, columns: Columns) -> str | None:
        """Return what is wrong with the first faulty record, None if all are valid."""
        rating = None if columns.rating is None else list(self.names).index(columns.rating)
        for line, fields in self.records():
            place = f"{self.path}:{line}"
            if len(fields) != len(self.names):
                return (
                    f"{place}: {len(fields)} fields, but the file has {len(self.names)} columns: "
                    f"{', '.join(map(repr, self.names))} (separator {self.separator!r})."
                )
            if any("\udc80" <= letter <= "\udcff" for field in fields for letter in field):
                return f"{place}: a byte is not UTF-8; convert the file with iconv -t utf-8."
            if rating is not None and not is_number(fields[rating]):
                key = columns.keys[2]
                return (
                    f"{place}: the {key} {fields[rating]!r} is not a number. Remove the line, or "
                    f"set `{key}` to another column than {columns.rating!r}, or to null: each line "
                    "counts as 1 then."
                )
        return None


def opened(path: Path) -> TextIO:
    """Open a text file, perhaps compressed (.gz); invalid UTF-8 becomes surrogates."""
    how = gzip.open if path.suffix == ".gz" else open
    file = how(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
    return cast(TextIO, file)


def first_comments(path: Path) -> int:
    """Return the number of lines that begin with `#` before all others."""
    with opened(path) as file:
        try:
            return sum(1 for _ in takewhile(lambda line: line.startswith("#"), file))
        except DAMAGED as error:
            raise DataError(f"{path}: cannot be read: {error}") from error


def records(path: Path, separator: str, comments: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Yield line and fields of non-empty records; invalid UTF-8 as surrogates.

    comments: first lines to leave out.
    """
    with opened(path) as file:
        reader = csv.reader(islice(file, comments, None), delimiter=separator)
        line = comments + 1
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = comments + reader.line_num + 1
        except (csv.Error, *DAMAGED) as error:
            raise DataError(f"{path}:{line}: cannot be read: {error}") from error


def is_number(text: str) -> bool:
    """Return whether `text` is a number, finite or not."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def read_text(
    path: Path,
    columns: Columns,
    separator: str | None,
    names: Sequence[str] | None,
    comments: int = 0,
) -> Table:
    """Read all records. Raises `DataError` naming the faulty line.

    comments: first lines to leave out.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    file = TextFile.at(path, separator, names, comments)
    hint = separator_hint(file.names)
    if file.header and not hint:
        named = ", ".join(columns.keys[: min(max(len(file.names), 2), 3)])
        hint = f"If its first line is a record, name the columns: columns: [{named}]."
    columns = columns.among(file.names, str(path), f" {hint}" if hint else "")
    ids = pa.dictionary(pa.int32(), pa.string())
    types = {columns.user: ids, columns.item: ids}
    if columns.rating is not None:
        types[columns.rating] = pa.float32()
    try:
        table = arrow.read_csv(
            path,
            arrow.ReadOptions(
                block_size=PARSED,
                skip_rows=comments,
                column_names=None if file.header else list(file.names),
            ),
            arrow.ParseOptions(delimiter=file.separator),
            arrow.ConvertOptions(
                column_types=types, include_columns=columns.wanted, null_values=[]
            ),
        )
    except pa.ArrowInvalid as error:
        raise DataError(file.fault(columns) or f"{path}: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise DataError(f"{path}: cannot be read: {error}") from error
    rating, time = columns.rating, columns.timestamp
    return Table(
        str(path),
        coded(table[columns.user]),
        coded(table[columns.item]),
        None if rating is None else table[rating].to_numpy().astype(np.float32, copy=False),
        None if time is None else times_of(table[time], time, str(path)),
        file.places,
        value=columns.keys[2],
    )
