"""CuPy that is none: what `CupyDriver` asks of it, done by stand-ins for devices.

Each call is held against the signature that the CuPy installed here writes into its
documentation: names, numbers of arguments, ranges of C integers. What CuPy keeps for each thread
(the device, the stream) is kept for each thread; the default stream has a thread of its own, so
that what lands there by mistake is out of order.
"""

from __future__ import annotations

import ctypes
import inspect
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_double, c_float, c_int, c_size_t, c_void_p
from functools import wraps
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from tests.support.cuda_device import HostDriver, HostEvent, HostStream

try:
    import cupy as real
except ImportError:  # tests that use this module are skipped
    real = None

RANGES = {
    "int": (-(2**31), 2**31 - 1),
    "unsigned int": (0, 2**32 - 1),
    "intptr_t": (-(2**63), 2**63 - 1),
    "size_t": (0, 2**64 - 1),
}
KINDS = {"str": str, "tuple": tuple, "bool": bool}
SCALARS = (np.int32, np.int64, np.uint32, np.uint64, np.float32, np.float64)


# ------------------------------------------------------------------ signatures


def parsed(documentation: str) -> inspect.Signature:
    """Of a first line such as `malloc(size_t size) -> intptr_t`; annotations are names of types."""
    found = re.match(r"[\w.]+\((.*?)\)(?: -> \w+)?$", documentation.strip().splitlines()[0])
    assert found is not None, documentation
    parameters, kind = [], inspect.Parameter.POSITIONAL_OR_KEYWORD
    for text in filter(None, found[1].split(", ")):
        if text == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        declared, _, default = text.partition("=")
        if declared.startswith("**"):
            parameters.append(inspect.Parameter(declared[2:], inspect.Parameter.VAR_KEYWORD))
            continue
        of, _, name = declared.rpartition(" ")
        value = default or inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, kind, default=value, annotation=of))
    return inspect.Signature(parameters)


