"""A CUDA device that is none: device memory is host memory, kernels are compiled by g++.

Streams are threads that run what they are given in order, after random delays; events are real.
It finds what a card would not tell: copies from memory that is not pinned, or that was written to
before the copy ran; addresses outside of all allocations; writes just outside an allocation.
Memory is full of NaN when it is allocated, so that numbers that were never written show in the
results.
"""

from __future__ import annotations

import ctypes
import queue
import random
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg

from blocklearn.matcache.cuda import devices
from blocklearn.matcache.cuda.driver import (
    Bytes,
    Copy,
    Factorization,
    Limits,
    Product,
    Triangular,
)
from blocklearn.matcache.emit.cuda_header import TEAMS
from blocklearn.matcache.errors import DeviceLostError
from tests.support import cuda_host

if TYPE_CHECKING:
    import pytest

TEAM = 2  # blocks of a team, where blocks have more than one thread
POISON = 0xFF  # of which floats are NaN
GUARD = 4096
DELAYS = 0.2  # share of the steps that are late
LONGEST = 0.002  # seconds


@cache
def module(source: str, threads: int) -> cuda_host.HostModule:
    """One for each text and process."""
    teams = threads > 1 and TEAMS in source
    return cuda_host.HostModule(source, threads, team=TEAM if teams else 1)


def stand_ins(monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[HostDriver]:
    """Make all devices stand-ins; returns those that are opened, as they come."""
    opened: list[HostDriver] = []

    def open_driver(number: int) -> HostDriver:
        opened.append(HostDriver(seed=number + len(opened), number=number, **options))
        return opened[-1]

    monkeypatch.setattr(devices, "open_driver", open_driver)
    return opened


class HostEvent:
    """The last record of it; it has happened where there is none."""

    def __init__(self) -> None:
        self.flag = threading.Event()
        self.flag.set()


class HostStream:
    """A thread that runs steps in order. noted: what a capture has seen; None: there is none."""

    def __init__(self, late: random.Random) -> None:
        self.late, self.ptr = late, id(self)
        self.noted: list[Callable[[], Callable[[], None]]] | None = None
        self.error: BaseException | None = None
        self._steps: queue.SimpleQueue[tuple[Callable[[], None], bool] | None]
        self._steps = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True, name="cuda-stream")
        self._thread.start()

    def _run(self) -> None:
        while (given := self._steps.get()) is not None:
            step, always = given
            if self.late.random() < DELAYS:
                time.sleep(self.late.random() * LONGEST)
            try:
                if self.error is None or always:
                    step()
            except BaseException as error:
                self.error = error

    def give(self, ready: Callable[[], Callable[[], None]]) -> None:
        """ready: called when the step is handed over; what it returns does the work."""
        if self.noted is not None:
            self.noted.append(ready)
        else:
            self._steps.put((ready(), False))

    def always(self, step: Callable[[], None]) -> None:
        """The same of what cannot be captured, and happens whatever went wrong before."""
        assert self.noted is None, "a stream that captures was asked for something else"
        self._steps.put((step, True))

    def close(self) -> None:
        self._steps.put(None)
        self._thread.join()


class Fault(Exception):
    """What ends the work of a device that fails."""


