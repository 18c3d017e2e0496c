"""Decide which rows in memory are worth a Hessian of their columns, and a dense copy for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.models.glm.links import KINKED, LinkName

START = 3e9  # products of a Hessian that are always worth their time
PASSES = 20  # of either method, about
READING = 40  # products of a Hessian that take as long as reading a number in a pass
# Times of sparse rows, in products of a Hessian. In a pass, of each target: a number of X, and a
# column in all sums over columns, of one target and of several. Two numbers multiplied in X X'.
SPARSE_READING, SUMMING, MULTIPLYING = 200, (1000, 3000), 40
CURVED = 3  # factors of X X' that a target of a curved loss takes, about
# Losses whose steps by products with X are many, and the share of the time of other reasons for
# factors of X X' up to which these are faster for them.
SLOW, SOON = ("poisson", "tweedie", "huber"), 1 / 512
# Of fewer dense rows than columns: times of a number in X X', of one of the cube of rows in all
# factors of a target, of a step by a product with X, and of a number of X in it, once and for each
# target; the share of the time of factors for which products are tried, if they are not too few.
SQUARING, FACTORING, STEP, PRODUCT = 8, 40, 1e7, (8, 12)
TRYING, LEAST_TRIED = 1 / 6, 15
ENOUGH = 40  # products of independent columns
TRIED = "logistic", "softmax", "squared_hinge"  # their steps take the fewest products
# Largest weight of a row, in smallest ones: from there on steps by products with X, and pairs of
# steps, take more time than factors of X X'.
UNEVEN, UNEVEN_PAIRS = 1e5, 300.0
MOST_HESSIAN = 2**28  # bytes of a Hessian and its factor
FEW_COLUMNS = 64  # dense rows so short are read as fast as sparse ones
DENSITY = 1 / 3  # share of numbers that are not 0, from which on the same holds
MOST_COPIED = 2**28  # bytes of a dense copy
MOST_NUMBERS = 2**27  # of X and Y; beyond, many threads gain more from a learner
SCORES = 6  # numbers of a solver with vectors by row, for each row and target


def worth_hessian(rows: int, columns: int) -> bool:
    """Return whether a Hessian of dense columns is worth its time and memory."""
    if 16 * (columns + 1) ** 2 > MOST_HESSIAN:
        return False
    products = rows * columns**2 / 2 + columns**3
    return products <= START + PASSES * READING * rows * columns


def worth_row_products(X: Any, targets: int, link: LinkName, *, odd: bool) -> bool:
    """Return whether products of sparse rows, and their factors, are worth time and memory.

    odd: whether the problem does not suit products with X whatever their number.

    >>> X = sp.eye_array(1000, 2000, format="csr")
    >>> worth_row_products(X, 2, "quantile", odd=True), worth_row_products(X, 2, "huber", odd=True)
    (True, False)
    >>> worth_row_products(X[:100], 1, "huber", odd=False)
    True
    """
    rows, columns = X.shape
    if rows > columns or 16 * (rows + 1) ** 2 > MOST_HESSIAN or not (odd or link in SLOW):
        return False
    summing = SUMMING[targets > 1] * columns
    most = START + PASSES * targets * (SPARSE_READING * X.nnz + summing)
    most *= 1.0 if odd else SOON
    products = rows**3 * (1 if link == "linear" or link in KINKED else CURVED * targets)
    if products > most:
        return False
    counts = np.bincount(sp.csr_array(X).indices)
    return bool(products + MULTIPLYING * np.dot(counts, counts) <= most)


def products_to_try(X: Any, targets: int, link: LinkName) -> int:
    """Return after how many products with X its square rows take over; 0: they are the first.

    Their steps are few where columns are independent, but may be any number.

    >>> X = np.broadcast_to(1.0, (500, 2000))
    >>> products_to_try(X, 1, "logistic"), products_to_try(X, 1, "linear")
    (40, 0)
    """
    if sp.issparse(X) or link not in TRIED:
        return 0
    rows, columns = X.shape
    square = rows**2 * (SQUARING * columns + FACTORING * targets * rows)
    once, each = PRODUCT
    found = int(TRYING * square / (STEP + (once + each * targets) * rows * columns))
    return min(found, ENOUGH) if found >= LEAST_TRIED else 0


def uneven(weights: NDArray[np.floating] | None, link: LinkName) -> bool:
    """Return whether weights of rows [n] are too far apart for products with X; None: all 1.

    Steps of the log loss need few products whatever the weights.

    >>> uneven(np.array([0.0, 1.0, 1e3]), "huber"), uneven(np.array([1.0, 1e3]), "linear")
    (True, False)
    """
    if weights is None or link in ("logistic", "softmax"):
        return False
    heard = weights[weights > 0.0]
    most = UNEVEN_PAIRS if link == "huber" else UNEVEN
    return bool(heard.size and heard.max() > most * heard.min())


def numbers_of(X: Any) -> int:
    """Return how many numbers of X are stored."""
    return int(X.nnz if sp.issparse(X) else X.size)


def keeps_scores(numbers: int, rows: int, targets: int) -> bool:
    """Return whether X of so many numbers, and vectors by row of a solver, are not too large."""
    return bool(numbers + SCORES * rows * targets <= MOST_NUMBERS)


def better_dense(X: Any) -> bool:
    """Return whether rows are sparse ones that are solved faster as dense ones, in bounded memory.

    >>> better_dense(sp.eye_array(50, format="csr")), better_dense(sp.eye_array(500, format="csr"))
    (True, False)
    """
    if not sp.issparse(X):
        return False
    rows, columns = X.shape
    few = columns <= FEW_COLUMNS or X.nnz >= DENSITY * rows * columns
    return bool(few and 8 * rows * columns <= MOST_COPIED)


def dense(X: Any) -> Any:
    """Return sparse rows as dense ones, float32 if they are, else float64."""
    return X.astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False).toarray()
