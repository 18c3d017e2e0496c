"""The CPU backend: compiles generated kernels with Numba and runs them on its pool of threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numba import types
from threadpoolctl import ThreadpoolController

from . import cpu_kernels
from .codefiles import load_source
from .pool import Pool

Kernel = Callable[..., Any]
ROW_CHUNKS = 32  # chunks of rows handed to threads; never changes a bit, rows are independent
MATMUL_ROWS = 128  # least rows of a chunk of a dense product
SUM_CHUNKS = 64  # chunks of a sum; fixed, so that sums do not depend on the number of threads


def available_threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _helpers() -> str:
    """Digest of the sources that generated kernels call."""
    here = Path(__file__).parent
    names = ("cpu_math32.py", "cpu_math64.py", "cpu_random.py")
    return xxhash.xxh3_64_hexdigest(b"".join((here / n).read_bytes() for n in names))


@cache
def compiled(source: str) -> Kernel:
    """The `run` function of a generated module. Compiled code is immutable, so it may be shared."""
    return load_source(source, _helpers()).run  # type: ignore[no-any-return]


@cache
def _blas() -> ThreadpoolController:
    """Handle on the BLAS libraries of this process."""
    return ThreadpoolController()


def array_type(dtype: Any, dimensions: int) -> Any:
    """Numba's type of a C-contiguous array, to compile before arrays exist."""
    return types.Array(getattr(types, np.dtype(dtype).name), dimensions, "C")


class CPU:
    """Kernels, threads and the kernel table of one cache."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or available_threads()
        self.pool = Pool(self.threads)
        self.kernels: dict[str, Kernel] = cpu_kernels.KERNELS

    def run(self, kernel: Kernel, chunks: int, *args: Any) -> None:
        """`kernel(chunk, thread, *args)` for all chunks, on all threads."""
        self.pool.run(lambda chunk, thread: kernel(chunk, thread, *args), chunks)

    def matmul(self, left: Any, right: Any, out: Any) -> None:
        """out = left @ right by BLAS, in row chunks of a fixed size with one BLAS thread each.

        So neither our number of threads nor BLAS's own changes a bit.
        """
        rows = out.shape[0]
        size = max(MATMUL_ROWS, -(-rows // ROW_CHUNKS))

        def chunk(number: int, thread: int) -> None:
            part = slice(number * size, min(rows, (number + 1) * size))
            np.matmul(left[part], right, out=out[part])

        with _blas().limit(limits=1, user_api="blas"):
            self.pool.run(chunk, -(-rows // size))

    def close(self) -> None:
        """Stop the threads."""
        self.pool.close()
