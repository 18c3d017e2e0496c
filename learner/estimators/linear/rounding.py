"""Warn of numbers that lose what tells them apart when they become float32."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..base import Array
from ..scikit import CALLER, DataConversionWarning

LOOKED_AT = 64, 256  # rows, evenly spaced: of all columns, then of those that seem to lose
MOST_LOST = 1e-4  # of the variance of a column
FAR, LEAST = 1e-3, 1e-36  # range of so few rows, relative and absolute, beyond which none is lost
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
    if table.dtype == np.float32 or not table.size:
        return
    width = int(np.prod(table.shape[1:]))
    columns = np.arange(width)
    for most in LOOKED_AT:
        rows = table[:: -(-len(table) // most)].reshape(-1, width)
        exact = (rows if len(columns) == width else rows[:, columns]).astype(np.float64)
        lost = _lost(exact)
        columns, exact = columns[lost], exact[:, lost]
        if not columns.size:
            return
    largest = np.float32(np.abs(exact[:, 0]).max())
    name = what if table.ndim == 1 else f"column {columns[0]} of {what}"
    warnings.warn(
        f"{who}: {name} has numbers up to {largest:.3g}, which float32 holds to the next "
        f"{np.spacing(largest):.3g}, but they differ by {exact[:, 0].std():.3g} only "
        "(standard deviation). Subtract a constant, such as the mean, and call fit again.",
        DataConversionWarning,
        stacklevel=CALLER + 4,
    )


def _lost(exact: Array) -> NDArray[np.bool_]:
    """Return which columns lose too much in float32."""
    low, high = exact.min(axis=0), exact.max(axis=0)
    near = np.asarray(high - low <= FAR * np.maximum(high, -low) + LEAST)
    if not near.any():
        return near
    with np.errstate(all="ignore"):  # what float32 cannot hold at all is refused later
        variance = exact.var(axis=0)
        lost = (exact - exact.astype(np.float32)).var(axis=0)
        constant = variance <= (CONSTANT * exact.mean(axis=0)) ** 2
    return np.asarray((lost > MOST_LOST * variance) & ~constant)
