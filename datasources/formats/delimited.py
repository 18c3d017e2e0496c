"""Read text with separators (CSV, TSV) as Arrow tables, some megabytes at a time.

Fields may be in double quotes, but a line is a record: no line breaks inside a field. Arrow reads
the chunks. After an error a chunk is read again, slowly, to name the line.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute
from pyarrow import csv as arrow

from ..errors import DataError
from ..packed.streams import kind_of
from ..parsing.layout import FIRST, Place
from ..parsing.lines import Lines, decode, file_chunks, placed_lines, split_lines
from ..parsing.numbers import parse_number
from ..parsing.scratch import Scratch
from ..separators import separator_hint

LONE_RETURN = re.compile(rb"\r(?!\n)")  # Arrow would begin a record after it
ONE_LINE = "a record is one line, except for texts in a column (--text COLUMN)"

RETURNS = r"its lines end with carriage returns alone: write line feeds (tr '\r' '\n')"

Nulls = Literal["error", "zero", "drop_row"]


class Delimited:
    """Files of records with the same columns. They have `names` and `places`.

    separator: None: a tab in .tsv files, else a comma.
    header: whether the first line names the columns; None: it does if no field in it is a number,
        and does not if all are.
    columns: names of the columns if there is no header; None: "0", "1", ...
    advice: what to do about a column that must have numbers and has text; ends messages.

    Raises `DataError`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        scratch: Scratch,
        *,
        separator: str | None = None,
        header: bool | None = None,
        columns: Sequence[str] | None = None,
        advice: str = "",
    ) -> None:
        """Read the first line of each file."""
        self._paths, self._scratch, self._advice = paths, scratch, advice
        self.separator = separator_of(paths[0], separator)
        self.names: list[str] = []
        self._bodies: list[Place] = []
        for number, path in enumerate(paths):
            names, body = self._head(path, header if columns is None else False)
            if columns is not None and len(columns) == len(names):
                names = list(columns)
            if number == 0:
                self.names = names
            if names != self.names or (columns is not None and names != list(columns)):
                wanted = columns or self.names
                raise DataError(
                    f"{path}: {len(names)} columns, {brief(names)}, but must have "
                    f"{len(wanted)}, {brief(wanted)}."
                )
            self._bodies.append(body._replace(file=number))
        self.places = {name: place for place, name in enumerate(self.names)}
        if len(self.places) < len(self.names):
            twice = next(x for i, x in enumerate(self.names) if self.places[x] != i)
            raise DataError(f"{paths[0]}: the column {twice!r} occurs twice; rename one.")

    def tables(
        self, types: Mapping[str, Any], start: Place = FIRST
    ) -> Iterator[tuple[Lines, pa.Table]]:
        """Yield Arrow tables with the lines they come from.

        types: Arrow types by name of column, in the order of the tables' columns.

        Raises `DataError` naming file and line.
        """
        options = arrow.ConvertOptions(
            column_types=dict(types), include_columns=list(types), null_values=[""]
        )
        empty = start == FIRST
        for number in range(start.file, len(self._paths)):
            body = max(start, self._bodies[number])
            for chunk in file_chunks(self._paths[number], self._scratch, body):
                if chunk.data.strip(b"\r\n"):
                    yield chunk, self._table(chunk, options, types)
                    empty = False
        if empty:
            raise DataError(f"{self._paths[0]}: has a header but no records.")

    def numbers(
        self, chunk: Lines, table: pa.Table, names: Sequence[str], nulls: Nulls = "error"
    ) -> npt.NDArray[np.float32]:
        """Return columns of a chunk's table as float32 [records, names].

        nulls: "error" forbids empty fields; otherwise they are 0.

        Raises `DataError`, naming the line, for a forbidden empty field or a number that is not a
        finite float32.
        """
        found = np.empty((table.num_rows, len(names)), np.float32)
        for i, name in enumerate(names):
            column = table[name]
            if column.null_count:
                if nulls == "error":
                    row = compute.index(column.is_null(), True).as_py()
                    raise DataError(
                        f"{self.line(chunk, row)}: column {name!r} is empty; complete it, or "
                        "leave such records out with --nulls drop_row (0 in features: zero)."
                    )
                column = column.fill_null(0.0)
            exact: npt.NDArray[Any] = column.to_numpy()
            with np.errstate(over="ignore"):
                found[:, i] = exact
            bad = np.flatnonzero(~np.isfinite(found[:, i]))
            if bad.size:
                raise DataError(
                    f"{self.line(chunk, int(bad[0]))}: column {name!r} is {exact[bad[0]]}, but "
                    "every number must be a finite float32."
                )
        return found

    def line(self, chunk: Lines, row: int) -> str:
        """Return the place of a row of a chunk's table, such as `ratings.csv:17`."""
        lines = [number for number, line in split_lines(chunk) if line]
        return f"{chunk.path}:{lines[row]}"

    def _table(self, chunk: Lines, options: Any, types: Mapping[str, Any]) -> pa.Table:
        if found := LONE_RETURN.search(chunk.data):
            line = chunk.place.line + chunk.data.count(b"\n", 0, found.start())
            raise DataError(
                f"{chunk.path}:{line}: this line has a carriage return without a line feed; "
                f"remove it, or, if {RETURNS}."
            )
        reading = arrow.ReadOptions(
            use_threads=False, block_size=len(chunk.data) + 1, column_names=self.names
        )
        parsing = arrow.ParseOptions(delimiter=self.separator)
        try:
            return arrow.read_csv(pa.BufferReader(chunk.data), reading, parsing, options)
        except pa.ArrowException as error:
            fault = self._fault(chunk, types) or f"{chunk.path}:{chunk.place.line}: {error}"
            raise DataError(fault) from error

    def _fault(self, chunk: Lines, types: Mapping[str, Any]) -> str | None:
        """Return what is wrong with the first faulty record, None if all are valid."""
        floats = [self.places[name] for name in types if pa.types.is_floating(types[name])]
        for number, line in split_lines(chunk):
            if not line:
                continue
            place = f"{chunk.path}:{number}"
            fields = self._fields(decode(line, chunk.path, number), place)
            if len(fields) != len(self.names):
                return (
                    f"{place}: {len(fields)} fields, but the file has {len(self.names)} columns "
                    f"(separator {self.separator!r})."
                )
            for i in floats:
                if fields[i] and not is_number(fields[i]):
                    what = f"column {self.names[i]!r} is {fields[i][:40]!r}, not a number"
                    if unsplit := separator_hint(self.names):
                        return f"{place}: {what}. {unsplit}"
                    return f"{place}: {what}{self._advice}."
        return None

    def _head(self, path: Path, header: bool | None) -> tuple[list[str], Place]:
        """Return the names of a file's columns, and where its records begin."""
        for number, line, after in placed_lines(path, self._scratch):
            if not line:
                continue
            fields = self._fields(decode(line, path, number), f"{path}:{number}")
            filled = [field for field in fields if field.strip()]
            count = sum(map(is_number, filled))
            if header is None and 0 < count < len(filled):
                raise DataError(
                    f"{path}:{number}: some fields of the first line are numbers and some are not, "
                    "so it may be a header or a record; say --header or --no-header."
                )
            if header or (header is None and not count):
                return [field.strip() for field in fields], after
            return [str(i) for i in range(len(fields))], FIRST
        raise DataError(f"{path}: has no records.")

    def _fields(self, line: str, place: str) -> list[str]:
        try:
            return next(csv.reader([line], delimiter=self.separator, strict=True))
        except (csv.Error, StopIteration) as error:
            raise DataError(
                f"{place}: cannot be divided into fields: {error}; {advice(error, ONE_LINE)}."
            ) from error


def advice(error: Exception, otherwise: str) -> str:
    """Return the remedy for an `error` of the csv module; mostly `otherwise`."""
    if "new-line character" in str(error):
        return RETURNS
    return otherwise


def separator_of(path: Path, given: str | None) -> str:
    """Return the separator of a file: `given`, or a tab for .tsv files, else a comma.

    Raises `DataError` unless it is one ASCII character.
    """
    separator = given or ("\t" if kind_of(path) == ".tsv" else ",")
    if len(separator) != 1 or separator in '"\r\n' or not separator.isascii():
        raise DataError(f"separator={separator!r}: must be one ASCII character.")
    return separator


def is_number(text: str) -> bool:
    """Return whether a field is a number, finite or not."""
    try:
        parse_number(text.strip().encode("utf-8", "surrogateescape"))
    except ValueError:
        return False
    return True


def brief(names: Sequence[str]) -> str:
    """Return the first few of many names, as text.

    >>> brief(["a", "b"]), brief(["a", "b", "c", "d", "e"])
    ("'a', 'b'", "'a', 'b', 'c', ...")
    """
    shown = ", ".join(repr(name[:40]) for name in names[:3])
    return shown + ", ..." * (len(names) > 3)
