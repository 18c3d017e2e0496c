"""Solve linear models in standard units, so that the units of the data do not matter.

x' = (x - centre) / scale by column, y' = (y - middle) / spread by target. Then W = W' spread /
scale, and the objective stays as it is: W' has an L2 penalty of its own for each feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..base import Array
from ..row_weights import in_float64
from .moments import Moments, Numbers

if TYPE_CHECKING:
    from .penalty_by_feature import PenaltyByFeature

USUAL = 1e-4, 10.0  # sizes of the largest value that need no other units
IN_UNITS_OF_Y = ("squared_error", "huber", "quantile")  # losses whose predictions are scores
FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Units:
    """The units of columns and targets.

    centre, scale: [features]. middle, spread: [targets].
    """

    centre: Numbers
    scale: Numbers
    middle: Numbers
    spread: Numbers

    @classmethod
    def of(
        cls, X: Any, Y: Any, weights: Any, *, centred: bool, of_targets: bool, l2: float
    ) -> Units:
        """Return units in which columns and targets have size 1, and mean 0 if `centred`.

        Sparse columns are divided by their largest value and not centred, so that zeros stay. Of
        columns whose squares are below the penalty l2, the penalty has size 1.
        weights: of rows [n], or None. of_targets: whether Y has units; otherwise it stays.
        """
        w = in_float64(X.shape[0], weights)
        if sp.issparse(X):
            centre = np.zeros(X.shape[1])
            scale = largest_by_column(sp.csr_array(X)[w > 0.0])
        else:
            centre, scale = Moments.of(X, w).unit(centred=centred)
        targets = 1 if Y.ndim == 1 else Y.shape[1]
        middle, spread = np.zeros(targets), np.ones(targets)
        if of_targets and not sp.issparse(Y):
            middle, spread = Moments.of(Y, w).unit(centred=centred)
        return cls(centre, np.sqrt(scale**2 + l2), middle, spread)

    def columns(self, X: Any) -> Any:
        """Return X in these units, float32."""
        if sp.issparse(X):
            return sp.csr_array(X.multiply(1.0 / self.scale[None]), dtype=np.float32)
        return ((X - self.centre) / self.scale).astype(np.float32)

    def targets(self, Y: Any) -> Any:
        """Return Y in these units."""
        if sp.issparse(Y):
            return Y
        found = (Y.reshape(len(Y), -1) - self.middle) / self.spread
        return found.reshape(Y.shape)

    def penalty(self, l2: float, power: int) -> PenaltyByFeature:
        """Return the penalty l2 / 2 ||W||^2 on W', divided by spread^power.

        power: how the loss grows with the spread: 2 for squares, 1 for absolute errors.
        """
        from .penalty_by_feature import PenaltyByFeature  # a class that few fits need

        by_target = self.spread[None] ** (2 - power)
        return PenaltyByFeature(weights=l2 * by_target / self.scale[:, None] ** 2)

    def original(self, W: Array, b: Array) -> tuple[Array, Array]:
        """Return W [features x targets] and b [targets] for data in their own units, float32."""
        found = W * self.spread / self.scale[:, None]
        shift = b * self.spread + self.middle - self.centre @ found
        return found.astype(np.float32), shift.astype(np.float32)

    def inside(self, W: Array, b: Array) -> tuple[Array, Array]:
        """Return in these units W [features x targets] and b [targets] of `original`."""
        shift = b - self.middle + self.centre @ W
        return W * self.scale[:, None] / self.spread, shift / self.spread


def usable(data: Any) -> bool:
    """Return whether units can be found: else the learner refuses X, Y or weights.

    data: (X, Y) or (X, Y, weights), of finite numbers.
    """
    X, Y, *weights = data
    if weights and not ((weights[0] >= 0.0) & (weights[0] <= FLOAT32)).all():
        return False
    wide = [Z for Z in (X, Y) if Z.dtype.kind == "f" and Z.dtype.itemsize > 4]
    return all(largest_of(Z) <= FLOAT32 for Z in wide)


def unusual(largest: float) -> bool:
    """Return whether steps for values of size 1 do not suit those whose largest size is given.

    >>> unusual(2.0), unusual(10_000.0), unusual(1e-8), unusual(0.0)
    (False, True, True, False)
    """
    return largest > 0.0 and not USUAL[0] <= largest <= USUAL[1]


def largest_of(values: Any) -> float:
    """Return the largest absolute value, 0 if there is none.

    >>> largest_of(sp.csr_array([[0.5, -2.0]])), largest_of([])
    (2.0, 0.0)
    """
    values = values.data if sp.issparse(values) else np.asarray(values)
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def largest_by_column(X: sp.csr_array) -> Numbers:
    """Return the largest absolute value of each column, 1 where there is none."""
    found = np.zeros(X.shape[1])
    np.maximum.at(found, X.indices, np.abs(X.data))
    found[found == 0.0] = 1.0
    return found
