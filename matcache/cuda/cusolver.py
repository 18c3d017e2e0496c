"""Factorizations by cuSOLVER, called through its C interface, in memory of the plan."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_void_p
from functools import cache
from typing import Any

from ..errors import MissingKernelError
from .cublas import TURNED, UPPER, declared
from .driver import Factorization

SIZE, WITH_VECTORS = 8, 1  # bytes of a number; CUSOLVER_EIG_MODE_VECTOR
_MATRIX = [c_void_p, c_int]
ARGUMENTS: dict[str, list[Any]] = {  # argument types after the handle, as in cusolverDn.h
    "cusolverDnCreate": [],
    "cusolverDnSetStream": [c_void_p],
    "cusolverDnDestroy": [],
    "cusolverDnDpotrf_bufferSize": [c_int, c_int, *_MATRIX, c_void_p],
    "cusolverDnDpotrf": [c_int, c_int, *_MATRIX, *_MATRIX, c_void_p],
    "cusolverDnDgetrf_bufferSize": [c_int, c_int, *_MATRIX, c_void_p],
    "cusolverDnDgetrf": [c_int, c_int, *_MATRIX, *[c_void_p] * 3],
    "cusolverDnDgetrs": [c_int, c_int, c_int, *_MATRIX, c_void_p, *_MATRIX, c_void_p],
    "cusolverDnDgeqrf_bufferSize": [c_int, c_int, *_MATRIX, c_void_p],
    "cusolverDnDgeqrf": [c_int, c_int, *_MATRIX, c_void_p, *_MATRIX, c_void_p],
    "cusolverDnDorgqr_bufferSize": [c_int, c_int, c_int, *_MATRIX, *[c_void_p] * 2],
    "cusolverDnDorgqr": [c_int, c_int, c_int, *_MATRIX, c_void_p, *_MATRIX, c_void_p],
    "cusolverDnDsyevd_bufferSize": [c_int, c_int, c_int, *_MATRIX, *[c_void_p] * 2],
    "cusolverDnDsyevd": [c_int, c_int, c_int, *_MATRIX, c_void_p, *_MATRIX, c_void_p],
}
NOWHERE = 256  # an address that is asked about and not read


@cache
def library() -> ctypes.CDLL:
    """Return the cuSOLVER that CuPy loads. Raises MissingKernelError if CuPy finds none."""
    try:
        from cupy_backends.cuda.libs import cusolver
    except ImportError as error:
        raise MissingKernelError(
            "cuSOLVER: cholesky, qr, eigh and solve need it on a device, and CuPy finds none: "
            f"{error}. Install nvidia-cusolver-cu12 (or -cu13), or use device: cpu."
        ) from error
    return ctypes.CDLL(cusolver.__file__)  # also finds names in the libraries it links


class Solver:
    """A cuSOLVER handle on the current device, for one stream at a time."""

    def __init__(self) -> None:
        """Create the handle. Raises RuntimeError or MissingKernelError if that is impossible."""
        handle = {name: [c_void_p, *types] for name, types in ARGUMENTS.items()}
        self._library = declared(library(), handle, "cuSOLVER")
        self._handle, self._stream = c_void_p(), -1
        created = self._library.cusolverDnCreate(ctypes.byref(self._handle))
        self._check("cusolverDnCreate", created)

    def factor_bytes(self, what: str, n: int, k: int) -> int:
        """Return the bytes of the workspace of a factorization."""
        count, leading = c_int(), max(1, n)
        matrix, out = (NOWHERE, leading), ctypes.byref(count)
        match what:
            case "cholesky":
                self._call("cusolverDnDpotrf_bufferSize", UPPER, k, *matrix, out)
            case "lu":
                self._call("cusolverDnDgetrf_bufferSize", k, k, *matrix, out)
            case "qr":
                self._call("cusolverDnDgeqrf_bufferSize", n, k, *matrix, out)
            case "q":
                self._call("cusolverDnDorgqr_bufferSize", n, k, k, *matrix, NOWHERE, out)
            case "eigh":
                facts = (WITH_VECTORS, UPPER, k)
                self._call("cusolverDnDsyevd_bufferSize", *facts, *matrix, NOWHERE, out)
        return SIZE * max(1, count.value)

    def factorize(self, step: Factorization, stream: int) -> None:
        """Give a factorization to a stream. No side may be 0."""
        s = step
        if stream != self._stream:
            self._call("cusolverDnSetStream", stream)
            self._stream = stream
        a, work = (s.a, s.n), (s.workspace[0], s.workspace[1] // SIZE)
        match s.what:
            case "cholesky":
                self._call("cusolverDnDpotrf", UPPER, s.k, *a, *work, s.info)
            case "lu":
                self._call("cusolverDnDgetrf", s.k, s.k, *a, work[0], s.pivots, s.info)
                given = (TURNED, s.k, s.m, *a, s.pivots, s.b, s.k, s.info + 4)
                self._call("cusolverDnDgetrs", *given)
            case "qr":
                self._call("cusolverDnDgeqrf", s.n, s.k, *a, s.b, *work, s.info)
            case "q":
                self._call("cusolverDnDorgqr", s.n, s.k, s.k, *a, s.b, *work, s.info)
            case "eigh":
                self._call("cusolverDnDsyevd", WITH_VECTORS, UPPER, s.k, *a, s.b, *work, s.info)

    def _call(self, name: str, *args: Any) -> None:
        self._check(name, getattr(self._library, name)(self._handle, *args))

    @staticmethod
    def _check(name: str, status: int) -> None:
        if status:
            raise RuntimeError(f"{name}: cuSOLVER says {status}")

    def close(self) -> None:
        """Destroy the handle."""
        self._call("cusolverDnDestroy")
