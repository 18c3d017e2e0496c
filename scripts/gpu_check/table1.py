"""Table 1 of the BIDMach paper: single operations on the CPU and on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import MatCache, exp, from_array, from_sparse, log, named, random, sort

from .measure import Row, Scale, agreement, cache_on, floor, fresh, seconds_of


class Work(NamedTuple):
    """An operation; `run` does it and returns the Mat of its result."""

    run: Callable[[], Any]
    floor: float


def rows(scale: Scale) -> Iterator[Row]:
    """Yield a row for each operation."""
    for name, make in OPERATIONS.items():
        seconds, results = [], []
        for device in ("cuda:0", "cpu"):
            with cache_on(device) as cache:
                work = make(cache, scale)
                seconds.append(seconds_of(cache, work.run, scale.least))
                results.append(work.run().numpy())
        yield Row(name, *seconds, work.floor, agreement(*results))


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
    n = scale.of(8192, 32)
    A, B = _dense(cache, n, n), _dense(cache, n, n, 1)

    def work() -> Any:
        fresh(A)
        return (A @ B).mat()

    return Work(work, floor(12.0 * n**2, 2.0 * n**3))


def _product(k: int) -> Callable[[MatCache, Scale], Work]:
    def make(cache: MatCache, scale: Scale) -> Work:
        X = _sparse(cache, scale)
        table = _dense(cache, X.shape[1], k)

        def work() -> Any:
            fresh(table)
            return (X @ table).mat()

        nbytes = 8.0 * X.nnz + 4.0 * k * (X.shape[0] + X.shape[1])
        return Work(work, floor(nbytes, 2.0 * X.nnz * k))

    return make


def sorted_rows(cache: MatCache, scale: Scale) -> Work:
    A = _dense(cache, scale.of(100_000, 100), 256)

    def work() -> Any:
        fresh(A)
        return sort(A).mat()

    return Work(work, floor(8.0 * A.shape[0] * 256, 0))


def random_numbers(cache: MatCache, scale: Scale) -> Work:
    n = scale.of(100_000, 100)
    key, R = from_array(cache, np.array([[7, 0, 0]])), named(cache, "R", (n, 256))

    def work() -> Any:
        nonlocal R
        fresh(key)
        R <<= random(cache, (n, 256), key)
        return R

    return Work(work, floor(4.0 * n * 256, 0))


def exp_log(cache: MatCache, scale: Scale) -> Work:
    A = _dense(cache, scale.of(100_000, 100), 256)
    B = named(cache, "B", A.shape)

    def work() -> Any:
        nonlocal B
        fresh(A)
        B <<= log(exp(A))
        return B

    return Work(work, floor(8.0 * A.shape[0] * 256, 0))


OPERATIONS: dict[str, Callable[[MatCache, Scale], Work]] = {
    "SGEMM": sgemm,
    "SPMV": _product(1),
    "SPMM, k = 256": _product(256),
    "sort of rows of 256": sorted_rows,
    "random numbers": random_numbers,
    "log(exp(x))": exp_log,
}
