"""CPU launches of factorizations and solutions, by LAPACK."""

from __future__ import annotations

import numpy as np

from ...containers.cache import MatCache
from ...containers.dispatch import launches
from ...containers.slots import Slot
from ..algebra import lapack, tall_qr


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
    (n, k), backend = q.shape, cache.backend
    found = {
        what: cache.result(("qr", what, n, k), shape, np.float64, f"{what} of Q and R")
        for what, shape in tall_qr.scratch_shapes(n, k, backend.threads).items()
    }
    if cache.reserving or not r.nbytes:
        tall_qr.prepare()
        return
    rooms = {what: slot.data() for what, slot in found.items()}
    for what in ("rows", "work"):
        rooms[what] = rooms[what].reshape(backend.threads, -1, k)
    tall_qr.tall_qr(backend.pool, q.data(), r.data(), tall_qr.Scratch(**rooms))
