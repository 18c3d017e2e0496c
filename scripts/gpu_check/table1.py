"""Table 1 of the BIDMach paper: single operations on the CPU and on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import (
    MatCache,
    exp,
    from_array,
    from_sparse,
    log,
    named,
    random,
    sort,
)

from .measure import Row, Scale, cache_on, floor, fresh, seconds_of

Work = tuple[Callable[[], Any], float]  # and its floor


def rows(scale: Scale) -> Iterator[Row]:
    """One for each operation."""
    found: dict[str, dict[str, float]] = {}
    floors: dict[str, float] = {}
    for device in ("cuda:0", "cpu"):
        with cache_on(device) as cache:
            for name, make in OPERATIONS.items():
                work, floors[name] = make(cache, scale)
                found.setdefault(name, {})[device] = seconds_of(
                    cache, work, 0.01 if scale.quick else 0.2
                )
    for name, times in found.items():
        yield Row(name, times["cuda:0"], times["cpu"], floors[name])


def _dense(cache: MatCache, rows: int, columns: int, seed: int = 0) -> Any:
    return from_array(cache, np.random.default_rng(seed).random((rows, columns), np.float32))


def _sparse(cache: MatCache, scale: Scale) -> Any:
    n, m = scale.of(200_000, 200), scale.of(50_000, 50)
    per_row = scale.of(100, 5)
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, m, (n, per_row), np.int32), axis=1).reshape(-1)
    starts = np.arange(0, n * per_row + 1, per_row)
    return from_sparse(
        cache, sp.csr_array((rng.random(n * per_row, np.float32), columns, starts), shape=(n, m))
    )


def sgemm(cache: MatCache, scale: Scale) -> Work:
    n = scale.of(8192 if cache.backend.kind != "cpu" else 4096, 32)
    A, B = _dense(cache, n, n), _dense(cache, n, n, 1)
    C = named(cache, "C", (n, n))
    scaled = 1.0 if n != 4096 else 8.0

    def work() -> None:
        nonlocal C
        C <<= A @ B

    def at_full_size() -> None:
        for _ in range(int(scaled)):
            work()

    size = n * (2 if scaled > 1 else 1)
    return at_full_size, floor(12.0 * size**2, 2.0 * size**3)


def _product(k: int) -> Callable[[MatCache, Scale], Work]:
    def make(cache: MatCache, scale: Scale) -> Work:
        X = _sparse(cache, scale)
        table = _dense(cache, X.shape[1], k)

        def work() -> None:
            fresh(table)
            (X @ table).mat()

        nbytes = 8.0 * X.nnz + 4.0 * k * (X.shape[0] + X.shape[1])
        return work, floor(nbytes, 2.0 * X.nnz * k)

    return make


def sorted_rows(cache: MatCache, scale: Scale) -> Work:
    A = _dense(cache, scale.of(100_000, 100), 256)

    def work() -> None:
        fresh(A)
        sort(A).mat()

    return work, floor(8.0 * A.shape[0] * 256, 0)


def random_numbers(cache: MatCache, scale: Scale) -> Work:
    n = scale.of(100_000, 100)
    key, R = from_array(cache, np.array([[7, 0, 0]])), named(cache, "R", (n, 256))

    def work() -> None:
        nonlocal R
        R <<= random(cache, (n, 256), key)

    return work, floor(4.0 * n * 256, 0)


def exp_log(cache: MatCache, scale: Scale) -> Work:
    A = _dense(cache, scale.of(100_000, 100), 256)
    B = named(cache, "B", A.shape)

    def work() -> None:
        nonlocal B
        B <<= log(exp(A))

    return work, floor(8.0 * A.shape[0] * 256, 0)


OPERATIONS: dict[str, Callable[[MatCache, Scale], Work]] = {
    "SGEMM": sgemm,
    "SPMV": _product(1),
    "SPMM, k = 256": _product(256),
    "sort of rows of 256": sorted_rows,
    "random numbers": random_numbers,
    "log(exp(x))": exp_log,
}
