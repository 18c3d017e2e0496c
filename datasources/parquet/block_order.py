"""Cut the rows of files into blocks, and order the blocks by seed and pass."""

import itertools
import threading
from collections.abc import Sequence
from copy import copy

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..memory.order import Shuffle, deal, shuffle_rows

LEAST_BLOCKS = 8  # blocks in a run, so that its short last block is a small part of it


class Cut:
    """Blocks of `block_rows` rows: block i has the rows starts[i] to stops[i].

    groups: rows of each row group, in the order of the files.
    shuffle: False for all rows in order, or "blocks".

    With "blocks", each pass visits runs of row groups in a different order. A run has the fewest
    row groups that make 8 blocks (the last run may have fewer). Rows within a run keep their
    order, because a row group is read from its start. The last block of a run may be short.

    parts: of blocks that every pass keeps apart, see `dealt`.

    >>> cut = Cut([16, 17, 16], 2, "blocks", seed=0)
    >>> cut.starts.tolist()
    [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 33, 35, 37, 39, 41, 43, 45, 47]
    >>> [cut.number(0, index) for index in range(cut.blocks)]
    [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 0, 1, 2, 3, 4, 5, 6, 7]
    """

    def __init__(self, groups: Sequence[int], block_rows: int, shuffle: Shuffle, seed: int) -> None:
        """Compute the limits of all blocks. Raises `DataError` for invalid settings."""
        if not 1 <= block_rows < 2**31:
            raise DataError(f"ParquetSource: block_rows={block_rows}: must be 1 to 2**31 - 1.")
        if not 0 <= seed < 2**64:
            raise DataError(f"ParquetSource: seed={seed}: must be 0 to 2**64 - 1.")
        if shuffle not in (False, "blocks"):
            raise DataError(
                f"ParquetSource: shuffle={shuffle!r}: must be False or 'blocks', because single "
                "rows of a Parquet file cannot be read in any order. 'blocks' visits row groups in "
                "another order in each pass; False reads them in the order of the files."
            )
        self._seed, self._shuffled, self.parts = seed, shuffle == "blocks", 1
        limits = [0]  # limits of runs, in rows
        end = 0
        for rows in groups:
            end += rows
            if self._shuffled and end - limits[-1] >= LEAST_BLOCKS * block_rows:
                limits.append(end)
        if limits[-1] < end:
            limits.append(end)
        runs = [np.arange(a, b, block_rows) for a, b in itertools.pairwise(limits)]
        self.starts: npt.NDArray[np.int64] = np.concatenate(runs)
        self.stops: npt.NDArray[np.int64] = np.append(self.starts[1:], end)
        self.blocks = self.starts.size
        self._counts = np.array([run.size for run in runs])  # blocks of each run
        self._lock = threading.Lock()  # two readers may be in two passes
        self._pass = -1  # the pass that _order belongs to
        self._order = np.empty(0, np.int64)  # blocks in the order of that pass

    def dealt(self, parts: int) -> "Cut":
        """Return the same blocks in an order that keeps parts apart: see `memory.order.deal`."""
        other = copy(self)
        other.parts, other._pass = parts, -1
        return other

    def number(self, pass_: int, index: int) -> int:
        """Return the block at position `index` of a pass."""
        if not self._shuffled:
            return index
        with self._lock:
            if self._pass != pass_:
                runs = np.empty(self._counts.size, np.int64)
                shuffle_rows(self._seed, pass_, runs)
                blocks = np.split(np.arange(self.blocks), np.cumsum(self._counts)[:-1])
                self._order = np.concatenate([blocks[run] for run in runs])
                deal(self._order, 1, self.parts)
                self._pass = pass_
            return int(self._order[index])
