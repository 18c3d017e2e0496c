"""Dense products in kernels, which call NumPy's BLAS by its address.

A recorded program runs without Python, so it cannot call `np.matmul`. The kernel calls the routines
of BLAS that `np.matmul` calls for the same matrices, so the bits are the same, too.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..compiling.jit import kernel

instruction: Any = intrinsic  # callers do not pass the first parameter

BY_ROWS, UPPER = 101, 121  # as cblas.h numbers them
PLAIN, TURNED = 111, 112
LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


class Routines(NamedTuple):
    """Addresses of `cblas_?gemm` and `cblas_?syrk`, whose sizes are 64-bit numbers."""

    gemm: int
    syrk: int


@cache
def routines(dtype: np.dtype[Any]) -> Routines | None:
    """Return the routines that `np.matmul` calls; None if they are not known.

    They are known in NumPy's own wheels. Other builds of NumPy use a library of the system.
    """
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # not needed by the matrix layer alone
        return None
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        found = [
            getattr(library.dynlib, f"scipy_cblas_{LETTERS[dtype]}{name}64_", None)
            for name in Routines._fields
        ]
        if "numpy.libs" in library.filepath and None not in found:
            return Routines(*(_address(each) for each in found))
    return None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _calls(shape: str) -> Any:
    """Return an instruction that calls the C function at an address.

    shape: of its arguments, a letter each: i int, n 64-bit number or address, r real number.
    """

    @instruction
    def call(typingctx, address, args):
        real = next(one for one, kind in zip(args.types, shape, strict=True) if kind == "r")

        def codegen(context, b, sig, given):
            number = {"i": ir.IntType(32), "n": ir.IntType(64), "r": context.get_value_type(real)}
            function = ir.FunctionType(ir.VoidType(), [number[kind] for kind in shape])
            values = [b.extract_value(given[1], at) for at in range(len(shape))]
            for at, kind in enumerate(shape):
                if kind == "i":
                    values[at] = b.trunc(values[at], number["i"])
            b.call(b.inttoptr(given[0], function.as_pointer()), values)
            return context.get_dummy_value()

        return types.void(types.int64, args), codegen

    return call


_gemm = _calls("iiinnnrnnnnrnn")
_syrk = _calls("iiinnrnnrnn")


@kernel()
def product(chunk, thread, bounds, gemm, syrk, left, turned_left, right, turned_right, out):
    """Compute rows of out = left @ right, of which one side may be turned.

    bounds: the last may be beyond the rows of out.
    gemm, syrk: see `Routines`.

    No size may be 1: `np.matmul` has other routines for vectors.

    Of a product of a matrix with itself, a chunk computes what is right of the diagonal, and copies
    it to the other side.
    """
    k, one, zero = np.int64(out.shape[1]), out.dtype.type(1), out.dtype.type(0)
    first, m = bounds[chunk], min(bounds[chunk + 1], out.shape[0]) - bounds[chunk]
    inner = np.int64(left.shape[0] if turned_left else left.shape[1])
    wide_left, wide_right = np.int64(left.shape[1]), np.int64(right.shape[1])
    a, b, c = np.int64(left.ctypes.data), np.int64(right.ctypes.data), np.int64(out.ctypes.data)
    how_left = np.int64(TURNED if turned_left else PLAIN)
    how_right = np.int64(TURNED if turned_right else PLAIN)
    if a == b and turned_left != turned_right:
        height = np.int64(1) if turned_left else wide_left  # numbers between rows of left
        end = first + m
        order = np.int64(BY_ROWS), np.int64(UPPER), how_left
        corner = c + first * out.itemsize * (k + 1)
        rows = a + first * left.itemsize * height
        _syrk(syrk, (*order, m, inner, one, rows, wide_left, zero, corner, k))
        if end < k:
            order = np.int64(BY_ROWS), how_left, how_right
            beside, rest = corner + m * out.itemsize, a + end * left.itemsize * height
            sizes = m, k - end, inner
            _gemm(gemm, (*order, *sizes, one, rows, wide_left, rest, wide_left, zero, beside, k))
        for i in range(first, end):
            for j in range(i + 1, k):
                out[j, i] = out[i, j]
        return
    a += first * left.itemsize * (np.int64(1) if turned_left else wide_left)
    c += first * out.itemsize * k
    order = np.int64(BY_ROWS), how_left, how_right
    _gemm(gemm, (*order, m, k, inner, one, a, wide_left, b, wide_right, zero, c, k))
