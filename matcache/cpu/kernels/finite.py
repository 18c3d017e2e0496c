"""Whether all numbers of a large table are finite, faster than by a sum.

The bits of a float32 without its sign are a whole number, which is largest for an infinity and NaN.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np

from ...finite import is_finite
from ..compiling.jit import kernel

INFINITY = 0x7F800000  # its bits
LARGE = 2**20  # numbers of a table that is worth a kernel, which is compiled once

_i32 = np.int32


@kernel()
def largest_bits(numbers):
    """Return the largest of these int32, the bits of float32, without signs."""
    largest = _i32(0)
    for i in range(numbers.size):
        largest = max(largest, _i32(numbers[i] & _i32(0x7FFFFFFF)))
    return largest


def all_finite(array: np.ndarray[Any, Any], large: int = LARGE) -> bool:
    """Return whether all numbers are finite.

    >>> all_finite(np.array([3e38, -3e38], np.float32), large=1)
    True
    """
    if array.dtype != np.float32 or array.size < large or not array.flags.c_contiguous:
        return is_finite(array)
    return bool(largest_bits(array.reshape(-1).view(np.int32)) < INFINITY)
