"""CPU launches of factorizations and solutions, by LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.dispatch import launches
from ...containers.slots import Slot
from .. import lapack
from ..blas import one_thread

QR_CHUNKS = 32  # most chunks of rows, of which each has factors of its own
QR_ROWS = 2048  # least rows in a chunk


@launches("cholesky", "cpu")
def _cholesky(cache: MatCache, out: Slot) -> None:
    if cache.reserving or not out.nbytes:
        lapack.prepare("dpotrf")
        return
    lapack.cholesky(out.data())


@launches("triangular", "cpu")
def _triangular(
    cache: MatCache, what: str, triangle: Slot, out: Slot, left: bool, lower: bool, turned: bool
) -> None:
    if cache.reserving or not out.nbytes:
        lapack.prepare("dtrmm", "dtrsm")
        return
    lapack.triangular(what, triangle.data(), out.data(), left=left, lower=lower, turned=turned)


@launches("solve", "cpu")
def _solve(cache: MatCache, matrix: Slot, out: Slot) -> None:
    k, m = out.shape
    turned = cache.result(("algebra", m, k), (m, k), np.float64, "right sides, turned")
    pivots = cache.result(("pivots", k), (1, k), np.int32, "pivots of a factorization")
    if cache.reserving or not out.nbytes:
        lapack.prepare("dgetrf", "dgetrs")
        return
    lapack.solve(matrix.data(), out.data(), turned.data(), pivots.data())


@launches("eigh", "cpu")
def _eigh(cache: MatCache, matrix: Slot, values: Slot, vectors: Slot) -> None:
    k = matrix.shape[0]
    sizes = (1, 1 + 6 * k + 2 * k * k), (1, 3 + 5 * k)
    work = cache.result(("eigh", k), sizes[0], np.float64, "numbers of eigenvectors")
    whole = cache.result(("eigh", "whole", k), sizes[1], np.int32, "numbers of eigenvectors")
    if cache.reserving or not vectors.nbytes:
        lapack.prepare("dsyevd")
        return
    rows, out = matrix.data(), vectors.data()
    if not lapack.eigh(rows, values.data()[0], work.data()[0], whole.data()[0]):
        values.data().fill(np.nan)
        out.fill(np.nan)
        return
    for number in range(k):
        row = rows[number]
        sign = 1.0 if row[np.argmax(np.abs(row, out=work.data()[0, :k]))] >= 0.0 else -1.0
        np.multiply(row, sign, out=out[:, number])


@launches("diagonal", "cpu")
def _diagonal(cache: MatCache, source: Slot, out: Slot) -> None:
    if not cache.reserving:
        np.copyto(out.data()[0], source.data().diagonal())


@launches("qr", "cpu")
def _qr(cache: MatCache, q: Slot, r: Slot) -> None:
    """Chunks of rows are factorized, then their triangular factors together.

    The chunks depend on the shape alone. (TSQR: Demmel, Grigori, Hoemmen and Langou, 2012.)
    """
    (n, k), threads, pool = q.shape, cache.backend.threads, cache.backend.pool
    chunks = max(1, min(QR_CHUNKS, n // max(QR_ROWS, 4 * k)))
    most = -(-n // chunks)
    shapes = {
        "work": (threads, (lapack.BLOCK + 1) * k),
        "factors": (chunks * k, k),
        "rows": (threads, most * k),
    }
    found = [
        cache.result(("qr", what, n, k), shape, np.float64, f"{what} of Q and R")
        for what, shape in shapes.items()
        if chunks > 1 or what == "work"
    ]
    if cache.reserving or not r.nbytes:
        lapack.prepare("dgelqf", "dorglq")
        return
    work = found[0].data().reshape(threads, lapack.BLOCK + 1, k)
    whole, upper = q.data(), r.data()
    if chunks == 1:
        lapack.qr(whole, upper, work[0])
        _make_positive(whole, upper)
        return
    factors, rows = found[1].data(), found[2].data()
    bounds = [n * chunk // chunks for chunk in range(chunks + 1)]

    def factorize(chunk: int, thread: int) -> None:
        part = whole[bounds[chunk] : bounds[chunk + 1]]
        lapack.qr(part, factors[chunk * k : (chunk + 1) * k], work[thread])

    def multiply(chunk: int, thread: int) -> None:
        part = whole[bounds[chunk] : bounds[chunk + 1]]
        own = rows[thread, : part.size].reshape(part.shape)
        np.copyto(own, part)
        with one_thread():
            np.matmul(own, factors[chunk * k : (chunk + 1) * k], out=part)

    pool.run(factorize, chunks)
    lapack.qr(factors, upper, work[0])
    _make_positive(factors, upper)
    pool.run(multiply, chunks)


def _make_positive(q: Any, r: Any) -> None:
    """Turn signs, so that no number on the diagonal of r is negative."""
    for number in range(len(r)):
        if r[number, number] < 0.0:
            np.negative(r[number], out=r[number])
            np.negative(q[:, number], out=q[:, number])
