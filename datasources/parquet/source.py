"""Read blocks of rows from Parquet files, local or remote."""

import threading
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from blocklearn.answers import answered

from ..arrays.block_shape import BlockShape
from ..arrays.copy_rows import count_up
from ..block import HostBlock
from ..errors import DataError
from ..listing import PARQUET
from ..memory.order import Shuffle
from ..remote import PATIENCE, Files, HdfsDriver, Patience, Status, find, resolve
from ..source import Described, check_request
from .arrays import Fault
from .block_order import Cut
from .columns import Columns, Dense, Feature, names_of
from .content import Digest, content_digest
from .files import check_budget, none_matches, open_tables
from .fill import Filler
from .names import ColumnNames
from .rows import Nulls, Scan
from .sizes import Survey, survey
from .where import Where

MEMORY = 2**30


class ParquetSource(Described):
    """Reads rows of Parquet files as blocks.

    paths: a file, a folder, a pattern (`part-*.parquet`), or a list of these; local, or URLs
        (hdfs, webhdfs, s3, gs, az, http, https, memory and other schemes of fsspec).
    features: columns by name: a name or `Dense` for numbers, `Sparse` for indices with or without
        values. Dense ones become the first columns of a block. Any sparse feature makes blocks
        sparse.
    targets, weights: columns of numbers.
    ids: a column with names of the rows.
    nulls: "error"; "zero": a null number is 0 and a null index is no entry; "drop_row": rows with
        a null are left out. `notes` has their number.
    where: conditions `(column, operation, value)`; rows that do not satisfy all are left out, and
        row groups whose statistics exclude such rows are not read. Operations: ==, !=, <, <=, >,
        >=, and `in` and `not in` with a list of values. A null satisfies none.
    block_rows: rows of a block, before any are left out.
    shuffle: False, or "blocks": row groups in another order in each pass, drawn from
        `(seed, pass)`; see `Cut`.
    memory: bytes that one row group may take in the columns that are read, when decoded, and that
        a block may take.
    hdfs: the driver that reads hdfs://, see `resolve`.
    patience: timeouts and retries for servers.
    digest: input of `fingerprint`: "samples" of large files or "all" bytes, see `content_digest`.

    A file is read one row group and one batch of rows at a time, never whole. The non-zeros of a
    block must be bounded beforehand. Footers suffice for categories, and for lists if a block has
    about as many rows as a row group or more. Otherwise the indices are read once when the source
    is opened. Values with equal indices in a row are added up. Raises `DataError`,
    `FileNotFoundError`, `PermissionError`, `RemoteError`.
    """

    @answered
    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        features: Feature | str | Sequence[Feature | str],
        *,
        targets: Sequence[Dense | str] = (),
        weights: str | None = None,
        ids: str | None = None,
        nulls: Nulls = "error",
        where: Where = (),
        block_rows: int = 1024,
        shuffle: Shuffle = False,
        seed: int = 0,
        memory: int = MEMORY,
        hdfs: HdfsDriver | None = None,
        patience: Patience = PATIENCE,
        digest: Digest = "samples",
    ) -> None:
        """Read all footers, and columns where footers do not suffice."""
        if digest not in ("samples", "all"):
            raise DataError(f"ParquetSource: digest={digest!r}: must be samples or all.")
        self._digest: Digest = digest
        if nulls not in ("error", "zero", "drop_row"):
            raise DataError(f"ParquetSource: nulls={nulls!r}: must be error, zero or drop_row.")
        named = Columns.of(features, targets, weights, ids, where)
        listed = [paths] if isinstance(paths, (str, Path)) else list(paths)
        found = parquet_files(listed, patience, hdfs)
        if not found:
            raise DataError("ParquetSource: no files were named; name at least one.")
        self._tables = open_tables(found, named)
        check_budget(self._tables, memory)
        groups = [group.rows for table in self._tables for group in table.groups]
        self._cut = Cut(groups, block_rows, shuffle, seed)
        seen = survey(
            self._tables, named, self._cut, count_nulls=nulls != "error", batch_rows=block_rows
        )
        self._columns = named.sized(self._tables[0].widths, seen.sizes)
        self._nulls = nulls
        kept = seen.kept if nulls == "drop_row" else seen.matched
        self._first = np.concatenate([[0], np.cumsum(kept)])  # number of the first row of blocks
        self._shape = self._make_shape(seen, block_rows)
        self._check_memory(seen.longest, memory)
        self._notes = self._make_notes(seen)
        self._filler = Filler(self._columns, block_rows)
        self._scan = Scan(self._tables, self._columns, nulls, block_rows)
        self._cursor = self._scan.cursor()
        self._reading = threading.Lock()  # several threads may call read

    def _make_shape(self, seen: Survey, block_rows: int) -> BlockShape:
        columns = self._columns
        if not seen.matched.any():
            raise none_matches(self._tables[0].name, columns)
        if not self._first[-1]:
            raise DataError(f"{self._tables[0].name}: every row has a null, so none is left.")
        dense = columns.starts[len(columns.dense)]
        entries = seen.nnz + dense * (self._cut.stops - self._cut.starts)
        return BlockShape(
            rows=block_rows,
            columns=columns.starts[-1],
            nnz=max(1, int(entries.max())) if columns.sparse else 0,
            total_rows=int(self._first[-1]),
            dense=not columns.sparse,
            targets=sum(part.width or 0 for part in columns.targets),
            weighted=columns.weights is not None,
        )

    def _check_memory(self, longest: tuple[int, str], memory: int) -> None:
        shape = self._shape
        if shape.nbytes > memory:
            row = f"; the longest row, with {longest[0]:,}, is {longest[1]}" if longest[0] else ""
            raise DataError(
                f"{self._tables[0].name}: blocks of {shape.rows} rows and up to {shape.nnz:,} "
                f"non-zeros need {shape.nbytes / 2**20:,.1f} MiB each, but memory is "
                f"{memory / 2**20:,.1f} MiB{row}. Use fewer rows per block, or allow more memory."
            )

    def _make_notes(self, seen: Survey) -> list[str]:
        fate = "are read as 0" if self._nulls == "zero" else "are left out"
        matched = int(seen.matched.sum())
        notes = []
        if self._columns.where:
            total = sum(table.rows for table in self._tables)
            read = int((self._cut.stops - self._cut.starts).sum())
            notes.append(
                f"where: {matched:,} of {total:,} rows satisfy the conditions; statistics exclude "
                f"{total - read:,} others unread"
            )
        notes += [f"{rows:,} of {matched:,} rows have a null in {name!r}, which {fate}"
                  for name, rows in seen.nulls.items() if rows]  # fmt: skip
        notes += [
            f"the largest index in {name!r} makes its size {size:,}; set size: {size} if the "
            "model will read other files"
            for name, size in seen.sizes.items()
        ]
        if seen.read:
            listed = ", ".join(map(repr, seen.read))
            notes.append(f"{listed} had to be read once beforehand: the footers lack their sizes")
        return notes

    @property
    def shape(self) -> BlockShape:
        """The sizes of every block."""
        return self._shape

    @property
    def blocks(self) -> int:
        """The number of blocks in one pass."""
        return self._cut.blocks

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features with their sizes, in the order of the columns of a block."""
        return self._columns.features

    @property
    def files(self) -> list[tuple[str, int]]:
        """The name and number of rows of every file, in order."""
        return [(table.name, table.rows) for table in self._tables]

    @property
    def nbytes(self) -> int:
        """The bytes of all files together."""
        return sum(table.status.size for table in self._tables)

    @property
    def row_groups(self) -> list[tuple[int, int]]:
        """The rows and decoded bytes (in the columns read) of the row groups to read, in order."""
        return [(group.rows, group.nbytes) for table in self._tables for group in table.groups]

    @property
    def names(self) -> Sequence[str] | None:
        """The names of the columns if all features are dense, else None."""
        return None if self._columns.sparse else names_of(self._columns.dense)

    @property
    def target_names(self) -> Sequence[str] | None:
        """The names of the targets, or None if there are none."""
        return names_of(self._columns.targets) or None

    @property
    def row_names(self) -> Sequence[str] | None:
        """The ids, read lazily; None without a column of ids."""
        return self._row_names

    @cached_property
    def _row_names(self) -> Sequence[str] | None:
        ids = self._columns.ids
        if ids is None:
            return None
        return ColumnNames(self._shape.total_rows, lambda: self._scan.names(ids))

    @property
    def notes(self) -> list[str]:
        """Notes for the user: nulls, sizes that were found, columns read when opening."""
        return self._notes

    @cached_property
    def fingerprint(self) -> str:
        """The XXH3 of footers, contents (see `content_digest`) and column roles.

        Copies of files have equal fingerprints. The same rows written again may differ.
        """
        digest = xxhash.xxh3_64(f"{self._columns} {self._nulls}".encode())
        for condition in self._columns.where:
            digest.update(repr(condition).encode())
        for table in self._tables:
            digest.update(table.digest)
        digest.update(content_digest(self._tables, self._digest))
        return digest.hexdigest()

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with block `index` of pass `pass_` (int >= 0).

        Calls run one at a time.
        """
        check_request(self, pass_, index, into.shape)
        with self._reading:
            number = self._cut.number(pass_, index)
            start, stop = int(self._cut.starts[number]), int(self._cut.stops[number])
            first, end, rows = int(self._first[number]), int(self._first[number + 1]), 0
            for found in self._scan.rows(self._cursor, start, stop):
                try:
                    self._filler.fill(found.batch, into, rows)
                except Fault as fault:
                    raise found.explain(fault) from fault
                rows += found.batch.num_rows
            if rows != end - first:
                raise DataError(
                    f"{found.piece.place(0)}: near this row {rows} rows are usable, but "
                    f"{end - first} were counted when the source was opened; the file is damaged."
                )
            count_up(first, into.row_ids[:rows])
            into.finish(pass_=pass_, index=index, rows=rows)

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """The first row of each block, and the number of rows."""
        return self._first

    def dealt(self, parts: int) -> "ParquetSource":
        """Return a source of the same files that keeps parts of the rows apart: see `dealt`."""
        other = copy(self)
        other._cut = self._cut.dealt(parts)
        return other

    def label_sums(self) -> tuple[float, list[float]]:
        """Return the sum of all row weights, and the weighted sum of each target.

        This reads the columns of weights and targets once.
        """
        return self._scan.label_sums(self._shape.targets)

    def __repr__(self) -> str:
        """Show sizes and settings."""
        shape = self._shape
        kind = "dense" if shape.dense else "sparse"
        return (
            f"ParquetSource({len(self._tables)} files, {shape.total_rows} rows, {shape.columns} "
            f"columns, {kind}, block_rows={shape.rows})"
        )


def parquet_files(
    paths: Sequence[str | Path], patience: Patience = PATIENCE, hdfs: HdfsDriver | None = None
) -> list[tuple[Files, Status]]:
    """Find the files that paths, folders, patterns and URLs refer to."""
    found: list[tuple[Files, Status]] = []
    for path in paths:
        files, place, wild = resolve(str(path), patience, hdfs)
        found += [(files, status) for status in find(files, place, PARQUET, wild)]
    return found
