"""The thread behind a `Reader`, and the two queues through which blocks go to it and come back."""

import threading
from dataclasses import dataclass
from queue import SimpleQueue

from .block import HostBlock
from .errors import DataError
from .source import DataSource


@dataclass(eq=False)
class PassOrder:
    """An order to the thread: read these blocks of pass `number`, unless cancelled."""

    number: int
    blocks: range
    cancelled: bool = False


@dataclass(frozen=True)
class Failure:
    """What the thread says instead of a block that it could not read."""

    index: int
    error: BaseException


class ReadAhead:
    """Fills and transposes `ring` blocks in a thread, one pass at a time.

    Orders go in; for each come its blocks, perhaps a `Failure`, and None for the end. A block is
    free (`_free`), with the thread, read (`_full`) or lent to the consumer, so neither queue grows
    beyond the ring, and waiting for a free block is what slows the thread down.
    """

    def __init__(self, source: DataSource, ring: int) -> None:
        """Allocate the blocks; the thread starts with the first order."""
        self._source = source
        self._orders: SimpleQueue[PassOrder | None] = SimpleQueue()
        self._free: SimpleQueue[HostBlock] = SimpleQueue()
        self._full: SimpleQueue[HostBlock | Failure | None] = SimpleQueue()
        self._lent: HostBlock | None = None
        self._thread: threading.Thread | None = None
        self.order: PassOrder | None = None  # what the thread works on
        self.stopped = False
        self.nbytes = 0
        for _ in range(ring):
            block = HostBlock(source.shape)
            self.nbytes += block.nbytes
            self._free.put(block)

    def start(self, order: PassOrder) -> None:
        """Let the thread work on `order`; the one before must have ended."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="blocklearn-reader", daemon=True)
            self._thread.start()
        self.order = order
        self._orders.put(order)

    def next(self) -> HostBlock | None:
        """Take back the block that is lent, and lend the next one; None at the end of the order.

        Raises `DataError`, with its cause, instead of a block that could not be read.
        """
        assert self.order is not None
        self._take_back()
        item = self._full.get()
        if isinstance(item, Failure):
            raise DataError(
                f"Reader: block {item.index} of pass {self.order.number} could not be read: "
                f"{item.error or type(item.error).__name__}"
            ) from item.error
        if item is None:
            self.order = None
        self._lent = item
        return item

    def end(self) -> None:
        """Cancel the order, if there is one, and wait until the thread has dropped it."""
        if self.order is None:
            return
        self.order.cancelled = True
        self.order = None
        self._take_back()
        if threading.current_thread() is self._thread:
            return  # garbage collection happened to run there: it must not wait for itself
        while (item := self._full.get()) is not None:
            if isinstance(item, HostBlock):
                self._free.put(item)

    def stop(self) -> None:
        """End the order and the thread, and wait until it has gone. Twice is fine."""
        self.stopped = True
        self.end()
        self._orders.put(None)
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join()

    def _take_back(self) -> None:
        if self._lent is not None:
            self._free.put(self._lent)
            self._lent = None

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            for index in order.blocks:
                block = self._free.get()
                if order.cancelled:
                    self._free.put(block)
                    break
                try:
                    self._source.read(order.number, index, block)
                    block.transpose()
                except BaseException as error:
                    self._free.put(block)
                    self._full.put(Failure(index, error))
                    break
                self._full.put(block)
            self._full.put(None)
