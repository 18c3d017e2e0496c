"""Losses that are two straight lines of the error of a score."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..sums.curves import Array, Loss


class Lines(NamedTuple):
    """The loss of a row grows with its error t - score: `up` above 0, `down` below.

    margin: a least size of errors. Where one class is rare, hinges of a constant are small. They
        say nothing of the errors of other weights.
    """

    t: Array
    up: Array
    down: Array
    margin: float

    @classmethod
    def of(cls, y: Array, shares: Array, loss: Loss) -> Lines:
        """Return the lines of a hinge or a quantile. shares: of all weights, that rows have."""
        if loss.link == "hinge":
            return cls(2.0 * y - 1.0, shares * y, shares * (1.0 - y), 1.0)
        return cls(y, shares * loss.shape, shares * (1.0 - loss.shape), 0.0)

    def loss(self, errors: Array) -> float:
        """Return the sum of losses of errors [n]."""
        return float(self.up @ np.maximum(errors, 0.0) + self.down @ np.maximum(-errors, 0.0))

    def of_rows(self, rows: NDArray[np.intp], scale: Array | float, margin: float) -> Lines:
        """Return the lines of some rows, that stand for `scale` rows each."""
        return Lines(self.t[rows], self.up[rows] * scale, self.down[rows] * scale, margin)


def best_constant(t: Array, up: Array, down: Array) -> float:
    """Return a score that makes the loss least where W = 0.

    >>> best_constant(np.array([5.0, 1.0, 2.0]), np.full(3, 0.5), np.full(3, 0.5))
    2.0
    """
    order = np.argsort(t, kind="stable")
    sums = np.cumsum((up + down)[order])
    place = int(np.searchsorted(sums, up.sum()))
    return float(t[order[min(place, len(t) - 1)]])
