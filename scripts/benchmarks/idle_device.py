"""A CUDA device that does nothing, at once: what remains is the host's work for each block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from blocklearn.matcache.cuda import devices
from blocklearn.matcache.cuda.driver import Bytes, Limits

ROOM = 1 << 34


class IdleDriver:
    """See `Driver`. Memory of the device is never touched; what is read from it is 0.

    launched: kernels, and graphs, that were launched.
    """

    def __init__(self, number: int = 0) -> None:
        self.number, self.lost, self.launched = number, False, 0
        self._next = 256  # the address of the next allocation

    def limits(self) -> Limits:
        """Return much free memory."""
        return Limits("a device that does nothing", ROOM, ROOM, 132)

    def allocate(self, nbytes: int) -> int:
        """Return an address that nothing else has."""
        address, self._next = self._next, self._next + nbytes + -nbytes % 256
        return address

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


@contextmanager
def idle_devices() -> Iterator[None]:
    """Make all devices of this process idle ones."""
    with (
        mock.patch.object(devices, "open_driver", IdleDriver),
        mock.patch.object(devices, "count", lambda: 8),
    ):
        yield
