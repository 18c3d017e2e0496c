"""Files of names of columns, rows or targets, written and read in batches.

Batches are read on demand: the names of a hundred million rows need not be in memory.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xxhash

from ..arrays.hashed_names import HashedWords
from ..arrays.numbered_names import NumberedNames
from ..errors import DataError
from ..remote import Place, StoredPath
from .arrow_file import ArrowFile
from .block_table import NamesFile
from .manifest import HashedColumns, What

STEP = 1 << 16  # names of a batch
Names = Sequence[str] | npt.ArrayLike


def names_file(what: What) -> str:
    """Return the name of the file with the names of `what`."""
    return f"{what}-names.arrow"


def names_schema(integers: bool) -> Any:
    """Return the `pyarrow.Schema` of a file of names."""
    import pyarrow as pa

    kind = pa.int64() if integers else pa.string()
    return pa.schema([pa.field("name", kind, nullable=False)])


class NamesWriter:
    """Writes names to `path`, after the names already `written`."""

    def __init__(self, path: Path, written: NamesFile) -> None:
        """Open the file."""
        self.written, batches = written, written.batches
        end = batches[-1].offset + batches[-1].bytes if batches else None
        self._schema = names_schema(written.integers)
        self._file = ArrowFile(path, self._schema, "lz4", end)

    def append(self, names: Any) -> None:
        """Write an Arrow array of names in batches of at most `STEP` names."""
        import pyarrow as pa

        for start in range(0, len(names), STEP):
            part = names[start : start + STEP]
            batch, _ = self._file.append(pa.RecordBatch.from_arrays([part], schema=self._schema))
            self.written.lengths.append(len(part))
            self.written.batches.append(batch)

    def sync(self) -> None:
        """Wait until all written names are on disk."""
        self._file.sync()

    def finish(self) -> NamesFile:
        """Complete the file and wait until it is on disk."""
        self._file.finish(self.written.batches)
        return self.written

    def close(self) -> None:
        """Close the file, finished or not."""
        self._file.close()


def write_names(folder: Path, what: What, names: Sequence[str]) -> NamesFile | HashedColumns:
    """Write `names` to their file in `folder`; `HashedWords` keep only their bits."""
    import pyarrow as pa

    if isinstance(names, HashedWords):
        return HashedColumns(hash_bits=names.bits)
    writer = NamesWriter(folder / names_file(what), NamesFile())
    try:
        for start in range(0, len(names), STEP):
            writer.append(pa.array(names[start : start + STEP], pa.string()))
        return writer.finish()
    except (pa.ArrowException, UnicodeError) as error:
        raise DataError(f"BlockWriter: names of {what} are not all text: {error}") from error
    finally:
        writer.close()


class StoredNames(NumberedNames):
    """The names in the file `path`, read on demand; integers become text.

    Raises `DataError` if the file is damaged.
    """

    def __init__(self, path: Place, listed: NamesFile) -> None:
        """Read nothing yet: batches are read on demand."""
        self._path, self._listed = path, listed
        self._count = listed.count
        self._starts = [0]
        for length in listed.lengths:
            self._starts.append(self._starts[-1] + length)
        self._lock = threading.Lock()
        self._last: tuple[int, list[str]] = (-1, [])  # the batch that was read last

    def __len__(self) -> int:
        """Return the number of names."""
        return self._count

    def __iter__(self) -> Iterator[str]:
        """Yield all names."""
        for batch in range(len(self._listed.batches)):
            yield from self._read(batch)

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of the same names in the same order."""
        if not isinstance(other, Sequence) or len(other) != self._count:
            return False
        return all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def _name(self, number: int) -> str:
        from bisect import bisect_right

        batch = bisect_right(self._starts, number) - 1
        with self._lock:
            if self._last[0] != batch:
                self._last = (batch, self._read(batch))
            return self._last[1][number - self._starts[batch]]

    def _read(self, batch: int) -> list[str]:
        """Read the names of a batch; pyarrow parses it only if its digest is right."""
        import pyarrow as pa

        listed = self._listed.batches[batch]
        data = read_range(self._path, listed.offset, listed.bytes)
        if len(data) != listed.bytes or xxhash.xxh3_64_hexdigest(data) != listed.xxh3:
            raise DataError(
                f"{self._path}: batch {batch} is damaged or cut off ({len(data)} of "
                f"{listed.bytes} bytes); restore the file or convert the data again."
            )
        schema = names_schema(self._listed.integers)
        try:
            names = pa.ipc.read_record_batch(pa.py_buffer(data), schema).column(0).to_pylist()
        except pa.ArrowException as error:
            raise DataError(f"{self._path}: batch {batch} cannot be read: {error}") from error
        return [str(name) for name in names]


def read_range(path: Place, offset: int, length: int) -> bytes:
    """Return `length` bytes of the file from `offset` on, fewer if it ends before."""
    if isinstance(path, StoredPath):
        return path.read_at(length, offset)
    with path.open("rb", buffering=0) as file:
        return os.pread(file.fileno(), length, offset)


IdKind = Literal["none", "text", "numbers"]


def accept_ids(ids: Names | None, first: int, count: int) -> Any:
    """Return `ids` [count] as an Arrow array of text or of integers; None stays None.

    first: number of the first of their rows. Raises `DataError`.
    """
    import pyarrow as pa

    if ids is None:
        return None
    given = np.asarray(ids) if isinstance(ids, np.ndarray) else list(ids)  # type: ignore[arg-type]
    if len(given) != count:
        raise DataError(
            f"BlockWriter: {len(given)} ids for the {count} rows from row {first} on: must be one "
            "for each row."
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
    """Return the kind of ids that `accept_ids` returned."""
    import pyarrow as pa

    return "none" if ids is None else "numbers" if pa.types.is_integer(ids.type) else "text"


class RowIds:
    """Writes ids of `kind` to a file in `folder`, after the ids already `written`."""

    def __init__(self, folder: Path, kind: IdKind, written: NamesFile) -> None:
        """Open the file, unless `kind` is "none"."""
        self._file = None
        if kind != "none":
            self._file = NamesWriter(folder / names_file("rows"), written)
        self._waiting: list[Any] = []
        self._committed = len(written.batches)

    def add(self, ids: Any, stored: int) -> None:
        """Take the ids of the next rows.

        Ids of the first `stored` rows are written once there are `STEP` of them.
        """
        if self._file is not None:
            self._waiting.append(ids)
            self._write(stored, least=STEP)

    def commit(self, rows: int) -> NamesFile:
        """Write the ids of the first `rows` rows and wait until they are on disk.

        Returns the batches since the last `commit`.
        """
        if self._file is None:
            return NamesFile()
        self._write(rows, least=1)
        self._file.sync()
        fresh = self._file.written.since(self._committed)
        self._committed = len(self._file.written.batches)
        return fresh

    def finish(self) -> NamesFile | None:
        """Complete the file and wait until it is on disk."""
        return None if self._file is None else self._file.finish()

    def close(self) -> None:
        """Close the file, finished or not."""
        if self._file is not None:
            self._file.close()

    def _write(self, rows: int, least: int) -> None:
        """Write the unwritten ids of the first `rows` rows, if they are `least` or more."""
        import pyarrow as pa

        assert self._file is not None
        ready = rows - self._file.written.count
        if ready >= least:
            ids = pa.concat_arrays(self._waiting)
            self._file.append(ids[:ready])
            self._waiting = [ids[ready:]]
