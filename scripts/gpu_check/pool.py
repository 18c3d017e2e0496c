"""Measure what the cache saves on a card.

The comparison runs our kernels with results allocated anew from CuPy's memory pool each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from blocklearn.matcache import MatCache, exp, from_array, from_sparse, make_backend
from blocklearn.matcache.cuda import Cuda, devices
from blocklearn.matcache.cuda.arrays import DeviceArray
from scripts.benchmarks.data import power_law

from .measure import Make, Row, Scale, floor, fresh, random_table, seconds_of


class Pooled(Cuda):
    """A backend whose memory comes from a pool and goes back to it by `recycle`.

    The pool has `malloc(bytes)`, as CuPy's. Work in the stream may still use recycled memory. This
    is safe, because the next user of the memory comes later in the same stream.
    """

    def __init__(self, pool: Any) -> None:
        super().__init__(devices.open_driver(0))
        self._pool, self._kept = pool, 0
        self._lent: list[Any] = []

    def allocate(self, nbytes: int) -> DeviceArray:
        """Allocate from the pool."""
        self._lent.append(self._pool.malloc(max(nbytes, 1)))
        return DeviceArray(int(self._lent[-1].ptr), (nbytes,), np.dtype(np.uint8))

    def keep(self) -> None:
        """Keep all memory allocated so far."""
        self._kept = len(self._lent)

    def recycle(self) -> None:
        """Give memory allocated since `keep` back to the pool."""
        del self._lent[self._kept :]

    def close(self) -> None:
        """Give all memory back."""
        self.drain()
        self._lent.clear()
        super().close()


def rows(scale: Scale) -> Iterator[Row]:
    """Yield expressions with a small result, a large one, and that of a gradient."""
    try:
        from cupy.cuda import MemoryPool

        MemoryPool().malloc(1)
    except Exception as error:  # CuPy is missing or has no device
        yield Row("without the cache", note=f"not run: {error}")
        return
    yield from compared(scale, MemoryPool)


def compared(scale: Scale, pool: Callable[[], Any]) -> Iterator[Row]:
    """Yield the times with the cache and with the pool."""
    for name, make, least in cases(scale):
        for _ in range(2):  # in turns: the first one finds a cold card
            with MatCache(backend=make_backend("cuda:0", None)) as cache:
                cached = seconds_of(cache, make(cache), scale.least)
            backend = Pooled(pool())
            with MatCache(backend=backend, enabled=False) as cache:
                work = make(cache)
                backend.keep()

                def recycled(work: Any = work, backend: Pooled = backend) -> None:
                    work()
                    backend.recycle()

                pooled = seconds_of(cache, recycled, scale.least)
        yield Row(name, cached, None, least)
        note = f"{pooled / cached:.2f} x the time with the cache"
        yield Row(f"{name}, results anew from CuPy's pool", pooled, None, least, note)


def cases(scale: Scale) -> Iterator[tuple[str, Make, float]]:
    """Yield name, work and floor of each expression."""
    for n in (scale.of(100, 10), scale.of(100_000, 20)):
        yield f"exp(A) * B + A, {n:,} x 100", _elementwise(n), floor(12.0 * n * 100, 0)
    k = scale.of(100, 5)
    X = power_law(scale.of(8192, 40), scale.of(50_000, 30))
    nbytes = 4.0 * k * (X.nnz + X.shape[1]) + 16.0 * X.nnz
    yield f"X.T @ A, {X.nnz:,} non-zeros, k = {k}", _turned(X, k), floor(nbytes, 2.0 * X.nnz * k)


def _elementwise(n: int) -> Make:
    def make(cache: MatCache) -> Callable[[], Any]:
        A, B = (from_array(cache, random_table(n, 100)) for _ in range(2))

        def work() -> Any:
            fresh(A)
            return (exp(A) * B + A).mat()

        return work

    return make


def _turned(X: Any, k: int) -> Make:
    def make(cache: MatCache) -> Callable[[], Any]:
        x, A = from_sparse(cache, X), from_array(cache, random_table(X.shape[0], k))

        def work() -> Any:
            fresh(A)
            return (x.T @ A).mat()

        return work

    return make
