"""The CUDA backend: one slab of device memory, a stream for copies and one for kernels."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..containers.slots import BFLOAT16
from ..errors import MemoryPlanError, source_line
from . import launches, merging  # noqa: F401 (they enter what they do)
from .arrays import DeviceArray
from .driver import Bytes, Driver, Product
from .incoming import DeviceIncoming
from .index import DeviceIndex
from .launcher import Clear, CopyIn, Kernel, Launcher
from .tally import Tally

if TYPE_CHECKING:
    from ..containers.cache import MatCache
    from ..containers.slots import PatternSlot

SIDES = 2  # blocks at work at a time: one computes, the next one is copied
STAGE = 1 << 20  # bytes of the numbers that a block's update may set, for each side
BOUNCE = 1 << 24  # bytes that are copied at a time to and from the host
THREADS = 256  # of a block of threads
WAVES = 16  # blocks of threads for each processor, at most


class Text:
    """A kernel: its text, and the driver's function once it is compiled."""

    def __init__(self, source: str, name: str) -> None:
        """Not compiled yet."""
        self.source, self.name = source, name
        self.function: Any = None


class Tenants:
    """The backends that have one driver; the last that leaves closes it."""

    def __init__(self, driver: Driver) -> None:
        """Nobody has it yet."""
        self.driver = driver
        self._count = 0

    def enter(self) -> None:
        """One more."""
        self._count += 1

    def leave(self) -> None:
        """One less."""
        self._count -= 1
        if not self._count:
            self.driver.close()


