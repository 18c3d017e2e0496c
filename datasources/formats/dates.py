"""Read the dates of documents."""

import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from ..packed.streams import kind_of
from ..parsing.lines import read_lines
from .word_counts import JSON_LINES, is_table, read_texts

ISO = re.compile(r"\s*(\d{4})(?:-(\d\d)(?:-(\d\d)(?!\d))?)?(?![\d-])")
BATCH = 1 << 14  # rows of Parquet at a time


def day_of(text: str) -> date | None:
    """Return the day of an ISO 8601 date, the first one of a month or year; None: no date.

    >>> day_of("2024-05-17T10:00"), day_of("2024-05"), day_of("1999"), day_of("17.5.2024")
    (datetime.date(2024, 5, 17), datetime.date(2024, 5, 1), datetime.date(1999, 1, 1), None)
    """
    found = ISO.match(text)
    if found is None:
        return None
    year, month, day = (int(part) if part else 1 for part in found.groups())
    try:
        return date(year, month, day)
    except ValueError:
        return None


def read_dates(path: Path, field: str, separator: str | None) -> Iterator[tuple[str, str]]:
    """Yield names and dates, as text, of the documents in JSON lines or a table.

    Names are those that `read_texts` gives. Documents without a date are left out.

    Raises:
        DataError: the table has no column `field`, or the file cannot be read.
    """
    if not is_table(path):
        if path.is_file() and kind_of(path) in JSON_LINES:
            yield from of_json_lines(path, field)
    elif path.is_dir() or kind_of(path) == ".parquet":
        yield from of_parquet(path, field)
    else:
        yield from read_texts(path, field, separator)


def of_json_lines(path: Path, field: str) -> Iterator[tuple[str, str]]:
    """Yield names and dates of the lines that have one; a year may be a number."""
    for name, line in read_lines(path):
        if line.strip():
            value = json.loads(line).get(field)
            if isinstance(value, str | int):
                yield name, str(value)


def of_parquet(path: Path, column: str) -> Iterator[tuple[str, str]]:
    """Yield names and dates of rows; a column of dates, times, text or whole numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ..parquet.source import parquet_files
    from .csv_texts import column_of

    for file in (Path(status.path) for _, status in parquet_files([path])):
        with pq.ParquetFile(file) as table:
            column_of(file, table.schema_arrow.names, column)
            row = 0
            for batch in table.iter_batches(BATCH, columns=[column]):
                values = batch.column(0)
                if pa.types.is_temporal(values.type):
                    values = values.cast(pa.date32())
                for text in values.cast(pa.string()).to_pylist():
                    if text is not None:
                        yield f"{file.name}:{row}", text
                    row += 1
