"""Describe Parquet files by their footers, before any row is read."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from blocklearn.matcache.threads import starting

from ..errors import DataError
from ..remote import Files, RemoteError, Status
from .columns import Columns
from .footer import (
    KIND,
    MAGIC,
    MAX_AT,
    MAX_SIZE,
    MIN_AT,
    MIN_SIZE,
    NBYTES,
    NULLS,
    VALUES,
    check_total,
    largest_in,
    numbers_in,
    read_footer,
)
from .matching import Test, bound_of
from .types import check_schema, list_columns

OPEN_AT_ONCE = 8  # footers read at the same time, because each read waits for the network
BUFFER = {True: 1 << 20, False: 8 << 20}  # bytes read at once; True: local
BROKEN = (pa.ArrowException, OSError, ValueError, EOFError, OverflowError)


@dataclass(frozen=True)
class Extent:
    """A footer's statistics of one column in one row group.

    values: elements of its lists, plus one for each list that is empty or null. This is an upper
        bound of the number of elements.
    nulls: number of nulls, including empty lists; None if the writer did not store it.
    largest: the largest number; None if the writer did not store it.
    """

    values: int
    nulls: int | None
    largest: int | None


@dataclass(frozen=True)
class RowGroup:
    """One row group: `number` of file `file`.

    first: number of its first row within the file.
    rows: number of its rows.
    nbytes: bytes of its columns when decoded.
    extents: statistics by column.
    """

    file: int
    number: int
    first: int
    rows: int
    nbytes: int
    extents: dict[str, Extent]


@dataclass(frozen=True)
class Table:
    """One Parquet file.

    rows: number of its rows, those of all row groups.
    groups: the row groups that may have rows to read; statistics exclude the others.
    tests: conditions that rows must satisfy.
    widths: of its dense columns.
    lists: sparse features whose indices are lists.
    digest: XXH3 of the footer.
    """

    files: Files
    status: Status
    rows: int
    groups: list[RowGroup]
    tests: list[Test]
    widths: dict[str, int]
    lists: frozenset[str]
    digest: bytes

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return self.files.name(self.status.path)

    def open(self) -> Any:
        """Return a `pyarrow.parquet.ParquetFile`.

        Raises `DataError` if the file was replaced.
        """
        self.check()
        return open_parquet(self.files, self.status)

    def check(self) -> None:
        """Raise `DataError` if the file was replaced since it was first opened."""
        if self.files.status(self.status.path).identity != self.status.identity:
            raise DataError(
                f"{self.name}: the file was replaced or changed while it was in use. Start again, "
                "and write new data to new files."
            )


def open_parquet(files: Files, status: Status) -> Any:
    """Return a `pyarrow.parquet.ParquetFile` with small reads and verified checksums."""
    return pq.ParquetFile(
        files.open(status),
        buffer_size=BUFFER[files.quick],
        pre_buffer=False,  # True would read whole row groups
        page_checksum_verification=True,
    )


def open_tables(found: Sequence[tuple[Files, Status]], columns: Columns) -> list[Table]:
    """Open all files. Raises `DataError` if the widths of their columns differ."""
    numbered = list(enumerate(found))

    def read(item: tuple[int, tuple[Files, Status]]) -> Table:
        return open_table(item[0], *item[1], columns)

    with starting("blocklearn-open"), ThreadPoolExecutor(OPEN_AT_ONCE, "blocklearn-open") as pool:
        tables = list(pool.map(read, numbered))
    for table in tables:
        for name, width in table.widths.items():
            first = tables[0].widths[name]
            if width != first:
                raise DataError(
                    f"{table.name}: column {name!r} has {width} numbers in each row, but {first} "
                    f"in {tables[0].name}; the widths must be equal."
                )
    ending = " in any file." if len(tables) > 1 else "."
    if not any(table.rows for table in tables):
        raise DataError(f"{tables[0].name}: no rows{ending}")
    if not any(group.rows for table in tables for group in table.groups):
        raise none_matches(tables[0].name, columns)
    return tables


def open_table(number: int, files: Files, status: Status, columns: Columns) -> Table:
    """Read the footer of file `number`.

    Raises `DataError` if it is invalid or lacks a column.
    """
    name = files.name(status.path)
    try:
        status = files.status(status.path)  # a folder's listing may say less than later checks need
        with files.open(status) as file:
            footer = read_footer(file, status.size)
        ending = len(footer).to_bytes(4, "little") + MAGIC
        with pq.ParquetFile(pa.BufferReader(MAGIC + footer + ending)) as file:  # without rows
            schema, leaves, groups = file.schema_arrow, len(file.schema), file.num_row_groups
            total = file.metadata.num_rows
            paths = [file.schema.column(leaf).path for leaf in range(leaves)]
        widths = check_schema(columns, schema, name)
        lists = list_columns(columns, schema)
        tests = [Test.of(condition, schema, name) for condition in columns.where]
        rows, noted = numbers_in(footer, groups, leaves)
        check_total(rows, total)
    except RemoteError:
        raise
    except DataError as error:
        raise error if str(error).startswith(name) else DataError(f"{name}: {error}") from error
    except (FileNotFoundError, PermissionError):
        raise
    except BROKEN as error:
        raise DataError(f"{name}: its footer is damaged: {error}") from error
    used = find_leaves(columns, paths)
    first = np.concatenate([[0], np.cumsum(rows)])
    found = [
        RowGroup(
            number,
            group,
            int(first[group]),
            int(rows[group]),
            int(sum(noted[group, leaf, NBYTES] for leaf in used.values())),
            {name: extent_of(footer, noted[group, leaf]) for name, leaf in used.items()},
        )
        for group in range(groups)
        if not any(
            excluded(test, footer, noted[group, used[test.condition.column]]) for test in tests
        )
    ]
    digest = xxhash.xxh3_64_digest(footer)
    return Table(files, status, int(first[-1]), found, tests, widths, lists, digest)


def excluded(test: Test, footer: bytes, noted: npt.NDArray[np.int64]) -> bool:
    """Return whether a column's statistics exclude that a row of a row group passes a test."""
    bounds = []
    for at, size in ((MIN_AT, MIN_SIZE), (MAX_AT, MAX_SIZE)):
        start = int(noted[at])
        if start < 0:
            return False  # the writer did not store it
        data = footer[start : start + int(noted[size])]
        bounds.append(bound_of(data, int(noted[KIND]), test.kind))
    low, high = bounds
    return low is not None and high is not None and test.excludes(low, high)


