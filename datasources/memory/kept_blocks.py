"""Keeps blocks that are the same in every pass."""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from blocklearn.matcache.containers import slots

from ..arrays.block_shape import BlockShape, CsrArrays, IndexArrays
from ..block import HostBlock, KeptBlock

ALIGNMENT = 64  # bytes, a cache line
ARRAYS = 9  # of a block


class Shelf:
    """Keeps finished blocks by number, up to `nbytes`; drops blocks that do not fit.

    The memory is allocated in one piece with the first block, so that the operating system can use
    large pages, and is kept. It is of the same kind as the block's own: pinned, if a device copies
    from it. Several threads may use a shelf at once.
    """

    def __init__(self, nbytes: int) -> None:
        """Start empty."""
        self.nbytes = nbytes
        self._kept: dict[int, KeptBlock] = {}
        self._slab = np.empty(0, np.uint8)
        self._used = 0
        self._lock = threading.Lock()

    def get(self, number: int) -> KeptBlock | None:
        """Return the block kept under this number, or None."""
        return self._kept.get(number)

    def put(self, number: int, block: HostBlock, *, borrowed: bool = False) -> None:
        """Copy a finished sparse block, with its transposed index, if any, without its targets.

        borrowed: its columns and values are kept as they are, without a copy.
        """
        if self._used >= self.nbytes:
            return
        block.transpose()
        nnz, n = block.nnz, block.n_active
        copied: list[npt.NDArray[Any]] = [block.row_ids, block.weights, block.indptr]
        if not borrowed:
            copied += [block.indices[:nnz], block.values[:nnz]]
        if block.indexed:
            copied += [block.active[:n], block.starts[: n + 1]]
            copied += [block.t_rows[:nnz], block.t_pos[:nnz]]
        with self._lock:
            if number in self._kept:
                return
            if not self._slab.size:
                self._slab = block.zeros((self.nbytes,), np.uint8)
            if self._used + sum(aligned(array.nbytes) for array in copied) > self.nbytes:
                return
            kept = [self._copy(array) for array in copied]
            turned = IndexArrays(*kept[-4:]) if block.indexed else None
            entries = (block.indices, block.values) if borrowed else kept[3:5]
            csr = CsrArrays(kept[2], *entries)
            self._kept[number] = KeptBlock(block.rows, nnz, n, kept[0], kept[1], csr, turned)

    def _copy(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        place = self._slab[self._used :][: array.nbytes].view(array.dtype)
        place[:] = array
        self._used += aligned(array.nbytes)
        return place


def kept_bytes(shape: BlockShape, blocks: int, entries: int, indexed: bool, alignment: int) -> int:
    """Return the most bytes that all blocks of a sparse source take.

    entries: of all blocks. indexed: with their transposed index.
    """
    positions = 8 if shape.nnz >= 2**31 else 4
    per_entry = 8 + (4 + positions) * indexed
    features = min(entries, blocks * shape.columns) * indexed
    per_block = 8 * (shape.rows + 2) + 12 * shape.rows + ARRAYS * alignment
    return entries * per_entry + features * 12 + blocks * per_block


def device_bytes(shape: BlockShape, blocks: int, entries: int, indexed: bool) -> int:
    """Return the most bytes that the blocks take on a device.

    There arrays of a block lie as far apart as in one that is full, if they are near.

    shape: of the blocks that they are copied from.
    """
    data = kept_bytes(shape, blocks, entries, indexed, slots.ALIGNMENT)
    full = kept_bytes(shape, 1, shape.nnz, indexed, slots.ALIGNMENT)
    return min(data + blocks * ARRAYS * slots.GAP, blocks * full)


def aligned(nbytes: int) -> int:
    """Return `nbytes` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
