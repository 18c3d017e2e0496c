"""Writes a block dataset from any number of rows at a time."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy.typing as npt

from blocklearn.answers import answered
from blocklearn.closing import Closing

from ..errors import DataError
from ..secrets import hidden
from .arrow_file import Codec
from .folders import check_free, clear, move_up, prepare, remove_empty, writing_to
from .manifest import Listed, Manifest, identify, write_manifest
from .names import Names, accept_ids, kind_of, write_names
from .orientation import check_exchangeable, exchange
from .rows import accept_rows
from .settings import Settings, check_count, count_columns
from .unfinished import Begun, Stored, Unfinished, forget_journal, read_journal


class BlockWriter(Closing):
    """Writes rows as blocks of `block_rows` rows to any number of folders.

    - paths: one folder per stripe, made if missing; for speed, each on its own disk. Block i goes
      to stripe i mod n.
    - codec: "raw", or "lz4" for half the bytes or less.
    - columns: columns of sparse rows; None: given to `finish`, or the largest index plus 1.
    - both_orientations: whether `finish` also writes the matrix with rows and columns exchanged.
    - column_block_rows: rows of its blocks (columns of the data); None: as many as block_rows.
    - budget_bytes: memory for that, approximately. On disk it temporarily needs the space of the
      non-zeros once more.
    - origin: the data that the dataset is made from, in words or as a digest; kept in the manifest.
    - resume: continue an unfinished dataset with the same arguments; see below.
    - overwrite: replace an existing dataset; otherwise it is an error.

    The folders are a dataset only once `finish` has returned; until then an existing one stays, so
    the disks need room for both. A writer used as a context manager
    deletes an unfinished dataset at the end. With resume=True it stays, and a writer with the same
    arguments continues after the last stored block. `rows` is then the number of rows that exist
    already, which the caller leaves out. Only one process may write to a folder at a time.

    All calls of `append` must give the same: dense rows or not, targets, weights, ids.

    Raises `DataError` for impossible settings, and for a row that no block can hold.
    """

    @answered
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
        """Find or make the folders; with resume, read the journal."""
        check_count("block_rows", block_rows)
        check_count("column_block_rows", column_block_rows)
        check_count("columns", columns)
        if codec not in ("raw", "lz4"):
            raise DataError(f'BlockWriter: codec={codec!r}: must be "raw" or "lz4".')
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
        self._own = writing_to(self._folders, resume=resume)  # of files that are being written
        found = read_journal(self._own[0]) if resume else None
        if found is None:
            check_free(self._folders, overwrite=overwrite)
            clear(prepare(self._own))
        else:
            self._go_on(*found)

    @property
    def rows(self) -> int:
        """The number of rows appended, and stored by an earlier writer."""
        return 0 if self._rows is None else self._rows.rows

    @property
    def position(self) -> tuple[Any, int]:
        """Where to continue in the input after resuming: `(position, rows before it)`.

        It is the `position` of an `append` whose rows are all stored; `(None, 0)` is the beginning.
        The caller leaves out the rows from there up to `rows`.
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
        """Add n >= 0 rows, as CSR (indptr, indices, values) or dense.

        - indptr: [n+1], offsets of the rows.
        - indices: [nnz], unique and ascending within a row.
        - values: [nnz].
        - dense: [n, d], instead of the three.
        - targets: [n] or [n, T].
        - weights: [n].
        - ids: [n], all strings or all integers.
        - position: the place in the input after these rows, as anything that JSON can hold.
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
            self._rows = Unfinished(self._own, begun, nothing, resumed=False)
        self._rows.add(rows, names, position)

    def finish(
        self,
        *,
        columns: int | None = None,
        names: Sequence[str] | None = None,
        target_names: Sequence[str] | None = None,
    ) -> None:
        """Store the last block, the other orientation, the names and last the manifests.

        - columns: number of columns, if not known before.
        - names: names of the columns, one for each.
        - target_names: names of the targets, one for each.
        """
        rows = self._rows
        if self._finished or rows is None or not rows.rows:
            text = "it is finished" if self._finished else "there are no rows"
            raise DataError(f"BlockWriter: {text}; append rows first, and call finish once.")
        width = count_columns(self._settings.columns, columns, names, rows.columns)
        targets = rows.begun.kind.targets
        if target_names is not None and len(target_names) != targets:
            raise DataError(
                f"BlockWriter: {len(target_names)} target_names, but there are {targets} targets."
            )
        part, ids = rows.finish(width)
        listed: Listed = {} if ids is None else {"rows": ids}
        if names is not None:
            listed["columns"] = write_names(self._own[0], "columns", names)
        if target_names is not None:
            listed["targets"] = write_names(self._own[0], "targets", target_names)
        settings = self._settings
        other = None
        if self._both:
            other = exchange(self._own, part, settings.codec, self._column_block_rows, self._budget)
        manifest = Manifest(
            id=identify(part, other, listed),
            codec=settings.codec,
            stripes=settings.stripes,
            origin=settings.origin,
            rows=part,
            columns=other,
            names=listed,
        )
        for folder in reversed(self._own):
            write_manifest(folder, manifest)
        self._finished = True
        self.close()
        forget_journal(self._own[0])
        if self._own != self._folders:
            move_up(self._folders, self._own)

    def close(self) -> None:
        """Close the files; stored rows stay, for a writer with resume=True."""
        if self._rows is not None:
            self._rows.close()

    def discard(self) -> None:
        """Delete everything written, unless the dataset is finished."""
        self.close()
        if not self._finished:
            clear(self._own)
            remove_empty([*self._own, *self._folders])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete an unfinished dataset, unless it may be resumed."""
        if self._resume:
            self.close()
        else:
            self.discard()

    def _go_on(self, begun: Begun, stored: Stored) -> None:
        """Continue after the rows that an earlier writer stored."""
        if begun.settings != self._settings:
            raise DataError(
                f"BlockWriter: the unfinished dataset in {self._folders[0]} was begun with "
                f"{begun.settings!r}, not with {self._settings!r}; resume with the same settings, "
                "or begin again without resuming."
            )
        self._rows = Unfinished(self._own, begun, stored, resumed=True)
