"""Blocks that are the same in every pass, kept."""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from ..block import CSR_PART, TRANSPOSED_PART, HostBlock, KeptBlock

ALIGNMENT = 64  # bytes, a cache line


class Shelf:
    """Room for finished blocks by number, up to `nbytes`; what does not fit is not kept.

    The memory is asked for in one piece when the first block comes, which lets the operating
    system give it in large pages, and is never given back. Threads may use it at the same time.
    """

    def __init__(self, nbytes: int) -> None:
        """Empty."""
        self.nbytes = nbytes
        self._kept: dict[int, KeptBlock] = {}
        self._slab = np.empty(0, np.uint8)
        self._used = 0
        self._lock = threading.Lock()

    def get(self, number: int) -> KeptBlock | None:
        """The block that was put under this number, if there is one."""
        return self._kept.get(number)

    def put(
        self,
        number: int,
        block: HostBlock,
        indices: npt.NDArray[np.int32] | None = None,
        values: npt.NDArray[np.float32] | None = None,
    ) -> None:
        """Keep a copy of the sparse part of a finished block, and of its transposed index if it has
        one.

        indices, values: [nnz], C-contiguous, used in place of copies; both or neither.
        """
        if self._used >= self.nbytes:
            return
        block.transpose()
        nnz, n = block.nnz, block.n_active
        lengths = {"indptr": len(block.indptr), "active": n, "starts": n + 1}
        arrays: dict[str, npt.NDArray[Any]] = {
            name: getattr(block, name)[: lengths.get(name, nnz)]
            for name in CSR_PART + (TRANSPOSED_PART if block.indexed else ())
        }
        given: dict[str, npt.NDArray[Any]] = {}
        if indices is not None and values is not None:
            given = {"indices": indices, "values": values}
        copies = {name: array for name, array in arrays.items() if name not in given}
        with self._lock:
            if number in self._kept:
                return
            if not self._slab.size:
                self._slab = np.empty(self.nbytes, np.uint8)
            end = self._used + sum(aligned(array.nbytes) for array in copies.values())
            if end > self.nbytes:
                return
            for name, array in copies.items():
                given[name] = self._slab[self._used :][: array.nbytes].view(array.dtype)
                given[name][:] = array
                self._used += aligned(array.nbytes)
            self._kept[number] = KeptBlock(block.rows, nnz, n, given)


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
