"""Move data between devices through NCCL if it works, else by peer copies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from . import devices
from .driver import Driver

log = logging.getLogger("blocklearn.cuda")

MOMENT = 5e-5  # seconds between two looks at moves


class Move(NamedTuple):
    """A copy of nbytes between two devices, given by their places in a list.

    source, sent: device and address to copy from.
    target, received: device and address to copy to.
    """

    source: int
    sent: int
    target: int
    received: int
    nbytes: int

    def back(self) -> Move:
        """Return the same copy in the other direction."""
        return Move(self.target, self.received, self.source, self.sent, self.nbytes)


class Wire(Protocol):
    """A connection between devices of one process, each with a stream."""

    def held(self) -> Any:
        """Prevent other moves of this process that could block, within this `with` block."""

    def move(self, moves: Sequence[Move]) -> None:
        """Run moves after all earlier work of the streams.

        Later work of the streams finds the received data. Data to send must stay unchanged until
        the next `move`, or until the streams are done. Two devices may have at most one move
        between them.
        """

    def abort(self) -> None:
        """End moves that wait for a device that failed, and release the connection."""

    def close(self) -> None:
        """Release the connection."""


def wait(wire: Wire, drivers: Sequence[Driver], streams: Sequence[Any]) -> None:
    """Wait until all streams are done with their moves.

    If one device fails, those that wait for its data are released, and its error is raised.
    Waiting for one device after the other would last for ever.
    """
    events = [driver.event() for driver in drivers]
    for driver, event, stream in zip(drivers, events, streams, strict=True):
        driver.record(event, stream)
    left = list(zip(drivers, events, strict=True))
    try:
        while left := [(driver, event) for driver, event in left if not driver.done(event)]:
            time.sleep(MOMENT)
    except BaseException:
        wire.abort()
        raise


def connect(drivers: Sequence[Driver], streams: Sequence[Any]) -> Wire:
    """Return the best wire for these devices; one device may occur several times."""
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
    """See `Wire`. Copies run in the stream of the receiving device."""

    def __init__(self, drivers: Sequence[Driver], streams: Sequence[Any]) -> None:
        """Connect devices; `streams` are those of the drivers."""
        self._drivers, self._streams = drivers, streams
        self._events = [driver.event() for driver in drivers]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Do nothing: copies wait for no kernel that could wait for them."""
        yield

    def move(self, moves: Sequence[Move]) -> None:
        """See `Wire`."""
        self._meet()  # data to send is ready, and earlier data has arrived
        for move in moves:
            self._drivers[move.target].copy_from(
                move.received,
                self._drivers[move.source],
                move.sent,
                move.nbytes,
                self._streams[move.target],
            )

    def _meet(self) -> None:
        """Make all streams wait for each other."""
        for driver, event, stream in zip(self._drivers, self._events, self._streams, strict=True):
            driver.record(event, stream)
        for own, (driver, stream) in enumerate(zip(self._drivers, self._streams, strict=True)):
            for other, event in enumerate(self._events):
                if other != own:
                    driver.wait(stream, event)

    def abort(self) -> None:
        """Do nothing: copies have no connection to close."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


_alone = threading.Lock()  # NCCL may block if several communicators use one device


class Nccl:
    """See `Wire`. Sends and receives are kernels in the streams of both devices."""

    def __init__(self, library: Any, numbers: Sequence[int], streams: Sequence[Any]) -> None:
        """Connect devices.

        library: CuPy's NCCL module.
        numbers: of the devices, each once.
        """
        self._nccl, self._streams = library, streams
        with _alone:
            self._members = library.NcclCommunicator.initAll(list(numbers))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take the lock of this process; its holder waits for the streams before the end."""
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
        """Close the communicators after an error, even if they are waiting."""
        for member in self._members:
            member.abort()
        self._members = []

    def close(self) -> None:
        """Close the communicators, unless they were aborted."""
        for member in self._members:
            member.destroy()
        self._members = []


class NcclOrCopies:
    """See `Wire`. Uses NCCL as long as it works, then copies.

    NCCL connects devices at the first move. Only then may it find that, say, a container has too
    little shared memory.
    """

    def __init__(self, nccl: Nccl, copies: PeerCopies) -> None:
        """Combine two wires between the same devices."""
        self._nccl, self._copies = nccl, copies
        self._wire: Wire = nccl

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the wire in use."""
        with self._wire.held():
            yield

    def move(self, moves: Sequence[Move]) -> None:
        """See `Wire`. If NCCL fails, copies make these moves and all later ones."""
        try:
            self._wire.move(moves)
        except RuntimeError as error:
            if self._wire is self._copies:
                raise
            _warn(error)
            self._nccl.abort()
            self._wire = self._copies
            self._wire.move(moves)

    def abort(self) -> None:
        """End the moves of the wire in use."""
        self._wire.abort()

    def close(self) -> None:
        """Close the wire in use; the other one needs no closing."""
        self._wire.close()
