"""Reads CSV and Parquet files in batches of rows, only the requested columns."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from csv import Error as ReaderError
from csv import reader as reader_of
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as csv
from pyarrow import parquet

from ..errors import DataError
from ..listing import PARQUET
from ..separators import separator_hint

PACKED = (".gz", ".bz2", ".lz4", ".zst")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
BATCH_ROWS = 1 << 16
MISSING = ("na", "n/a", "null", "none", "-", "?")  # as other programs write a missing number
FAULT = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to (double|string)")
VALUE = re.compile(r"invalid value '(.*)'", re.DOTALL)


def read_table(
    path: Path, *, numbers: Sequence[str], text: Sequence[str], separator: str | None = None
) -> Iterator[Any]:
    """Yield Arrow record batches of the columns `numbers` and `text` of a file.

    separator: between the fields of a line; None: a tab in .tsv files, else a comma.

    In CSV files `numbers` become float64 and `text` strings; an empty field is null. Parquet keeps
    its types. Raises `DataError` with the file and, if known, the line or column.
    """
    names = list(dict.fromkeys([*numbers, *text]))
    both = sorted(set(numbers) & set(text))
    if both:
        raise DataError(f"{path}: column {both[0]!r} is named as a number and as a category.")
    kind = table_kind(path)
    if kind == ".parquet":
        yield from readable(path, read_parquet(path, names))
    else:
        yield from readable(path, read_csv(path, separator or DELIMITERS[kind], names, set(text)))


def table_kind(path: Path) -> str:
    """Return the end of a table's name, without that of a packer; ".parquet" for any of Parquet.

    Raises `DataError` for another kind of file.
    """
    suffixes = [suffix for suffix in path.suffixes if suffix not in PACKED]
    kind = suffixes[-1] if suffixes else ""
    known = [*DELIMITERS, *PARQUET]
    if kind not in known:
        raise DataError(
            f"{path}: unknown kind of table; name a file that ends in {', '.join(known)} (of text, "
            f"perhaps packed: {', '.join(PACKED)})."
        )
    return ".parquet" if kind in PARQUET else kind


def readable(path: Path, parts: Iterator[Any]) -> Iterator[Any]:
    """Yield what `parts` yields; faults of a file's contents become `DataError`."""
    with table_faults(path):
        yield from parts


@contextmanager
def table_faults(path: Path) -> Iterator[None]:
    """Turn faults of a file's contents in a `with` statement into `DataError`."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # from the operating system
            raise
        first, *_ = f"{error} ".splitlines()  # a quote that is not closed has many lines
        raise DataError(f"{path}: cannot be read as a table: {first.strip()}") from error


def column_names(path: Path) -> list[str]:
    """Return the names of all columns of a table. Raises as `read_table`."""
    kind = table_kind(path)
    (names,) = readable(path, header_of(path, kind))
    return list(names)


def header_of(path: Path, kind: str) -> Iterator[Sequence[str]]:
    """Yield the names of the columns, once."""
    if kind == ".parquet":
        yield parquet.read_schema(path).names
        return
    yield csv_header(path, csv.ReadOptions(), csv.ParseOptions(delimiter=DELIMITERS[kind]))


def csv_header(path: Path, reading: csv.ReadOptions, parsing: csv.ParseOptions) -> list[str]:
    """Return the names of the columns of a CSV file."""
    try:
        with csv.open_csv(path, reading, parsing) as reader:
            names: list[str] = reader.schema.names
            return names
    except pa.ArrowInvalid as error:
        with pa.input_stream(path) as file:
            first = file.read(1 << 16).decode("utf-8", "replace").split("\n")[0]
        hint = separator_hint(first.split(parsing.delimiter))
        if not hint:
            raise
        raise DataError(f"{path}: {hint}") from error


def read_csv(path: Path, delimiter: str, names: list[str], text: set[str]) -> Iterator[Any]:
    """Yield batches of a CSV file; line numbers in messages count the header."""
    reading = csv.ReadOptions(use_threads=False)  # else messages do not name the line
    parsing = csv.ParseOptions(delimiter=delimiter)
    header = csv_header(path, reading, parsing)
    check_names(path, header, names)
    converting = csv.ConvertOptions(
        column_types={name: pa.string() if name in text else pa.float64() for name in names},
        include_columns=names,
        null_values=[""],
        strings_can_be_null=True,
    )
    try:
        with csv.open_csv(path, reading, parsing, converting) as reader:
            yield from reader
    except pa.ArrowInvalid as error:
        found = FAULT.match(str(error))
        if found is None:
            raise
        with pa.input_stream(path) as file:
            line = line_of(file, delimiter, int(found[2]))
        place = f"{path}: record {found[2]}" if line is None else f"{path}:{line}"
        name = header[int(found[1])]
        raise DataError(f"{place}: column {name!r} {wrong(str(error))}") from error


def wrong(told: str) -> str:
    """Return what is wrong with a field, and the remedy, from an error of Arrow."""
    value = VALUE.search(told)
    if value is None:
        remedy = "convert the file with iconv -f latin1 -t utf-8, or from its own encoding"
        return f"has a byte that is not UTF-8: {remedy}."
    rule = "name columns of text in `categorical`. A target of text needs `classes: true`."
    if value[1].lower() in MISSING:
        rule = "leave the fields of missing numbers empty, and say `nulls: zero`."
    return f"is {value[1]!r}, not a number; {rule}"


def line_of(file: IO[bytes], delimiter: str, record: int) -> int | None:
    """Return the line where a record of CSV begins; empty lines are no records.

    None: a field before it is longer than Python's reader allows (128 KiB).

    record: its number, from 1; the names of the columns are record 1.
    """
    text = io.TextIOWrapper(file, "utf-8", "replace", newline="")
    records, line = reader_of(text, delimiter=delimiter), 1
    try:
        for fields in records:
            record -= bool(fields)
            if not record:
                break
            line = records.line_num + 1
    except ReaderError:
        return None
    return line


def read_parquet(path: Path, names: list[str]) -> Iterator[Any]:
    """Yield batches of a Parquet file."""
    with parquet.ParquetFile(path, page_checksum_verification=True) as file:
        check_names(path, file.schema_arrow.names, names)
        yield from file.iter_batches(BATCH_ROWS, columns=names)


def listed(names: Sequence[str]) -> str:
    """Return names for a message: at most 40, each at most 40 characters long.

    >>> listed(["age", "x" * 41])
    'age, xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'
    """
    shown = [name[:40] + "..." * (len(name) > 40) for name in names[:40]]
    return ", ".join(shown) + ", ..." * (len(names) > 40)


def check_names(path: Path, found: Sequence[str], names: Sequence[str]) -> None:
    """Raise `DataError` unless every name is among the columns exactly once."""
    for name in names:
        if found.count(name) == 1:
            continue
        near = get_close_matches(name, found, n=1)
        hint = f"; did you mean {near[0][:40]!r}?" if near else f": {listed(found)}"
        if unsplit := separator_hint(found):
            hint = f". {unsplit}"
        fault = "twice" if name in found else f"not among its {len(found)} columns{hint}"
        raise DataError(f"{path}: column {name!r} is {fault}")
