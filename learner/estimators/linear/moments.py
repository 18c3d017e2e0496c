"""Mean, variance and size of columns, summed up over parts of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache import cpu

Numbers = NDArray[np.float64]
ROUNDING = 1e-7  # a column that varies less, relative to its mean, is constant
AT_ONCE = 4096  # rows of dense data that are summed up together


@dataclass(frozen=True)
class Moments:
    """Mean and variance of columns, over rows whose weights add up to `weight`."""

    weight: float
    mean: Numbers
    variance: Numbers

    @classmethod
    def of(cls, values: Any, weights: Numbers) -> Moments:
        """Return the moments of values [n x columns] or [n], dense or sparse.

        >>> Moments.of(np.array([1.0, 3.0, 9.0]), np.array([1.0, 1.0, 0.0]))
        Moments(weight=2.0, mean=array([2.]), variance=array([1.]))
        """
        if sp.issparse(values):
            values, sums = sp.csr_array(values), np.zeros((values.shape[1], 2))
            data = values.data.astype(np.result_type(values.dtype, np.float32), copy=False)
            shares = weights / weights.sum()
            cpu.sum_columns(values.indptr, values.indices, data, shares, sums)
            mean, squares = sums.T
            return cls(float(weights.sum()), mean, np.maximum(squares - mean**2, 0.0))
        values = np.asarray(values).reshape(len(values), -1)
        found = cls(0.0, np.zeros(values.shape[1]), np.zeros(values.shape[1]))
        for begin in range(0, len(values), AT_ONCE):
            w, part = weights[begin : begin + AT_ONCE], values[begin : begin + AT_ONCE]
            if w.any():
                shares, part = w / w.sum(), part.astype(np.float64)
                mean = np.einsum("n,nk->k", shares, part)  # BLAS has threads, and bits of its own
                part -= mean
                part *= part
                variance = np.einsum("n,nk->k", shares, part)
                found = found.merged(cls(float(w.sum()), mean, variance))
        return found

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the rows of both."""
        share = other.weight / (self.weight + other.weight)
        apart = other.mean - self.mean
        variance = self.variance + share * (other.variance - self.variance)
        variance += share * (1.0 - share) * apart**2
        return Moments(self.weight + other.weight, self.mean + share * apart, variance)

    def unit(self, *, centred: bool) -> tuple[Numbers, Numbers]:
        """Return centre and size of columns: mean and deviation, or 0 and root mean square.

        centred: which of them. A size of 0 is returned as 1.

        >>> ones = np.array([1.0, 1.0, 0.0])
        >>> Moments.of(np.array([[1.0], [3.0], [9.0]]), ones).unit(centred=True)
        (array([2.]), array([1.]))
        """
        centre = self.mean if centred else np.zeros_like(self.mean)
        squares = self.about(centre)
        return centre, np.sqrt(np.where(squares > 0.0, squares, 1.0))

    def about(self, centre: Numbers) -> Numbers:
        """Return the mean squares about `centre`, and 0 where they are rounding."""
        found = self.variance + (self.mean - centre) ** 2
        return np.where(found > (ROUNDING * self.mean) ** 2, found, 0.0)


def size_of_entries(X: Any) -> float:
    """Return the size of the entries of a column that are not 0, the median of all columns.

    >>> size_of_entries(np.array([[3.0, 1.0, 0.0, 0.0], [0.0, -1.0, 0.0, 1e4]]))
    3.0
    """
    filled = X.count_nonzero(axis=0) if sp.issparse(X) else np.count_nonzero(X, axis=0)
    columns = Moments.of(X, np.ones(X.shape[0]))
    squares = columns.weight * columns.about(np.zeros(X.shape[1]))
    sizes = np.sqrt(squares[filled > 0] / filled[filled > 0])
    return float(np.median(sizes)) if sizes.size else 0.0
