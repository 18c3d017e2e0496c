"""The driver of a real device: CuPy's runtime calls and compiler, and cuBLAS.

CuPy's memory pool is not used: memory comes from `cudaMalloc`, once.

Longer than 300 lines: the protocol of a driver is one class.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from ..errors import DeviceError, MemoryPlanError
from . import advice, faults
from .cublas import Blas
from .cusolver import Solver
from .driver import Bytes, Copy, Driver, Factorization, Limits, Product, Triangular

# Pinned host memory: start and end, by the number of its owner.
_pinned: dict[int, tuple[int, int]] = {}
OPTIONS = ("--std=c++17", "--fmad=true")  # and -ftz=true, which CuPy always adds
NOTHING = 'extern "C" __global__ void nothing() {}'
DONE, NOT_READY = 0, 600  # cudaSuccess, cudaErrorNotReady
CONCURRENT = 89  # cudaDevAttrConcurrentManagedAccess
REACHED_ALREADY = 704  # cudaErrorPeerAccessAlreadyEnabled


def device_count() -> int:
    """Return how many devices CuPy finds. Raises CuPy's error if CuPy does not work."""
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


def cuda_versions() -> tuple[int, int]:
    """Return the versions of CUDA of the driver and of CuPy's libraries; 12090 is 12.9.

    The driver's is 0 where none is installed.
    """
    import cupy

    runtime = cupy.cuda.runtime
    return int(runtime.driverGetVersion()), int(runtime.runtimeGetVersion())


class _Told:
    """Passes errors within a `with` block to a driver's `tell`. A generator would take longer."""

    __slots__ = ("_driver",)

    def __init__(self, driver: CupyDriver) -> None:
        """Keep the driver."""
        self._driver = driver

    def __enter__(self) -> None:
        """Begin; there is nothing to do."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Raise another error in place of one of CUDA, or let it pass."""
        if isinstance(error, RuntimeError):
            self._driver.tell(error)


