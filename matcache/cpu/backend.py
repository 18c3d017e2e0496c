"""The CPU backend: compiles kernels with Numba and runs them on a thread pool."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numba
import numpy as np

from ..containers.dispatch import backend
from ..containers.slots import allocate_bytes
from ..emit.kernel_cache import remove_damaged
from . import kernels as cpu_kernels
from . import launches as launches
from .blas import matmul
from .compiled import Kernel
from .pool import Pool
from .processors import available_threads

Array = np.ndarray[Any, Any]


@cache
def _written_by_hand() -> dict[str, Kernel]:
    """Return the kernels of `kernels.py`; damaged compiled files are removed first."""
    remove_damaged(cpu_kernels.KERNELS.values())
    return cpu_kernels.KERNELS


def type_of(argument: Any) -> Any:
    """Return Numba's type of a kernel argument."""
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        layout: Literal["C", "A"] = "C" if flags.c_contiguous else "A"
        return _array_type(argument.dtype, argument.ndim, layout, flags.writeable, flags.aligned)
    return numba.typeof(argument)  # type: ignore[no-untyped-call]


@cache
def _array_type(
    dtype: np.dtype[Any], ndim: int, layout: Literal["C", "A"], writeable: bool, aligned: bool
) -> Any:
    return numba.types.Array(
        numba.from_dtype(dtype), ndim, layout, readonly=not writeable, aligned=aligned
    )


class InPlace:
    """Uses arrays of blocks where they are. See `Incoming`."""

    def bind(self, array: Array, count: int | None = None) -> Array:
        """Return the array itself."""
        return array


IN_PLACE = InPlace()


@backend("cpu")
class CPU:
    """Kernels and threads of one cache, with NumPy arrays. See `Backend`."""

    kind = "cpu"
    host_bytes = 0
    free_bytes = None
    rounded = np.dtype(np.float32)
    repeats = True

    def __init__(self, threads: int | None = None) -> None:
        """Make the pool.

        threads: None: as many as the process may use.
        """
        self.pool = Pool(available_threads() if threads is None else threads)
        self.threads = self.pool.threads
        self.kernels: dict[str, Kernel] = dict(_written_by_hand())
        self.calls: list[tuple[Any, tuple[Any, ...]]] | None = None  # what a launch did; see `Tape`
        self._awaited: list[tuple[Any, tuple[Any, ...]]] = []

    def run(self, kernel: Kernel, chunks: int, *args: Any) -> None:
        """Run `kernel(chunk, thread, *args)` for all chunks, on all threads."""
        if self.calls is not None:
            self.calls.append((self.run, (kernel, chunks, *args)))
        self.pool.run(lambda chunk, thread: kernel(chunk, thread, *args), chunks)

    def run_here(self, kernel: Kernel, chunks: int, *args: Any) -> None:
        """Run `kernel(chunk, 0, *args)` for all chunks, which are too little work for threads."""
        for chunk in range(chunks):
            self.call(kernel, chunk, 0, *args)

    def call(self, kernel: Kernel, *args: Any) -> None:
        """Call `kernel(*args)`."""
        if self.calls is not None:
            self.calls.append((kernel, args))
        kernel(*args)

    def expect(self, kernel: Kernel, *args: Any) -> None:
        """Note that `kernel` will be called with arguments of these types."""
        self._awaited.append((kernel, tuple(map(type_of, args))))

    def compile_expected(self) -> None:
        """Compile the noted kernels or load them from disk, so that no block waits."""
        for kernel, types in self._awaited:
            if types not in kernel.overloads:
                kernel.compile(types)
        self._awaited.clear()

    def allocate(self, nbytes: int) -> Array:
        """Allocate zeroed bytes."""
        return allocate_bytes(nbytes)

    def clear(self, array: Array) -> None:
        """Do nothing: `allocate` returns zeros."""

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return a zeroed NumPy array."""
        return np.zeros(shape, dtype)

    def write(self, array: Array, numbers: Any) -> None:
        """Copy numbers into an array."""
        np.copyto(array, numbers, casting="same_kind")

    def read(self, array: Array) -> Array:
        """Return a copy."""
        return array.copy()

    def host(self, array: Array) -> Array:
        """Return the array itself."""
        return array

    def put_back(self, array: Array, shown: Array) -> None:
        """Do nothing: `shown` is the array itself."""

    def incoming(self, cache: Any, label: str, size: int, dtype: Any, copies: int) -> InPlace:
        """Return an `Incoming` that leaves arrays of blocks where they are."""
        return IN_PLACE

    def index(self, cache: Any, pattern: Any) -> None:
        """Return None: blocks bring the index, since the reader's thread is as fast."""

    def drain(self) -> None:
        """Do nothing: launches are synchronous."""

    def begin_block(self) -> None:
        """Do nothing."""

    def end_block(self) -> None:
        """Do nothing: launches are synchronous."""

    @property
    def counted(self) -> int:
        """0: on the CPU, launches count all operations."""
        return 0

    def matmul(self, left: Any, right: Any, out: Any) -> None:
        """Compute out = left @ right by BLAS, the same bits for any number of threads."""
        matmul(self.pool, left, right, out)

    def close(self) -> None:
        """Stop the threads."""
        self._awaited.clear()
        self.pool.close()
