"""Warn of numbers that lose what tells them apart when they become float32."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from .scikit import HAS_CALLBACKS, DataConversionWarning

LOOKED_AT = 256  # rows, evenly spaced
MOST_LOST = 1e-4  # of the variance of a column
CONSTANT = 1e-14  # deviation relative to the mean: less is rounding of float64, as of 0.1 + 0.2


def warn_of_rounding(estimator: object, X: Any, y: Any, *, numbers: bool) -> None:
    """Warn if float32 loses more than `MOST_LOST` of the variance of a column of X, or of y.

    numbers: whether y are numbers, not classes. Nothing is said of sparse X or y, which cannot be
    shifted.
    """
    _warn(type(estimator).__name__, "X", X)
    if numbers:
        _warn(type(estimator).__name__, "y", y)


def _warn(who: str, what: str, table: Any) -> None:
    if sp.issparse(table) or table.dtype.kind not in "iuf" or table.dtype.itemsize <= 2:
        return
    some = table[:: -(-len(table) // LOOKED_AT) or 1].reshape(-1, int(np.prod(table.shape[1:])))
    if some.dtype == np.float32 or not some.size:
        return
    with np.errstate(all="ignore"):  # what float32 cannot hold at all is refused later
        exact = some.astype(np.float64)
        variance = exact.var(axis=0)
        bad = (exact - some.astype(np.float32)).var(axis=0) > MOST_LOST * variance
        bad &= variance > (CONSTANT * exact.mean(axis=0)) ** 2
    if bad.any():
        column = int(bad.argmax())
        largest = np.float32(np.abs(exact[:, column]).max())
        name = what if table.ndim == 1 else f"column {column} of {what}"
        warnings.warn(
            f"{who}: {name} has numbers up to {largest:.3g}, which float32 holds to the next "
            f"{np.spacing(largest):.3g}, but they differ by {variance[column] ** 0.5:.3g} only "
            "(standard deviation). Subtract a constant, such as the mean, and call fit again.",
            DataConversionWarning,
            stacklevel=7 if HAS_CALLBACKS else 6,
        )
