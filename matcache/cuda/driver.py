"""The device interface of the CUDA backend: few calls, so tests can simulate it.

Each stream runs its work in order. Only events order the work of different streams. All copies are
asynchronous, from or into pinned host memory, which must not change until they are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Copy = tuple[int, int, int]
"""To an address of the device, from one of it or of pinned memory, so many bytes."""


@dataclass(frozen=True)
class Limits:
    """Properties of a device.

    name: of the device.
    free, total: bytes of its memory.
    processors: number of multiprocessors.
    """

    name: str
    free: int
    total: int
    processors: int


class Product(NamedTuple):
    """A dense product: out [m x n] = left [m x k] @ right [k x n], stored by rows.

    left_turned: left is stored as [k x m].
    right_turned: right is stored as [n x k].
    workspace: address and size in bytes of memory that the library may use.
    half: right is left, turned, and out is computed on the diagonal and right of it only.

    All matrices have one dtype.
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
    half: bool = False


class Triangular(NamedTuple):
    """A product with a triangle, or a solution, in float64: out [m x n] = T @ out.

    solves: whether out becomes the X with T @ X = out.
    on_left: False: the triangle is the right factor, out @ T, or X @ T = out.
    triangle: address of a matrix whose entries on one side of the diagonal count.
    stored_lower: whether these are below the diagonal.
    turned: whether T is the transposed triangle.
    workspace: as of `Product`.
    """

    solves: bool
    on_left: bool
    m: int
    n: int
    triangle: int
    stored_lower: bool
    turned: bool
    out: int
    workspace: tuple[int, int]

    @property
    def k(self) -> int:
        """The side of the triangle."""
        return self.m if self.on_left else self.n


class Factorization(NamedTuple):
    """A factorization of a float64 matrix in place. Matrices are stored by columns.

    what: "cholesky": a [k x k] becomes U, the upper triangle; the rest is kept. a = U' U.
        "lu": a [k x k] becomes its factors, and b [k x m] the X with a' @ X = b.
        "qr": a [n x k] becomes R above reflectors, which b [k] completes.
        "q": a [n x k] of "qr" becomes the orthonormal factor.
        "eigh": a [k x k], whose upper triangle is read, becomes eigenvectors; b [k] the values.
    m: columns of b.
    pivots: address of int32 [k], for "lu".
    info: address of an int32, which becomes 0 on success.
    workspace: address and size in bytes.
    """

    what: str
    n: int
    k: int
    m: int
    a: int
    b: int
    pivots: int
    info: int
    workspace: tuple[int, int]


class Driver(Protocol):
    """One device.

    number: of the device.
    lost: whether the device failed. Its memory is gone, so freeing and closing do nothing.

    Only the driver knows the types of streams, events, functions and graphs. Addresses are those of
    device memory. An event that was never recorded counts as done. A stream may wait for an event
    of another device.
    """

    number: int
    lost: bool

    def limits(self) -> Limits:
        """Return the present properties of the device."""

    def allocate(self, nbytes: int) -> int:
        """Allocate bytes and return their address. Raises MemoryError if memory is short."""

    def spread(self, nbytes: int, near: int) -> int:
        """Allocate bytes of which the first `near` lie on the device, the others on the host.

        Kernels and copies take them for device memory. Raises MemoryError if memory is short, and
        DeviceError if the device cannot do that.
        """

    def free(self, address: int) -> None:
        """Free the memory at an address that `allocate` or `spread` returned."""

    def pinned(self, nbytes: int) -> Bytes:
        """Allocate host memory that copies can read and write."""

    def is_pinned(self, array: np.ndarray[Any, Any]) -> bool:
        """Return whether an array is in such memory."""

    def stream(self) -> Any:
        """Make a stream, independent of all others."""

    def event(self) -> Any:
        """Make an event."""

    def record(self, event: Any, stream: Any) -> None:
        """Mark the event as done when all earlier work of the stream is done."""

    def wait(self, stream: Any, event: Any) -> None:
        """Make the stream's later work wait for the last recording of the event."""

    def synchronize(self, what: Any) -> None:
        """Wait on the host for a stream or an event.

        Raises the errors of its work, and DeviceLostError if the device failed.
        """

    def done(self, event: Any) -> bool:
        """Return whether an event has happened. Raises the errors of `synchronize`."""

    def copy_in(self, address: int, source: Bytes, stream: Any) -> None:
        """Copy from the host to the device."""

    def copy(self, copies: Sequence[Copy], stream: Any) -> None:
        """Make copies, one after the other."""

    def copy_out(self, target: Bytes, address: int, stream: Any) -> None:
        """Copy from the device to the host."""

    def copy_from(self, address: int, other: Driver, source: int, nbytes: int, stream: Any) -> None:
        """Copy from the address `source` of a device, possibly the same one."""

    def clear(self, address: int, nbytes: int, stream: Any) -> None:
        """Set all bytes to 0."""

    def function(self, source: str, name: str) -> Any:
        """Compile the kernel `name` of a CUDA C++ module for this device."""

    def launch(
        self, function: Any, grid: int, block: int, args: tuple[Any, ...], stream: Any
    ) -> None:
        """Launch a kernel.

        grid: blocks of threads.
        block: threads in a block.
        args: Python ints are passed as 64 bits (addresses, sizes), NumPy scalars by their type.
        """

    def product(self, product: Product, stream: Any) -> None:
        """Compute a dense product; the same bits every time."""

    def triangular(self, step: Triangular, stream: Any) -> None:
        """Compute a product with a triangle, or a solution; the same bits every time."""

    def factorize(self, step: Factorization, stream: Any) -> None:
        """Factorize a matrix. This may wait on the host, so it is no part of a graph."""

    def factor_bytes(self, what: str, n: int, k: int) -> int:
        """Return the size of the workspace of a `Factorization`, in bytes."""

    def begin_capture(self, stream: Any) -> None:
        """Record the stream's later work instead of running it."""

    def end_capture(self, stream: Any) -> Any:
        """Return the graph of the recorded work."""

    def launch_graph(self, graph: Any, stream: Any) -> None:
        """Run all work of the graph."""

    def close(self) -> None:
        """Free all remaining memory."""
