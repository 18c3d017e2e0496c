"""The order in which a pass visits rows: a function of (seed, pass) alone."""

import numpy as np
import numpy.typing as npt

from .gather import count_up


def shuffle_rows(seed: int, pass_: int, into: npt.NDArray[np.int64]) -> None:
    """Fill `into` [n] with a permutation of 0..n-1 drawn from Philox keyed by `(seed, pass_)`.

    >>> order = np.empty(5, np.int64)
    >>> shuffle_rows(0, 1, order)
    >>> sorted(order.tolist())
    [0, 1, 2, 3, 4]
    """
    count_up(0, into)
    key = np.array([seed, pass_], np.uint64)
    np.random.Generator(np.random.Philox(key=key)).shuffle(into)