class Cuda:
    """Memory and kernels of one cache on one device. See `Backend`.

    While a block is at work (`in_block`), what it launches is queued and run as one graph where
    possible; else it is launched at once. side: which of the buffers the present block uses. The
    driver belongs to the backend, and to those `beside` it.
    """

    kind = "cuda"
    rounded = BFLOAT16

    def __init__(
        self,
        driver: Driver,
        *,
        graphs: bool = True,
        indexes: bool = False,
        tenants: Tenants | None = None,
    ) -> None:
        """graphs: whether updates are captured and replayed. indexes: whether transposed indexes
        are made here, and not copied from the host. tenants: who has the driver already, if anyone.
        """
        self.indexes = indexes
        self.driver = driver
        self.compute, self.copies = driver.stream(), driver.stream()
        self.processors = driver.limits().processors
        self.side = self.block = 0
        self.in_block = False
        self.host_bytes = SIDES * STAGE + BOUNCE
        # The side's last block, and what was computed after it, before the next one.
        self._done = [driver.event() for _ in range(SIDES)]
        self._arrived = [driver.event() for _ in range(SIDES)]  # its copies
        self._arriving = False
        self._stage = [driver.pinned(STAGE) for _ in range(SIDES)]
        self._staged = 0
        self._bounce: Any = None
        self.tally = Tally(driver, SIDES + 1)
        self._texts: dict[Hashable, Text] = {}
        self._addresses: list[int] = []
        self._held = 0
        self.launcher = Launcher(driver, self.compute, self._stage, graphs=graphs)
        self.launcher.before = self._await_copies
        self._tenants = tenants or Tenants(driver)
        self._tenants.enter()
        self._free = weakref.finalize(self, _release, self._tenants, self._addresses)

    def beside(self) -> Cuda:
        """A backend for another cache on this device, which is not opened again for it."""
        graphs = self.launcher.graphs
        return Cuda(self.driver, graphs=graphs, indexes=self.indexes, tenants=self._tenants)

    # ------------------------------------------------------------------ memory

    def allocate(self, nbytes: int) -> DeviceArray:
        """Bytes of the device. Raises MemoryPlanError where they are not free."""
        limits = self.driver.limits()
        wanted = max(nbytes, 1)
        try:
            if wanted > limits.free:
                raise MemoryError
            address = self.driver.allocate(wanted)
        except MemoryError as error:
            raise MemoryPlanError(
                f"The plan needs {nbytes:,} bytes of {limits.name}, and {limits.free:,} of its "
                f"{limits.total:,} are free. Lower block_rows, or the model's size (its number of "
                "topics or factors)."
            ) from error
        self._addresses.append(address)
        self._held += wanted
        return DeviceArray(address, (nbytes,), np.dtype(np.uint8))

    @property
    def free_bytes(self) -> int:
        """Bytes of the device that are free, with those of this backend."""
        return self.driver.limits().free + self._held

    def clear(self, array: DeviceArray) -> None:
        """All zeros."""
        if array.nbytes:
            self.launcher.add(Clear(array.address, array.nbytes), "clear")

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """In pinned memory."""
        kind = np.dtype(dtype)
        raw = self.driver.pinned(prod(shape) * kind.itemsize)
        raw[:] = 0
        found: np.ndarray[Any, Any] = raw.view(kind).reshape(shape)
        return found

    def write(self, array: DeviceArray, numbers: Any) -> None:
        """Copy numbers of the host into an array, in the order of launches."""
        given = np.asarray(numbers)
        if not np.can_cast(given.dtype, array.dtype, "same_kind"):
            raise TypeError(f"{given.dtype} into {array.dtype}")
        host = np.empty(array.shape, array.dtype)
        np.copyto(host, given, casting="same_kind")
        flat = host.reshape(-1).view(np.uint8)
        if not flat.size:
            return
        if self.in_block and self._staged + flat.size <= STAGE:
            start = self._staged
            self._stage[self.side][start : start + flat.size] = flat
            self._staged += -(-flat.size // 16) * 16
            self.launcher.add(
                CopyIn(array.address, self.side, start, flat.size), f"set at {source_line()}"
            )
            return
        self.drain()
        self.send(array.address, flat)

    def send(self, address: int, numbers: Bytes) -> None:
        """Copy bytes of any memory to the device, which has to be idle, and wait for it."""
        bounce = self._bounced()
        for begin in range(0, numbers.size, BOUNCE):
            part = numbers[begin : begin + BOUNCE]
            bounce[: part.size] = part
            self.driver.copy_in(address + begin, bounce[: part.size], self.compute)
            self.driver.synchronize(self.compute)

    def read(self, array: DeviceArray) -> np.ndarray[Any, Any]:
        """A copy on the host, after everything that was launched."""
        self.launcher.flush()
        host = np.empty(array.shape, array.dtype)
        flat, bounce = host.reshape(-1).view(np.uint8), self._bounced()
        for begin in range(0, flat.size, BOUNCE):
            part = bounce[: min(BOUNCE, flat.size - begin)]
            self.driver.copy_out(part, array.address + begin, self.compute)
            self.driver.synchronize(self.compute)
            flat[begin : begin + part.size] = part
        return host

    def host(self, array: DeviceArray) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        return self.read(array)

    def put_back(self, array: DeviceArray, shown: np.ndarray[Any, Any]) -> None:
        """The copy's numbers into the array."""
        self.write(array, shown.reshape(array.shape))

    def _bounced(self) -> Any:
        if self._bounce is None:
            self._bounce = self.driver.pinned(BOUNCE)
        return self._bounce

    # ------------------------------------------------------------------ blocks

    def incoming(
        self, cache: MatCache, label: str, size: int, dtype: Any, copies: int
    ) -> DeviceIncoming:
        """Room on the device for an array of blocks."""
        if copies > 1:  # if blocks are not in pinned memory already
            self.host_bytes += copies * size * np.dtype(dtype).itemsize
        return DeviceIncoming(self, cache, label, size, dtype, copies)

    def index(self, cache: MatCache, pattern: PatternSlot) -> DeviceIndex | None:
        """What makes it here, if this backend does."""
        return DeviceIndex(cache, pattern) if self.indexes else None

    def begin_block(self) -> None:
        """Use the other buffers, once all that was given before the last block began is done."""
        self.launcher.flush()
        self.driver.record(self._done[self.side], self.compute)  # with what came after the block
        self.side = (self.side + 1) % SIDES
        self.block += 1
        self.driver.synchronize(self._done[self.side])
        self.tally.look(self.side)
        self._staged = 0
        self.in_block = self.launcher.queueing = True

    def end_block(self) -> None:
        """Run what is queued; returns when the block's arrays have left the host."""
        self.launcher.flush()
        self.in_block = self.launcher.queueing = False
        self._await_copies()
        self.tally.copy(self.side, self.compute)
        self.driver.synchronize(self._arrived[self.side])

    def arriving(self) -> None:
        """A copy was given to the stream of copies: kernels from now on are to wait for it."""
        self._arriving = True

    def _await_copies(self) -> None:
        if self._arriving:
            self.driver.record(self._arrived[self.side], self.copies)
            self.driver.wait(self.compute, self._arrived[self.side])
            self._arriving = False

    def drain(self) -> None:
        """Wait until nothing runs."""
        self.launcher.flush()
        self.driver.synchronize(self.copies)
        self.tally.copy(SIDES, self.compute)
        self.driver.synchronize(self.compute)
        self.tally.look(SIDES)

    # ------------------------------------------------------------------ kernels

    @property
    def counted(self) -> int:
        """Operations that kernels counted, as of some block before the last."""
        return self.tally.seen

    def text(self, key: Hashable, source: Callable[[], str], name: str = "run") -> Text:
        """The kernel known by `key`; at the first call its `source` is made."""
        found = self._texts.get(key)
        if found is None:
            found = self._texts[key] = Text(source(), name)
        return found

    def compile_expected(self) -> None:
        """Compile all kernels that were named and are not compiled yet."""
        for text in self._texts.values():
            self._compile(text)

    def _compile(self, text: Text) -> None:
        if text.function is None:
            text.function = self.driver.function(text.source, text.name)

    def launch(self, text: Text, units: int, per_block: int, *args: Any) -> None:
        """Run a kernel whose threads loop over `units` of work, of which a block of threads does
        `per_block` at a time.
        """
        most = self.processors * WAVES
        self.launch_blocks(text, max(1, min(-(-units // per_block), most)), *args)

    def launch_blocks(self, text: Text, blocks: int, *args: Any) -> None:
        """Run a kernel with so many blocks of threads."""
        if text.function is None:
            self._compile(text)
        values = tuple(a.address if isinstance(a, DeviceArray) else a for a in args)
        self.launcher.add(Kernel(text.function, blocks, THREADS, values), source_line())

    def product(self, product: Product) -> None:
        """A dense product."""
        self.launcher.add(product, source_line())

    def close(self) -> None:
        """Free the memory, whatever still runs having ended; twice is fine."""
        try:
            if self._free.alive and self._addresses:
                self.drain()
        finally:
            self._texts.clear()
            self._free()


def _release(tenants: Tenants, addresses: list[int]) -> None:
    """Also of a backend that was forgotten."""
    try:
        for address in addresses:
            tenants.driver.free(address)
    finally:
        tenants.leave()
