"""The ways in which the benchmark `read` reads a matrix, and the files for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from blocklearn.datasources import (
    BlockSource,
    DataSource,
    MatrixSource,
    ParquetSource,
    Reader,
    Sparse,
    write_blocks,
)

READERS = (1, 2)
CODECS: tuple[Literal["raw", "lz4"], ...] = ("raw", "lz4")


class Files:
    """X as block datasets and Parquet below `folders`; row groups are as long as blocks."""

    def __init__(self, X: Any, block_rows: int, folders: Sequence[Path]) -> None:
        source = MatrixSource(X, block_rows=block_rows, keep_bytes=0)
        self.folders = folders
        for codec in CODECS:
            for readers in READERS:
                write_blocks(source, self.dataset(codec, readers), codec=codec, overwrite=True)
        self.parquet = folders[0] / "rows.parquet"
        self.columns, self.block_rows = X.shape[1], block_rows
        table = pa.table(
            {
                name: pa.ListArray.from_arrays(X.indptr.astype(np.int32), array)
                for name, array in (("indices", X.indices.astype(np.int32)), ("values", X.data))
            }
        )
        parquet.write_table(table, self.parquet, row_group_size=block_rows, compression="lz4")

    def dataset(self, codec: str, readers: int) -> list[Path]:
        """Return the folders of a dataset, one per reader."""
        return [
            self.folders[i % len(self.folders)] / f"{codec}-{i}-of-{readers}"
            for i in range(readers)
        ]

    def stripes(self, codec: str, readers: int) -> list[Path]:
        """Return the files with its blocks."""
        paths = self.dataset(codec, readers)
        return [path / f"rows-{i}-of-{readers}.arrow" for i, path in enumerate(paths)]


class OnePass:
    """Called, it reads all blocks of the next pass ahead without looking at them."""

    def __init__(self, source: DataSource, *, indexed: bool) -> None:
        self.reader, self.passes = Reader(source, indexed=indexed), 0

    def __call__(self) -> None:
        for _ in self.reader.blocks(self.passes):
            pass
        self.passes += 1


def together(works: Sequence[Callable[[], None]]) -> None:
    """Run all at the same time, the last one in this thread."""
    threads = [threading.Thread(target=work) for work in works[:-1]]
    for thread in threads:
        thread.start()
    works[-1]()
    for thread in threads:
        thread.join()


def readinto(paths: Sequence[Path], block_bytes: int) -> Callable[[], None]:
    """Read the bytes of files into three buffers of a block each, a thread for each file."""
    buffers = [np.zeros((3, block_bytes), np.uint8) for _ in paths]

    def read(path: Path, ring: Any) -> None:
        with path.open("rb", buffering=0) as file:
            turn = 0
            while file.readinto(ring[turn % 3].data):
                turn += 1

    return lambda: together(
        [lambda path=path, ring=ring: read(path, ring)  # type: ignore[misc]
         for path, ring in zip(paths, buffers, strict=True)]
    )  # fmt: skip


def arrow(paths: Sequence[Path], most: int) -> Callable[[], None]:
    """Read with pyarrow alone: memory-mapped files, batches copied to `most` numbers."""
    targets = [(np.zeros(most, np.int32), np.zeros(most, np.float32)) for _ in paths]

    def read(path: Path, indices: Any, values: Any) -> None:
        with pa.memory_map(str(path)) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                for column, target in ((1, indices), (2, values)):
                    numbers = batch.column(column).values.to_numpy()
                    target[: numbers.size] = numbers

    return lambda: together(
        [lambda path=path, pair=pair: read(path, *pair)  # type: ignore[misc]
         for path, pair in zip(paths, targets, strict=True)]
    )  # fmt: skip


def ways(files: Files, most: int, block_bytes: int) -> dict[tuple[str, int, bool], Any]:
    """Return the calls by system, number of readers, and whether they make the index."""
    calls: dict[tuple[str, int, bool], Any] = {}
    for readers in READERS:
        calls["readinto", readers, False] = readinto(files.stripes("raw", readers), block_bytes)
        for codec in CODECS:
            paths = files.stripes(codec, readers)
            calls[f"pyarrow {codec}", readers, False] = arrow(paths, most)
            for indexed in (False, True):
                source = BlockSource(files.dataset(codec, readers))
                calls[f"blocks {codec}", readers, indexed] = OnePass(source, indexed=indexed)
        source = BlockSource(files.dataset("raw", readers), verify="always")
        calls["blocks raw, digests always", readers, False] = OnePass(source, indexed=False)
    for indexed in (False, True):
        features = Sparse("indices", "values", files.columns)
        table = ParquetSource(str(files.parquet), features, block_rows=files.block_rows)
        calls["parquet", 1, indexed] = OnePass(table, indexed=indexed)
    return calls
