"""Check targets: between 0 and 1 for classes, not negative for counts and weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import TargetRangeError
from .links import LINKS, SMALLEST
from .targets import Fit

REMEDIES = {
    (0.0, 1.0): "be between 0 and 1. Numbers of classes, such as -1 and 1, become a target of 0 "
    "and 1 for each class with `classes: true` (LIBSVM) or `learn convert --classes`, and in "
    "Python as texts: (X, Y.astype(str)); for other numbers, choose link: linear",
    (0.0, np.inf): "not be negative; for other numbers, choose link: linear",
    (SMALLEST, np.inf): "be positive; for zeros as well, choose link: tweedie",
}


class TargetRanges:
    """Bounds of each column of targets, from the links of the fits that use it."""

    def __init__(self, fits: Sequence[Fit], targets: int) -> None:
        """targets: number of columns of the data's targets."""
        self._low, self._high = np.full(targets, -np.inf), np.full(targets, np.inf)
        self._fits: dict[int, Fit] = {}
        for fit in fits:
            low, high = LINKS[fit.link].range
            for column in fit.y:
                if low > self._low[column] or high < self._high[column]:
                    self._fits[column] = fit  # the narrowest: ranges lie within each other
                    self._low[column] = max(self._low[column], low)
                    self._high[column] = min(self._high[column], high)
        self._weights = {fit.row_weights: fit for fit in fits if fit.row_weights is not None}
        least = 0.0 if self._weights else -np.inf
        self._narrowest = max(least, self._low.max()), self._high.min()

    def check(self, Y: NDArray[np.floating]) -> None:
        """Raise TargetRangeError for a target out of bounds, or a negative weight of a row.

        Y: [rows x targets].
        """
        if not len(Y):
            return
        low, high = self._narrowest
        if Y.min() >= low and Y.max() <= high:  # fast path: true of most blocks
            return
        least, most = Y.min(axis=0), Y.max(axis=0)
        wrong = np.flatnonzero((least < self._low) | (most > self._high))
        if wrong.size:
            column = int(wrong[0])
            fit = self._fits[column]
            value = least[column] if least[column] < self._low[column] else most[column]
            name = fit.classes[fit.y.index(column)]
            remedy = REMEDIES[LINKS[fit.link].range]
            raise TargetRangeError(
                f"GLM: target {name!r} is {value:g} in a row: for link {fit.link} it must "
                f"{remedy}.",
                int(np.argmax(Y[:, column] == value)),
            )
        for column, fit in self._weights.items():
            if least[column] < 0:
                raise TargetRangeError(
                    f"GLM: target {fit.name!r}: its row_weights, column {column} of the targets, "
                    f"are {least[column]:g} in a row: must not be negative. A weight of 0 leaves "
                    "the row out for this target.",
                    int(np.argmin(Y[:, column])),
                )
