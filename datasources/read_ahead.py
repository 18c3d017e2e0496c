"""The threads behind a `Reader`: they fill the blocks of a ring, in order."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np

from blocklearn.matcache.threads import MOMENT, start

from .arrays.block_shape import Zeros, block_bytes
from .block import HostBlock
from .errors import DataError, ReadError
from .source import DataSource, KeepingSource, QuickSource, readers_of

READ_AHEAD_BYTES = 1 << 30


def ring_size(
    block_bytes: int, blocks: int, readers: int, lend: int, *, budget: int = READ_AHEAD_BYTES
) -> int:
    """Return the number of blocks of a ring, for a source of so many `blocks`.

    These are `lend` blocks in use, one for each of `readers` threads to fill, and one that waits.
    The ring is smaller where that exceeds `budget` bytes, but never below `lend` + 1. Threads
    without a block to fill wait, so memory is bounded whatever the speed of the disks. A pass reads
    no block twice, so more than `blocks` are never used.

    >>> [ring_size(size, 20, readers=4, lend=1) for size in (2**20, 2**28, 2**40)]
    [6, 4, 2]
    >>> ring_size(2**20, 2, readers=4, lend=1)
    2
    """
    fits = budget // max(1, block_bytes)
    return max(1, min(blocks, max(lend + 1, min(lend + readers + 1, fits))))


@dataclass(eq=False)
class PassOrder:
    """A request for these blocks of pass `number`, valid until it is cancelled.

    indexed: whether to fill their transposed index, if they have room for one.
    """

    number: int
    blocks: range
    indexed: bool = True
    cancelled: bool = False


@dataclass(eq=False)
class Place:
    """One host block of the ring, and the number of the block that it is to hold.

    task: the order to a thread; None where the source has the block at hand, so that the consumer
    reads it itself.
    """

    block: HostBlock
    index: int = -1
    task: "Task | None" = None


class Task:
    """An order to a thread: read the block that `place` is to hold.

    A thread claims the task before it begins; the consumer claims it when the block is no longer
    wanted. Only the first claim counts.

    - over: whether a thread has finished the task.
    - error: the error that stopped it, or None.
    """

    def __init__(self, order: PassOrder, place: Place) -> None:
        self.order, self.place = order, place
        self.over = False
        self.error: BaseException | None = None
        self._claims: dict[str, object] = {}
        self._reading = threading.Lock()  # to release one takes no memory
        self._reading.acquire()

    def claim(self, claimant: object) -> bool:
        """Whether `claimant` was the first to claim it; asking again changes nothing."""
        return self._claims.setdefault("first", claimant) is claimant

    def finish(self, error: BaseException | None) -> None:
        """Mark the task as over, with the error that stopped it, if any."""
        self.error = error
        self.over = True
        with suppress(RuntimeError):  # twice is fine
            self._reading.release()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` until the task is over; return whether it is."""
        if not self.over:
            self._reading.acquire(timeout=seconds)
        return self.over


