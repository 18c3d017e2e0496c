"""Blocks are read ahead by threads while the model computes."""

import weakref
from collections.abc import Iterator

import numpy as np

from blocklearn.closing import Closing

from .block import HostBlock, Zeros
from .errors import DataError
from .read_ahead import PassOrder, ReadAhead
from .source import DataSource


class Reader(Closing):
    """A ring of host blocks, filled and transposed by threads ahead of their use.

    source: where blocks come from; `readers` of it, where it says so, is the number of threads,
    else there is one. Blocks that it has kept are read without a thread. ring: how many blocks
    exist; one is in use, the others are being read or wait. By default two more than threads, or
    as many as fit in 1 GiB (see `ring_size`). lend: how many may be in use at a time. They are
    allocated here, and no array after that. indexed: False for whoever never reads the transposed
    index of a block, so that nobody makes one. zeros: makes the arrays of blocks.

    >>> import numpy as np
    >>> from blocklearn.datasources import MatrixSource
    >>> source = MatrixSource(np.eye(5), block_rows=2)
    >>> with Reader(source) as reader:
    ...     [(block.index, block.rows) for block in reader.blocks(0)]
    [(0, 2), (1, 2), (2, 1)]
    """

    def __init__(
        self,
        source: DataSource,
        *,
        ring: int | None = None,
        lend: int = 1,
        indexed: bool = True,
        zeros: Zeros = np.zeros,
    ) -> None:
        """Allocate `ring` > `lend` blocks; threads start with the first that they must read."""
        if ring is not None and ring <= lend:
            raise DataError(
                f"Reader: ring={ring}, but reading ahead needs at least {lend + 1} blocks."
            )
        self._source = source
        self._ahead = ReadAhead(source, ring, lend, indexed=indexed, zeros=zeros)
        # Called by close(), when the reader is dropped, or at exit while threads still run: a
        # pass that is left open must not wait for a thread that has ceased to exist.
        self._stop = weakref.finalize(self, self._ahead.stop)

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks of the ring."""
        return self._ahead.nbytes

    @property
    def ready(self) -> float:
        """The share of the blocks asked for that can be had without waiting, 0 to 1."""
        return self._ahead.ready

    def blocks(self, pass_: int, start: int = 0) -> Iterator[HostBlock]:
        """The blocks `start`, `start` + 1, ... of pass `pass_`, in order.

        A block is valid until the next one is asked for (or the one after `lend` others). Leaving
        the loop early is fine. Raises `ReadError`, with its cause, where a block could not be read,
        and `DataError` at once where another pass of this reader has not ended or the reader is
        closed.
        """
        count = self._source.blocks
        if pass_ < 0 or not 0 <= start <= count:
            raise DataError(
                f"Reader: pass {pass_} from block {start}, but passes start at 0 and blocks are "
                f"0 to {count - 1}."
            )
        self._check_idle()
        return self._iterate(PassOrder(pass_, range(start, count)))

    def close(self) -> None:
        """End the pass, if one runs, and the threads; wait until they are gone. Twice is fine."""
        self._stop()

    def _check_idle(self) -> None:
        if self._ahead.stopped:
            raise DataError("Reader: it is closed; make a new one.")
        if self._ahead.order is not None:
            raise DataError(
                f"Reader: pass {self._ahead.order.number} has not ended, and a reader reads one "
                "pass at a time; finish or leave that loop first."
            )

    def _iterate(self, order: PassOrder) -> Iterator[HostBlock]:
        self._check_idle()
        try:
            self._ahead.start(order)
            while (block := self._ahead.next()) is not None:
                yield block
                if order.cancelled:
                    raise DataError("Reader: it was closed in the middle of this pass.")
        finally:
            if self._ahead.order is order:
                self._ahead.end()
