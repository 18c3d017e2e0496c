"""Names of rows, written as soon as their rows are stored."""

from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import DataError
from .block_table import NamesFile
from .names import STEP, Names, NamesWriter, names_file, names_schema

IdKind = Literal["none", "text", "numbers"]


def accept_ids(ids: Names | None, first: int, count: int) -> Any:
    """`ids` [count] as an Arrow array of text or of integers, None where there are none.

    first: number of the first of their rows. Raises `DataError`.
    """
    import pyarrow as pa

    if ids is None:
        return None
    given = np.asarray(ids) if isinstance(ids, np.ndarray) else list(ids)  # type: ignore[arg-type]
    if len(given) != count:
        raise DataError(
            f"BlockWriter: {count} rows from row {first} on, but {len(given)} ids; give each one."
        )
    numbers = count > 0 and isinstance(given[0], int | np.integer)
    try:
        return pa.array(given, names_schema(numbers).field("name").type)
    except (pa.ArrowException, UnicodeError, TypeError, OverflowError) as error:
        raise DataError(
            f"BlockWriter: ids of the rows from row {first} on are not all "
            f"{'integers of 64 bits' if numbers else 'text'}: {error}"
        ) from error


def kind_of(ids: Any) -> IdKind:
    """Of what `accept_ids` returned."""
    import pyarrow as pa

    return "none" if ids is None else "numbers" if pa.types.is_integer(ids.type) else "text"


class RowIds:
    """Ids of `kind` in their file in `folder`, behind those that are `written`."""

    def __init__(self, folder: Path, kind: IdKind, written: NamesFile) -> None:
        """Open the file, if there are ids."""
        self._file = None
        if kind != "none":
            self._file = NamesWriter(folder / names_file("rows"), written)
        self._waiting: list[Any] = []
        self._committed = len(written.batches)

    def add(self, ids: Any, stored: int) -> None:
        """Take the ids of the next rows, of `kind`; those of the first `stored` rows are written
        when there are many.
        """
        if self._file is not None:
            self._waiting.append(ids)
            self._write(stored, least=STEP)

    def commit(self, rows: int) -> NamesFile:
        """Write those of the first `rows` rows and wait until they are on disk; the batches that
        came since the last time.
        """
        if self._file is None:
            return NamesFile()
        self._write(rows, least=1)
        self._file.sync()
        fresh = self._file.written.since(self._committed)
        self._committed = len(self._file.written.batches)
        return fresh

    def finish(self) -> NamesFile | None:
        """Complete the file, which is on disk then."""
        return None if self._file is None else self._file.finish()

    def close(self) -> None:
        """Close the file, finished or not."""
        if self._file is not None:
            self._file.close()

    def _write(self, rows: int, least: int) -> None:
        """Those of the first `rows` rows, if these are `least` or more."""
        import pyarrow as pa

        assert self._file is not None
        ready = rows - self._file.written.count
        if ready >= least:
            ids = pa.concat_arrays(self._waiting)
            self._file.append(ids[:ready])
            self._waiting = [ids[ready:]]
