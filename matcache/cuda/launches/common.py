"""What several launches of a CUDA device share: shapes of grids, texts, scratch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.slots import PatternSlot, Slot, type_name
from ...emit.cuda_header import C_TYPES
from ..kernels import library_source

WARPS = 8  # of a block of threads
LONG_BLOCKS = 2  # for each processor, that take long rows
CHUNKS = 512  # of a sum, at most; by the shape alone
COLSUM_ROWS = 64  # of a chunk of a sum by column, at least
PARTIALS = 2**22  # numbers that sums by column may keep in between


def c_type(dtype: Any) -> str:
    """Type of numbers in C."""
    return C_TYPES[type_name(dtype)]


def library_kernel(cache: MatCache, name: str, **types: str) -> Any:
    """A kernel of `dense.cu` for these types of numbers."""
    key = (name, *sorted(types.items()))
    return cache.backend.text(key, lambda: library_source(**types), name)


def scratch(cache: MatCache, name: str, rows: int, columns: int) -> Slot:
    """A container of float64 for sums in between."""
    key = ("cuda", name, columns)
    return cache.result(key, (rows, columns), np.float64, f"{name} of sums")


def kernel(cache: MatCache, name: str, facts: tuple[Any, ...], source: Callable[[], str]) -> Any:
    """The kernel `name` of the module that `source` makes; facts: what the text depends on."""
    return cache.backend.text((name, *facts), source, name)


def turned_name(name: str, pattern: PatternSlot) -> str:
    """The kernel for positions of 32 or of 64 bits."""
    return f"{name}_32" if pattern.capacity < 2**31 else f"{name}_64"
