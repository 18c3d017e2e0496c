"""Compiles loops to machine code that needs no interpreter lock."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

from blocklearn.matcache.cpu.compiling.code_files import kept
from blocklearn.matcache.cpu.compiling.jit import kernel as compiled

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile `function` with Numba at its first call, and cache the code on disk.

    A kernel allocates nothing, raises nothing and releases the interpreter lock, so a reader
    thread runs beside the model. It keeps its Python signature for type checkers.
    """
    return cast(Function, compiled()(function))


def general_kernel(function: Function) -> Function:
    """Compile a kernel that allocates, with functions of NumPy; see `kernel`.

    All of Numba's passes run, so it takes twice as long.
    """
    return cast(Function, kept(numba.njit(nogil=True)(function)))
