"""A slab of device memory, a copy stream and a compute stream."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..containers.slots import put
from ..emit.cuda_header import C_TYPES
from ..errors import source_line
from .arrays import DeviceArray
from .arrivals import Arrivals
from .bounce import BOUNCE, Bounce
from .driver import Bytes, Copy, Driver, Factorization, Product, Triangular
from .kernels import finite_source
from .launcher import Clear, Kernel, Launcher
from .memory import DeviceMemory, Tenants
from .shelf import DeviceShelf
from .stage import STAGE, Stage
from .tally import Tally
from .texts import THREADS, Text, Texts

SIDES = 2  # blocks in use at a time: one computes, the next is copied
WAVES = 16  # most blocks of threads for each processor


class CudaWork:
    """Memory and kernels of one cache on one device, in the order in which it asks for them.

    in_block: whether a block is at work. Its launches are then queued, and run as one graph if
    possible; others run at once.
    side: which of the buffers the present block uses.
    shelf: blocks that stay on the device; None: there are none.

    The driver is shared by all `tenants`.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        graphs: bool = True,
        tenants: Tenants | None = None,
    ) -> None:
        """Use a driver.

        graphs: whether updates are captured and replayed.
        tenants: others who use the driver; None: there are none yet.
        """
        self.driver = driver
        self.compute = driver.stream()
        self.processors = driver.limits().processors
        self.side = self.block = 0
        self.in_block = False
        self.shelf: DeviceShelf | None = None
        self.host_bytes = SIDES * STAGE + BOUNCE
        # By side: its last block, and the work between that block and the next one.
        self._done = [driver.event() for _ in range(SIDES)]
        self._arrivals = Arrivals(driver, SIDES, self.compute)
        self._stage = Stage(driver, SIDES)
        self._bounce = Bounce(driver, self.compute)
        self.tally = Tally(driver, SIDES + 1)
        self._texts = Texts(driver)
        self.launcher = Launcher(driver, self.compute, self._stage.memory, graphs=graphs)
        self.launcher.before = self._start_copies
        self._memory = DeviceMemory(tenants or Tenants(driver))

    # ------------------------------------------------------------------ memory

    def allocate(self, nbytes: int, near: int | None = None) -> DeviceArray:
        """Allocate device memory: see `DeviceMemory`."""
        return self._memory.allocate(nbytes, near)

    @property
    def lost(self) -> bool:
        """Whether the device failed."""
        return self.driver.lost

    @property
    def free_bytes(self) -> int:
        """The free memory of the device in bytes, including that of this backend."""
        return self.driver.limits().free + self._memory.held

    def clear(self, array: DeviceArray) -> None:
        """Set all numbers to zero."""
        if array.nbytes:
            self.launcher.add(Clear(array.address, array.nbytes), "clear")

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """Return a zeroed array in pinned memory."""
        kind = np.dtype(dtype)
        raw = self.driver.pinned(prod(shape) * kind.itemsize)
        raw[:] = 0
        found: np.ndarray[Any, Any] = raw.view(kind).reshape(shape)
        return found

    def write(self, array: DeviceArray, numbers: Any) -> None:
        """Copy host numbers into an array, in the order of launches."""
        staged = self._stage.place_for(array, self.side) if self.in_block else None
        if staged is not None:
            put(staged.numbers, numbers)
            self.launcher.add(staged.step, staged.where)
            return
        host = np.empty(array.shape, array.dtype)
        put(host, numbers)
        if host.size:
            self.drain()
            self.send(array.address, host.reshape(-1).view(np.uint8))

    def send(self, address: int, numbers: Bytes) -> None:
        """Copy host bytes to the device, and wait. The device must be idle."""
        self._bounce.send(address, numbers)

    def read(self, array: DeviceArray) -> np.ndarray[Any, Any]:
        """Return a copy on the host, after all earlier launches."""
        host = np.empty(array.shape, array.dtype)
        self.fetch(array, host)
        return host

    def fetch(self, array: DeviceArray, into: np.ndarray[Any, Any]) -> None:
        """Copy an array to the host, after all earlier launches. into: C-contiguous."""
        self.launcher.flush()
        self._start_copies()
        self._bounce.fetch(array.address, into.reshape(-1).view(np.uint8))

    def host(self, array: DeviceArray) -> np.ndarray[Any, Any]:
        """Return a copy on the host."""
        return self.read(array)

    def finite(self, array: DeviceArray) -> bool:
        """Look at the numbers on the device, which answers in pinned memory of the host."""
        if array.dtype.kind != "f" or not array.size:
            return True
        kind = C_TYPES[array.dtype.name]
        text = self.text(("finite", kind), partial(finite_source, kind), "find_infinite")
        self.drain()
        found = self.bounced()[:4]
        found[:] = 0
        self.launch(text, array.size, THREADS, array.size, array, found.ctypes.data)
        self.drain()
        return not found.any()

    def put_back(self, array: DeviceArray, shown: np.ndarray[Any, Any]) -> None:
        """Copy the numbers of `shown` into the array."""
        self.write(array, shown.reshape(array.shape))

    def bounced(self) -> Any:
        """Return pinned memory of `BOUNCE` bytes, for copies that are over before the next ones."""
        return self._bounce.memory

    # ------------------------------------------------------------------ blocks

    def begin_block(self) -> None:
        """Switch to the other buffers, once the work given before the last block is done."""
        self.launcher.flush()
        self.driver.record(self._done[self.side], self.compute)  # includes the work after the block
        self.side = (self.side + 1) % SIDES
        self.block += 1
        self.driver.synchronize(self._done[self.side])
        self.tally.look(self.side)
        self._stage.begin()
        self._arrivals.drop()  # of a block that failed
        self.in_block = self.launcher.queueing = True

    def end_block(self) -> None:
        """Run the queued work; return when the block's arrays have left the host."""
        self.launcher.flush()
        self.in_block = self.launcher.queueing = False
        self._start_copies()
        self.tally.copy(self.side, self.compute)
        self._arrivals.wait(self.side)

    def bring(self, copies: Sequence[Copy]) -> None:
        """Make these copies before any later kernel runs."""
        self._arrivals.bring(copies)

    def _start_copies(self) -> None:
        self._arrivals.start(self.side)

    def drain(self) -> None:
        """Wait until the device is idle."""
        self.launcher.flush()
        self._start_copies()
        self.driver.synchronize(self._arrivals.stream)
        self.tally.copy(SIDES, self.compute)
        self.driver.synchronize(self.compute)
        self.tally.look(SIDES)

    # ------------------------------------------------------------------ kernels

    @property
    def counted(self) -> int:
        """Operations counted by kernels, as of some block before the last."""
        return self.tally.seen

    def text(
        self, key: Hashable, source: Callable[[], str], name: str = "run", threads: int = THREADS
    ) -> Text:
        """Return the kernel known by `key`; the first call makes its `source`.

        threads: in a block, as `BL_BLOCK` in the source says.
        """
        return self._texts.text(key, source, name, threads)

    def compile_expected(self) -> None:
        """Compile all kernels that were named and are not compiled yet, several at a time."""
        self._texts.compile_all()

    def launch(self, text: Text, units: int, per_block: int, *args: Any) -> None:
        """Run a kernel whose threads loop over units of work.

        units: how many there are.
        per_block: units that a block of threads does at a time.
        """
        most = self.processors * WAVES
        self.launch_blocks(text, max(1, min(-(-units // per_block), most)), *args)

    def launch_blocks(self, text: Text, blocks: int, *args: Any) -> None:
        """Run a kernel with this number of blocks of threads."""
        self._texts.compile(text)
        values = tuple(a.address if isinstance(a, DeviceArray) else a for a in args)
        self.launcher.add(Kernel(text.function, blocks, text.threads, values), source_line())

    def product(self, product: Product | Triangular) -> None:
        """Run a dense product, or a product with a triangle or its solution."""
        self.launcher.add(product, source_line())

    def factorize(self, step: Factorization) -> None:
        """Run a factorization."""
        self.launcher.add_apart(step)

    def close(self) -> None:
        """Wait for running work and free the memory. A second call does nothing."""
        try:
            if self._memory.in_use and not self.lost:
                self.drain()
        finally:
            self._texts.clear()
            self._memory.free()