class HostDriver:
    """See `Driver`. memory: bytes that the device has. seed: of the delays. threads: of a block: 1,
    or 256 that take turns, which takes a hundred times as long.

    ran: the kernels, in order. fails_after: so many; the next one ends the work of the device.
    None: it never fails.
    """

    def __init__(
        self, memory: int = 1 << 30, seed: int = 0, threads: int = 1, number: int = 0
    ) -> None:
        self.memory, self.threads, self.number = memory, threads, number
        self.copied = 0  # bytes that came from other devices
        self.sent = 0  # bytes that came from the host
        self.allocations = self.graphs = 0
        self.replayed = 0
        self.ran: list[str] = []
        self.fails_after: int | None = None
        self.lost = False
        self.launched: list[str] = []
        self.sources: set[str] = set()  # of kernels that were asked for
        self._late = random.Random(seed)
        self._live: dict[int, tuple[int, Any]] = {}
        self._far: dict[int, int] = {}  # bytes on the host
        self._pinned: list[Bytes] = []
        self._streams: list[HostStream] = []
        self.closed = False

    # ------------------------------------------------------------------ memory

    def _alive(self) -> None:
        if self.lost:
            raise DeviceLostError(f"cuda:{self.number} stopped working")

    def limits(self) -> Limits:
        self._alive()
        used = sum(size for size, _ in self._live.values()) - sum(self._far.values())
        return Limits("a stand-in for a device", self.memory - used, self.memory, 2)

    def allocate(self, nbytes: int) -> int:
        raw = np.full(nbytes + 2 * GUARD + 256, POISON, np.uint8)
        start = raw.ctypes.data + GUARD
        address: int = start + -start % 256
        self._live[address] = nbytes, raw
        self.allocations += 1
        return address

    def spread(self, nbytes: int, near: int) -> int:
        """Memory of which `near` bytes count as the device's."""
        address = self.allocate(nbytes)
        self._far[address] = nbytes - near
        return address

    def free(self, address: int) -> None:
        self._far.pop(address, None)
        if not self.lost:
            self._check_guards()
        del self._live[address]

    def _check_guards(self) -> None:
        for address, (size, raw) in self._live.items():
            first = address - raw.ctypes.data
            around = raw[first - GUARD : first], raw[first + size : first + size + GUARD // 2]
            assert all((part == POISON).all() for part in around), "written outside an allocation"

    def _bytes(self, address: int, nbytes: int) -> Any:
        """The memory; an error if it is not all of one allocation."""
        self._alive()
        for start, (size, raw) in self._live.items():
            if start <= address and address + nbytes <= start + size:
                first = address - raw.ctypes.data
                return raw[first : first + nbytes]
        raise AssertionError(f"{nbytes} bytes at {address:#x} lie outside of all allocations")

    def pinned(self, nbytes: int) -> Bytes:
        self._pinned.append(np.full(nbytes, POISON, np.uint8))
        return self._pinned[-1]

    def _lies_pinned(self, address: int) -> bool:
        bounds = map(np.lib.array_utils.byte_bounds, self._pinned)
        return any(first <= address < last for first, last in bounds)

    def is_pinned(self, array: np.ndarray[Any, Any]) -> bool:
        start, end = np.lib.array_utils.byte_bounds(array)
        for held in self._pinned:
            first, last = np.lib.array_utils.byte_bounds(held)
            if first <= start and end <= last:
                return True
        return False

    # ------------------------------------------------------------------ order

    def stream(self) -> HostStream:
        self._streams.append(HostStream(random.Random(self._late.random())))
        return self._streams[-1]

    def event(self) -> HostEvent:
        return HostEvent()

    def record(self, event: HostEvent, stream: HostStream) -> None:
        flag = event.flag = threading.Event()
        stream.always(flag.set)

    def wait(self, stream: HostStream, event: HostEvent) -> None:
        flag = event.flag
        stream.always(lambda: _await(flag))

    def synchronize(self, what: HostStream | HostEvent) -> None:
        self._alive()
        event = what
        if isinstance(event, HostStream):
            event = HostEvent()
            self.record(event, what)  # type: ignore[arg-type]
        deadline = time.monotonic() + 60
        while not event.flag.wait(0.01):
            self._raise()
            assert time.monotonic() < deadline, "nothing moves any more"
        self._raise()
        self._check_guards()

    def done(self, event: HostEvent) -> bool:
        self._alive()
        self._raise()
        return event.flag.is_set()

    def _raise(self) -> None:
        for stream in self._streams:
            if isinstance(stream.error, Fault):
                self.lost = True
                self._alive()
            if stream.error is not None:
                raise AssertionError(f"a stream failed: {stream.error}") from stream.error

    # ------------------------------------------------------------------ work

    def copy_in(self, address: int, source: Bytes, stream: HostStream) -> None:
        assert self.is_pinned(source), "a copy from memory that is not pinned"
        target = self._bytes(address, source.size)

        def ready() -> Callable[[], None]:
            self.sent += source.size
            digest = zlib.crc32(source)

            def copy() -> None:
                assert zlib.crc32(source) == digest, (
                    "the source of a copy was written to before the copy ran"
                )
                np.copyto(target, source)

            return copy

        stream.give(ready)

    def copy(self, copies: Sequence[Copy], stream: HostStream) -> None:
        for address, source, nbytes in copies:
            held = self._in_pinned(source, nbytes)
            if held is None:
                self.copy_from(address, self, source, nbytes, stream)
            else:
                self.copy_in(address, held, stream)

    def _in_pinned(self, address: int, nbytes: int) -> Any:
        """The bytes of pinned memory; None if they are not all of one allocation."""
        for held in self._pinned:
            start = address - held.ctypes.data
            if 0 <= start and start + nbytes <= held.size:
                return held[start : start + nbytes]
        return None

    def copy_out(self, target: Bytes, address: int, stream: HostStream) -> None:
        assert self.is_pinned(target), "a copy into memory that is not pinned"
        source = self._bytes(address, target.size)
        stream.give(lambda: lambda: np.copyto(target, source))

    def copy_from(
        self, address: int, other: Any, source: int, nbytes: int, stream: HostStream
    ) -> None:
        target, origin = self._bytes(address, nbytes), other._bytes(source, nbytes)
        self.copied += nbytes if other is not self else 0
        stream.give(lambda: lambda: np.copyto(target, origin))

    def clear(self, address: int, nbytes: int, stream: HostStream) -> None:
        target = self._bytes(address, nbytes)
        stream.give(lambda: lambda: target.fill(0))

    def function(self, source: str, name: str) -> Any:
        self.sources.add(source)
        return module(source, self.threads), name

    def launch(
        self, function: Any, grid: int, block: int, args: tuple[Any, ...], stream: HostStream
    ) -> None:
        for arg in args:
            if isinstance(arg, int) and arg >= 1 << 32 and not self._lies_pinned(arg):
                self._bytes(arg, 1)
        host, name = function
        self.launched.append(name)
        stream.give(lambda: lambda: self._run(host, name, args, grid))

    def _run(self, host: cuda_host.HostModule, name: str, args: tuple[Any, ...], grid: int) -> None:
        if len(self.ran) == self.fails_after:
            raise Fault
        self.ran.append(name)
        host.call(name, *args, blocks=grid)

    def product(self, product: Product, stream: HostStream) -> None:
        p, dtype = product, np.dtype(product.dtype)

        def view(address: int, rows: int, columns: int) -> Any:
            part = self._bytes(address, rows * columns * dtype.itemsize)
            return part.view(dtype).reshape(rows, columns)

        left = view(p.left, p.k, p.m).T if p.left_turned else view(p.left, p.m, p.k)
        right = view(p.right, p.n, p.k).T if p.right_turned else view(p.right, p.k, p.n)
        out = view(p.out, p.m, p.n)
        self._bytes(*p.workspace)

        def multiply() -> None:
            with np.errstate(all="ignore"):
                if p.half:
                    np.copyto(out, left @ right, where=np.triu(np.ones((p.m, p.n), bool)))
                else:
                    np.matmul(left, right, out=out)

        stream.give(lambda: multiply)

    def triangular(self, step: Triangular, stream: HostStream) -> None:
        s = step
        triangle = self._numbers(s.triangle, s.k, s.k)
        out = self._numbers(s.out, s.m, s.n)
        self._bytes(*s.workspace)

        def work() -> None:
            part = np.tril(triangle) if s.stored_lower else np.triu(triangle)
            part = part.T if s.turned else part
            side = out if s.on_left else out.T
            with np.errstate(all="ignore"):
                if s.solves:
                    part = part if s.on_left else part.T
                    lower = s.stored_lower != s.turned
                    found = _substituted(part, side, lower if s.on_left else not lower)
                    out[:] = found if s.on_left else found.T
                else:
                    out[:] = part @ out if s.on_left else out @ part

        stream.give(lambda: work)

    def factor_bytes(self, what: str, n: int, k: int) -> int:
        return 8 * (n + k)

    def factorize(self, step: Factorization, stream: HostStream) -> None:
        """By SciPy, of matrices that are stored by columns."""
        assert stream.noted is None, "a factorization cannot be captured"
        s = step
        assert s.workspace[1] == self.factor_bytes(s.what, s.n, s.k)
        self._bytes(*s.workspace)
        a = self._numbers(s.a, s.k, s.n).T
        info = self._bytes(s.info, 8).view(np.int32)
        part = {"lu": (s.m, s.k), "cholesky": (0, 0)}.get(s.what, (1, s.k))
        b = self._numbers(s.b, *part) if s.b else None

        def work() -> None:
            lapack, own = scipy.linalg.lapack, np.asfortranarray(a)
            match s.what:
                case "cholesky":
                    a[:], info[0] = lapack.dpotrf(own, lower=0, clean=0)
                case "lu":
                    assert b is not None
                    a[:], pivots, info[0] = lapack.dgetrf(own)
                    if info[0] == 0:
                        b[:] = lapack.dgetrs(np.asfortranarray(a), pivots, b.T.copy(), trans=1)[0].T
                case "qr":
                    assert b is not None
                    a[:], b[0], _, info[0] = lapack.dgeqrf(own)
                case "q":
                    assert b is not None
                    a[:], _, info[0] = lapack.dorgqr(own, b[0].copy())
                case "eigh":
                    assert b is not None
                    b[0], a[:], info[0] = lapack.dsyevd(own, lower=0)

        stream.give(lambda: work)

    def _numbers(self, address: int, rows: int, columns: int) -> Any:
        part = self._bytes(address, rows * columns * 8)
        return part.view(np.float64).reshape(rows, columns)

    def begin_capture(self, stream: HostStream) -> None:
        stream.noted = []

    def end_capture(self, stream: HostStream) -> Any:
        noted, stream.noted = stream.noted, None
        self.graphs += 1
        return noted

    def launch_graph(self, graph: Any, stream: HostStream) -> None:
        self.replayed += 1
        for ready in graph:
            stream.give(ready)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            for stream in self._streams:
                stream.close()


def _substituted(triangle: Any, right: Any, lower: bool) -> Any:
    return scipy.linalg.solve_triangular(triangle, right, lower=lower, check_finite=False)


def _await(flag: threading.Event) -> None:
    assert flag.wait(60), "an event never happened"


def view(address: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """Numbers at an address, for tests that look into the device."""
    count = int(np.prod(shape))
    kind = np.ctypeslib.as_ctypes_type(np.dtype(dtype)) * count
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)).contents).reshape(shape)
