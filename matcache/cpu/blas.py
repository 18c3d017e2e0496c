"""Dense products by the BLAS that NumPy brings, with one BLAS thread, whoever else uses it.

How many threads BLAS uses changes the bits of a product. The setting belongs to the process, so it
is counted here: it is lowered when the first product starts and put back when the last one ends.
(Two caches in two threads that each used `threadpoolctl.threadpool_limits` would put it back under
each other's feet: of nested limits in several threads only the first one counts.)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .pool import Pool

log = logging.getLogger("blocklearn.blas")

CHUNK_ROWS = 128  # least rows of a chunk
CHUNKS = 32  # most chunks


def matmul(pool: Pool, left: Any, right: Any, out: Any) -> None:
    """out = left @ right, in row chunks whose size depends on the shape alone."""
    rows = out.shape[0]
    size = max(CHUNK_ROWS, -(-rows // CHUNKS))

    def chunk(number: int, thread: int) -> None:
        _library.lower_here()
        part = slice(number * size, min(rows, (number + 1) * size))
        np.matmul(left[part], right, out=out[part])

    with _library.one_thread():
        pool.run(chunk, -(-rows // size))


def add_turned(pool: Pool, left: Any, right: Any, wide: Any, parts: Any, out: Any) -> None:
    """out += left.T @ right in float64, left being float32, in chunks of its columns.

    wide: [threads x rows x CHUNK_ROWS] and parts, like out, are scratch; all but left are float64.
    """
    columns = out.shape[0]

    def chunk(number: int, thread: int) -> None:
        _library.lower_here()
        part = slice(number * CHUNK_ROWS, min(columns, (number + 1) * CHUNK_ROWS))
        mine = wide[thread, :, : part.stop - part.start]
        np.copyto(mine, left[:, part])
        np.matmul(mine.T, right, out=parts[part])
        np.add(out[part], parts[part], out=out[part])

    with _library.one_thread():
        pool.run(chunk, -(-columns // CHUNK_ROWS))


class _Library:
    """The BLAS libraries of this process."""

    def __init__(self) -> None:
        """Not looked for yet: that takes a millisecond."""
        self._lock = threading.Lock()
        self._users = 0
        self._found = False
        self._shared: list[tuple[Callable[[int], None], Callable[[], int]]] = []
        self._per_thread: list[Callable[[int], None]] = []  # OpenMP: each thread has a setting
        self._before: list[int] = []

    def _find(self) -> None:
        self._found = True
        try:
            from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
        except ImportError:  # the matrix layer alone does without
            log.warning(
                "threadpoolctl is not installed: the last bits of dense products depend on how "
                "many threads BLAS takes"
            )
            return
        for library in ThreadpoolController().select(user_api="blas").lib_controllers:
            # threadpoolctl 3.8 ignores set_num_threads of all threads but the one that came first
            put = getattr(library, "_real_set_num_threads", library.set_num_threads)
            self._shared.append((put, library.get_num_threads))
            if getattr(library, "threading_layer", "") == "openmp":
                self._per_thread.append(put)

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Within it, products run on one thread."""
        with self._lock:
            if not self._found:
                self._find()
            if self._users == 0:
                self._before = [get() for _, get in self._shared]
                for put, _ in self._shared:
                    put(1)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    for (put, _), number in zip(self._shared, self._before, strict=True):
                        put(number)

    def lower_here(self) -> None:
        """The same for the calling thread, where each thread has a setting of its own."""
        for put in self._per_thread:
            put(1)


_library = _Library()
