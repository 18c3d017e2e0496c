"""The driver of a real device, by CuPy: its runtime calls, its compiler, its cuBLAS.

Nothing here uses CuPy's memory pool: memory is from `cudaMalloc`, once.
"""

from __future__ import annotations

import ctypes
import logging
import weakref
from functools import cache
from typing import Any

import numpy as np

from .driver import Bytes, Driver, Limits, Product

log = logging.getLogger("blocklearn.cuda")

_pinned: dict[int, int] = {}  # memory of the host that copies can be from: its ends by its starts
OPTIONS = ("--std=c++17", "--fmad=true")
REACHED_ALREADY = 704  # cudaErrorPeerAccessAlreadyEnabled


def device_count() -> int:
    """How many devices CuPy sees. Raises what CuPy raises where it does not work."""
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


class CupyDriver:
    """See `Driver`. Every call makes its device the current one of the calling thread."""

    def __init__(self, number: int) -> None:
        """number: of the device."""
        import cupy
        from cupy_backends.cuda.libs import cublas

        self._cupy, self._runtime, self._cublas = cupy, cupy.cuda.runtime, cublas
        self.number = number
        self._device = self._cupy.cuda.Device(number)
        self._reached: set[int] = {number}
        self._modules: dict[str, Any] = {}
        self._live: set[int] = set()
        with self._device:
            properties = self._runtime.getDeviceProperties(number)
            self._name = f"cuda:{number} ({properties['name'].decode()})"
            self._processors = int(properties["multiProcessorCount"])
            self._blas = self._cublas.create()
            self._cublas.setPointerMode(self._blas, self._cublas.CUBLAS_POINTER_MODE_HOST)
        self._blas_room = (0, 0)

    def limits(self) -> Limits:
        """As the runtime says."""
        with self._device:
            free, total = self._runtime.memGetInfo()
        return Limits(self._name, int(free), int(total), self._processors)

    def allocate(self, nbytes: int) -> int:
        """By cudaMalloc."""
        with self._device:
            try:
                address = int(self._runtime.malloc(nbytes))
            except self._runtime.CUDARuntimeError as error:
                raise MemoryError(str(error)) from error
        self._live.add(address)
        return address

    def free(self, address: int) -> None:
        """By cudaFree."""
        with self._device:
            self._runtime.free(address)
        self._live.discard(address)

    def pinned(self, nbytes: int) -> Bytes:
        """By cudaHostAlloc, for all devices; it goes when the array and its views do."""
        portable = self._runtime.hostAllocPortable
        with self._device:
            owner = self._cupy.cuda.pinned_memory.PinnedMemory(max(nbytes, 1), portable)
        buffer = (ctypes.c_uint8 * nbytes).from_address(owner.ptr)
        buffer.owner = owner  # type: ignore[attr-defined]  # lives as long as the memory is seen
        _pinned[owner.ptr] = owner.ptr + nbytes
        weakref.finalize(owner, _pinned.pop, owner.ptr)
        return np.ctypeslib.as_array(buffer)

    def is_pinned(self, array: np.ndarray[Any, Any]) -> bool:
        """Whether a driver of this process made the memory."""
        start = array.ctypes.data
        end = start + array.nbytes
        return any(first <= start and end <= last for first, last in list(_pinned.items()))

    def stream(self) -> Any:
        """One that does not wait for the default stream."""
        with self._device:
            return self._cupy.cuda.Stream(non_blocking=True)

    def event(self) -> Any:
        """Without a clock."""
        with self._device:
            return self._cupy.cuda.Event(disable_timing=True)

    def record(self, event: Any, stream: Any) -> None:
        """See `Driver`."""
        with self._device:
            event.record(stream)

    def wait(self, stream: Any, event: Any) -> None:
        """See `Driver`."""
        with self._device:
            stream.wait_event(event)

    def synchronize(self, what: Any) -> None:
        """See `Driver`."""
        with self._device:
            what.synchronize()

    def copy_in(self, address: int, source: Bytes, stream: Any) -> None:
        """By cudaMemcpyAsync."""
        kind = self._runtime.memcpyHostToDevice
        with self._device:
            self._runtime.memcpyAsync(address, source.ctypes.data, source.size, kind, stream.ptr)

    def copy_out(self, target: Bytes, address: int, stream: Any) -> None:
        """By cudaMemcpyAsync."""
        kind = self._runtime.memcpyDeviceToHost
        with self._device:
            self._runtime.memcpyAsync(target.ctypes.data, address, target.size, kind, stream.ptr)

    def copy_from(self, address: int, other: Driver, source: int, nbytes: int, stream: Any) -> None:
        """By cudaMemcpyPeerAsync: directly where the devices can, else through the host."""
        runtime = self._runtime
        with self._device:
            if other.number == self.number:
                kind = runtime.memcpyDeviceToDevice
                runtime.memcpyAsync(address, source, nbytes, kind, stream.ptr)
                return
            self._reach(other.number)
            runtime.memcpyPeerAsync(address, self.number, source, other.number, nbytes, stream.ptr)

    def _reach(self, number: int) -> None:
        """Let copies from another device be direct, if the machine allows it."""
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
        """By cudaMemsetAsync."""
        with self._device:
            self._runtime.memsetAsync(address, 0, nbytes, stream.ptr)

    def function(self, source: str, name: str) -> Any:
        """Compiled by NVRTC; CuPy keeps the result on disk."""
        with self._device:
            module = self._modules.get(source)
            if module is None:
                module = self._modules[source] = self._cupy.RawModule(code=source, options=OPTIONS)
            return module.get_function(name)

    def launch(
        self, function: Any, grid: int, block: int, args: tuple[Any, ...], stream: Any
    ) -> None:
        """See `Driver`."""
        with self._device, stream:
            function((grid,), (block,), args)

    def product(self, product: Product, stream: Any) -> None:
        """By cuBLAS, which counts by columns: it computes out.T = right.T @ left.T. TF32 is off."""
        p, dtype = product, np.dtype(product.dtype)
        gemm = self._cublas.sgemm if dtype == np.float32 else self._cublas.dgemm
        one, zero = np.ones(1, dtype), np.zeros(1, dtype)
        turned = (self._cublas.CUBLAS_OP_N, self._cublas.CUBLAS_OP_T)
        with self._device:
            self._cublas.setStream(self._blas, stream.ptr)  # drops the workspace
            _set_workspace(self._blas, p.workspace)
            gemm(
                self._blas,
                turned[p.right_turned],
                turned[p.left_turned],
                p.n,
                p.m,
                p.k,
                one.ctypes.data,
                p.right,
                p.k if p.right_turned else p.n,
                p.left,
                p.m if p.left_turned else p.k,
                zero.ctypes.data,
                p.out,
                p.n,
            )

    def begin_capture(self, stream: Any) -> None:
        """Calls of other threads go on as ever."""
        with self._device:
            stream.begin_capture(self._runtime.streamCaptureModeThreadLocal)

    def end_capture(self, stream: Any) -> Any:
        """See `Driver`."""
        with self._device:
            return stream.end_capture()

    def launch_graph(self, graph: Any, stream: Any) -> None:
        """See `Driver`."""
        with self._device:
            graph.launch(stream)

    def close(self) -> None:
        """Free what was not freed."""
        for address in list(self._live):
            self.free(address)
        with self._device:
            self._cublas.destroy(self._blas)
        self._modules.clear()


def _set_workspace(handle: int, workspace: tuple[int, int]) -> None:
    """CuPy has no call for it, so that of the library that CuPy has loaded."""
    if (library := _library()) is not None:
        address, nbytes = workspace
        library.cublasSetWorkspace_v2(
            ctypes.c_void_p(handle), ctypes.c_void_p(address), ctypes.c_size_t(nbytes)
        )


@cache
def _library() -> Any:
    for name in ("libcublas.so.13", "libcublas.so.12"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    log.warning("cuBLAS keeps a workspace of its own, which is not part of the plan.")
    return None
