"""The E-step of LDA by hand in Numba, which generated code is compared with.

Both variants compute what `infer_vb` and `infer_cvb0` of models/lda/inference.py do, in order, in
one thread. K is a constant of the closure, so that LLVM knows the length of every loop over topics.
`exppsi` is the package's own scalar function; only the loops around it are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from blocklearn.matcache.cpu.inline.math32 import exppsi

Kernel = Callable[..., None]
FAST = {"contract", "reassoc", "nsz", "arcp"}  # as in generated code: NaN stays NaN


@njit(forceinline=True, error_model="numpy", fastmath=FAST)
def identity(x):  # type: ignore[no-untyped-def]
    return x


def blocked(K: int, inference: str) -> Kernel:
    """Take four non-zeros at a time, to load theta and the sums once for four rows of phi."""
    link = exppsi if inference == "vb" else identity

    @njit(nogil=True, error_model="numpy", fastmath=FAST)
    def run(indptr, indices, values, theta, phi, alpha, iters, ratio, scratch):  # type: ignore[no-untyped-def]
        for i in range(len(indptr) - 1):
            start, end = indptr[i], indptr[i + 1]
            full = start + (end - start) // 4 * 4
            for iteration in range(iters + 1):
                last = iteration == iters  # only the ratio is wanted
                for k in range(K):
                    scratch[k] = np.float32(0)
                for j in range(start, full, 4):
                    c0, c1 = np.uintp(indices[j]), np.uintp(indices[j + 1])
                    c2, c3 = np.uintp(indices[j + 2]), np.uintp(indices[j + 3])
                    d0 = d1 = d2 = d3 = np.float32(0)
                    for k in range(K):
                        t = theta[i, k]
                        d0 += t * phi[c0, k]
                        d1 += t * phi[c1, k]
                        d2 += t * phi[c2, k]
                        d3 += t * phi[c3, k]
                    r0, r1 = values[j] / d0, values[j + 1] / d1
                    r2, r3 = values[j + 2] / d2, values[j + 3] / d3
                    if last:
                        ratio[j], ratio[j + 1], ratio[j + 2], ratio[j + 3] = r0, r1, r2, r3
                    else:
                        for k in range(K):
                            first = r0 * phi[c0, k] + r1 * phi[c1, k]
                            scratch[k] += first + r2 * phi[c2, k] + r3 * phi[c3, k]
                for j in range(full, end):
                    c = np.uintp(indices[j])
                    d = np.float32(0)
                    for k in range(K):
                        d += theta[i, k] * phi[c, k]
                    r = values[j] / d
                    if last:
                        ratio[j] = r
                    else:
                        for k in range(K):
                            scratch[k] += r * phi[c, k]
                if not last:
                    for k in range(K):
                        theta[i, k] = link(theta[i, k] * scratch[k] + alpha[0, k])

    return run


def plain(K: int, inference: str) -> Kernel:
    """Take one non-zero at a time, with loops as in the equations."""
    link = exppsi if inference == "vb" else identity

    @njit(nogil=True, error_model="numpy", fastmath=FAST)
    def run(indptr, indices, values, theta, phi, alpha, iters, ratio, scratch):  # type: ignore[no-untyped-def]
        for i in range(len(indptr) - 1):
            for iteration in range(iters + 1):
                for k in range(K):
                    scratch[k] = np.float32(0)
                for j in range(indptr[i], indptr[i + 1]):
                    c = indices[j]
                    d = np.float32(0)
                    for k in range(K):
                        d += theta[i, k] * phi[c, k]
                    ratio[j] = values[j] / d
                    for k in range(K):
                        scratch[k] += ratio[j] * phi[c, k]
                if iteration < iters:
                    for k in range(K):
                        theta[i, k] = link(theta[i, k] * scratch[k] + alpha[0, k])

    return run


def table_reader(K: int) -> Kernel:
    """Read the rows of phi once per non-zero and iteration, the time of memory alone.

    It takes four rows at a time and a vector of sums, as `blocked`, because a single sum at K=32
    stays scalar.
    """

    @njit(nogil=True, error_model="numpy", fastmath=FAST)
    def run(indptr, indices, phi, iters, sums):  # type: ignore[no-untyped-def]
        for i in range(len(indptr) - 1):
            start, end = indptr[i], indptr[i + 1]
            for _ in range(iters):
                for j in range(start, end - 3, 4):
                    c0, c1 = np.uintp(indices[j]), np.uintp(indices[j + 1])
                    c2, c3 = np.uintp(indices[j + 2]), np.uintp(indices[j + 3])
                    for k in range(K):
                        sums[k] += phi[c0, k] + phi[c1, k] + phi[c2, k] + phi[c3, k]

    return run


HAND: dict[str, Callable[[int, str], Any]] = {"hand-blocked": blocked, "hand-plain": plain}
