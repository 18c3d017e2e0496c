"""Compare arrays bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL = 2**14  # bytes that are copied in less time than NumPy compares arrays


def same_bits(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Return whether two arrays are the same in shape, type and bits.

    >>> same_bits(np.zeros(2), np.zeros(2)), same_bits(np.zeros(2), -np.zeros(2))
    (True, False)
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.nbytes <= SMALL:
        return one.tobytes() == other.tobytes()
    words = np.uint64 if one.nbytes % 8 == 0 else np.uint8
    one, other = (np.ascontiguousarray(each).reshape(-1).view(words) for each in (one, other))
    return bool((one == other).all())
