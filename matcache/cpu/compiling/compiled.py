"""Compile generated kernels with Numba, each text once in a process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numba
import numpy as np

from ...emit.numba_rows import rowwise_source
from ...emit.source import load_source
from .sources import helpers

Kernel = Callable[..., Any]

_kernels: WeakKeyDictionary[Any, Kernel] = WeakKeyDictionary()


def kernel_of(found: Any, source: Callable[[Any], str] = rowwise_source) -> Kernel:
    """Return the kernel of a compiled program, whose text `source` prints once."""
    kernel = _kernels.get(found)
    if kernel is None:
        kernel = _kernels[found] = compiled(source(found.plan))
    return kernel


_loading = threading.Lock()


def compiled(source: str) -> Kernel:
    """Return the `run` function of a generated module.

    Each text is compiled once per process and kept. Compiled code is immutable, so learners share
    it, and a program has only so many different kernels.
    """
    with _loading:  # two threads with the same text get one function, compiled once
        return _load(source)


@cache
def _load(source: str) -> Kernel:
    found: Kernel = load_source(source, helpers()).run
    return found


def type_of(argument: Any) -> Any:
    """Return Numba's type of a kernel argument: an array, a number, or a record of them."""
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        layout: Literal["C", "A"] = "C" if flags.c_contiguous else "A"
        return _array_type(argument.dtype, argument.ndim, layout, flags.writeable, flags.aligned)
    if type(argument) is float:  # these two in a third of the time of `typeof`
        return numba.types.float64
    if type(argument) is int and -(2**63) <= argument < 2**63:
        return numba.types.int64
    if isinstance(argument, tuple):
        kind: Any = numba.types.BaseTuple
        return kind.from_types([type_of(part) for part in argument], type(argument))
    return numba.typeof(argument)  # type: ignore[no-untyped-call]


@cache
def _array_type(
    dtype: np.dtype[Any], ndim: int, layout: Literal["C", "A"], writeable: bool, aligned: bool
) -> Any:
    return numba.types.Array(
        numba.from_dtype(dtype), ndim, layout, readonly=not writeable, aligned=aligned
    )
