"""Look at a table: its columns, their kinds, and which of them may be what."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blocklearn.datasources import DataError
from blocklearn.datasources.listing import PARQUET
from blocklearn.datasources.packed.streams import kind_of, opened
from blocklearn.datasources.parsing.scratch import silent
from blocklearn.datasources.ratings.column_names import called
from blocklearn.datasources.ratings.text import first_comments
from blocklearn.datasources.separators import encoding_hint

SEPARATORS = ",;\t|"
LOOKED_AT = 1000  # rows
READ = 1 << 21  # bytes: twice as many as Arrow takes for the first batch of rows

TEXTS = "text body content document description message review title abstract comment".split()
TARGETS = "target label class y outcome response clicked click".split()
IDS = ["", "unnamed: 0", *"id ids index row key uuid".split()]  # pandas' index has no name


@dataclass(frozen=True)
class Column:
    """A column of a table, as its first rows show it.

    kind: "number", "text", "bytes" (a text that is not UTF-8) or "other", such as dates.
    values: its first values, without missing ones.
    missing: whether one of them is missing.
    odd: line and text of the first entry that is no number, if most are numbers (of text files).
    """

    name: str
    kind: str
    values: list[Any]
    missing: bool
    odd: tuple[int, str] | None = None

    @property
    def binary(self) -> bool:
        """Whether all values are 0 or 1."""
        return self.kind == "number" and {float(v) for v in self.values} <= {0.0, 1.0}

    @property
    def signs(self) -> bool:
        """Whether its values are -1 and 1, which name two classes."""
        return self.kind == "number" and {float(v) for v in self.values} == {-1.0, 1.0}

    @property
    def constant(self) -> bool:
        """Whether all values are the same number."""
        return self.kind == "number" and len(set(self.values)) == 1

    @property
    def words(self) -> float:
        """The mean number of words in a text."""
        texts = [str(value).count(" ") + 1 for value in self.values]
        return sum(texts) / len(texts) if self.kind == "text" and texts else 0.0


@dataclass(frozen=True)
class Look:
    """A table file. separator: None: that of its ending. named: whether it names its columns."""

    path: Path
    columns: list[Column]
    separator: str | None = None
    named: bool = True

    def called(self, names: Sequence[str]) -> Column | None:
        """Return the first column with one of these names, in the order of `names`."""
        found = called(names, [column.name for column in self.columns])
        return next((column for column in self.columns if column.name == found), None)

    def without(self, *columns: Column | None) -> list[Column]:
        """Return the other columns."""
        return [column for column in self.columns if column not in columns]

    def check_utf8(self) -> None:
        """Raise DataError if a text is not UTF-8: else a column would be left out."""
        for column in self.columns:
            if column.kind == "bytes":
                raise DataError(
                    f"{self.path}: column {column.name!r} has a byte that is not UTF-8: convert "
                    "the file with iconv -f latin1 -t utf-8, or from its own encoding."
                )


def is_table(path: Path) -> bool:
    """Return whether the ending of a file says that it is a table."""
    return path.is_file() and kind_of(path) in (".csv", ".tsv", *PARQUET)


def look_at(path: Path, *, commented: bool = False) -> Look:
    """Look at the first rows of a table.

    commented: whether the first lines of a text are comments where they begin with `#`.

    Raises:
        DataError: it cannot be read, or has no rows.
    """
    from blocklearn.datasources.tables.read_table import table_faults

    with table_faults(path):
        if kind_of(path) in (".csv", ".tsv", ".txt"):
            return _look_at_text(path, first_comments(path) if commented else 0)
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            batch = next(file.iter_batches(LOOKED_AT), None)
    return Look(path, list(_columns(path, batch)))


def _look_at_text(path: Path, comments: int) -> Look:
    import pyarrow as pa
    from pyarrow import csv as arrow

    with opened(path, silent) as file, pa.BufferOutputStream() as kept:
        head = file.read(READ)
        kept.write(head)
        beginning = kept.getvalue()  # memory of Arrow: its threads, which read ahead, need no lock
    if other := encoding_hint(head):
        raise DataError(f"{path}: {other}")
    lines = head[: 1 << 16].decode("utf-8-sig", "replace").splitlines()
    first = lines[comments : comments + 1]
    if not first or not first[0].strip():
        raise DataError(f"{path}: the file is empty: must have a line of names, and rows.")
    own = "\t" if kind_of(path) == ".tsv" else ","
    marks = SEPARATORS + " " * (kind_of(path) == ".txt")
    counts = {mark: first[0].count(mark) for mark in marks}
    best = own if counts[own] else max(marks, key=counts.__getitem__)
    separator = best if counts[best] else own
    names = next(csv.reader(first, delimiter=separator))
    named = not any(_is_number(name) for name in names)
    called = None if named else [f"column {number}" for number in range(1, len(names) + 1)]
    reading = arrow.ReadOptions(skip_rows=comments, column_names=called, use_threads=False)
    parsing = arrow.ParseOptions(delimiter=separator)
    with arrow.open_csv(pa.BufferReader(beginning), reading, parsing) as reader:
        batch = next(iter(reader), None)
    separated = None if separator == own else separator
    columns = [_with_line(c, head, separator) for c in _columns(path, batch, of_text=True)]
    return Look(path, columns, separated, named)


def _with_line(column: Column, head: bytes, separator: str) -> Column:
    """Return the column with the line of its odd entry, in place of the number of its record.

    The number stays where `line_of` finds no line.
    """
    from blocklearn.datasources.tables.read_table import line_of

    if column.odd is None:
        return column
    record, text = column.odd
    line = line_of(io.BytesIO(head), separator, record)
    return replace(column, odd=(record if line is None else line, text))


def _columns(path: Path, batch: Any, *, of_text: bool = False) -> Iterable[Column]:
    """Yield the columns of a batch of rows. Raises DataError for none.

    of_text: whether the file is text, in which True is a word.
    """
    from pyarrow import types

    if batch is None or not batch.num_rows:
        raise DataError(f"{path}: the table has no rows.")
    for field, whole in zip(batch.schema, batch.columns, strict=True):
        kind, column = field.type, whole.slice(0, LOOKED_AT)
        number = types.is_integer(kind) or types.is_floating(kind)
        text = types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind)
        if types.is_boolean(kind):
            number, text = not of_text, of_text
        values = [value for value in column.to_pylist() if value is not None and value != ""]
        what = "number" if number else "text" if text else "other"
        if of_text and types.is_binary(kind):
            what = "bytes"
        odd = _odd(whole.to_pylist()) if of_text and what == "text" else None
        yield Column(field.name, what, values, len(values) < len(column), odd)


def _odd(texts: list[str | bool | None]) -> tuple[int, str] | None:
    """Return the number of the first record that is no number, and its text; None if most are none.

    texts: of the records after that of the names, which is number 1.
    """
    given = [(record, str(text)) for record, text in enumerate(texts, 2) if text not in ("", None)]
    odd = [(record, text) for record, text in given if not _is_number(text)]
    return odd[0] if odd and 2 * len(odd) < len(given) else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
