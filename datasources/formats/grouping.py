"""Group the entries of a matrix, given in any order, into rows in bounded memory.

Entries are distributed to files by ranges of rows. A file that is too long to be sorted in memory
is distributed again. A single row is never divided: it must fit.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..parsing.entries import Entries
from ..parsing.layout import FIRST, Layout, Place, Rows, Sparse
from ..parsing.scratch import Scratch
from ..ratings.matrix import Duplicates, merged

FAN = 64  # files that a range is divided into
ENTRY = np.dtype([("row", "<i8"), ("column", "<i4"), ("value", "<f4")])
SORTING = 6 * ENTRY.itemsize  # bytes that sorting takes per entry, approximately
EMPTY = 1000  # rows allowed per entry, besides a million; more are taken for a mistake
CHUNK_ROWS = 1 << 16


class Part(NamedTuple):
    """A file with all entries of the rows `first` <= row < `stop`."""

    file: str
    first: int
    stop: int
    entries: int


@dataclass(frozen=True)
class Grouped:
    """Reads the rows of a matrix whose entries were grouped by `group`.

    name: of the matrix, in messages.
    duplicates: policy for several entries at one place: an error, or their last, sum or mean.
    ids: names of the rows.
    """

    name: str
    layout: Layout
    parts: Sequence[Part]
    scratch: Scratch
    duplicates: Duplicates = "sum"
    ids: Sequence[str] | None = None

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        for part in self.parts:
            if part.stop <= start.offset:
                continue
            entries = np.fromfile(self.scratch.folder / part.file, ENTRY)
            entries = self._unique(entries[np.lexsort((entries["column"], entries["row"]))])
            for first in range(max(part.first, start.offset), part.stop, CHUNK_ROWS):
                stop = min(part.stop, first + CHUNK_ROWS)
                yield self._rows(entries, first, stop)

    def _rows(self, entries: npt.NDArray[Any], first: int, stop: int) -> Rows:
        indptr = np.searchsorted(entries["row"], np.arange(first, stop + 1)).astype(np.int64)
        inside = entries[indptr[0] : indptr[-1]]
        X = Sparse(
            indptr - indptr[0],
            np.ascontiguousarray(inside["column"]),
            np.ascontiguousarray(inside["value"]),
        )
        ids = None if self.ids is None else self.ids[first:stop]
        return Rows(X, Place(0, stop, 0), ids=ids)

    def _unique(self, entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Merge sorted entries to one at each place, by `duplicates`."""
        begins = np.ones(entries.size, np.bool_)
        np.not_equal(entries["row"][1:], entries["row"][:-1], out=begins[1:])
        begins[1:] |= entries["column"][1:] != entries["column"][:-1]
        if begins.all():
            return entries
        starts = np.flatnonzero(begins)
        if self.duplicates == "error":
            twice = entries[np.flatnonzero(~begins)[0]]
            row, column = int(twice["row"]), int(twice["column"])
            row_name = row if self.ids is None else repr(self.ids[row])
            names = self.layout.names
            column_name = column if names is None else repr(names[column])
            raise DataError(
                f"{self.name}: row {row_name}, column {column_name} comes twice; choose how to "
                "merge entries: --duplicates sum or last."
            )
        unique: npt.NDArray[Any] = entries[starts]
        unique["value"] = merged(entries["value"], starts, self.duplicates)
        return unique


def group(name: str, found: Iterable[Entries], rows: int, scratch: Scratch) -> list[Part]:
    """Group the entries of a matrix of `rows` rows.

    Files in `scratch` are kept and reused. Raises `DataError` if nearly all rows are empty, because
    their number is then likely wrong.
    """

    def deal() -> list[Part]:
        dealer = Dealer(scratch.folder, scratch.memory // SORTING)
        parts = list(dealer.deal(map(pack, found), 0, rows, "part"))
        entries = sum(part.entries for part in parts)
        if rows > EMPTY * entries + 10**6:
            raise DataError(
                f"{name}: {rows:,} rows and only {entries:,} entries; is the number of rows right?"
            )
        return parts

    return [Part(*part) for part in scratch.remember("parts.json", deal)]


def pack(entries: Entries) -> npt.NDArray[Any]:
    """Return entries as one array of `ENTRY`."""
    packed = np.empty(entries.rows.size, ENTRY)
    packed["row"], packed["column"], packed["value"] = entries
    return packed


@dataclass(frozen=True)
class Dealer:
    """Distributes entries (arrays of `ENTRY`) to files of at most `most` entries."""

    folder: Path
    most: int

    def deal(
        self, source: Iterable[npt.NDArray[Any]], first: int, stop: int, name: str
    ) -> Iterator[Part]:
        """Yield files with the entries of the rows `first` <= row < `stop`, in row order."""
        source = iter(source)
        waiting: list[npt.NDArray[Any]] = []
        for entries in source:
            waiting.append(entries)
            if sum(map(len, waiting)) > self.most and stop - first > 1:
                yield from self._divide(chain(waiting, source), first, stop, name)
                return
        with (self.folder / name).open("wb") as file:
            for entries in waiting:
                file.write(entries.data)
        yield Part(name, first, stop, sum(map(len, waiting)))

    def _divide(
        self, source: Iterable[npt.NDArray[Any]], first: int, stop: int, name: str
    ) -> Iterator[Part]:
        width = -(-(stop - first) // FAN)
        with ExitStack() as stack:
            files = [
                stack.enter_context((self.folder / f"{name}-{i}.all").open("wb"))
                for i in range(-(-(stop - first) // width))
            ]
            for entries in source:
                place = (entries["row"] - first) // width
                order = np.argsort(place, kind="stable")
                ends = np.searchsorted(place[order], np.arange(len(files) + 1))
                for i, file in enumerate(files):
                    file.write(entries[order[ends[i] : ends[i + 1]]].data)
        for i, file in enumerate(files):
            path = Path(file.name)
            begin = first + i * width
            yield from self.deal(self._read(path), begin, min(stop, begin + width), f"{name}-{i}")
            path.unlink()

    def _read(self, path: Path) -> Iterator[npt.NDArray[Any]]:
        with path.open("rb") as file:
            while (entries := np.fromfile(file, ENTRY, max(1, self.most // 4))).size:
                yield entries