def held(documentation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which takes what the documented one takes, and nothing else."""
    signature = parsed(documentation)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            kind = signature.parameters[name].annotation
            if kind in RANGES:
                first, last = RANGES[kind]
                assert isinstance(value, int) and first <= value <= last, (documentation, value)
            elif kind in KINDS:
                assert isinstance(value, KINDS[kind]), (documentation, value)
        return function(*args, **kwargs)

    return call


def as_in(of: Any, made: Callable[..., Any] | None = None) -> Any:
    """Hold the methods of a class against those of CuPy's class; `made`: its constructor."""

    def change(cls: Any) -> Any:
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
                text = getattr(of, name).__doc__
                if name == "__init__" and text.startswith(
                    "Initialize self"
                ):  # of an extension type
                    text = re.sub(r"\((?=.)", "(self, ", of.__doc__, count=1)
                setattr(cls, name, held(text, method))
        return cls

    return change


# ------------------------------------------------------------------ the stand-in


class Machine:
    """Devices, and what each thread is at.

    contexts: devices that were used. reached: from which one another one may be used. apart: of
    which this cannot be said. without_managed: devices that cannot read the host's memory in place.
    peers: copies between devices.
    """

    def __init__(self, hosts: Sequence[HostDriver]) -> None:
        self.hosts = list(hosts)
        self.default = [host.stream() for host in hosts]
        self.streams = {stream.ptr: stream for stream in self.default}
        self.reached: set[tuple[int, int]] = set()
        self.apart: set[tuple[int, int]] = set()
        self.without_managed: set[int] = set()
        self.contexts: set[int] = set()
        self.events: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.versions = 12090, 12090  # of CUDA: of the driver, of the runtime
        self.peers = 0
        self.solver: Any = None
        self._thread = threading.local()

    @property
    def device(self) -> int:
        return int(getattr(self._thread, "device", 0))

    @property
    def host(self) -> HostDriver:
        self._thread.used = True
        self.contexts.add(self.device)
        return self.hosts[self.device]

    @property
    def current(self) -> list[HostStream]:
        if not hasattr(self._thread, "current"):
            self._thread.current = []
        found: list[HostStream] = self._thread.current
        return found

    def stream(self, ptr: int) -> HostStream:
        found = self.streams[ptr] if ptr else self.default[self.device]
        assert found in self.host._streams, "a stream of another device"
        return found

    # What follows is `cupy.cuda.runtime`.

    def getDeviceCount(self) -> int:
        return len(self.hosts)

    def getDevice(self) -> int:
        return self.device

    def setDevice(self, device: int) -> None:
        self._thread.device = device
        self.host  # noqa: B018 (from CUDA 12 on it makes a context)

    def getDeviceProperties(self, device: int) -> dict[str, Any]:
        return {
            "name": b"a stand-in",
            "multiProcessorCount": self.hosts[device].limits().processors,
        }

    def memGetInfo(self) -> tuple[int, int]:
        limits = self.host.limits()
        return limits.free, limits.total

    def malloc(self, size: int) -> int:
        if size > self.host.limits().free:
            raise real.cuda.runtime.CUDARuntimeError(2)
        return self.host.allocate(size)

    def mallocManaged(self, size: int) -> int:
        return self.host.spread(size, 0)  # where it lies, advice decides

    def deviceGetAttribute(self, attrib: int, device: int) -> int:
        assert attrib == real.cuda.runtime.cudaDevAttrConcurrentManagedAccess
        return int(device not in self.without_managed)

    def free(self, ptr: int) -> None:
        self.host.free(ptr)

    def memcpyAsync(self, dst: int, src: int, size: int, kind: int, stream: int) -> None:
        runtime, host, on = real.cuda.runtime, self.host, self.stream(stream)
        if kind == runtime.memcpyHostToDevice:
            host.copy_in(dst, memory(src, size), on)
        elif kind == runtime.memcpyDeviceToHost:
            host.copy_out(memory(dst, size), src, on)
        elif kind == runtime.memcpyDefault:
            host.copy([(dst, src, size)], on)
        else:
            assert kind == runtime.memcpyDeviceToDevice
            host.copy_from(dst, host, src, size, on)

    def memcpyPeerAsync(
        self, dst: int, dstDevice: int, src: int, srcDevice: int, size: int, stream: int
    ) -> None:
        assert (dstDevice, srcDevice) in self.reached | self.apart
        self.peers += 1
        to, other = self.hosts[dstDevice], self.hosts[srcDevice]
        to.copy_from(dst, other, src, size, self.stream(stream))

    def memsetAsync(self, ptr: int, value: int, size: int, stream: int) -> None:
        assert value == 0
        self.host.clear(ptr, size, self.stream(stream))

    def deviceCanAccessPeer(self, device: int, peerDevice: int) -> int:
        return int((device, peerDevice) not in self.apart)

    def deviceEnablePeerAccess(self, peerDevice: int) -> None:
        assert (self.device, peerDevice) not in self.apart
        if (self.device, peerDevice) in self.reached:
            raise real.cuda.runtime.CUDARuntimeError(704)
        self.reached.add((self.device, peerDevice))

    def eventQuery(self, event: int) -> int:
        found = self.events[event]
        assert found.host is self.host, "an event of another device"
        return 0 if self.host.done(found.own) else 600

    def driverGetVersion(self) -> int:
        return self.versions[0]

    def runtimeGetVersion(self) -> int:
        return self.versions[1]

    # Of `cupy.cuda.driver`.

    def ctxGetCurrent(self) -> int:
        return int(getattr(self._thread, "used", False))


def memory(address: int, nbytes: int) -> Any:
    """Bytes of the host."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


class Module:
    """Names of one of CuPy's modules: its constants and errors, and calls that `machine` does."""

    def __init__(self, of: Any, machine: Machine) -> None:
        self._of, self._machine = of, machine

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if not callable(found) or isinstance(found, type):
            return found
        return held(found.__doc__, getattr(self._machine, name))


def cupy(machine: Machine) -> Any:
    """What takes the place of the module `cupy`."""

    @as_in(real.cuda.Stream)
    class Stream:
        def __init__(
            self,
            null: Any = False,
            non_blocking: Any = False,
            ptds: Any = False,
            priority: Any = None,
        ) -> None:
            assert non_blocking
            self.host = machine.host
            self.own = self.host.stream()
            self.ptr = self.own.ptr
            machine.streams[self.ptr] = self.own

        def __enter__(self) -> None:
            assert self.own in machine.host._streams
            machine.current.append(self.own)

        def __exit__(self, *args: Any) -> None:
            machine.current.pop()

        def wait_event(self, event: Any) -> None:
            self.host.wait(self.own, event.own)

        def synchronize(self) -> None:
            self.host.synchronize(self.own)

        def begin_capture(self, mode: Any = None) -> None:
            assert mode == real.cuda.runtime.streamCaptureModeRelaxed
            self.host.begin_capture(self.own)

        def end_capture(self) -> Any:
            graph = Graph()
            graph.noted = self.host.end_capture(self.own)
            return graph

    @as_in(real.cuda.Event)
    class Event:
        def __init__(
            self, block: Any = False, disable_timing: Any = False, interprocess: Any = False
        ) -> None:
            self.host, self.own = machine.host, HostEvent()
            self.ptr = id(self)
            machine.events[self.ptr] = self

        def record(self, stream: Any = None) -> None:
            assert stream.own in self.host._streams, "an event of another device"
            self.host.record(self.own, stream.own)

        def synchronize(self) -> None:
            self.host.synchronize(self.own)

    @as_in(real.cuda.Graph)
    class Graph:
        noted: Any

        def launch(self, stream: Any = None) -> None:
            machine.host.launch_graph(self.noted, stream.own)

    @as_in(real.cuda.pinned_memory.PinnedMemory)
    class PinnedMemory:
        def __init__(self, size: int, flags: int = 0) -> None:
            assert size > 0 and flags == real.cuda.runtime.hostAllocPortable
            self.size, self.own = size, machine.host.pinned(size)
            self.ptr = self.own.ctypes.data

    @as_in(real.RawModule)
    class RawModule:
        def __init__(self, code: Any = None, *, options: Any = ()) -> None:
            assert all(isinstance(option, str) for option in options)
            self.code = code

        def get_function(self, name: str) -> Any:
            return RawKernel(machine.host.function(self.code, name))

    class RawKernel:
        def __init__(self, function: Any) -> None:
            self.function = function

        def __call__(self, grid: Any, block: Any, args: Any) -> None:
            assert isinstance(grid, tuple) and isinstance(block, tuple) and isinstance(args, tuple)
            assert all(type(arg) is int or type(arg) in SCALARS for arg in args)
            host = machine.host
            on = machine.current[-1] if machine.current else machine.default[machine.device]
            host.launch(self.function, grid[0], block[0], args, on)

    runtime, driver = (Module(of, machine) for of in (real.cuda.runtime, real.cuda.driver))
    pinned = SimpleNamespace(PinnedMemory=PinnedMemory)
    cuda = SimpleNamespace(
        runtime=runtime, driver=driver, Stream=Stream, Event=Event, pinned_memory=pinned
    )
    return SimpleNamespace(cuda=cuda, RawModule=RawModule)


class Cublas:
    """The C functions of cuBLAS, by their prototypes in cublas_api.h. given: bytes of the workspace
    of each product. handles: that are alive.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine, self.handles = machine, 0
        self.given: list[int] = []
        self._stream, self._workspace = 0, (0, 0)
        handle, gemm = c_void_p, [c_void_p, *[c_int] * 5]
        self.cublasCreate_v2 = self._function(self._create, POINTER(c_void_p))
        self.cublasDestroy_v2 = self._function(self._destroy, handle)
        self.cublasSetStream_v2 = self._function(self._set_stream, handle, c_void_p)
        self.cublasSetWorkspace_v2 = self._function(self._set_workspace, handle, c_void_p, c_size_t)
        triangle = [c_void_p, *[c_int] * 6, POINTER(c_double), *[c_void_p, c_int] * 2]
        self.cublasDtrsm_v2 = self._function(self._trsm, *triangle)
        self.cublasDtrmm_v2 = self._function(self._trmm, *triangle, c_void_p, c_int)
        for kind, number in (("S", c_float), ("D", c_double)):
            one, matrix = POINTER(number), [c_void_p, c_int]
            types = [*gemm, one, *matrix, *matrix, one, *matrix]
            setattr(self, f"cublas{kind}gemm_v2", self._function(self._gemm(number), *types))
            types = [c_void_p, *[c_int] * 4, one, *matrix, one, *matrix]
            setattr(self, f"cublas{kind}syrk_v2", self._function(self._syrk(number), *types))

    @staticmethod
    def _function(body: Callable[..., int], *types: Any) -> Any:
        return ctypes.CFUNCTYPE(c_int, *types)(body)

    def _create(self, handle: Any) -> int:
        self.handles += 1
        handle[0] = 4711
        return 0

    def _destroy(self, handle: int) -> int:
        self.handles -= 1
        return 0 if handle == 4711 else 1

    def _set_stream(self, handle: int, stream: int | None) -> int:
        self._stream, self._workspace = stream or 0, (0, 0)
        return 0

    def _set_workspace(self, handle: int, address: int | None, nbytes: int) -> int:
        self._workspace = address or 0, nbytes
        return 7 if self._workspace[0] % 256 else 0

    def _trsm(self, *args: Any) -> int:
        return self._triangle(scipy.linalg.blas.dtrsm, *args)

    def _trmm(self, *args: Any) -> int:
        assert args[-4:-2] == args[-2:], "out of place"
        return self._triangle(scipy.linalg.blas.dtrmm, *args[:-2])

    def _triangle(
        self, routine: Any, handle: int, side: int, uplo: int, turned: int, unit: int, m: int,
        n: int, alpha: Any, a: int, lda: int, b: int, ldb: int,
    ) -> int:  # fmt: skip
        k = n if side else m
        if lda < max(1, k) or ldb < max(1, m) or unit:
            return 7
        A, B = columns(self._machine, a, k, lda, k), columns(self._machine, b, m, ldb, n)
        options = {"side": side, "lower": not uplo, "trans_a": turned}

        def work() -> None:
            own = [np.asfortranarray(matrix) for matrix in (A, B)]
            np.copyto(B, routine(alpha[0], *own, **options))

        alpha = [alpha[0]]
        self.given.append(self._workspace[1])
        self._machine.stream(self._stream).give(lambda: work)
        return 0

    def _syrk(self, number: Any) -> Callable[..., int]:
        def syrk(
            handle: int, uplo: int, turned: int, n: int, k: int, alpha: Any, a: int, lda: int,
            beta: Any, c: int, ldc: int,
        ) -> int:  # fmt: skip
            if lda < max(1, k if turned else n) or ldc < max(1, n):
                return 7
            rows, count = (k, n) if turned else (n, k)
            A = columns(self._machine, a, rows, lda, count, number)
            A, C = A.T if turned else A, columns(self._machine, c, n, ldc, n, number)
            half = np.triu if uplo else np.tril
            assert (alpha[0], beta[0]) == (1.0, 0.0)
            self.given.append(self._workspace[1])

            def work() -> None:
                np.copyto(C, A @ A.T, where=half(np.ones((n, n), bool)))

            self._machine.stream(self._stream).give(lambda: work)
            return 0

        return syrk

    def _gemm(self, number: Any) -> Callable[..., int]:
        def gemm(
            handle: int, turn_a: int, turn_b: int, m: int, n: int, k: int, alpha: Any,
            a: int, lda: int, b: int, ldb: int, beta: Any, c: int, ldc: int,
        ) -> int:  # fmt: skip
            def matrix(address: int, rows: int, count: int, leading: int) -> Any:
                return columns(machine, address, rows, leading, count, number)

            machine = self._machine
            if lda < max(1, k if turn_a else m) or ldb < max(1, n if turn_b else k):
                return 7
            if ldc < max(1, m):
                return 7
            A = matrix(a, k, m, lda).T if turn_a else matrix(a, m, k, lda)
            B = matrix(b, n, k, ldb).T if turn_b else matrix(b, k, n, ldb)
            C, scale, keep = matrix(c, m, n, ldc), alpha[0], beta[0]
            assert (scale, keep) == (1.0, 0.0)
            self.given.append(self._workspace[1])
            machine.stream(self._stream).give(lambda: lambda: np.copyto(C, A @ B))
            return 0

        return gemm


def columns(
    machine: Machine, address: int, rows: int, leading: int, count: int, number: Any = c_double
) -> Any:
    """A matrix of a device that is stored by columns."""
    if not rows * count:
        return np.zeros((rows, count), number)
    flat = machine.host._bytes(address, leading * count * ctypes.sizeof(number))
    return flat.view(np.dtype(number)).reshape(count, leading)[:, :rows].T


class Cusolver:
    """The C functions of cuSOLVER, by their prototypes in cusolverDn.h.

    handles: that are alive.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine, self._stream, self.handles = machine, 0, 0
        whole, handle, address, matrix = c_int, c_void_p, c_void_p, [c_void_p, c_int]
        prototypes: dict[str, tuple[Any, list[Any]]] = {
            "SetStream": (self._set_stream, [c_void_p]),
            "Destroy": (self._destroy, []),
            "Dpotrf": (self._potrf, [*[whole] * 2, *matrix, *matrix, address]),
            "Dgetrf": (self._getrf, [*[whole] * 2, *matrix, *[address] * 3]),
            "Dgetrs": (self._getrs, [*[whole] * 3, *matrix, address, *matrix, address]),
            "Dgeqrf": (self._geqrf, [*[whole] * 2, *matrix, address, *matrix, address]),
            "Dorgqr": (self._orgqr, [*[whole] * 3, *matrix, address, *matrix, address]),
            "Dsyevd": (self._syevd, [*[whole] * 3, *matrix, address, *matrix, address]),
        }
        sizes: dict[str, tuple[Callable[..., int], list[Any]]] = {
            "Dpotrf": (lambda uplo, n, a, lda: n * n, [*[whole] * 2, *matrix]),
            "Dgetrf": (lambda m, n, a, lda: m * n, [*[whole] * 2, *matrix]),
            "Dgeqrf": (lambda m, n, a, lda: 32 * n, [*[whole] * 2, *matrix]),
            "Dorgqr": (lambda m, n, k, a, lda, tau: 32 * k, [*[whole] * 3, *matrix, address]),
            "Dsyevd": (
                lambda job, uplo, n, a, lda, w: 1 + 6 * n + 2 * n * n,
                [*[whole] * 3, *matrix, address],
            ),
        }
        self.cusolverDnCreate = ctypes.CFUNCTYPE(c_int, POINTER(c_void_p))(self._create)
        for name, (body, types) in prototypes.items():
            function = ctypes.CFUNCTYPE(c_int, handle, *types)(body)
            setattr(self, f"cusolverDn{name}", function)
        for name, (size, types) in sizes.items():
            asked = ctypes.CFUNCTYPE(c_int, handle, *types, POINTER(c_int))(self._sized(size))
            setattr(self, f"cusolverDn{name}_bufferSize", asked)
        self._sizes = {name: size for name, (size, _) in sizes.items()}

    def _sized(self, size: Callable[..., int]) -> Callable[..., int]:
        def ask(handle: int, *args: Any) -> int:
            args[-1][0] = size(*args[:-1])
            return 0 if handle == 4712 and all(arg is not None for arg in args) else 3

        return ask

    def _create(self, handle: Any) -> int:
        self.handles += 1
        handle[0] = 4712
        return 0

    def _destroy(self, handle: int) -> int:
        self.handles -= 1
        return 0

    def _set_stream(self, handle: int, stream: int | None) -> int:
        self._stream = stream or 0
        return 0

    def _give(self, work: Callable[[], None]) -> int:
        stream = self._machine.stream(self._stream)
        assert stream.noted is None, "a factorization within a capture"
        stream.give(lambda: work)
        return 0

    def _room(self, name: str, sides: tuple[int, ...], work: int, count: int) -> None:
        """Of the size that was asked about."""
        rest = {"Dorgqr": (0, 0, 0), "Dsyevd": (0, 0, 0)}.get(name, (0, 0))
        assert count >= self._sizes[name](*sides, *rest)
        self._machine.host._bytes(work, 8 * count)

    def _matrix(self, address: int, rows: int, leading: int, count: int) -> Any:
        assert leading >= rows
        return columns(self._machine, address, rows, leading, count)

    def _info(self, address: int) -> Any:
        return self._machine.host._bytes(address, 4).view(np.int32)

    def _potrf(
        self, handle: int, uplo: int, n: int, a: int, lda: int, work: int, lwork: int, info: int
    ) -> int:
        self._room("Dpotrf", (uplo, n), work, lwork)
        A, status = self._matrix(a, n, lda, n), self._info(info)

        def run() -> None:
            own = np.asfortranarray(A)
            A[:], status[0] = scipy.linalg.lapack.dpotrf(own, lower=not uplo, clean=0)

        return self._give(run)

    def _getrf(
        self, handle: int, m: int, n: int, a: int, lda: int, work: int, pivots: int, info: int
    ) -> int:
        self._machine.host._bytes(work, 8 * m * n)
        A, status = self._matrix(a, m, lda, n), self._info(info)
        places = self._machine.host._bytes(pivots, 4 * n).view(np.int32)

        def run() -> None:
            A[:], places[:], status[0] = scipy.linalg.lapack.dgetrf(np.asfortranarray(A))

        return self._give(run)

    def _getrs(
        self, handle: int, turned: int, n: int, m: int, a: int, lda: int, pivots: int, b: int,
        ldb: int, info: int,
    ) -> int:  # fmt: skip
        A, B, status = self._matrix(a, n, lda, n), self._matrix(b, n, ldb, m), self._info(info)
        places = self._machine.host._bytes(pivots, 4 * n).view(np.int32)

        def run() -> None:
            own = [np.asfortranarray(matrix) for matrix in (A, B)]
            found = scipy.linalg.lapack.dgetrs(own[0], places, own[1], trans=turned)
            B[:], status[0] = found

        return self._give(run)

    def _geqrf(
        self, handle: int, m: int, n: int, a: int, lda: int, tau: int, work: int, lwork: int,
        info: int,
    ) -> int:  # fmt: skip
        self._room("Dgeqrf", (m, n), work, lwork)
        A, status = self._matrix(a, m, lda, n), self._info(info)
        factors = columns(self._machine, tau, n, n, 1)[:, 0]

        def run() -> None:
            A[:], factors[:], _, status[0] = scipy.linalg.lapack.dgeqrf(np.asfortranarray(A))

        return self._give(run)

    def _orgqr(
        self, handle: int, m: int, n: int, k: int, a: int, lda: int, tau: int, work: int,
        lwork: int, info: int,
    ) -> int:  # fmt: skip
        self._room("Dorgqr", (m, n, k), work, lwork)
        A, status = self._matrix(a, m, lda, n), self._info(info)
        factors = columns(self._machine, tau, k, k, 1)[:, 0]

        def run() -> None:
            own = np.asfortranarray(A)
            A[:], _, status[0] = scipy.linalg.lapack.dorgqr(own, factors.copy())

        return self._give(run)

    def _syevd(
        self, handle: int, job: int, uplo: int, n: int, a: int, lda: int, w: int, work: int,
        lwork: int, info: int,
    ) -> int:  # fmt: skip
        assert job == 1
        self._room("Dsyevd", (job, uplo, n), work, lwork)
        A, status = self._matrix(a, n, lda, n), self._info(info)
        values = columns(self._machine, w, n, n, 1)[:, 0]

        def run() -> None:
            own = np.asfortranarray(A)
            values[:], A[:], status[0] = scipy.linalg.lapack.dsyevd(own, lower=not uplo)

        return self._give(run)


def install(monkeypatch: pytest.MonkeyPatch, hosts: Sequence[HostDriver]) -> tuple[Machine, Cublas]:
    """In place of CuPy and cuBLAS. Skips where CuPy is not installed."""
    import sys

    from blocklearn.matcache.cuda import cublas, cusolver

    if real is None:
        pytest.skip("CuPy is not installed")
    machine = Machine(hosts)
    library = Cublas(machine)
    monkeypatch.setitem(sys.modules, "cupy", cupy(machine))
    monkeypatch.setattr(cublas, "library", lambda: library)
    solver = machine.solver = Cusolver(machine)
    monkeypatch.setattr(cusolver, "library", lambda: solver)
    return machine, library
