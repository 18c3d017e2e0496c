"""What the CUDA backend asks of a device: few calls, so that a test can stand in for the card.

Streams run what they are given in order; nothing is said of the order between streams but by
events. All copies are asynchronous and from or into pinned memory of the host, which has to stay as
it is until they are done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Limits:
    """name: of the device. free, total: bytes of its memory. processors: that run blocks."""

    name: str
    free: int
    total: int
    processors: int


class Product(NamedTuple):
    """out [m x n] = left [m x k] @ right [k x n], row by row in memory; all of one dtype.

    left_turned: left lies there as [k x m]; right_turned: right as [n x k]. workspace: an address
    and bytes that the library may use.
    """

    dtype: str
    m: int
    n: int
    k: int
    left: int
    left_turned: bool
    right: int
    right_turned: bool
    out: int
    workspace: tuple[int, int]


class Driver(Protocol):
    """One device. What streams, events, functions and graphs are is its own affair.

    number: of the device. Addresses are those of its memory. An event that was never recorded has
    happened; a stream may wait for one of another device.
    """

    number: int

    def limits(self) -> Limits:
        """As things are now."""

    def allocate(self, nbytes: int) -> int:
        """Address of so many bytes. Raises MemoryError where they are not there."""

    def free(self, address: int) -> None:
        """Give back what `allocate` gave."""

    def pinned(self, nbytes: int) -> Bytes:
        """Memory of the host that copies can be from and into."""

    def is_pinned(self, array: np.ndarray[Any, Any]) -> bool:
        """Whether an array is in such memory."""

    def stream(self) -> Any:
        """A new stream, beside all others."""

    def event(self) -> Any:
        """A new event."""

    def record(self, event: Any, stream: Any) -> None:
        """The event happens when all that the stream was given so far is done."""

    def wait(self, stream: Any, event: Any) -> None:
        """What the stream is given from now on runs after the event as it is recorded now."""

    def synchronize(self, what: Any) -> None:
        """The host waits for a stream to be done, or for an event. Raises what went wrong."""

    def copy_in(self, address: int, source: Bytes, stream: Any) -> None:
        """From the host to the device."""

    def copy_out(self, target: Bytes, address: int, stream: Any) -> None:
        """From the device to the host."""

    def copy_from(self, address: int, other: Driver, source: int, nbytes: int, stream: Any) -> None:
        """From the address `source` of a device, which may be the same one."""

    def clear(self, address: int, nbytes: int, stream: Any) -> None:
        """All bytes become 0."""

    def function(self, source: str, name: str) -> Any:
        """The kernel `name` of a module in CUDA C++, compiled for this device."""

    def launch(
        self, function: Any, grid: int, block: int, args: tuple[Any, ...], stream: Any
    ) -> None:
        """args: Python ints as 64 bits (addresses, sizes), NumPy scalars as what they are."""

    def product(self, product: Product, stream: Any) -> None:
        """A dense product; the same bits every time."""

    def begin_capture(self, stream: Any) -> None:
        """What the stream is given from now on is noted, and not run."""

    def end_capture(self, stream: Any) -> Any:
        """The graph of what was noted."""

    def launch_graph(self, graph: Any, stream: Any) -> None:
        """Run all of it."""

    def close(self) -> None:
        """Free what is left."""
