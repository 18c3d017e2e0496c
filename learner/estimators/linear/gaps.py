"""Refuse targets with rows that have no value, or of another number than before."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..base import Array


def refuse_gaps(y: Any) -> None:
    """Check that every row of y has a value.

    Raises:
        ValueError: a value is None, NaN or a frame's NA; the message names the first such row.
    """
    if y is None or sp.issparse(y):
        return
    try:
        gaps = np.asarray(y.isna() if hasattr(y, "isna") else absent(np.asarray(y)), np.bool_)
    except ValueError:  # rows of different lengths: scikit-learn reports them
        return
    if gaps.ndim and gaps.any():
        rows = np.flatnonzero(gaps.reshape(len(gaps), -1).any(axis=1))
        raise ValueError(
            f"Input y contains NaN: {rows.size:,} of {len(gaps):,} rows have no value, the first "
            f"is row {rows[0]:,} (from 0). Leave these rows out of X and y."
        )


def absent(values: Array) -> Array:
    """Return which values are None, NaN, or pandas' NA and NaT."""
    if values.dtype.kind == "O":
        missing = [
            v is None
            or (isinstance(v, float) and v != v)
            or type(v).__name__ in ("NAType", "NaTType")
            for v in values.ravel()
        ]
        return np.array(missing, np.bool_).reshape(values.shape)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)


def check_count(estimator: object, Y: Any, known: int) -> None:
    """Raise ValueError if Y [n] or [n x targets] has another number of targets than is known."""
    count = 1 if Y.ndim == 1 else Y.shape[1]
    if count != known:
        raise ValueError(
            f"{type(estimator).__name__}: y has {count} targets, but had {known} before: "
            "partial_fit needs the same ones. Call fit to begin anew."
        )
