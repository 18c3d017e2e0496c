"""The table of a dataset's batches and their places in the files."""

from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from .arrow_file import Batch, Codec, padded
from .layout import MOST_NNZ, Kind

LZ4_RATIO = 255  # most bytes that one stored byte can stand for
Count = Annotated[int, Field(ge=0, lt=2**62)]
Counts = list[Count]
Digests = list[Annotated[str, Field(pattern="^[0-9a-f]{16}$")]]


class Blocks(BaseModel, extra="forbid", strict=True):
    """A table of all blocks: lists of equal length, with block i at index i.

    - rows, nnz: true rows and non-zeros.
    - offset, head, bytes, xxh3: see `Batch`.
    - stored: bytes of each part of the block in the file (see `Kind.parts`).
    - content: XXH3 of the block's numbers, however they are stored.
    """

    rows: Counts = []
    nnz: Counts = []
    offset: Counts = []
    head: Counts = []
    bytes: Counts = []
    xxh3: Digests = []
    stored: list[Counts] = []
    content: Digests = []

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, rows: int, nnz: int, batch: Batch, stored: list[int], content: str) -> None:
        """Append a block."""
        for name, value in zip(LISTS, (rows, nnz, *batch, stored, content), strict=True):
            getattr(self, name).append(value)

    def extend(self, more: "Blocks") -> None:
        """Append other blocks."""
        for name in LISTS:
            getattr(self, name).extend(getattr(more, name))

    def since(self, start: int) -> "Blocks":
        """Return the blocks from `start` on."""
        return Blocks.model_construct(**{name: getattr(self, name)[start:] for name in LISTS})

    def batch(self, block: int) -> Batch:
        """Return the place of a block in its file."""
        return Batch(self.offset[block], self.head[block], self.bytes[block], self.xxh3[block])

    def of_stripe(self, stripe: int, stripes: int) -> list[Batch]:
        """Return the places of all blocks in the file of a stripe."""
        return [self.batch(block) for block in range(stripe, len(self), stripes)]

    def check(self, kind: Kind, codec: Codec, files: Counts) -> None:
        """Raise `ValueError` unless the blocks fit the files and the kind of rows.

        Blocks must lie one after another in files of these sizes, and consist of the parts that
        rows of `kind` have.
        """
        if len({len(getattr(self, name)) for name in LISTS}) != 1 or not self.rows:
            raise ValueError("its lists of blocks are empty or differ in length")
        if {len(stored) for stored in self.stored} != {len(kind.parts(1, 1))}:
            raise ValueError(f"a block does not have the parts {list(kind.parts(1, 1))}")
        rows, nnz, stored = np.array(self.rows), np.array(self.nnz), np.array(self.stored)
        offset, bytes_ = np.array(self.offset), np.array(self.bytes)
        wrong = (nnz > MOST_NNZ) | (np.array(self.head) + padded(stored).sum(axis=1) != bytes_)
        for length, found in zip(kind.lengths(rows, nnz), stored.T, strict=True):
            wrong |= found != length if codec == "raw" else length > LZ4_RATIO * found
        for stripe, size in enumerate(files):
            mine = slice(stripe, None, len(files))
            ends = (offset + bytes_)[mine]
            wrong[mine] |= (ends > size) | (offset[mine] < np.append(0, ends[:-1])[: len(ends)])
        if wrong.any():
            raise ValueError(f"block {int(wrong.argmax())} has an impossible place or size")


LISTS = list(Blocks.model_fields)


class NamesFile(BaseModel, extra="forbid", strict=True):
    """A file of names.

    - integers: whether the names are numbers.
    - lengths: number of names of each batch.
    - batches: place of each batch.
    """

    integers: bool = False
    lengths: Counts = []
    batches: list[Batch] = []

    @property
    def count(self) -> int:
        """The number of names."""
        return sum(self.lengths)

    def since(self, start: int) -> "NamesFile":
        """Return the batches from `start` on."""
        return NamesFile(
            integers=self.integers, lengths=self.lengths[start:], batches=self.batches[start:]
        )


def first_fault(error: ValidationError) -> str:
    """Describe the first fault of invalid JSON in one line: its place and the reason."""
    fault = error.errors()[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
