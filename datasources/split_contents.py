"""Which rows are held out, decided by what is in them: the same rows wherever they stand."""

import numpy as np
import numpy.typing as npt

from .kernel import kernel
from .mix import GOLDEN, mix_one
from .reader import Reader
from .source import DataSource
from .split import limit_of, start_of


def split_by_contents(source: DataSource, share: float, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Bits [rows / 8, rounded up], lowest first: 1 for each row of `source` that is held out.

    A row is held out if a hash of the seed and of its features (columns and values that are not 0,
    as float32) is less than `share`: whatever its place, its targets and its weight. So rows that
    are alike are on one side. All of `source` is read once.

    Raises:
        DataError: the share or the seed is impossible, or the data cannot be read.
    """
    start, limit = start_of(seed), limit_of(share)
    shape = source.shape
    held = np.zeros(-(-shape.total_rows // 8), np.uint8)
    with Reader(source, indexed=False) as reader:
        for block in reader.blocks(0):
            ids = block.row_ids[: block.rows]
            if shape.dense:
                mark_dense(ids, block.dense.view(np.uint32), start, limit, held)
            else:
                bits = block.values.view(np.uint32)
                mark_csr(ids, block.indptr, block.indices, bits, start, limit, held)
    return held


@kernel
def add(hash_: np.uint64, column: int, bits: np.uint32) -> np.uint64:
    """The hash with one more entry; zeros, of either sign, do not count."""
    if bits & np.uint32(0x7FFFFFFF) == 0:
        return hash_
    return mix_one(hash_ + np.uint64(column + 1) * GOLDEN ^ np.uint64(bits))


@kernel
def mark(row: int, hash_: np.uint64, limit: np.uint64, held: npt.NDArray[np.uint8]) -> None:
    """Set the row's bit, if its hash says so."""
    if mix_one(hash_) < limit:
        held[row >> 3] |= np.uint8(1 << (row & 7))


@kernel
def mark_csr(
    ids: npt.NDArray[np.int64],
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    bits: npt.NDArray[np.uint32],
    start: np.uint64,
    limit: np.uint64,
    held: npt.NDArray[np.uint8],
) -> None:
    """Mark those of the rows `ids` that are held out; bits: of the values."""
    for i in range(ids.size):
        hash_ = start
        for e in range(indptr[i], indptr[i + 1]):
            hash_ = add(hash_, indices[e], bits[e])
        mark(ids[i], hash_, limit, held)


@kernel
def mark_dense(
    ids: npt.NDArray[np.int64],
    bits: npt.NDArray[np.uint32],
    start: np.uint64,
    limit: np.uint64,
    held: npt.NDArray[np.uint8],
) -> None:
    """Mark those of the rows `ids` that are held out; bits [rows, columns]: of the values."""
    for i in range(ids.size):
        hash_ = start
        for j in range(bits.shape[1]):
            hash_ = add(hash_, j, bits[i, j])
        mark(ids[i], hash_, limit, held)
