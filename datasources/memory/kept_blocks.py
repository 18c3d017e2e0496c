"""Keeps blocks that are the same in every pass."""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from ..block import CsrArrays, HostBlock, IndexArrays, KeptBlock

ALIGNMENT = 64  # bytes, a cache line


class Shelf:
    """Keeps finished blocks by number, up to `nbytes`; drops blocks that do not fit.

    The memory is allocated in one piece with the first block, so that the operating system can use
    large pages, and is kept. Several threads may use a shelf at once.
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

    def put(
        self,
        number: int,
        block: HostBlock,
        indices: npt.NDArray[np.int32] | None = None,
        values: npt.NDArray[np.float32] | None = None,
    ) -> None:
        """Copy the sparse part of a finished block and its transposed index, if any.

        indices, values: [nnz], C-contiguous, kept instead of copies; give both or neither.
        """
        if self._used >= self.nbytes:
            return
        block.transpose()
        nnz, n = block.nnz, block.n_active
        copied: list[npt.NDArray[Any]] = [block.indptr]
        if indices is None or values is None:
            copied += [block.indices[:nnz], block.values[:nnz]]
        if block.indexed:
            copied += [block.active[:n], block.starts[: n + 1]]
            copied += [block.t_rows[:nnz], block.t_pos[:nnz]]
        with self._lock:
            if number in self._kept:
                return
            if not self._slab.size:
                self._slab = np.empty(self.nbytes, np.uint8)
            if self._used + sum(aligned(array.nbytes) for array in copied) > self.nbytes:
                return
            kept = [self._copy(array) for array in copied]
            turned = IndexArrays(*kept[-4:]) if block.indexed else None
            if indices is None or values is None:
                indices, values = kept[1:3]
            csr = CsrArrays(kept[0], indices, values)
            self._kept[number] = KeptBlock(block.rows, nnz, n, csr, turned)

    def _copy(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        place = self._slab[self._used :][: array.nbytes].view(array.dtype)
        place[:] = array
        self._used += aligned(array.nbytes)
        return place


def aligned(nbytes: int) -> int:
    """Return `nbytes` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
