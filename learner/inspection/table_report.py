"""Describe the columns of a table, numbers and texts, for `learn inspect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import DataError
from blocklearn.datasources.packed.streams import kind_of, opened
from blocklearn.datasources.parsing.scratch import silent

from ..figures import number, size
from .advice import on_groups
from .look import Look, is_table, look_at

MOST_VALUES = 10_000  # values of a column that are counted
SHOWN = 3  # values that are shown
LENGTH = 30  # characters of a value that are shown

Report = dict[str, Any]


def has_texts(names: Sequence[str]) -> bool:
    """Return whether `names` is one local table with columns that are no numbers.

    False for a damaged file: the reader of its format names the fault and its place.
    """
    path = Path(names[0])
    if len(names) > 1 or not is_table(path):
        return False
    try:
        return any(column.kind != "number" for column in look_at(path).columns)
    except DataError:
        return False


def table_report(path: Path) -> Report:
    """Return statistics of each column of a table; all rows are read, batch by batch.

    Raises:
        DataError: the file cannot be read as a table.
    """
    from blocklearn.datasources.tables.read_table import table_faults

    look = look_at(path)
    found = [Values(column.name) for column in look.columns]
    rows = 0
    with table_faults(path):
        for batch in _batches(path, look):
            rows += batch.num_rows
            for values, column in zip(found, batch.columns, strict=True):
                values.add(column)
    report = {
        "kind": "table",
        "what": "table with columns of text",
        "bytes": path.stat().st_size,
        "rows": rows,
        "columns": [values.report() for values in found],
        **row_groups_report(path),
    }
    return report | {"slow": list(on_groups(report))}


def row_groups_report(path: Path) -> Report:
    """Return rows and uncompressed bytes of Parquet's row groups; empty for other files."""
    from pyarrow import parquet

    if kind_of(path) in (".csv", ".tsv"):
        return {}
    with parquet.ParquetFile(path) as file:
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    return {
        "row_groups": spread(np.array([group.num_rows for group in groups])),
        "row_group_bytes": spread(np.array([group.total_byte_size for group in groups])),
    }


def _batches(path: Path, look: Look) -> Iterator[Any]:
    """Yield all batches, of texts if the file is text."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    if kind_of(path) not in (".csv", ".tsv"):
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches()
        return
    own = "\t" if kind_of(path) == ".tsv" else ","
    names = [column.name for column in look.columns]
    reading = csv.ReadOptions(column_names=None if look.named else names, use_threads=False)
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    parsing = csv.ParseOptions(delimiter=look.separator or own, newlines_in_values=True)
    with (
        opened(path, silent) as file,
        csv.open_csv(file, reading, parsing, converting) as reader,
    ):
        yield from reader


def spread(numbers: NDArray[Any]) -> Report:
    """Return count, least, mean and largest of numbers."""
    return {
        "count": int(numbers.size),
        "least": int(numbers.min()),
        "mean": float(numbers.mean()),
        "largest": int(numbers.max()),
    }


class Values:
    """Counts the values of a column."""

    def __init__(self, name: str) -> None:
        """Begin without values."""
        self.name = name
        self.missing = self.count = 0
        self.counts: Counter[str] = Counter()
        self.more = False  # whether there are values that are not counted
        self.numbers, self.sum = True, 0.0
        self.least, self.largest = float("inf"), float("-inf")

    def add(self, column: Any) -> None:
        """Add an Arrow array of values."""
        import pyarrow as pa
        from pyarrow import compute

        self.missing += column.null_count
        column = column.drop_null()
        self.count += len(column)
        if not len(column):
            return
        if self.numbers:
            try:
                values = column.cast(pa.float64())
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                self.numbers = False
            else:
                ends = compute.min_max(values).as_py()
                self.least = min(self.least, ends["min"])
                self.largest = max(self.largest, ends["max"])
                self.sum += compute.sum(values).as_py()
        try:
            found = compute.value_counts(column)
        except pa.ArrowNotImplementedError:  # lists and the like
            self.more = True
            return
        for item in found.to_pylist():
            value = str(item["values"])
            if value in self.counts or len(self.counts) < MOST_VALUES:
                self.counts[value] += item["counts"]
            else:
                self.more = True

    def report(self) -> Report:
        """Return the values as JSON values."""
        number = self.numbers and self.count > 0
        return {
            "name": self.name,
            "kind": "number" if number else "text" if self.count else "empty",
            "missing": self.missing,
            "values": len(self.counts),
            "more_values": self.more,
            "frequent": [
                {"value": value, "count": count} for value, count in self.counts.most_common(SHOWN)
            ],
            "least": self.least if number else None,
            "largest": self.largest if number else None,
            "mean": self.sum / self.count if number else None,
        }


def table_pairs(report: Report) -> list[tuple[str, str]]:
    """Return names and texts on a table and its columns."""
    columns = report["columns"]
    pairs = [("size", size(report["bytes"])), ("rows", f"{report['rows']:,}")]
    if "row_groups" in report:
        groups, stored = report["row_groups"], report["row_group_bytes"]
        pairs.append(
            (
                "row groups",
                f"{groups['count']:,} of {groups['least']:,} to {groups['largest']:,} rows, at "
                f"most {size(stored['largest'])} uncompressed",
            )
        )
    pairs.append(("columns", f"{len(columns):,}"))
    return pairs + [(f"- {column['name'][:LENGTH]}", told(column)) for column in columns]


def told(column: Report) -> str:
    """Return `text, 3 values: 'rose' (70), 'lily' (20); 2 missing`."""
    more = "more than " if column["more_values"] else ""
    text = f"{column['kind']}, {more}{column['values']:,} values"
    if column["kind"] == "number":
        ends = number(column["least"]), number(column["largest"]), number(column["mean"])
        text += " from {} to {}, mean {}".format(*ends)
    elif column["frequent"]:
        shown = (f"{item['value'][:LENGTH]!r} ({item['count']:,})" for item in column["frequent"])
        text += f": {', '.join(shown)}"
    return text + (f"; {column['missing']:,} missing" if column["missing"] else "")
