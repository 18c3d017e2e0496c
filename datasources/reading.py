"""How a run wants to read a source: the same for every kind of data."""

from dataclasses import dataclass

from .matrix import KEEP_BYTES
from .order import Shuffle


@dataclass(frozen=True)
class Reading:
    """Rows of a block, their order (see `MatrixSource`), and how often the rows will be read.

    visits: passes over the source that the run will make; where it is 1, nothing that a source
    has read is worth keeping.
    """

    block_rows: int = 1024
    shuffle: Shuffle = False
    seed: int = 0
    visits: int = 1

    @property
    def keep_bytes(self) -> int:
        """Bytes of blocks that a source may keep for later passes."""
        return KEEP_BYTES if self.visits > 1 else 0
