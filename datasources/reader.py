"""The reader: threads read blocks ahead while the model computes."""

import weakref
from collections.abc import Callable, Iterator

import numpy as np

from blocklearn.closing import Closing

from .arrays.block_shape import Zeros
from .block import HostBlock
from .errors import DataError
from .read_ahead import PassOrder, ReadAhead
from .source import DataSource


class Reader(Closing):
    """A ring of host blocks that threads fill and transpose before they are needed.

    - source: where blocks come from. Blocks that it has kept are read without a thread.
    - readers: number of threads; None: `source.readers`, or one if it has no such number.
    - ring: number of blocks. None: two more than threads, or as many as the source has or as fit in
      1 GiB (see `ring_size`).
    - lend: how many blocks may be in use at a time; the others are being read or wait.
    - indexed: False leaves out the transposed index of the blocks.
    - zeros: makes the arrays of the blocks.
    - prepare: called with each block that was read, before it is transposed, in the thread that
      read it, some blocks before it is yielded; None: blocks that the source has kept need no
      thread.

    All arrays are allocated here, none later.

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
        readers: int | None = None,
        indexed: bool = True,
        zeros: Zeros = np.zeros,
        prepare: Callable[[HostBlock], None] | None = None,
    ) -> None:
        """Allocate the blocks; threads start with the first block that they must read."""
        if ring is not None and ring <= lend:
            raise DataError(
                f"Reader: ring={ring}: must be at least {lend + 1} blocks, to read ahead."
            )
        self._source = source
        self._ahead = ReadAhead(
            source, ring, lend, readers=readers, indexed=indexed, zeros=zeros, prepare=prepare
        )
        # Called by close(), when the reader is dropped, or at exit while threads still run: a
        # pass that is left open must not wait for a thread that has ceased to exist.
        self._stop = weakref.finalize(self, self._ahead.stop)

    @property
    def nbytes(self) -> int:
        """The bytes of all blocks of the ring."""
        return self._ahead.nbytes

    @property
    def ready(self) -> float:
        """Sum over all blocks of the share of requested blocks, 0 to 1, that were ready then."""
        return self._ahead.ready

    def blocks(
        self,
        pass_: int,
        start: int = 0,
        step: int = 1,
        stop: int | None = None,
        *,
        indexed: bool = True,
    ) -> Iterator[HostBlock]:
        """Yield the blocks `start`, `start` + `step`, ... of pass `pass_`, in order.

        stop: the block before which to stop; None: after the last of the pass.
        indexed: whether to fill their transposed index. False saves the time, for a pass that does
            not read it.

        A block is valid until `lend` further blocks have been asked for. The loop may be left
        early.

        Raises:
            ReadError: a block could not be read; the error has its cause.
            DataError: another pass of this reader has not ended, or the reader is closed. Raised
                by the call itself, before the first block.
        """
        count = self._source.blocks
        if pass_ < 0 or not 0 <= start <= count:
            raise DataError(
                f"Reader: pass {pass_} from block {start}, but passes start at 0 and blocks are "
                f"0 to {count - 1}; choose among these."
            )
        if step < 1:
            raise DataError(f"Reader: step={step}: must be at least 1.")
        self._check_idle()
        end = count if stop is None else min(stop, count)
        return self._iterate(PassOrder(pass_, range(start, end, step), indexed))

    def close(self) -> None:
        """End the current pass and the threads, and wait for them. May be called twice."""
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