class CupyDriver:
    """See `Driver`. During a call the calling thread's current device is this one."""

    def __init__(self, number: int) -> None:
        """Open the device `number`.

        Raises ImportError if CuPy or a part of CUDA is missing.
        """
        import cupy

        self._cupy, self._runtime = cupy, cupy.cuda.runtime
        self.number = number
        self.lost = False
        self._name = f"cuda:{number}"
        self._reached: set[int] = {number}
        self._modules: dict[str, Any] = {}
        self._live: set[int] = set()
        with self._current():
            properties = self._runtime.getDeviceProperties(number)
            self._name = f"cuda:{number} ({properties['name'].decode()})"
            self._processors = int(properties["multiProcessorCount"])
            self._runtime.memGetInfo()  # makes a context, if there is memory for one
            self._try_compiler()
            self._blas = Blas()
        self._solver: Solver | None = None

    def _try_compiler(self) -> None:
        try:
            self.function(NOTHING, "nothing")
        except (DeviceError, MemoryPlanError):
            raise
        except Exception as error:  # CuPy finds no NVRTC, or no CUDA headers
            raise ImportError(f"CuPy cannot compile kernels: {error}") from error

    def _current(self) -> AbstractContextManager[None]:
        """Make this the thread's current device, within this `with` block.

        The previous device is then restored if the thread had used it. Otherwise CUDA would reserve
        hundreds of megabytes on it.

        Errors of CUDA become those that `faults.told` returns.
        """
        try:
            before = self._runtime.getDevice()
        except RuntimeError as error:
            self.tell(error)
            raise
        return _Told(self) if before == self.number else self._turned(before)

    @contextmanager
    def _turned(self, before: int) -> Iterator[None]:
        """Turn from the device `before` to this one."""
        with _Told(self):
            used = self._cupy.cuda.driver.ctxGetCurrent()
            self._runtime.setDevice(self.number)
            try:
                yield
            finally:
                if used:
                    self._runtime.setDevice(before)

    def tell(self, error: RuntimeError) -> None:
        """Raise what `faults.told` returns in place of an error of CUDA, if that says more."""
        self.lost = self.lost or faults.ends_work(getattr(error, "status", 0))
        if (told := faults.told(error, self._name, cuda_versions())) is not None:
            raise told from error

    def limits(self) -> Limits:
        """Return what the runtime reports."""
        with self._current():
            free, total = self._runtime.memGetInfo()
        return Limits(self._name, int(free), int(total), self._processors)

    def allocate(self, nbytes: int) -> int:
        """Allocate by cudaMalloc."""
        with self._current(), self._memory(f"{nbytes:,} bytes of the device's"):
            address = int(self._runtime.malloc(nbytes))
        self._live.add(address)
        return address

    def spread(self, nbytes: int, near: int) -> int:
        """Allocate managed memory, and advise CUDA never to move it: see `advice.py`."""
        with self._current(), self._memory(f"{nbytes:,} bytes of managed"):
            if not self._runtime.deviceGetAttribute(CONCURRENT, self.number):
                raise DeviceError(
                    f"{self._name}: its driver cannot let kernels read the host's memory in place "
                    "(concurrentManagedAccess), so tables must fit on the device. Lower "
                    "the model's size, or take a device with more memory."
                )
            address = int(self._runtime.mallocManaged(nbytes))
            self._live.add(address)
            advice.keep(address, near, self.number)
            advice.keep(address + near, nbytes - near, advice.HOST)
            advice.map_to(address, nbytes, self.number)
        return address

    @contextmanager
    def _memory(self, what: str) -> Iterator[None]:
        """Turn CUDA's out-of-memory error into MemoryError. what: was asked for."""
        try:
            yield
        except self._runtime.CUDARuntimeError as error:
            if error.status != faults.OUT_OF_MEMORY:  # an earlier error of another kind
                raise
            raise MemoryError(f"{error}: {what}") from error

    def free(self, address: int) -> None:
        """Free by cudaFree."""
        if not self.lost:
            with self._current():
                self._runtime.free(address)
        self._live.discard(address)

    def pinned(self, nbytes: int) -> Bytes:
        """Allocate by cudaHostAlloc, for all devices; freed with the array and its views."""
        portable = self._runtime.hostAllocPortable
        with self._current(), self._memory(f"{nbytes:,} bytes of the host's, pinned"):
            owner = self._cupy.cuda.pinned_memory.PinnedMemory(max(nbytes, 1), portable)
        buffer: Any = (ctypes.c_uint8 * nbytes).from_address(owner.ptr)
        buffer.owner = owner  # lives as long as views of the memory
        _pinned[id(owner)] = owner.ptr, owner.ptr + nbytes
        weakref.finalize(owner, _pinned.pop, id(owner))
        return np.ctypeslib.as_array(buffer)

    def is_pinned(self, array: np.ndarray[Any, Any]) -> bool:
        """Return whether a driver of this process allocated the memory."""
        start = array.ctypes.data
        end = start + array.nbytes
        return any(first <= start and end <= last for first, last in list(_pinned.values()))

    def stream(self) -> Any:
        """Make a stream that does not wait for the default stream."""
        with self._current():
            return self._cupy.cuda.Stream(non_blocking=True)

    def event(self) -> Any:
        """Make an event without a clock."""
        with self._current():
            return self._cupy.cuda.Event(disable_timing=True)

    def record(self, event: Any, stream: Any) -> None:
        """See `Driver`."""
        with self._current():
            event.record(stream)

    def wait(self, stream: Any, event: Any) -> None:
        """See `Driver`."""
        with self._current():
            stream.wait_event(event)

    def synchronize(self, what: Any) -> None:
        """See `Driver`."""
        with self._current():
            what.synchronize()

    def done(self, event: Any) -> bool:
        """Ask cudaEventQuery, whose status CuPy returns as it is."""
        with self._current():
            status = self._runtime.eventQuery(event.ptr)
            if status not in (DONE, NOT_READY):
                raise self._runtime.CUDARuntimeError(status)
            return bool(status == DONE)

    def copy_in(self, address: int, source: Bytes, stream: Any) -> None:
        """Copy by cudaMemcpyAsync."""
        kind = self._runtime.memcpyHostToDevice
        with self._current():
            self._runtime.memcpyAsync(address, source.ctypes.data, source.size, kind, stream.ptr)

    def copy(self, copies: Sequence[Copy], stream: Any) -> None:
        """Copy by cudaMemcpyAsync, which tells from an address whose memory it is."""
        start, kind, ptr = self._runtime.memcpyAsync, self._runtime.memcpyDefault, stream.ptr
        with self._current():
            for address, source, nbytes in copies:
                start(address, source, nbytes, kind, ptr)

    def copy_out(self, target: Bytes, address: int, stream: Any) -> None:
        """Copy by cudaMemcpyAsync."""
        kind = self._runtime.memcpyDeviceToHost
        with self._current():
            self._runtime.memcpyAsync(target.ctypes.data, address, target.size, kind, stream.ptr)

    def copy_from(self, address: int, other: Driver, source: int, nbytes: int, stream: Any) -> None:
        """Copy by cudaMemcpyPeerAsync: directly if possible, else through the host."""
        runtime = self._runtime
        with self._current():
            if other.number == self.number:
                kind = runtime.memcpyDeviceToDevice
                runtime.memcpyAsync(address, source, nbytes, kind, stream.ptr)
                return
            self._reach(other.number)
            runtime.memcpyPeerAsync(address, self.number, source, other.number, nbytes, stream.ptr)

    def _reach(self, number: int) -> None:
        """Enable direct copies from another device, if the machine allows it."""
        if number in self._reached:
            return
        self._reached.add(number)
        if self._runtime.deviceCanAccessPeer(self.number, number):
            try:
                self._runtime.deviceEnablePeerAccess(number)
            except self._runtime.CUDARuntimeError as error:
                if error.status != REACHED_ALREADY:
                    raise

    def clear(self, address: int, nbytes: int, stream: Any) -> None:
        """Clear by cudaMemsetAsync."""
        with self._current():
            self._runtime.memsetAsync(address, 0, nbytes, stream.ptr)

    def function(self, source: str, name: str) -> Any:
        """Compile by NVRTC; CuPy keeps the result on disk."""
        with self._current():
            module = self._modules.get(source)
            if module is None:
                module = self._modules[source] = self._cupy.RawModule(code=source, options=OPTIONS)
            return module.get_function(name)

    def launch(
        self, function: Any, grid: int, block: int, args: tuple[Any, ...], stream: Any
    ) -> None:
        """See `Driver`."""
        with self._current(), stream:
            function((grid,), (block,), args)

    def product(self, product: Product, stream: Any) -> None:
        """Multiply by cuBLAS."""
        with self._current():
            self._blas.multiply(product, stream.ptr)

    def triangular(self, step: Triangular, stream: Any) -> None:
        """Multiply or solve by cuBLAS."""
        with self._current():
            self._blas.triangular(step, stream.ptr)

    def factorize(self, step: Factorization, stream: Any) -> None:
        """Factorize by cuSOLVER."""
        with self._current():
            self._solve().factorize(step, stream.ptr)

    def factor_bytes(self, what: str, n: int, k: int) -> int:
        """Ask cuSOLVER."""
        with self._current():
            return self._solve().factor_bytes(what, n, k)

    def _solve(self) -> Solver:
        """Return cuSOLVER, which is opened at its first use."""
        if self._solver is None:
            self._solver = Solver()
        return self._solver

    def begin_capture(self, stream: Any) -> None:
        """Start capturing, in a mode that permits freeing memory meanwhile.

        Python may collect another learner at any time.
        """
        with self._current():
            stream.begin_capture(self._runtime.streamCaptureModeRelaxed)

    def end_capture(self, stream: Any) -> Any:
        """See `Driver`."""
        with self._current():
            return stream.end_capture()

    def launch_graph(self, graph: Any, stream: Any) -> None:
        """See `Driver`."""
        with self._current():
            graph.launch(stream)

    def close(self) -> None:
        """Free all remaining memory."""
        for address in list(self._live):
            self.free(address)
        if not self.lost:
            with self._current():
                self._blas.close()
                if self._solver is not None:
                    self._solver.close()
                    self._solver = None
        self._modules.clear()
