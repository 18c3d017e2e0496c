"""The operations of Table 1 of the BIDMach paper, and the same in NumPy and SciPy.

Canny and Zhao (2013), BIDMach: Large-scale Learning with Zero Memory Allocation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import (
    Mat,
    MatCache,
    argsort,
    exp,
    from_array,
    from_sparse,
    log,
    named,
    random,
    sddmm,
    sort,
)

Size = Callable[[int, int], int]  # chooses a size: the full one or a quick one


class Operation(NamedTuple):
    """An operation on given numbers.

    run: computes it anew; returns the Mat of the result.
    plain: the same by NumPy or SciPy; returns an array.
    nbytes: that must be read and written.
    flops: multiplications and additions; 0 where they are not what is counted.
    """

    run: Callable[[], Any]
    plain: Callable[[], Any]
    nbytes: float
    flops: float


def changed(*mats: Mat) -> None:
    """Mark these Mats as changed, so that everything computed from them is computed anew."""
    for mat in mats:
        mat.slot.written("scripts/benchmarks/operations.py")
        mat.version = mat.slot.version


def numbers(rows: int, columns: int, seed: int = 0) -> Any:
    """Return random float32 numbers."""
    return np.random.default_rng(seed).random((rows, columns), np.float32)


def matrix(size: Size) -> Any:
    """Return a sparse matrix with columns drawn at random."""
    n, m, per_row = size(200_000, 200), size(50_000, 50), size(100, 5)
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, m, (n, per_row), np.int32), axis=1).reshape(-1)
    starts = np.arange(0, n * per_row + 1, per_row)
    x = sp.csr_array((rng.random(n * per_row, np.float32), columns, starts), shape=(n, m))
    x.sum_duplicates()
    return x


def sgemm(cache: MatCache, size: Size) -> Operation:
    """Multiply two dense matrices."""
    n = size(8192, 32)
    a, b = numbers(n, n), numbers(n, n, 1)
    A, B = from_array(cache, a), from_array(cache, b)

    def work() -> Any:
        changed(A)
        return (A @ B).mat()

    return Operation(work, lambda: a @ b, 12.0 * n**2, 2.0 * n**3)


def product(k: int) -> Callable[[MatCache, Size], Operation]:
    """Multiply a sparse matrix by k dense columns."""

    def make(cache: MatCache, size: Size) -> Operation:
        x = matrix(size)
        dense = numbers(x.shape[1], k)
        X, table = from_sparse(cache, x), from_array(cache, dense)

        def work() -> Any:
            changed(table)
            return (X @ table).mat()

        nbytes = 8.0 * x.nnz + 4.0 * k * sum(x.shape)
        return Operation(work, lambda: x @ dense, nbytes, 2.0 * x.nnz * k)

    return make


def sampled(cache: MatCache, size: Size) -> Operation:
    """Multiply rows of two dense matrices where a sparse matrix has entries."""
    x, k = matrix(size), size(256, 8)
    left, right = numbers(x.shape[0], k), numbers(x.shape[1], k, 1)
    X, rows, table = from_sparse(cache, x), from_array(cache, left), from_array(cache, right)
    of_entry = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    part = 1 << 16  # entries at a time: all rows at once do not fit into memory

    def work() -> Any:
        changed(rows)
        return sddmm(rows, table, X).mat()

    def plain() -> Any:
        found = np.empty(x.nnz, np.float32)
        for a in range(0, x.nnz, part):
            here = slice(a, a + part)
            np.einsum("ek,ek->e", left[of_entry[here]], right[x.indices[here]], out=found[here])
        return found

    nbytes = 4.0 * x.nnz * k + 4.0 * left.size + 8.0 * x.nnz
    return Operation(work, plain, nbytes, 2.0 * x.nnz * k)


def sorted_rows(cache: MatCache, size: Size) -> Operation:
    """Sort rows of 256 numbers."""
    a = numbers(size(100_000, 100), 256)
    A = from_array(cache, a)

    def work() -> Any:
        changed(A)
        return sort(A).mat()

    return Operation(work, lambda: np.sort(a, axis=1), 8.0 * a.size, 0.0)


def sorted_pairs(cache: MatCache, size: Size) -> Operation:
    """Sort pairs of a key and a number in one row."""
    n = size(4_000_000, 1000)
    a, b = numbers(1, n), numbers(1, n, 1)
    A, B = from_array(cache, a), from_array(cache, b)

    def work() -> Any:
        changed(A)
        return B[:, argsort(A)].mat()

    return Operation(work, lambda: b[:, np.argsort(a[0], kind="stable")], 16.0 * n, 0.0)


def random_numbers(cache: MatCache, size: Size) -> Operation:
    """Draw uniform numbers."""
    n = size(100_000, 100)
    key, R = from_array(cache, np.array([[7, 0, 0]])), named(cache, "R", (n, 256))
    rng = np.random.default_rng(7)

    def work() -> Any:
        nonlocal R
        changed(key)
        R <<= random(cache, (n, 256), key)
        return R

    return Operation(work, lambda: rng.random((n, 256), np.float32), 4.0 * n * 256, 0.0)


def exp_log(cache: MatCache, size: Size) -> Operation:
    """Take exponentials and logarithms."""
    a = numbers(size(100_000, 100), 256)
    A, B = from_array(cache, a), named(cache, "B", a.shape)

    def work() -> Any:
        nonlocal B
        changed(A)
        B <<= log(exp(A))
        return B

    return Operation(work, lambda: np.log(np.exp(a)), 8.0 * a.size, 0.0)


OPERATIONS: dict[str, Callable[[MatCache, Size], Operation]] = {
    "SGEMM": sgemm,
    "SPMV": product(1),
    "SPMM, k = 256": product(256),
    "SDDMM, k = 256": sampled,
    "sort of rows of 256": sorted_rows,
    "sort of pairs by key": sorted_pairs,
    "random numbers": random_numbers,
    "log(exp(x))": exp_log,
}
