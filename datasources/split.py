"""Which rows are held out for evaluation: decided row by row, by a hash."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from .errors import DataError
from .mix import GOLDEN, mix

HoldBy = Literal["rows", "contents", "entries", "time"]
"""What is held out: rows, by a hash of their number or of what is in them; or entries of rows, at
random or the newest ones.
"""


def split_rows(
    n: int, share: float, seed: int = 0
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ids of the rows of 0..n-1 to train on and of those held out: two int64 arrays, ascending.

    Row i is held out if hash(seed, i) < share, so a row stays on its side when rows are added
    behind it. The hash is the SplitMix64 generator (Steele, Lea, Flood, OOPSLA 2014) at step i.

    >>> train, held = split_rows(1000, 0.05)
    >>> len(train), len(held)
    (956, 44)
    >>> bool((held == split_rows(5000, 0.05)[1][:44]).all())
    True
    """
    if n < 0:
        raise DataError(f"split_rows: n={n}, but there are at least 0 rows.")
    rows = np.arange(1, n + 1, dtype=np.uint64)
    held = mix(start_of(seed) + rows * GOLDEN) < limit_of(share)
    return np.flatnonzero(~held).astype(np.int64), np.flatnonzero(held).astype(np.int64)


def start_of(seed: int) -> np.uint64:
    """Where the generator starts."""
    if not 0 <= seed < 2**64:
        raise DataError(f"split_rows: seed={seed}, but a seed is 0 to 2**64 - 1.")
    return np.uint64(mix(np.array([seed], np.uint64))[0])


def limit_of(share: float) -> np.uint64:
    """The hash that is too large for a row to be held out."""
    if not 0.0 < share < 1.0:
        raise DataError(f"split_rows: share={share}, but it lies between 0 and 1, e.g. 0.05.")
    return np.uint64(share * 2.0**64)
