"""Computes sums, means and standard deviations of numbers that come part by part."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass
class Moments:
    """Mean and standard deviation of all numbers added so far.

    squares: the sum of (x - mean)^2.

    Chan, Golub, LeVeque, *Updating formulae ... for computing sample variances*, 1979, eq. 2.1.

    >>> moments = Moments()
    >>> for part in ([1.0, 2.0], [6.0]):
    ...     moments.add(np.array(part))
    >>> moments.mean, round(moments.deviation, 3)
    (3.0, 2.16)
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, part: npt.NDArray[Any]) -> None:
        """Add the numbers of `part` [n]."""
        if not part.size:
            return
        mean, count = float(part.mean()), self.count + part.size
        off, share = mean - self.mean, part.size / count
        self.squares += float(((part - mean) ** 2).sum()) + off * off * self.count * share
        self.mean += off * share
        self.count = count

    @property
    def deviation(self) -> float:
        """The standard deviation of these numbers; 1 if they are all the same."""
        return float(np.sqrt(self.squares / self.count)) if self.squares else 1.0


def weighted_sums(weights: npt.NDArray[Any], table: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the sum of the rows of `table` [n x k], times `weights` [n]; in float64.

    BLAS has other bits with other numbers of threads, and its threads wait in loops.
    """
    found: npt.NDArray[np.float64] = np.einsum("n,nk->k", weights, table, dtype=np.float64)
    return found
