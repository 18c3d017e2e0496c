"""Write tables part by part, as Parquet, CSV or TSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TABLES = (".parquet", ".csv", ".tsv")
"""Endings of files of tables."""


@contextmanager
def table_writer(file: Path, ending: str, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Yield a function that appends Arrow tables of `schema` to `file`.

    ending: one of `TABLES`. CSV and TSV have a line of names, and quotes where a text needs them;
    they have no lists: see `columns_of`.
    """
    if ending == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetWriter(str(file), schema) as writer:
            yield writer.write_table
        return
    from pyarrow import csv

    options = csv.WriteOptions(delimiter="\t" if ending == ".tsv" else ",")
    with csv.CSVWriter(str(file), schema, write_options=options) as lines:
        yield lines.write_table


def columns_of(values: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return values [r x k] as k Arrow arrays by name; a name that occurs twice gets its number."""
    from blocklearn.datasources.arrays.arrow import number_array

    named = zip(unique(names), values.T, strict=True)
    return {name: number_array(column) for name, column in named}


def unique(names: Sequence[str]) -> list[str]:
    """Return names, of which one that occurs before has its number.

    >>> unique(["b", "c", "b"])
    ['b', 'c', 'b (2)']
    """
    first: dict[str, int] = {}
    return [n if first.setdefault(n, i) == i else f"{n} ({i})" for i, n in enumerate(names)]
