"""Average rows that rest while their features do not occur.

Such a row is estimated at the same numbers u by every block. The average w <- w + rho (u - w) then
has a closed form: after blocks of rates rho_s, w - u is multiplied by the product of all 1 - rho_s.
The clock is the sum of their logarithms; a row is brought up to date when it is read next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blocklearn.matcache import (
    Column,
    Mat,
    Number,
    Rows,
    Sparse,
    Table,
    colsum,
    exp,
    named,
    rowwise,
)

from .base import SparseEstimate


class Resting:
    """A parameter whose rows rest.

    w: [features x columns].
    rest: [features x 1 or columns], the estimate of a row whose feature does not occur.
    seen: float64 [features x 1], time of the clock when a row was last exact.
    sums: [1 x columns], column sums of w, all rows up to date.
    """

    def __init__(self, name: str, w: Mat, rest: Mat) -> None:
        """Make the state."""
        self.w, self.rest = w, rest
        rows, columns = w.shape
        self.seen = named(w.cache, f"optimizer.{name}.seen", (rows, 1), np.float64)
        self.sums = named(w.cache, f"optimizer.{name}.sums", (1, columns), w.dtype)
        self.restart()

    def restart(self) -> None:
        """Start the clock at 0: all rows of w are up to date."""
        self.seen <<= 0.0
        self.sums <<= colsum(self.w)

    def wake(self, X: Any, now: Mat) -> None:
        """Bring the rows up to date whose features occur in X."""
        wake_rows(X.T, self.w, self.rest, self.seen, now)

    def wake_all(self, now: Mat) -> None:
        """Bring all rows up to date, and start the clock at 0."""
        wake_rows(None, self.w, self.rest, self.seen, now)
        self.restart()

    def step(self, update: SparseEstimate, rho: Mat, now: Mat) -> None:
        """Average the rows that occur, which are up to date, and the sums. now: after the step."""
        X, R, W, scale = update.X, update.R, update.W, update.scale
        found = colsum(W if R is None else products(X, R, W))
        self.sums <<= self.sums + rho * (colsum(self.rest) + scale * found - self.sums)
        average_rows(X.T, self.w, self.rest, self.seen, R, W, scale, rho, now)


@rowwise
def wake_rows(XT: Sparse | None, w: Rows, rest: Rows, seen: Column, now: Number) -> None:
    """Bring rows of w up to date: of the features that occur in X.T, or all."""
    w <<= rest + (w - rest) * exp(now - seen)
    seen <<= now


@rowwise
def products(X: Sparse, R: Rows, W: Table) -> Rows:
    """Return R * (X W): its column sums are those of W * (X.T R)."""
    return R * (X @ W)


@rowwise
def average_rows(
    XT: Sparse,
    w: Rows,
    rest: Rows,
    seen: Column,
    R: Table | None,
    W: Rows,
    scale: Number,
    rho: Number,
    now: Number,
) -> None:
    """Average rows of w and their estimates."""
    found = scale * W if R is None else scale * W * (XT @ R)
    w <<= w + rho * (rest + found - w)
    seen <<= now
