"""Whether all numbers of an array are finite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

PART = 2**22  # numbers looked at a time, where their sum overflows
SMALL = 2**10  # so few are looked at in less time than a sum without warnings takes


def is_finite(array: np.ndarray[Any, Any]) -> bool:
    """Return whether all numbers are finite, in one pass over memory, without copies.

    >>> is_finite(np.array([3e38, 3e38], np.float32)), is_finite(np.array([np.inf, -np.inf]))
    (True, False)
    """
    if array.size <= SMALL:
        return bool(np.isfinite(array).all())
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(float(array.sum(dtype=array.dtype))):
            return True  # a NaN or infinity would make the sum one
    flat = array.reshape(-1)  # a sum of finite numbers may be infinite, so look at each
    return all(np.isfinite(flat[i : i + PART]).all() for i in range(0, flat.size, PART))
