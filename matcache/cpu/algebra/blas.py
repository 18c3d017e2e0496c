"""Dense products by NumPy's BLAS, with one BLAS thread, even if others use it.

The number of BLAS threads changes the bits of a product. The setting belongs to the process, so its
users are counted here: the first product lowers it and the last one restores it.
(`threadpoolctl.threadpool_limits` does not count. Two caches in two threads would restore the
setting too early for each other.)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ContextDecorator, nullcontext
from typing import Any

import numpy as np

from ..pool import Pool

log = logging.getLogger("blocklearn.blas")

CHUNK_ROWS = 128  # least rows in a chunk
CHUNKS = 32  # most chunks


def rows_of_chunk(rows: int) -> int:
    """Return the rows of a product that one thread computes at a time."""
    return max(CHUNK_ROWS, -(-rows // CHUNKS))


def matmul(pool: Pool, left: Any, right: Any, out: Any, symmetric: bool) -> None:
    """Compute out = left @ right by NumPy, in row chunks whose size depends only on the shape.

    symmetric: right is left.T, so one half is computed, and copied.
    """
    rows = out.shape[0]
    size = rows_of_chunk(rows)
    if rows <= size and not symmetric:
        pool.check_open()
        with one_thread:
            np.matmul(left, right, out=out)
        return

    def chunk(number: int, thread: int) -> None:
        one_thread.lower_here()
        part = slice(number * size, min(rows, (number + 1) * size))
        if not symmetric:
            np.matmul(left[part], right, out=out[part])
            return
        rest = slice(part.stop, rows)
        np.matmul(left[part], right[:, part], out=out[part, part])
        np.matmul(left[part], right[:, rest], out=out[part, rest])
        np.copyto(out[rest, part], out[part, rest].T)

    with one_thread:
        pool.run(chunk, -(-rows // size))


def add_turned(pool: Pool, left: Any, right: Any, wide: Any, parts: Any, out: Any) -> None:
    """Add out += left.T @ right in float64, in chunks of the columns of left.

    left: float32.
    right, out: float64.
    wide: scratch, float64 [threads x rows x CHUNK_ROWS].
    parts: scratch, float64, shaped like out.
    """
    columns = out.shape[0]

    def chunk(number: int, thread: int) -> None:
        one_thread.lower_here()
        part = slice(number * CHUNK_ROWS, min(columns, (number + 1) * CHUNK_ROWS))
        mine = wide[thread, :, : part.stop - part.start]
        np.copyto(mine, left[:, part])
        np.matmul(mine.T, right, out=parts[part])
        np.add(out[part], parts[part], out=out[part])

    with one_thread:
        pool.run(chunk, -(-columns // CHUNK_ROWS))


class _Library(ContextDecorator):
    """The BLAS libraries of this process."""

    def __init__(self) -> None:
        """Start without libraries; the first product looks for them, which takes 1 ms."""
        self._lock = threading.Lock()
        self._users = 0
        self._found = False
        self._shared: list[tuple[Callable[[int], None], Callable[[], int]]] = []
        self._per_thread: list[Callable[[int], None]] = []  # OpenMP: one setting per thread
        self._lowered: list[tuple[Callable[[int], None], int]] = []  # and their setting before

    def _find(self) -> None:
        self._found = True
        self._shared, self._per_thread = [], []
        try:
            from threadpoolctl import ThreadpoolController
        except ImportError:  # not needed by the matrix layer alone
            log.warning(
                "threadpoolctl is not installed: the last bits of dense products depend on how "
                "many threads BLAS takes"
            )
            return
        for library in ThreadpoolController().select(user_api="blas").lib_controllers:
            put, get = _functions_of(library)
            self._shared.append((put, get))
            if getattr(library, "threading_layer", "") == "openmp":
                self._per_thread.append(put)

    def __enter__(self) -> None:
        """Run products on one thread, within this `with` block."""
        with self._lock:
            if self._users == 0:
                if not self._found:
                    self._find()
                self._lowered = [(put, n) for put, get in self._shared if (n := get()) != 1]
                for put, _ in self._lowered:
                    put(1)
            self._users += 1
        self.lower_here()

    def __exit__(self, *error: object) -> None:
        """Restore the number of threads, after the last of several users."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for put, number in self._lowered:
                    put(number)

    def look_again(self) -> None:
        """Look for libraries before the next product: another may have been loaded."""
        with self._lock:
            self._found = False

    def lower_here(self) -> None:
        """Limit BLAS in the calling thread, for libraries with a setting per thread."""
        for put in self._per_thread:
            put(1)


def _functions_of(library: Any) -> tuple[Callable[[int], None], Callable[[], int]]:
    """Return the functions that set and get a library's number of threads.

    Those of OpenBLAS are called directly: threadpoolctl looks them up at each call.
    """
    if library.internal_api == "openblas" and library.threading_layer != "openmp":
        find = getattr(library, "_get_symbol", lambda name: None)
        put, get = find("openblas_set_num_threads"), find("openblas_get_num_threads")
        if put is not None and get is not None:
            return put, get
    # threadpoolctl 3.8 ignores set_num_threads in all threads but the first
    put = getattr(library, "_real_set_num_threads", library.set_num_threads)
    return put, library.get_num_threads


one_thread = _Library()
"""Limits BLAS to one thread within a `with` block or a decorated function.

Threads of a pool call `lower_here`, too.
"""

UNLIMITED: Any = nullcontext()


def look_again() -> None:
    """Look for libraries before the next product: another may have been loaded."""
    one_thread.look_again()
