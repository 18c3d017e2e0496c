"""The source of blocks of a block dataset on disk."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import xxhash

from blocklearn.answers import answered
from blocklearn.closing import Closing

from ..arrays.block_shape import BlockShape
from ..block import HostBlock
from ..errors import DataError
from ..memory.order import RowOrder
from ..remote import PATIENCE, Patience, Place, StoredPath
from ..source import Described, RowLabels, check_request
from .folders import open_dataset
from .manifest import Side
from .part_reader import PartReader, Verify

READ_AT_ONCE = 4  # blocks of a store, because each read waits for the network


class BlockSource(Closing, Described):
    """The block dataset in the folders `paths`, one per stripe, as it was written.

    - paths: local folders, or URLs of stores ("s3://bucket/clicks").
    - shuffle: False: blocks in the order of the rows. "blocks": a new order of the blocks in each
      pass, drawn from `(seed, pass)`. (Rows were dealt to blocks when they were written.)
    - verify: True: compare the digest of a block when it is read for the first time, and when its
      file was written to since. "always": at each read, which also finds later faults of the disk.
      False: never.
    - block_rows: rows of a block, if more than written, to agree with other data; the further rows
      stay empty.
    - side: "rows", or "columns" for the other orientation, if it is stored.
    - patience: timeouts and retries with stores.

    If the dataset has both orientations, `transposed()` returns the other one; otherwise the method
    is missing. Blocks are read straight into the host block, by as many threads as stripes.

    Raises:
        FileNotFoundError: a folder has no dataset.
        RemoteError: a store does not answer.
        DataError: the dataset is damaged, incomplete or of another version. The message gives
            file, block and row.

    >>> from tempfile import TemporaryDirectory
    >>> from blocklearn.datasources import MatrixSource
    >>> from blocklearn.datasources import write_blocks
    >>> with TemporaryDirectory() as folder:
    ...     write_blocks(MatrixSource(np.eye(5), block_rows=2), [folder])
    ...     with BlockSource([folder]) as source:
    ...         block = HostBlock(source.shape)
    ...         source.read(0, 1, block)
    >>> source.blocks, block.row_ids.tolist(), block.dense.tolist()[0]
    (3, [2, 3], [0.0, 0.0, 1.0, 0.0, 0.0])
    """

    transposed: Callable[[], "BlockSource"]
    """Return the other orientation; exists only if the dataset has both."""

    @answered
    def __init__(
        self,
        paths: Sequence[str | Place],
        *,
        shuffle: Literal[False, "blocks"] = False,
        seed: int = 0,
        verify: Verify = True,
        block_rows: int | None = None,
        side: Side = "rows",
        patience: Patience = PATIENCE,
    ) -> None:
        """Read the manifest and open the files."""
        if shuffle not in (False, "blocks"):
            raise DataError(
                f"BlockSource: shuffle={shuffle!r}: must be False or "
                '"blocks", because rows stay in the block that they were written to.'
            )
        dataset = open_dataset(paths, patience)
        part = dataset.manifest.part(side)
        if part is None:
            raise DataError(
                f"{paths[0]}: the dataset has one orientation, but the model reads its columns "
                "as rows, too; convert the data again, with both orientations."
            )
        if block_rows is not None and block_rows < part.block_rows:
            raise DataError(
                f"{paths[0]}: blocks of {part.block_rows:,} rows: must have at most "
                f"{block_rows:,}, as those of the other data. Convert the data again, with that "
                "many rows per block."
            )
        self._dataset, self._part = dataset, part
        files, codec = dataset.files(side), dataset.manifest.codec
        self._reader = PartReader(files, part, codec, verify, block_rows or part.block_rows)
        self._order = RowOrder(len(part.blocks), 1, shuffle, seed)
        self._names: tuple[Side, Side] = (
            ("columns", "rows") if side == "rows" else ("rows", "columns")
        )
        if dataset.manifest.columns is not None:
            self.transposed = partial(
                BlockSource, dataset.folders, shuffle=shuffle, seed=seed, verify=verify,
                side=self._names[0],
            )  # fmt: skip

    def dealt(self, parts: int) -> "BlockSource":
        """Return a source of the same files that keeps parts of the rows apart: see `dealt`."""
        other = copy(self)
        other._order = self._order.dealt(parts)
        return other

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """The first row of each block, and the number of rows."""
        return np.concatenate([[0], np.cumsum(self._part.blocks.rows, dtype=np.int64)])

    @property
    def shape(self) -> BlockShape:
        """The sizes of every block."""
        return self._reader.shape

    @property
    def blocks(self) -> int:
        """The number of blocks of one pass."""
        return self._order.blocks

    @property
    def readers(self) -> int:
        """The number of threads with which it reads fastest: one per stripe, more of stores."""
        remote = any(isinstance(folder, StoredPath) for folder in self._dataset.folders)
        return min(max(len(self._dataset.folders), READ_AT_ONCE if remote else 1), self.blocks)

    @property
    def scratch_bytes(self) -> int:
        """The bytes that each reading thread needs besides the host block."""
        return self._reader.scratch_bytes

    @cached_property
    def names(self) -> Sequence[str] | None:
        """The names of the columns, or None."""
        return self._dataset.names(self._names[0])

    @cached_property
    def row_names(self) -> Sequence[str] | None:
        """The names of the rows, or None."""
        return self._dataset.names(self._names[1])

    @cached_property
    def target_names(self) -> Sequence[str] | None:
        """The names of the targets, or None."""
        return self._dataset.names("targets") if self._part.targets else None

    @cached_property
    def fingerprint(self) -> str:
        """The XXH3 of the contents of all blocks, whatever the codec, folders or order."""
        part = self._part
        digest = xxhash.xxh3_64()
        digest.update(f"{part.rows} {part.columns} {part.kind}".encode())
        digest.update(np.array(part.blocks.rows, np.int64).data)
        digest.update("".join(part.blocks.content).encode())
        return digest.hexdigest()

    def label_sums(self) -> tuple[float, list[float]]:
        """Return the sum of weights, and of weight times target for each target."""
        return self._part.sums.weights, self._part.sums.targets

    def read_labels(self) -> Iterator[RowLabels]:
        """Yield the labels of each block of pass 0, read without the features."""
        for index in range(self.blocks):
            yield self._reader.labels(self._order.number(0, index))

    def value_sums(self) -> tuple[float, int]:
        """Return sum and number of all stored values; of dense rows, of all values."""
        part = self._part
        count = part.rows * part.columns if part.dense else sum(part.blocks.nnz)
        return part.sums.values, count

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with block `index` of pass `pass_`; threads may call it at once."""
        check_request(self, pass_, index, into.shape)
        self._reader.read(self._order.number(pass_, index), into, pass_=pass_, index=index)

    def close(self) -> None:
        """Close the files; may be called twice. A deleted source closes them too."""
        self._reader.close()

    def __repr__(self) -> str:
        """Show sizes and settings."""
        shape, order = self.shape, self._order
        kind = "dense" if shape.dense else "sparse"
        return (
            f"BlockSource({shape.total_rows} rows, {shape.columns} columns, {kind}, "
            f"{self.blocks} blocks, {len(self._dataset.folders)} stripes, "
            f"{self._dataset.manifest.codec}, shuffle={order.shuffle!r}, seed={order.seed})"
        )