class ReadAhead:
    """Fills and transposes the blocks of a ring in threads, one pass at a time.

    A place of the ring is free, asked for (`_ahead`, in the order of the pass) or lent to the
    consumer. In `next` the consumer asks for as many blocks as there are free places. Threads take
    tasks in that order, so the next block is always in progress, whatever the number of threads.
    A thread finishes each task that it has taken. If no thread is alive to take the rest, waits
    end with an error.
    """

    def __init__(
        self,
        source: DataSource,
        ring: int | None,
        lend: int = 1,
        *,
        readers: int | None = None,
        indexed: bool = True,
        zeros: Zeros = np.zeros,
        prepare: Callable[[HostBlock], None] | None = None,
    ) -> None:
        """Allocate the ring; threads start with the first block that they must read.

        - ring: number of blocks, more than `lend`; None: as many as `ring_size` returns.
        - readers: number of threads; None: as many as `readers_of` returns.
        - indexed: whether blocks have a transposed index.
        - zeros: makes the arrays of the blocks.
        - prepare: called with each block that was read, before it is transposed, in the thread that
          read it. Threads then read also blocks that the source has at hand.
        """
        self._source, self._prepare = source, prepare
        self._keeping = source if prepare is None and isinstance(source, KeepingSource) else None
        quick = prepare is None and isinstance(source, QuickSource) and source.quick
        self._quick = quick  # blocks without an index need no thread
        self._readers = readers_of(source) if readers is None else readers
        if ring is None:
            nbytes = block_bytes(source.shape, indexed=indexed)
            ring = ring_size(nbytes, source.blocks, self._readers, lend)
        self._ring = tuple(
            Place(HostBlock(source.shape, indexed=indexed, zeros=zeros)) for _ in range(ring)
        )
        self._free = deque(self._ring)
        self._ahead: deque[Place] = deque()
        self._lent: deque[Place] = deque()
        self._lend = lend
        self._indices: Iterator[int] = iter(())
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._ended: BaseException | None = None  # the error that ended a thread, if any
        self.order: PassOrder | None = None  # the pass that is being read
        self.stopped = False
        self.ready = 0.0  # sum over all blocks: the share of requested blocks that were ready
        self.nbytes = sum(place.block.nbytes for place in self._ring)

    def start(self, order: PassOrder) -> None:
        """Begin `order`; the order before it must have ended."""
        self.order = order
        self._indices = iter(order.blocks)

    def next(self) -> HostBlock | None:
        """Lend the next block and return it; None at the end of the order.

        If `lend` blocks are lent already, the oldest of them is taken back first. Raises
        `ReadError`, with its cause, if the block could not be read, and `ThreadStartError` if no
        thread can be started.
        """
        assert self.order is not None
        if self._ahead:
            ready = 0
            for place in self._ahead:
                ready += place.task is None or place.task.over
            self.ready += ready / len(self._ahead)
        while len(self._lent) >= self._lend:
            self._free.append(self._lent.popleft())
        self._ask()
        if not self._ahead:
            self._free.extend(self._lent)
            self._lent.clear()
            self.order = None
            return None
        place = self._ahead[0]
        error = self._await(place.task) if place.task else self._read(self.order, place)
        if error is not None:
            raise ReadError(
                f"Reader: block {place.index} of pass {self.order.number} could not be read: "
                f"{error or type(error).__name__}"
            ) from error
        self._lent.append(place)
        self._ahead.popleft()
        return place.block

    def end(self) -> None:
        """Cancel the current order, if any, and wait until no thread works on it."""
        if self.order is None:
            return
        self.order.cancelled = True
        if threading.current_thread() not in self._threads:  # garbage collection may happen there,
            for place in self._ahead:  # and it must not wait for itself
                if place.task is not None and not place.task.claim(self):
                    self._await(place.task)  # a thread has begun with it
        self._ahead.clear()
        self._lent.clear()
        self._free.clear()  # an interrupt may have left a place in two queues, or in none
        self._free.extend(self._ring)
        self.order = None

    def stop(self) -> None:
        """End the order and the threads, and wait for them. A second call does nothing."""
        self.stopped = True
        try:
            self.end()
        finally:
            for _ in self._threads:
                self._tasks.put(None)
            if threading.current_thread() not in self._threads:
                for thread in self._threads:
                    if thread.is_alive():
                        thread.join()

    def _ask(self) -> None:
        """Ask for the next blocks of the order while places are free."""
        assert self.order is not None
        at_hand = self._quick and not self.order.indexed
        while self._free and (index := next(self._indices, None)) is not None:
            place, kept = self._free[0], at_hand
            if not kept and self._keeping is not None:
                kept = self._keeping.kept(self.order.number, index)
            place.index, place.task = index, None if kept else Task(self.order, place)
            self._ahead.append(place)
            self._free.popleft()
            if place.task is not None:
                self._start_threads()
                self._tasks.put(place.task)

    def _start_threads(self) -> None:
        """Start the missing threads. A failed start is tried again at the next call."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        while len(self._threads) < self._readers:
            thread = threading.Thread(target=self._run, name="blocklearn-reader", daemon=True)
            self._threads.append(thread)  # before it starts, so that an interrupt cannot lose it
            start(thread)

    def _await(self, task: Task) -> BaseException | None:
        """Wait until a thread is done with `task`; return its error, or None."""
        while not task.wait(MOMENT):
            alive = any(thread.is_alive() for thread in self._threads)
            if not alive and task.claim(self):
                return self._ended or ReadError("the threads of the reader have ended")
        return task.error

    def _read(self, order: PassOrder, place: Place) -> Exception | None:
        try:
            self._source.read(order.number, place.index, place.block)
            _check_finished(self._source, order.number, place)
            if self._prepare is not None:
                self._prepare(place.block)
            if order.indexed:
                place.block.transpose()
        except Exception as error:
            return error
        return None

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as fatal:
            self._ended = fatal

    def _work(self) -> None:
        claimant, task = object(), None
        try:
            while (task := self._tasks.get()) is not None:
                if not task.order.cancelled and task.claim(claimant):
                    task.finish(self._read(task.order, task.place))
        except BaseException as fatal:  # must reach the consumer, who would wait for ever
            if task is not None:
                task.claim(claimant)
                task.finish(fatal)
            raise


def _check_finished(source: DataSource, pass_: int, place: Place) -> None:
    """Raise DataError unless the block is the one that was asked for, and its rows have numbers."""
    found = place.block.pass_, place.block.index
    if found != (pass_, place.index):
        raise DataError(
            f"{type(source).__name__}.read(pass_={pass_}, index={place.index}, into): the block is "
            f"number {found[1]} of pass {found[0]}. `read` must end with into.finish(pass_=pass_, "
            "index=index, rows=...), with its own arguments."
        )
    rows, ids = place.block.rows, place.block.row_ids
    if rows and ids.item(0) < 0 and ids[:rows].max() < 0:  # nearly always the first has one
        raise DataError(
            f"{type(source).__name__}.read(pass_={pass_}, index={place.index}, into): no row has a "
            "number. `read` must set them: into.row_ids[:rows] = ..."
        )
