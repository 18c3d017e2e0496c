"""The problems that `dual.py` solves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
Link = Literal["logistic", "hinge", "squared_hinge", "softmax", "linear", "huber", "quantile"]
Targets: TypeAlias = NDArray[np.generic] | sp.sparray  # [n x k]

NUMBERS = ("linear", "huber", "quantile")  # links of targets that are no classes


@dataclass(frozen=True)
class Problem:
    """Rows in memory, what to learn of them, and how it is penalised.

    X: CSR, float32 [n x features], no column twice in a row.
    Y: [n x k], dense or sparse: 0 and 1, of softmax the k classes. Where the link is in `NUMBERS`:
        dense, with mean 0 and size 1, about.
    weights: [n], not all 0.
    l2: penalty of the mean loss over `weights`, above 0.
    link: of all columns.
    shapes: [k], of the losses of huber and quantile; None: other losses.
    """

    X: sp.csr_array
    Y: Targets
    weights: FloatArray
    l2: float
    link: Link
    shapes: NDArray[np.floating] | None = None
