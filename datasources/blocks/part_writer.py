"""Writes the blocks of one orientation, round robin over the folders."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xxhash

from ..errors import DataError
from .arrow_file import PAD, ArrowFile, Codec, padded
from .block_table import Blocks
from .layout import MOST_NNZ, Arrays, Kind
from .manifest import Part, Side, Sums, stripe_file
from .rows import Rows


class Pending:
    """Collects one block: at most `block_rows` rows and `most_nnz` non-zeros.

    full: whether the block is complete.
    """

    def __init__(self, kind: Kind, block_rows: int, most_nnz: int = MOST_NNZ) -> None:
        """Start with an empty block."""
        self.kind, self._most, self._most_nnz = kind, block_rows, most_nnz
        self._arrays: Arrays = {
            name: np.empty(size, dtype) for name, (size, dtype) in kind.parts(block_rows, 0).items()
        }
        self.clear()

    def clear(self) -> None:
        """Drop all rows."""
        self.rows, self.nnz, self.full = 0, 0, False
        self.sums = Sums(targets=[0.0] * self.kind.targets)
        if not self.kind.dense:
            self._arrays["starts"][0] = 0

    def take(self, rows: Rows, start: int) -> int:
        """Copy rows from `start` on until the block is full; return the row after them."""
        stop = self._stop(rows, start)
        self.full = stop < rows.count or self.rows + stop - start == self._most
        inside = slice(self.rows, self.rows + stop - start)
        for name in ("dense", "targets", "weights"):
            if name in self._arrays:
                self._arrays[name][inside] = rows.arrays[name][start:stop]
        if not self.kind.dense:
            indptr = rows.arrays["indptr"]
            first, last = int(indptr[start]), int(indptr[stop])
            self._reserve(self.nnz + last - first)
            for name in ("indices", "values"):
                self._arrays[name][self.nnz : self.nnz + last - first] = rows.arrays[name][
                    first:last
                ]
            ends = indptr[start + 1 : stop + 1] + (self.nnz - first)
            self._arrays["starts"][self.rows + 1 : self.rows + 1 + stop - start] = ends
            self.nnz += last - first
        self.sums = self.sums.plus(rows.sums(start, stop))
        self.rows += stop - start
        return stop

    def arrays(self, first_row: int) -> Arrays:
        """Return the parts of the block, whose first row has the number `first_row`."""
        self._arrays["row"][: self.rows] = np.arange(first_row, first_row + self.rows)
        found = {}
        for name, (size, _) in self.kind.parts(self.rows, self.nnz).items():
            source = "starts" if name == "value_starts" else name
            found[name] = self._arrays[source][: size[0]]
        return found

    def _stop(self, rows: Rows, start: int) -> int:
        """Return the end of the rows from `start` on that fit into the block.

        Raises `DataError` if the first row does not fit into an empty block.
        """
        stop = min(rows.count, start + self._most - self.rows)
        if self.kind.dense:
            return stop
        indptr = rows.arrays["indptr"][start : stop + 1]
        room = self._most_nnz - self.nnz
        fits = start + int(np.searchsorted(indptr, indptr[0] + room, side="right")) - 1
        if fits == start and not self.rows:
            raise DataError(
                f"BlockWriter: a row has {indptr[1] - indptr[0]:,} non-zeros, but a block holds at "
                f"most {self._most_nnz:,}; leave out columns, or cut the row in two."
            )
        return min(stop, fits)

    def _reserve(self, nnz: int) -> None:
        for name in ("indices", "values"):
            old = self._arrays[name]
            if nnz > old.size:
                self._arrays[name] = np.empty(max(nnz, old.size * 3 // 2), old.dtype)
                self._arrays[name][: self.nnz] = old[: self.nnz]


class PartWriter:
    """Writes rows of `kind` as blocks of `block_rows` rows to the files of `side`.

    blocks, sums: the blocks that an interrupted writer stored and their sums; writing continues
    after them. Without blocks, existing files are replaced.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        side: Side,
        kind: Kind,
        block_rows: int,
        codec: Codec,
        blocks: Blocks,
        sums: Sums,
    ) -> None:
        """Open the files."""
        self.kind, self.block_rows = kind, block_rows
        self.blocks, self.sums = blocks, sums
        self.stored = sum(self.blocks.rows)  # rows
        self._committed, self._uncommitted = len(self.blocks), 0
        self._pending = Pending(kind, block_rows)
        self._places = kind.places()
        self._files: list[ArrowFile] = []
        stripes = len(folders)
        try:
            for stripe, folder in enumerate(folders):
                there = blocks.of_stripe(stripe, stripes)
                end = there[-1].offset + there[-1].bytes if there else None
                path = folder / stripe_file(side, stripe, stripes)
                self._files.append(ArrowFile(path, kind.schema(), codec, end))
        except BaseException:
            self.close()
            raise

    @property
    def rows(self) -> int:
        """The number of rows that are stored or wait for their block to be full."""
        return self.stored + self._pending.rows

    def append(self, rows: Rows) -> None:
        """Add verified rows of its kind; store every block that they complete."""
        start = 0
        while start < rows.count:
            start = self._pending.take(rows, start)
            if self._pending.full:
                self._store()

    def flush(self) -> None:
        """Store the rows that wait, as a shorter block."""
        if self._pending.rows:
            self._store()

    @property
    def uncommitted(self) -> int:
        """The bytes of blocks stored since the last `commit`."""
        return self._uncommitted

    def commit(self) -> Blocks:
        """Wait until all blocks are on disk; return the blocks since the last `commit`."""
        for file in self._files:
            file.sync()
        fresh = self.blocks.since(self._committed)
        self._committed, self._uncommitted = len(self.blocks), 0
        return fresh

    def finish(self, columns: int) -> Part:
        """Store waiting rows, complete the files and wait until they are on disk."""
        self.flush()
        stripes = len(self._files)
        files = [f.finish(self.blocks.of_stripe(i, stripes)) for i, f in enumerate(self._files)]
        return Part(
            rows=self.stored,
            columns=columns,
            block_rows=self.block_rows,
            dense=bool(self.kind.dense),
            targets=self.kind.targets,
            weighted=self.kind.weighted,
            fields=self.kind.fields(),
            sums=self.sums,
            files=files,
            blocks=self.blocks,
        )

    def close(self) -> None:
        """Close the files, finished or not."""
        for file in self._files:
            file.close()

    def _store(self) -> None:
        pending = self._pending
        arrays = pending.arrays(self.stored)
        file = self._files[len(self.blocks) % len(self._files)]
        batch, buffers = file.append(self.kind.batch(arrays))
        stored = [buffers[place] for place in self._places]
        lengths = [length for _, length in stored]
        check_places(batch.head, stored)
        self.blocks.add(pending.rows, pending.nnz, batch, lengths, content_digest(arrays))
        self.sums = self.sums.plus(pending.sums)
        self.stored += pending.rows
        self._uncommitted += batch.bytes
        pending.clear()


def check_places(head: int, stored: Sequence[tuple[int, int]]) -> None:
    """Raise `RuntimeError` unless parts lie one after another, as readers expect."""
    end = head
    for offset, length in stored:
        if offset != end:
            raise RuntimeError(
                f"pyarrow put a buffer to byte {offset}, not {end}: not padded to {PAD} bytes"
            )
        end += padded(length)


def content_digest(arrays: Arrays) -> str:
    """Return the XXH3 of the numbers of a block."""
    digest = xxhash.xxh3_64()
    for name, array in arrays.items():
        if name not in ("row", "value_starts"):
            digest.update(name.encode())
            digest.update(array.data)
    return digest.hexdigest()