def none_matches(file: str, columns: Columns) -> DataError:
    """Return the error for conditions that no row satisfies."""
    listed = ", ".join(map(str, columns.where))
    return DataError(f"{file}: where: [{listed}]: no row satisfies this; check the values.")


def find_leaves(columns: Columns, paths: Sequence[str]) -> dict[str, int]:
    """Return, by column, the index of the file's leaf column with its numbers."""
    return {
        name: next(i for i, path in enumerate(paths) if path == name or path.startswith(name + "."))
        for name in columns.names
    }


def extent_of(footer: bytes, noted: npt.NDArray[np.int64]) -> Extent:
    """Return a column's statistics in a row group from numbers of its footer."""
    nulls = int(noted[NULLS])
    return Extent(int(noted[VALUES]), None if nulls < 0 else nulls, largest_in(footer, noted))


def check_budget(tables: Sequence[Table], memory: int) -> None:
    """Raise `DataError` for a row group whose columns need more than `memory` bytes."""
    for table in tables:
        for group in table.groups:
            if group.nbytes > memory:
                rows = max(1, group.rows * memory // (2 * group.nbytes))
                raise DataError(
                    f"{table.name}: row group {group.number} has {group.nbytes / 2**20:,.1f} MiB "
                    f"in the columns that are read, but memory is {memory / 2**20:,.1f} MiB. Write "
                    "the file with smaller row groups (pyarrow.parquet.write_table(..., "
                    f"row_group_size={rows})), or allow more memory."
                )
