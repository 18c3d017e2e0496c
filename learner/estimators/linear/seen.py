"""What is known of the rows that a linear estimator has learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..row_weights import in_float64
from .moments import Moments
from .units import Units


@dataclass(frozen=True)
class Seen:
    """What is known of the rows that a linear estimator has learned from."""

    columns: Moments
    targets: Moments

    @classmethod
    def of(cls, X: Any, Y: Any, weights: Any = None) -> Seen:
        """Return the moments of X and Y, the targets as a model learns them."""
        w = in_float64(X.shape[0], weights)
        return cls(Moments.of(X, w), Moments.of(Y, w))

    def merged(self, other: Seen) -> Seen:
        """Return what is known of the rows of both."""
        return Seen(self.columns.merged(other.columns), self.targets.merged(other.targets))

    def units(self, *, centred: bool, of_targets: bool) -> Units:
        """Return units in which columns have size 1, and targets if `of_targets`."""
        middle, spread = np.zeros_like(self.targets.mean), np.ones_like(self.targets.mean)
        if of_targets:
            middle, spread = self.targets.unit(centred=centred)
        return Units(*self.columns.unit(centred=centred), middle, spread)
