"""What goes from one device to another goes through NCCL where it is present, else peer copies."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from . import devices
from .driver import Driver

log = logging.getLogger("blocklearn.cuda")


class Move(NamedTuple):
    """nbytes from the address `sent` of device `source` to the address `received` of `target`; both
    devices by their place in a list.
    """

    source: int
    sent: int
    target: int
    received: int
    nbytes: int

    def back(self) -> Move:
        """The same bytes the other way."""
        return Move(self.target, self.received, self.source, self.sent, self.nbytes)


class Wire(Protocol):
    """Between devices of one process, each with a stream."""

    def held(self) -> Any:
        """A context within which this process moves nothing else in a way that could block."""

    def move(self, moves: Sequence[Move]) -> None:
        """Run after all that the streams were given before. What is received is there for what a
        stream is given from now on; what is sent stays as it is until the next `move`, or until the
        streams are done. Between two devices there is one move at most.
        """

    def close(self) -> None:
        """It is not used any more."""


def connect(drivers: Sequence[Driver], streams: Sequence[Any]) -> Wire:
    """The best wire for these devices, of which one may occur several times."""
    library = devices.nccl()
    numbers = [driver.number for driver in drivers]
    if library is not None and len(set(numbers)) == len(numbers):
        try:
            wire = Nccl(library, numbers, streams)
        except RuntimeError as error:
            _warn(error)
        else:
            log.info("replicas are merged through NCCL %s", devices.nccl_version(library))
            return NcclOrCopies(wire, PeerCopies(drivers, streams))
    log.info("replicas are merged by copies from device to device")
    return PeerCopies(drivers, streams)


def _warn(error: Exception) -> None:
    log.warning("NCCL does not work here, replicas are merged without it: %s", error)


class PeerCopies:
    """See `Wire`. Copies run in the stream of the device that receives."""

    def __init__(self, drivers: Sequence[Driver], streams: Sequence[Any]) -> None:
        """Streams are those of the drivers."""
        self._drivers, self._streams = drivers, streams
        self._events = [driver.event() for driver in drivers]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Copies wait for no kernel that could wait for them."""
        yield

    def move(self, moves: Sequence[Move]) -> None:
        """See `Wire`."""
        self._meet()  # what is sent is ready, and what was sent before has arrived
        for move in moves:
            self._drivers[move.target].copy_from(
                move.received,
                self._drivers[move.source],
                move.sent,
                move.nbytes,
                self._streams[move.target],
            )

    def _meet(self) -> None:
        """No stream goes on before all have come here."""
        for driver, event, stream in zip(self._drivers, self._events, self._streams, strict=True):
            driver.record(event, stream)
        for own, (driver, stream) in enumerate(zip(self._drivers, self._streams, strict=True)):
            for other, event in enumerate(self._events):
                if other != own:
                    driver.wait(stream, event)

    def close(self) -> None:
        """There is nothing to let go."""


_alone = threading.Lock()  # NCCL may block where several communicators are at work on one device


class Nccl:
    """See `Wire`. Sends and receives are kernels in the streams of both devices."""

    def __init__(self, library: Any, numbers: Sequence[int], streams: Sequence[Any]) -> None:
        """library: CuPy's module. numbers: of the devices, each once."""
        self._nccl, self._streams = library, streams
        with _alone:
            self._members = library.NcclCommunicator.initAll(list(numbers))

    @contextmanager
    def held(self) -> Iterator[None]:
        """One at a time in this process: whoever holds it waits for the streams before it ends."""
        with _alone:
            yield

    def move(self, moves: Sequence[Move]) -> None:
        """See `Wire`."""
        byte = self._nccl.NCCL_UINT8
        self._nccl.groupStart()
        try:
            for move in moves:
                self._members[move.source].send(
                    move.sent, move.nbytes, byte, move.target, self._streams[move.source].ptr
                )
                self._members[move.target].recv(
                    move.received, move.nbytes, byte, move.source, self._streams[move.target].ptr
                )
        finally:
            self._nccl.groupEnd()

    def abort(self) -> None:
        """Close the communicators after an error, whatever they still wait for."""
        for member in self._members:
            member.abort()

    def close(self) -> None:
        """Close the communicators."""
        for member in self._members:
            member.destroy()


class NcclOrCopies:
    """See `Wire`. NCCL as long as it works: it connects devices when they first move something, and
    may find only then that, say, a container has too little shared memory.
    """

    def __init__(self, nccl: Nccl, copies: PeerCopies) -> None:
        """Between the same devices."""
        self._nccl, self._copies = nccl, copies
        self._wire: Wire = nccl

    @contextmanager
    def held(self) -> Iterator[None]:
        """As the one that is used."""
        with self._wire.held():
            yield

    def move(self, moves: Sequence[Move]) -> None:
        """See `Wire`. Moves that NCCL did not make are made by copies, and so are all others."""
        try:
            self._wire.move(moves)
        except RuntimeError as error:
            if self._wire is self._copies:
                raise
            _warn(error)
            self._nccl.abort()
            self._wire = self._copies
            self._wire.move(moves)

    def close(self) -> None:
        """Close the one that is used: the other one is closed, or has nothing to close."""
        self._wire.close()
