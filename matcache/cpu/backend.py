"""The CPU backend: compiles kernels with Numba and runs them on a thread pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ..containers.slots import allocate_bytes, put
from . import launches as launches
from .addresses import Call, address_of, compiled_for
from .algebra.blas import UNLIMITED, matmul, one_thread
from .compiling.ahead import Signatures, compile_all, want
from .compiling.compiled import Kernel, type_of
from .executor import RUNNERS, compile_runners, joined
from .kernels import products as cpu_kernels
from .kernels.finite import all_finite
from .kernels.index import HostIndex
from .pool import Pool
from .processors import available_threads

Array = np.ndarray[Any, Any]


class CPU:
    """Kernels and threads of one cache, with NumPy arrays. See `Backend`."""

    kind = "cpu"
    host_bytes = 0
    free_bytes = None
    rounded = np.dtype(np.float32)
    repeats = True
    lost = False  # the process would be, too
    write = staticmethod(put)

    def __init__(self, threads: int | None = None) -> None:
        """Make the pool.

        threads: None: as many as the process may use.
        """
        self.pool = Pool(available_threads() if threads is None else threads)
        self.threads = self.pool.threads
        self.kernels: dict[str, Kernel] = dict(cpu_kernels.KERNELS)
        self.planning = False  # whether launches only prepare their kernels
        self.calls: list[Call] | None = None  # what a launch did; see `Tape`
        self.operations = np.zeros(1, np.int64)  # counted by kernels
        self._runners = False  # whether what runs recorded calls is compiled
        self._awaited: Signatures = {}  # kernels to compile before the first block
        self._put_off: Signatures = {}  # kernels to compile when they are first called
        self._noting = self._awaited

    def run(self, kernel: Kernel, bounds: Array, *args: Any) -> None:
        """Run `kernel(chunk, thread, bounds[1:], *args)` for all chunks, on all threads.

        bounds: the number of chunks, and their bounds; see `bounds.py`.
        """
        self._do(Call(kernel, bounds, args))

    def run_here(self, kernel: Kernel, bounds: Array, *args: Any) -> None:
        """Run the same on the calling thread: the chunks are too little work for threads."""
        self._do(Call(kernel, bounds, args, alone=True))

    def run_blas(self, kernel: Kernel, bounds: Array, *args: Any) -> None:
        """Run a kernel that calls BLAS, like `run`, while BLAS has no threads of its own."""
        self._do(Call(kernel, bounds, args, blas=True))

    def call(self, kernel: Kernel, *args: Any) -> None:
        """Call `kernel(*args)`."""
        self._do(Call(kernel, None, args))

    def _do(self, call: Call) -> None:
        """Run a call of a kernel, or prepare it while memory is being planned."""
        kernel, bounds, args = call[:3]
        if self.planning:
            self.expect(kernel, *(() if bounds is None else (0, 0)), *call.given)
            return
        if kernel in self._put_off:
            compile_all({kernel: self._put_off.pop(kernel)})
        given = call.given
        if bounds is None:
            kernel(*args)
        elif call.alone:
            for chunk in range(int(bounds[0])):
                kernel(chunk, 0, *given)
        else:
            with one_thread if call.blas else UNLIMITED:
                self.pool.run(lambda chunk, thread: kernel(chunk, thread, *given), int(bounds[0]))
        if self.calls is not None:
            self.calls.append(call)
            # Both may compile: not in the middle of training, when the call is first repeated.
            compiled_for(call)
            if not self._runners:
                compile_runners(self.threads)
                self._runners = True

    def joined(self, steps: Sequence[Any], owners: Sequence[Any]) -> list[Callable[[], None]]:
        """Return functions that run steps of a `Tape` again.

        owners: containers whose arrays blocks bring.
        """
        return joined(self.pool, steps, owners)

    def expect(self, kernel: Kernel, *args: Any) -> None:
        """Note that `kernel` will be called with arguments of these types."""
        want(self._noting, kernel, tuple(map(type_of, args)))

    def address(self, kernel: Kernel, *args: Any) -> int:
        """Return where the code of a kernel for arguments of these types is; others may call it.

        While memory is planned it is noted, and the address is 0.
        """
        if self.planning:
            self.expect(kernel, *args)
            return 0
        self.prepare([(kernel, *args)])
        return address_of(kernel, tuple(map(type_of, args)))

    @contextmanager
    def later(self) -> Iterator[None]:
        """Compile what launches ask for within this `with` block when it is first called."""
        self._noting = self._put_off
        try:
            yield
        finally:
            self._noting = self._awaited

    def compile_expected(self) -> None:
        """Compile the noted kernels or load them from disk, so that no block waits for them.

        Of several threads also what runs recorded calls, side by side with the others.
        """
        for kernel, types in RUNNERS if self.threads > 1 else ():
            want(self._awaited, kernel, types)
        compile_all(self._awaited, self.threads)
        self._awaited.clear()
        self.planning = False

    def compile_later(self) -> None:
        """Compile what was put off, so that nothing but blocks takes time."""
        compile_all(self._put_off, self.threads)
        self._put_off.clear()

    def prepare(self, calls: Iterable[tuple[Any, ...]]) -> None:
        """Compile kernels that are called directly, with arguments of these types.

        While memory is planned, they are noted, and compiled with those of the plan.
        """
        wanted: Signatures = self._awaited if self.planning else {}
        for kernel, *args in calls:
            want(wanted, kernel, tuple(map(type_of, args)))
        if not self.planning:
            compile_all(wanted, self.threads)

    def allocate(self, nbytes: int) -> Array:
        """Allocate zeroed bytes."""
        return allocate_bytes(nbytes)

    def clear(self, array: Array) -> None:
        """Do nothing: `allocate` returns zeros."""

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return a zeroed NumPy array."""
        return np.zeros(shape, dtype)

    def set_rows(self, array: Array, rows: Array, numbers: Array) -> None:
        """Copy numbers into rows of an array."""
        array[rows] = numbers

    def writing(self, array: Array, numbers: Any) -> Callable[[], None]:
        """Return a function that copies these numbers into an array, as a call of a kernel."""
        return partial(self.call, self.kernels["copy"], *map(_bytes, (numbers, array)))

    def read(self, array: Array) -> Array:
        """Return a copy."""
        return array.copy()

    def host(self, array: Array) -> Array:
        """Return the array itself."""
        return array

    def finite(self, array: Array) -> bool:
        """Look at the array where it is."""
        return all_finite(array)

    def put_back(self, array: Array, shown: Array) -> None:
        """Do nothing: `shown` is the array itself."""

    def incoming(self, cache: Any, label: str, arrays: Any, copies: int) -> None:
        """Return None: kernels use arrays of blocks where they are."""

    def keep_blocks(self, cache: Any, nbytes: int) -> None:
        """Do nothing: blocks that a source keeps are used where they are."""

    def hold(self, cache: Any, store: Any, offsets: Any = None, block_rows: int = 0) -> None:
        """Return None: the rows of states are where kernels read them."""

    def hold_matrix(self, cache: Any, label: str, rows: int, entries: int) -> None:
        """Return None: blocks use the rows of a matrix where they are."""

    def spread(self) -> None:
        """Return None: the host has all tables."""

    def index(self, cache: Any, pattern: Any, *, of_block: bool) -> HostIndex | None:
        """Return the maker of the index; None for blocks: the reader's thread is as fast."""
        return None if of_block else HostIndex(cache, pattern)

    def drain(self) -> None:
        """Do nothing: launches are synchronous."""

    def begin_block(self) -> None:
        """Do nothing."""

    def end_block(self) -> None:
        """Do nothing: launches are synchronous."""

    @property
    def counted(self) -> int:
        """Operations counted by kernels that draw: their number depends on the data."""
        return int(self.operations[0])

    def matmul(self, left: Any, right: Any, out: Any, symmetric: bool) -> None:
        """Compute out = left @ right by BLAS, the same bits for any number of threads."""
        matmul(self.pool, left, right, out, symmetric)

    def rest(self) -> None:
        """Stop the threads until the next launch that needs them."""
        self.pool.rest()

    def close(self) -> None:
        """Stop the threads."""
        self._awaited.clear()
        self._put_off.clear()
        self.pool.close()


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
