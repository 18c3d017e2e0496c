"""Chooses the rows that are held out for evaluation: row by row, by a hash."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from blocklearn.answers import answered

from ..arrays.compiled import kernel
from ..arrays.hashing import GOLDEN, mix, mix_one
from ..errors import DataError
from ..reader import Reader
from ..source import DataSource

HoldBy = Literal["rows", "contents", "entries", "time"]
"""How to choose what is held out: rows by a hash of their number or of their contents, or entries
of rows at random or by time (the newest).
"""


@answered
def split_rows(
    n: int, share: float, seed: int = 0
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows of 0..n-1 to train on and those held out, as ascending int64.

    Row i is held out if hash(seed, i) < share, so a row stays on its side when rows are appended.
    The hash is the SplitMix64 generator (Steele, Lea, Flood, OOPSLA 2014) at step i.

    >>> train, held = split_rows(1000, 0.05)
    >>> len(train), len(held)
    (956, 44)
    >>> bool((held == split_rows(5000, 0.05)[1][:44]).all())
    True
    """
    if n < 0:
        raise DataError(f"split_rows: n={n}: must not be negative.")
    rows = np.arange(1, n + 1, dtype=np.uint64)
    held = mix(start_of(seed) + rows * GOLDEN) < limit_of(share)
    return np.flatnonzero(~held).astype(np.int64), np.flatnonzero(held).astype(np.int64)


def start_of(seed: int) -> np.uint64:
    """Return the start of the generator."""
    if not 0 <= seed < 2**64:
        raise DataError(f"split_rows: seed={seed}: must be 0 to 2**64 - 1.")
    return np.uint64(mix(np.array([seed], np.uint64))[0])


def limit_of(share: float) -> np.uint64:
    """Return the least hash of rows that are not held out."""
    if not 0.0 < share < 1.0:
        raise DataError(f"split_rows: share={share}: must lie between 0 and 1, e.g. 0.05.")
    return np.uint64(share * 2.0**64)


def split_by_contents(source: DataSource, share: float, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Return one bit per row of `source`, lowest first: 1 if the row is held out.

    The result has the shape [rows / 8, rounded up]. A row is held out if a hash of the seed and of
    its features (columns and float32 values that are not 0) is less than `share`. Place, targets
    and weight do not matter, so equal rows are on the same side. All of `source` is read once.

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
    """Return the hash with one more entry; zeros of either sign do not count."""
    if bits & np.uint32(0x7FFFFFFF) == 0:
        return hash_
    return mix_one(hash_ + np.uint64(column + 1) * GOLDEN ^ np.uint64(bits))


@kernel
def mark(row: int, hash_: np.uint64, limit: np.uint64, held: npt.NDArray[np.uint8]) -> None:
    """Set the row's bit if its hash is below `limit`."""
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
    """Mark those of the rows `ids` that are held out; bits: the bits of the values."""
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
    """Mark the held-out rows of `ids`; bits: [rows, columns], of the values."""
    for i in range(ids.size):
        hash_ = start
        for j in range(bits.shape[1]):
            hash_ = add(hash_, j, bits[i, j])
        mark(ids[i], hash_, limit, held)
