"""Dense products by cuBLAS, called through its C interface.

CuPy's functions give every product to CuPy's current stream. That makes cuBLAS forget its
workspace, so it would use memory outside the plan.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import c_double, c_float, c_int, c_size_t, c_void_p
from functools import cache
from typing import Any

from ..errors import MissingKernelError
from .driver import Product, Triangular

GEMM = [c_void_p, *[c_int] * 5, *[c_void_p] * 2, c_int, c_void_p, c_int, *[c_void_p] * 2, c_int]
SYRK = [c_void_p, *[c_int] * 4, *[c_void_p] * 2, c_int, *[c_void_p] * 2, c_int]
TRSM = [c_void_p, *[c_int] * 6, c_void_p, *[c_void_p, c_int] * 2]
ARGUMENTS: dict[str, list[Any]] = {  # argument types, as in cublas_api.h
    "cublasCreate_v2": [c_void_p],
    "cublasDestroy_v2": [c_void_p],
    "cublasSetStream_v2": [c_void_p, c_void_p],
    "cublasSetWorkspace_v2": [c_void_p, c_void_p, c_size_t],
    "cublasSgemm_v2": GEMM,
    "cublasDgemm_v2": GEMM,
    "cublasSsyrk_v2": SYRK,
    "cublasDsyrk_v2": SYRK,
    "cublasDtrsm_v2": TRSM,
    "cublasDtrmm_v2": [*TRSM, c_void_p, c_int],
}
GEMMS: dict[str, tuple[str, Any]] = {
    "float32": ("cublasSgemm_v2", c_float),
    "float64": ("cublasDgemm_v2", c_double),
}
SYRKS = {"float32": "cublasSsyrk_v2", "float64": "cublasDsyrk_v2"}
AS_IT_IS, TURNED = 0, 1  # CUBLAS_OP_N, CUBLAS_OP_T
LEFT, RIGHT = 0, 1  # CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT
LOWER, UPPER = 0, 1  # CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER
WITH_DIAGONAL = 0  # CUBLAS_DIAG_NON_UNIT


@cache
def library() -> ctypes.CDLL:
    """Return the cuBLAS that CuPy loads. Raises ImportError if CuPy finds none."""
    from cupy_backends.cuda.libs import cublas

    return ctypes.CDLL(cublas.__file__)  # also finds names in the libraries it links


def declared(
    library: ctypes.CDLL, arguments: Mapping[str, Sequence[Any]], title: str
) -> ctypes.CDLL:
    """Return a library, with the argument types of its functions declared.

    arguments: types by the name of the function. title: of the library.

    Raises MissingKernelError if it lacks one of them: its version is too old or too new.
    """
    missing = [name for name in arguments if not hasattr(library, name)]
    if missing:
        raise MissingKernelError(
            f"{title}: the one that CuPy loads has no {', '.join(missing)}. Install the one that "
            "belongs to your CuPy: pip install 'cupy-cuda12x[ctk]' (or cupy-cuda13x[ctk])."
        )
    for name, types in arguments.items():
        getattr(library, name).argtypes = types
    return library


class Blas:
    """A cuBLAS handle on the current device, for one stream at a time.

    It computes in float32 or float64 throughout: a new handle does not use TF32.
    """

    def __init__(self) -> None:
        """Create the handle.

        Raises RuntimeError if cuBLAS cannot be used, ImportError if it is missing, and
        MissingKernelError if it lacks a function.
        """
        self._library = declared(library(), ARGUMENTS, "cuBLAS")
        self._handle = c_void_p()
        self._given: tuple[int, tuple[int, int]] | None = None  # stream and workspace
        self._call("cublasCreate_v2", ctypes.byref(self._handle))

    def multiply(self, product: Product, stream: int) -> None:
        """Give the product to a stream.

        cuBLAS stores matrices by columns, so it computes out.T = right.T @ left.T. The workspace
        must start at a multiple of 256. Sides may be 0, but leading dimensions may not.
        """
        p = product
        self._give(stream, p.workspace)
        name, number = GEMMS[p.dtype]
        one, zero = ctypes.byref(number(1.0)), ctypes.byref(number(0.0))
        if p.half:
            how = LOWER, AS_IT_IS if p.left_turned else TURNED
            left = p.left, max(1, p.m if p.left_turned else p.k)
            out = p.out, max(1, p.m)
            self._call(SYRKS[p.dtype], self._handle, *how, p.m, p.k, one, *left, zero, *out)
            return
        self._call(
            name,
            self._handle,
            TURNED if p.right_turned else AS_IT_IS,
            TURNED if p.left_turned else AS_IT_IS,
            p.n,
            p.m,
            p.k,
            one,
            p.right,
            max(1, p.k if p.right_turned else p.n),
            p.left,
            max(1, p.m if p.left_turned else p.k),
            zero,
            p.out,
            max(1, p.n),
        )

    def triangular(self, step: Triangular, stream: int) -> None:
        """Give a product with a triangle, or a solution, to a stream.

        What cuBLAS sees is transposed: the factors change places, and the triangle its side.
        """
        self._give(stream, step.workspace)
        one, out = ctypes.byref(c_double(1.0)), (step.out, max(1, step.n))
        self._call(
            "cublasDtrsm_v2" if step.solves else "cublasDtrmm_v2",
            self._handle,
            RIGHT if step.on_left else LEFT,
            UPPER if step.stored_lower else LOWER,
            TURNED if step.turned else AS_IT_IS,
            WITH_DIAGONAL,
            step.n,
            step.m,
            one,
            step.triangle,
            max(1, step.k),
            *(out if step.solves else out * 2),
        )

    def _give(self, stream: int, workspace: tuple[int, int]) -> None:
        """Make the stream and the workspace those of the next call."""
        if self._given != (stream, workspace):
            self._given = None  # in case one of both calls fails
            self._call("cublasSetStream_v2", self._handle, stream)  # forgets the workspace
            self._call("cublasSetWorkspace_v2", self._handle, *workspace)
            self._given = stream, workspace

    def _call(self, name: str, *args: Any) -> None:
        if status := getattr(self._library, name)(*args):
            raise RuntimeError(f"{name}: cuBLAS says {status}")

    def close(self) -> None:
        """Destroy the handle."""
        self._call("cublasDestroy_v2", self._handle)
