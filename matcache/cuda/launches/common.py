"""Shared parts of CUDA launches: shapes of grids, texts, scratch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.slots import PatternSlot, Slot, type_name
from ...emit.cuda_header import C_TYPES
from ..kernels import library_source

THREADS = 256  # in a block, of most kernels
WARPS = 8  # warps in such a block
CHUNKS = 1024  # most chunks of a sum; depends only on the shape
COLSUM_ROWS = 64  # least rows in a chunk of a column sum
PARTIALS = 2**22  # most partial sums of a column sum
WORKSPACE = 32 << 20  # bytes that dense products may use


def c_type(dtype: Any) -> str:
    """Return the C name of a dtype."""
    return C_TYPES[type_name(dtype)]


def library_kernel(cache: MatCache, name: str, **types: str) -> Any:
    """Return a kernel of `dense.cu` for these types of numbers."""
    key = (name, *sorted(types.items()))
    return cache.backend.text(key, lambda: library_source(**types), name)


def scratch(cache: MatCache, name: str, rows: int, columns: int) -> Slot:
    """Return a float64 container for partial sums."""
    key = ("cuda", name, columns)
    return cache.result(key, (rows, columns), np.float64, f"{name} of sums")


def kernel(
    cache: MatCache,
    name: str,
    facts: tuple[Any, ...],
    source: Callable[[], str],
    threads: int = THREADS,
) -> Any:
    """Return the kernel `name` of the module that `source` makes.

    facts: everything that the text depends on.
    threads: in a block, as `BL_BLOCK` in the source says.
    """
    return cache.backend.text((name, *facts), source, name, threads)


def turned_name(name: str, pattern: PatternSlot) -> str:
    """Return the name of the kernel for positions of 32 or of 64 bits."""
    return f"{name}_32" if pattern.capacity < 2**31 else f"{name}_64"


def workspace(cache: MatCache) -> Slot:
    """Return the container that cuBLAS may use."""
    key = ("cuda", "workspace")
    return cache.result(key, (1, WORKSPACE), np.uint8, "room for dense products")
