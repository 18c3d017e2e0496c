"""Compiles loops to machine code that needs no interpreter lock."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile `function` with Numba at its first call, and cache the code on disk.

    A kernel allocates nothing, raises nothing and releases the interpreter lock, so a reader
    thread runs beside the model. It keeps its Python signature for type checkers.
    """
    return cast(Function, numba.njit(nogil=True, cache=True)(function))
