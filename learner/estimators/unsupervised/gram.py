"""Directions of dense rows in memory, from X'X: of few columns, without passes and a learner.

X'X is a sum in float64, of columns less a centre where they are far from 0. So it keeps all digits
of float32 in one visit of the rows, and its directions are exact.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np

from blocklearn.matcache.cpu.algebra.blas import one_thread
from blocklearn.matcache.cpu.pool import Pool
from blocklearn.models.glm.sums.dense_rows import DenseRows

from ..base import Array

FACTORING = 10  # products of the cube of columns that finding the directions takes
PLANNING = 2e8  # products that take as long as planning a learner
FAR = 4.0  # deviations from 0 to the mean of a column that is centred
ROUNDING = 1e-12  # of the sum of squares: a smaller square is 0
LARGEST = float(np.finfo(np.float32).max)


def worth_gram(shape: tuple[int, int], basis: int, passes: int) -> bool:
    """Return whether X'X takes no longer than passes that multiply X'X by a basis.

    >>> worth_gram((2000, 20), 12, 8), worth_gram((10**6, 2000), 12, 8)
    (True, False)
    """
    rows, columns = shape
    products = columns**2 * (rows + FACTORING * columns)
    return products <= PLANNING + 2 * passes * rows * columns * basis


def directions(X: Array, count: int, *, centred: bool, threads: int) -> dict[str, Array] | None:
    """Return the tensors of `SVD` for X [n x d], float32; None: float32 does not hold its squares.

    Of each direction, the entry of the largest size is positive.

    count: of directions. centred: whether rows count from their mean.
    """
    rows = DenseRows(X, far=FAR if centred else np.inf)
    with closing(Pool(threads)) as pool:
        found = rows.squares(None, pool)
    products, mean = found[:-1, :-1], found[-1, :-1] / rows.count
    if centred:
        products -= np.outer(found[-1, :-1], mean)
        mean = mean if rows.centre is None else mean + rows.centre
    whole = float(np.trace(products))
    if not whole <= LARGEST:
        return None
    with one_thread:
        values, vectors = np.linalg.eigh(products)
    values, V = values[::-1][:count], vectors[:, ::-1][:, :count]
    V = V * np.where(V.max(axis=0) >= -V.min(axis=0), 1.0, -1.0)
    values = np.where(values > ROUNDING * whole, values, 0.0)
    tensors: dict[str, Any] = {
        "components": V,
        "singular_values": np.sqrt(values)[None],
        "means": mean[:, None],
        "sum_of_squares": [[whole]],
        "rows": [[rows.count]],
    }
    return {name: np.array(each, np.float32) for name, each in tensors.items()}
