"""Exchanges rows and columns of a dataset with a bounded amount of memory.

First the non-zeros are dealt, in the order of the rows, to files for ranges of columns that fit in
memory. Then each file is sorted by column, stably, and written as rows.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from ..arrays.block_shape import MAX_COLUMNS
from ..arrays.compiled import kernel
from ..block import HostBlock
from ..errors import DataError
from .arrow_file import Codec
from .block_table import Blocks
from .layout import Arrays, Kind
from .manifest import Part, Sums, stripe_file
from .part_reader import PartReader
from .part_writer import PartWriter
from .rows import Rows
from .write_bytes import write_all

ENTRY_BYTES = 24  # column, row and value of a non-zero, twice
Entries = npt.NDArray[np.int32]  # [n, 3]: column, row, and the bits of the value


def check_exchangeable(kind: Kind, rows: int) -> None:
    """Raise `DataError` if rows and columns of such data cannot be exchanged."""
    if kind.dense:
        raise DataError(
            "BlockWriter: both orientations are for sparse data, but these are dense. Write one "
            "orientation: models of dense rows need no other."
        )
    if rows > MAX_COLUMNS:
        raise DataError(
            f"BlockWriter: {rows:,} rows: must be at most {MAX_COLUMNS:,} for both orientations. "
            "Write one orientation."
        )


def exchange(
    folders: Sequence[Path], part: Part, codec: Codec, block_rows: int, budget_bytes: int
) -> Part:
    """Write the files of the other orientation of `part`, whose rows are complete."""
    check_exchangeable(part.kind, part.rows)
    stripes = len(folders)
    paths = [folder / stripe_file("rows", i, stripes) for i, folder in enumerate(folders)]
    reader = PartReader(paths, part, codec, True, part.block_rows)
    writer = PartWriter(folders, "columns", Kind(), block_rows, codec, Blocks(), Sums())
    try:
        counts = count_columns(reader)
        capacity = max(1, budget_bytes // ENTRY_BYTES)
        ends = bucket_ends(counts, capacity)
        buckets = Buckets(folders, ends, max(capacity, reader.shape.nnz))
        for block in blocks(reader):
            buckets.add(block)
        buckets.end()
        start = 0
        for bucket, end in enumerate(ends.tolist()):
            rows = sort_bucket(buckets.take(bucket), counts[start:end], start, part.rows)
            writer.append(rows)
            start = end
        return writer.finish(part.rows)
    finally:
        reader.close()
        writer.close()


def blocks(reader: PartReader) -> Iterator[HostBlock]:
    """Yield all blocks in order, one after another in the same memory."""
    block = HostBlock(reader.shape, indexed=False)
    for number in range(len(reader.rows)):
        reader.read(number, block, pass_=0, index=number)
        yield block


def count_columns(reader: PartReader) -> npt.NDArray[np.int64]:
    """Return the number of non-zeros of each column."""
    counts = np.zeros(reader.shape.columns, np.int64)
    for block in blocks(reader):
        _count(block.indices[: block.nnz], counts)
    return counts


def bucket_ends(counts: npt.NDArray[np.int64], capacity: int) -> npt.NDArray[np.int64]:
    """Return ends of column ranges of at most `capacity` non-zeros, or one column.

    >>> bucket_ends(np.array([2, 1, 9, 1, 1, 1]), 3).tolist()
    [2, 3, 6]
    """
    total = np.cumsum(counts)
    ends, start, before = [], 0, 0
    while start < len(counts):
        start = max(start + 1, int(np.searchsorted(total, before + capacity, side="right")))
        before = int(total[start - 1])
        ends.append(start)
    return np.array(ends)


class Buckets:
    """Files of non-zeros, one for each range of columns.

    capacity: non-zeros that are dealt to the files at a time.
    """

    def __init__(self, folders: Sequence[Path], ends: npt.NDArray[np.int64], capacity: int) -> None:
        """Make empty files."""
        self._paths = [folders[i % len(folders)] / f"bucket-{i}.spill" for i in range(len(ends))]
        self._digests = [xxhash.xxh3_64() for _ in ends]
        widths = np.diff(ends, prepend=0)
        self._of_column = np.repeat(np.arange(len(ends), dtype=np.int32), widths)
        self._entries, self._dealt = np.empty((2, capacity, 3), np.int32)
        self._filled = 0
        for path in self._paths:
            path.write_bytes(b"")

    def add(self, block: HostBlock) -> None:
        """Add the non-zeros of a block."""
        if self._filled + block.nnz > len(self._entries):
            self.flush()
        self._filled = _enter(
            block.row_ids, block.rows, block.indptr, block.indices, block.values.view(np.int32),
            self._entries, self._filled,
        )  # fmt: skip

    def flush(self) -> None:
        """Deal the waiting non-zeros to the files."""
        ends = np.zeros(len(self._paths), np.int64)
        _deal(self._entries[: self._filled], self._of_column, ends, self._dealt)
        start = 0
        for path, digest, end in zip(self._paths, self._digests, ends.tolist(), strict=True):
            if end > start:
                data = self._dealt[start:end].data
                digest.update(data)
                with path.open("ab", buffering=0) as file:
                    write_all(file, data)
            start = end
        self._filled = 0

    def end(self) -> None:
        """Deal the last non-zeros and free the memory; `add` no longer works."""
        self.flush()
        self._entries = self._dealt = np.empty((0, 3), np.int32)

    def take(self, bucket: int) -> Entries:
        """Return all non-zeros of a range in the order of `add`, and delete its file."""
        path = self._paths[bucket]
        entries = np.fromfile(path, np.int32)
        if xxhash.xxh3_64_digest(entries.data) != self._digests[bucket].digest():
            raise DataError(
                f"{path}: does not contain what was just written to it; check the disk."
            )
        path.unlink()
        return entries.reshape(-1, 3)


def sort_bucket(entries: Entries, counts: npt.NDArray[np.int64], first: int, columns: int) -> Rows:
    """Return the non-zeros of columns as rows.

    - counts: non-zeros of each column.
    - first: number of the first column.
    - columns: columns of the result.
    """
    indptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    indices = np.empty(len(entries), np.int32)
    values = np.empty(len(entries), np.float32)
    _sort(entries, first, indptr[:-1].copy(), indices, values.view(np.int32))
    arrays: Arrays = {"indptr": indptr, "indices": indices, "values": values}
    return Rows(len(counts), Kind(), columns, arrays)


@kernel
def _count(indices: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
    for i in range(indices.size):
        counts[indices[i]] += 1


@kernel
def _enter(
    row_ids: npt.NDArray[np.int64],
    rows: int,
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    bits: npt.NDArray[np.int32],
    entries: Entries,
    filled: int,
) -> int:
    """Write the non-zeros of `rows` rows to `entries[filled:]`; return their end."""
    for row in range(rows):
        for pos in range(indptr[row], indptr[row + 1]):
            entries[filled, 0] = indices[pos]
            entries[filled, 1] = row_ids[row]
            entries[filled, 2] = bits[pos]
            filled += 1
    return filled


@kernel
def _deal(
    entries: Entries,
    of_column: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int64],
    dealt: Entries,
) -> None:
    """Sort by bucket, stably; fill `ends` [buckets], zeros before, with their ends."""
    for i in range(len(entries)):
        ends[of_column[entries[i, 0]]] += 1
    total = np.int64(0)
    for bucket in range(ends.size):
        count = ends[bucket]
        ends[bucket] = total
        total += count
    for i in range(len(entries)):
        bucket = of_column[entries[i, 0]]
        place = ends[bucket]
        dealt[place, 0], dealt[place, 1] = entries[i, 0], entries[i, 1]
        dealt[place, 2] = entries[i, 2]
        ends[bucket] = place + 1


@kernel
def _sort(
    entries: Entries,
    first: int,
    starts: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    bits: npt.NDArray[np.int32],
) -> None:
    """Write each non-zero to the next free place of its column."""
    for i in range(len(entries)):
        column = entries[i, 0] - first
        place = starts[column]
        indices[place], bits[place] = entries[i, 1], entries[i, 2]
        starts[column] = place + 1
