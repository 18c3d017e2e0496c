"""Writes a block dataset: rows come in any number at a time, and go out as blocks of one size."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from ..errors import DataError
from ..secrets import hidden
from .arrow_file import Codec
from .folders import clear, prepare, remove_empty
from .manifest import Listed, Manifest, identify, write_manifest
from .names import Names, accept_ids, kind_of, write_names
from .orientation import check_exchangeable, exchange
from .rows import accept_rows
from .settings import Settings, check_count, count_columns
from .unfinished import Begun, Stored, Unfinished, forget_journal, read_journal


class BlockWriter:
    """Rows to blocks of `block_rows`, of which one is in memory, on any number of folders.

    paths: one folder per stripe, on disks of their own if it is to be fast; block i goes to
    stripe i mod n. They are made if they do not exist. codec: "raw", or "lz4" for half the bytes
    or less. columns: of the sparse part; None: as many as the largest index says, or `finish`.
    both_orientations: also write the matrix with rows and columns exchanged,
    `column_block_rows` of its rows (columns of the data) to a block, by default as many as
    block_rows; this happens in `finish`, with about `budget_bytes` of memory and as much room on
    the disks as the non-zeros need once more. origin: what the data were made from, in words or as
    a digest; kept in the manifest.

    What is in the folders is a dataset once `finish` has returned, and not before. Used as a
    context manager, it deletes what is not finished at the end; with resume=True it stays, and a
    writer with the same arguments goes on behind the last block that was stored: `rows` says how
    many rows are there already, which the caller leaves out. overwrite: a dataset that is there is
    deleted first; else it is an error. One process writes to a folder at a time.

    What the first `append` has (dense rows, targets, weights, ids), all later ones have.

    Raises `DataError` for settings, and for rows that no block can hold, naming the row.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        block_rows: int,
        codec: Codec = "lz4",
        columns: int | None = None,
        both_orientations: bool = False,
        column_block_rows: int | None = None,
        budget_bytes: int = 1 << 28,
        origin: str = "",
        resume: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Find or make the folders; with resume, see what is stored already."""
        check_count("block_rows", block_rows)
        check_count("column_block_rows", column_block_rows)
        check_count("columns", columns)
        if codec not in ("raw", "lz4"):
            raise DataError(f'BlockWriter: codec={codec!r}, but it is "raw" or "lz4".')
        self._folders = prepare(paths)
        self._settings = Settings(
            stripes=len(self._folders),
            block_rows=block_rows,
            codec=codec,
            columns=columns,
            origin=hidden(origin),
        )
        self._both, self._budget = both_orientations, budget_bytes
        self._column_block_rows = column_block_rows or block_rows
        self._resume, self._finished = resume, False
        self._rows: Unfinished | None = None
        found = read_journal(self._folders[0]) if resume else None
        if found is None:
            clear(self._folders, overwrite=overwrite)
        else:
            self._go_on(*found)

    @property
    def rows(self) -> int:
        """Rows that were appended, and those that an earlier writer stored."""
        return 0 if self._rows is None else self._rows.rows

    @property
    def position(self) -> tuple[Any, int]:
        """After resuming, where to go on in the input: the `position` of an `append` all of whose
        rows are stored, and how many rows there were then; `(None, 0)` is the beginning. The rows
        from there up to `rows` are to be left out.
        """
        return (None, 0) if self._rows is None else self._rows.position

    def append(
        self,
        indptr: npt.ArrayLike | None = None,
        indices: npt.ArrayLike | None = None,
        values: npt.ArrayLike | None = None,
        *,
        dense: npt.ArrayLike | None = None,
        targets: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        ids: Names | None = None,
        position: Any = None,
    ) -> None:
        """Add n >= 0 rows: CSR (indptr [n+1], indices and values [nnz]; indices of a row ascend and
        are unique), or dense [n, d]; with targets [n] or [n, T], weights [n], and ids [n], all
        strings or all integers.

        position: where the input goes on after these rows, as anything that JSON can hold.
        """
        if self._finished:
            raise DataError("BlockWriter: the dataset is finished; rows cannot be added.")
        first = self.rows
        rows = accept_rows(
            indptr, indices, values, dense, targets, weights,
            first=first, columns=self._settings.columns,
        )  # fmt: skip
        names = accept_ids(ids, first, rows.count)
        if not rows.count:
            return
        if self._both:
            check_exchangeable(rows.kind, first + rows.count)
        if self._rows is None:
            begun = Begun(settings=self._settings, kind=rows.kind, ids=kind_of(names))
            nothing = Stored.nothing(begun)
            self._rows = Unfinished(self._folders, begun, nothing, resumed=False)
        self._rows.add(rows, names, position)

    def finish(
        self,
        *,
        columns: int | None = None,
        names: Sequence[str] | None = None,
        target_names: Sequence[str] | None = None,
    ) -> None:
        """Store the last block, the other orientation and the names, and then the manifests, which
        make it a dataset. names: of the columns; their number is that of the columns.
        """
        rows = self._rows
        if self._finished or rows is None or not rows.rows:
            text = "it is finished" if self._finished else "there are no rows"
            raise DataError(f"BlockWriter: {text}; a dataset has at least one row, and one end.")
        width = count_columns(self._settings.columns, columns, names, rows.columns)
        targets = rows.begun.kind.targets
        if target_names is not None and len(target_names) != targets:
            raise DataError(
                f"BlockWriter: {len(target_names)} target_names, but there are {targets} targets."
            )
        part, ids = rows.finish(width)
        listed: Listed = {} if ids is None else {"rows": ids}
        if names is not None:
            listed["columns"] = write_names(self._folders[0], "columns", names)
        if target_names is not None:
            listed["targets"] = write_names(self._folders[0], "targets", target_names)
        settings = self._settings
        other = None
        if self._both:
            other = exchange(
                self._folders, part, settings.codec, self._column_block_rows, self._budget
            )
        manifest = Manifest(
            id=identify(part, other, listed),
            codec=settings.codec,
            stripes=settings.stripes,
            origin=settings.origin,
            rows=part,
            columns=other,
            names=listed,
        )
        for folder in reversed(self._folders):
            write_manifest(folder, manifest)
        self._finished = True
        self.close()
        forget_journal(self._folders[0])

    def close(self) -> None:
        """Close the files; what is stored stays, for a writer with resume=True."""
        if self._rows is not None:
            self._rows.close()

    def discard(self) -> None:
        """Delete all that was written, unless it is finished."""
        self.close()
        if not self._finished:
            clear(self._folders, overwrite=True)
            remove_empty(self._folders)

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete what is not finished, unless it may be gone on with."""
        if self._resume:
            self.close()
        else:
            self.discard()

    def _go_on(self, begun: Begun, stored: Stored) -> None:
        """Take up what an earlier writer stored."""
        if begun.settings != self._settings:
            raise DataError(
                f"BlockWriter: what is unfinished in {self._folders[0]} was begun with "
                f"{begun.settings!r}, not with {self._settings!r}; resume with the same settings, "
                "or begin again without resuming."
            )
        self._rows = Unfinished(self._folders, begun, stored, resumed=True)
