"""A device that does nothing, at once: what remains is what the host asks of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import DeviceArray
from .backend import Cuda
from .driver import Bytes, Limits

ROOM = 1 << 34


class IdleDriver:
    """See `Driver`. Memory of the device is never touched; what is read from it is 0.

    launched: kernels, and graphs, that were launched.
    """

    def __init__(self, number: int = 0, room: int = ROOM) -> None:
        """room: bytes of its memory, all of them free."""
        self.number, self.lost, self.launched, self._room = number, False, 0, room
        self._next = 256  # the address of the next allocation

    def limits(self) -> Limits:
        """Return the room."""
        return Limits("a device that does nothing", self._room, self._room, 132)

    def allocate(self, nbytes: int) -> int:
        """Return an address that nothing else has."""
        address, self._next = self._next, self._next + nbytes + -nbytes % 256
        return address

    def spread(self, nbytes: int, near: int) -> int:
        """Return an address that nothing else has."""
        return self.allocate(nbytes)

    def pinned(self, nbytes: int) -> Bytes:
        """Return memory of the host."""
        return np.zeros(nbytes, np.uint8)

    def is_pinned(self, array: Any) -> bool:
        """Return True: copies take no time from any memory."""
        return True

    def done(self, event: Any) -> bool:
        """Return True: all work is done at once."""
        return True

    def copy_out(self, target: Bytes, address: int, stream: Any) -> None:
        """Read zeros."""
        target.fill(0)

    def function(self, source: str, name: str) -> str:
        """Return the name: nothing is compiled."""
        return name

    def launch(self, function: Any, grid: int, block: int, args: Any, stream: Any) -> None:
        """Count a launch."""
        self.launched += 1

    def launch_graph(self, graph: Any, stream: Any) -> None:
        """Count a launch."""
        self.launched += 1

    def factor_bytes(self, what: str, n: int, k: int) -> int:
        """Return the least size."""
        return 8

    def stream(self) -> object:
        """Return a new thing."""
        return object()

    event = stream

    def end_capture(self, stream: Any) -> object:
        """Return a graph."""
        return object()

    def _nothing(self, *args: Any) -> None:
        """Do nothing."""

    free = record = wait = synchronize = copy = copy_in = copy_from = clear = _nothing
    product = triangular = factorize = begin_capture = close = _nothing


class Idle(Cuda):
    """The backend over such a device, where every plan fits: it counts launches, without a GPU."""

    repeats = False  # operations are looked at, so they are asked for anew

    def __init__(self, room: int, *, indexes: bool) -> None:
        """room: bytes, from which follows what stays on the device. indexes: see `Cuda`."""
        self.idle = IdleDriver(room=room)
        super().__init__(self.idle, graphs=False, indexes=indexes)

    def allocate(self, nbytes: int, near: int | None = None) -> DeviceArray:
        """Return addresses, also where there is no room for them."""
        return DeviceArray(self.idle.allocate(max(nbytes, 1)), (nbytes,), np.dtype(np.uint8))

    def count(self) -> int:
        """Return how many launches were made: kernels, products, and numbers set or cleared."""
        self.launcher.flush()
        return self.launcher.launches
