"""LAPACK and BLAS of SciPy, called in memory of the caller.

Both store matrices by columns, so what they see of a container is its transposed matrix. All
numbers are float64, but those of `rough_cholesky` and `rough_solve`. BLAS has one thread, as for
products: their number would change the bits.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_double, c_int, c_void_p, py_object, pythonapi
from functools import cache
from typing import Any

import numpy as np

from .blas import look_again, one_thread

Array = np.ndarray[Any, Any]

BLOCK = 64  # columns that LAPACK factorizes at a time: scratch for each row or column
SMALL = 2**15  # multiplications, in which SciPy's own functions hold the lock of the interpreter


@cache
def _routine(name: str) -> Any:
    """Return a Fortran routine. All its arguments are addresses."""
    from scipy.linalg import cython_blas, cython_lapack

    look_again()  # SciPy may have brought a BLAS of its own
    known = {**cython_blas.__pyx_capi__, **cython_lapack.__pyx_capi__}
    name_of = pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = c_char_p, [py_object]
    pointer_to = pythonapi.PyCapsule_GetPointer
    pointer_to.restype, pointer_to.argtypes = c_void_p, [py_object, c_char_p]
    count = name_of(known[name]).count(b",") + 1
    address = pointer_to(known[name], name_of(known[name]))
    return ctypes.CFUNCTYPE(None, *[c_void_p] * count)(address)


@cache
def _function(name: str) -> Any:
    """Return a function of SciPy's BLAS: arguments take less time than addresses.

    It holds the lock of the interpreter, so other threads of Python wait for it.
    """
    from scipy.linalg import blas

    look_again()
    return getattr(blas, name)


def prepare(*names: str) -> None:
    """Look routines up, so that the first call has no work but its own."""
    for name in names:
        _routine(name)


def _call(name: str, *args: Any) -> None:
    """Call a routine.

    args: arrays, numbers, and letters as bytes.
    """
    with one_thread:
        _routine(name)(*map(_address, args))


def _address(arg: Any) -> Any:
    """Return an argument as ctypes passes its address."""
    if isinstance(arg, np.ndarray):
        return arg.ctypes.data
    if isinstance(arg, bytes):
        return arg
    return byref(c_double(arg) if isinstance(arg, float) else c_int(arg))


def _factorize(name: str, *args: Any) -> bool:
    """Call a routine that ends with `info`; return whether it succeeded."""
    info = np.zeros(1, np.int32)
    _call(name, *args, info)
    return bool(info[0] == 0)


def cholesky(a: Array) -> None:
    """Replace a symmetric matrix by its lower factor; NaN if there is none."""
    k = len(a)
    if not _factorize("dpotrf", b"U", k, a, k):
        a.fill(np.nan)
    for row in range(k - 1):
        a[row, row + 1 :] = 0.0


def rough_cholesky(a: Array) -> bool:
    """Put the lower Cholesky factor into a symmetric matrix of float32; return whether it has one.

    What is above the diagonal stays.
    """
    return _factorize("spotrf", b"U", len(a), a, len(a))


def rough_solve(factor: Array, out: Array) -> None:
    """Replace each row of `out`, float32, by a solution, with a factor of `rough_cholesky`."""
    _factorize("spotrs", b"U", len(factor), len(out), factor, len(factor), out, len(factor))


def pivoted_cholesky(a: Array, least: float) -> tuple[Array, Array, int]:
    """Return L, an order of rows and the rank of a symmetric matrix: a[order][:, order] = L L'.

    least: pivot, relative to the largest of the diagonal, from which on it is rounding.
    """
    k, tolerance = len(a), np.array([least * max(float(np.diagonal(a).max()), 0.0)])
    found, order, rank = a.copy(), np.empty(k, np.int32), np.zeros(1, np.int32)
    _factorize("dpstrf", b"U", k, found, k, order, rank, tolerance, np.empty(2 * k))
    return np.tril(found)[:, : rank[0]], order - 1, int(rank[0])


def inverse_norm_below(limit: float, factor: Array, work: Array) -> bool:
    """Whether the inverse of a matrix is small: the estimated sum of magnitudes of its columns.

    factor: the lower Cholesky factor of the matrix.
    work: scratch, at least 4 rows like those of the factor.
    """
    k, one, found = len(factor), np.ones(1), np.zeros(1)
    _factorize("dpocon", b"U", k, factor, k, one, found, work, work[3:].view(np.int32))
    return bool(found[0] * limit >= 1.0)


def triangular(what: str, a: Array, out: Array, *, left: bool, lower: bool, turned: bool) -> None:
    """Replace `out` by a product with the triangle of `a`, or by a solution.

    left: whether the triangle is the left factor.
    lower: whether it is lower triangular, after turning.
    """
    name = "dtrmm" if what == "product" else "dtrsm"
    if len(a) * out.size > SMALL:
        side = b"R" if left else b"L"  # of the transposed matrices
        part = b"L" if lower == turned else b"U"
        rows, columns = out.shape
        letters = (side, part, b"T" if turned else b"N", b"N")
        _call(name, *letters, columns, rows, 1.0, a, len(a), out, columns)
        return
    apply = _function(name)
    with one_thread:
        apply(1.0, a.T, out.T, side=left, lower=lower == turned, trans_a=turned, overwrite_b=1)


def solve(a: Array, out: Array, turned: Array, pivots: Array) -> None:
    """Replace `out` by the solution X of a @ X = out; `a` is overwritten.

    turned: scratch, shaped like out.T.
    pivots: scratch, int32 [k].
    """
    k, m = out.shape
    np.copyto(turned, out.T)
    if not _factorize("dgetrf", k, k, a, k, pivots):
        out.fill(np.nan)
        return
    _factorize("dgetrs", b"T", k, m, a, k, pivots, turned, k)
    np.copyto(out, turned.T)


def qr(q: Array, r: Array, work: Array) -> None:
    """Replace a tall matrix by its orthonormal factor, and fill the triangular one.

    work: scratch, [BLOCK + 1, k].

    LAPACK sees the transposed matrix, whose factors L and Q are those of x, transposed.
    """
    n, k = q.shape
    factors, room = work[0], work[1:]
    _factorize("dgelqf", k, n, q, k, factors, room, room.size)
    for row in range(k):
        r[row, :row] = 0.0
        r[row, row:] = q[row, row:]
    _factorize("dorglq", k, n, k, q, k, factors, room, room.size)


def eigh(a: Array, values: Array, work: Array, whole: Array) -> bool:
    """Replace a symmetric matrix by its eigenvectors, one in each row; return whether it has any.

    values: [k].
    work: scratch, [1 + 6 k + 2 k^2].
    whole: scratch, int32 [3 + 5 k].
    """
    k = len(a)
    if not np.isfinite(a.sum()):
        return False
    return _factorize("dsyevd", b"V", b"U", k, a, k, values, work, work.size, whole, whole.size)
