"""Check the weights of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import Array


def weights_of(rows: int, sample_weight: Any) -> Array:
    """Return the weight of each row [rows].

    sample_weight: [rows], or one number for all; None: 1.

    Raises:
        ValueError: they are not numbers, or not one for each row.
    """
    weights = np.asarray(1.0 if sample_weight is None else sample_weight)
    if weights.dtype.kind == "O":
        weights = weights.astype(np.float64)
    if weights.dtype.kind not in "biuf":
        raise ValueError(f"sample_weight has dtype {weights.dtype}, but weights must be numbers.")
    if weights.shape not in ((), (rows,)):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, but X has {rows:,} rows: give [{rows}]."
        )
    return weights if weights.ndim else np.full(rows, weights)


def in_float64(rows: int, weights: Any) -> Array:
    """Return checked weights of rows as float64 [rows]; None: all are 1."""
    return np.ones(rows) if weights is None else np.asarray(weights, np.float64)


def times_class_weights(weights: Array, Y: Any, factors: Sequence[float] | None) -> Array:
    """Return the weights of rows [n], times those of their classes.

    Y: as `Classes.columns` makes it, [n x k]. factors: of classes; None: 1.
    """
    if factors is None:
        return weights
    each = np.asarray(factors)
    found: Array = weights * (each[Y[:, 0].astype(int)] if Y.shape[1] == 1 else Y @ each)
    return found


def with_weights(X: Any, Y: Any, sample_weight: Any) -> tuple[Any, ...]:
    """Return data for a learner: (X, Y), or (X, Y, weights).

    sample_weight: [n], a number or None.

    Raises:
        ValueError: they are not numbers, not one for each row, or all 0.
    """
    if sample_weight is None:
        return X, Y
    weights = weights_of(X.shape[0], sample_weight)
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return X, Y, weights
