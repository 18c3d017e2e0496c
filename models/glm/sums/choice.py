"""Choose the sums over rows that a solver needs: of dense rows, or of sparse ones."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from .curves import Array, Loss
from .dense_sums import DenseSums
from .row_sums import Numbers, RowSums, Targets
from .sparse_sums import SparseSums

FAR = 4.0, 0.5  # deviations from 0 to the mean of a column that is centred; with a diagonal


def sums_of(
    X: Numbers | sp.csr_array,
    Y: Targets,
    weights: Array | None,
    loss: Loss,
    *,
    intercept: bool,
    diagonal: bool,
) -> RowSums:
    """Return the sums over rows that a solver needs.

    X: [n x features], dense, or sparse as in `SparseSums`. Y: [n x k], dense or sparse; softmax: of
    the k classes. weights: [n], not all 0; None: 1. intercept, diagonal: as in `NewtonSolver`.
    """
    if isinstance(X, sp.csr_array):
        return SparseSums(X, Y, weights, loss, centred=intercept)
    return DenseSums(X, Y, weights, loss, far=FAR[diagonal] if intercept else np.inf)
