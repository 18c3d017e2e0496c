"""Sums with the same bits for any order of terms, any blocks and any threads.

Every term is rounded to a multiple of one power of two before it is added. Sums of such numbers are
exact as long as they need at most 53 bits, so their order does not matter. The size of terms must
be known roughly beforehand; afterwards `largest` tells whether the estimate held. Demmel, Nguyen,
Fast reproducible floating-point summation, ARITH 2013 (pre-rounding).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..containers.launching import launch
from ..containers.lazy import Lazy
from ..containers.matrices import Mat
from ..containers.slots import Slot
from ..errors import ShapeError, source_line

NO_WEIGHTS = np.empty((0, 1), np.float32)


@dataclass(frozen=True)
class ExactSum:
    """A table of exact sums.

    total: float64 [n x k], the sums.
    grid: float64 [1 x k], see `grid_for`; shared by all rows of a column.
    largest: float64 [1 x k], largest absolute value of a column's terms.
    """

    total: Mat
    grid: Mat
    largest: Mat

    def add_product(self, X: Lazy, table: Lazy, weights: Lazy | None = None) -> None:
        """Add a product: total += X.T @ (table * weights).

        X: sparse float32 [rows x n].
        table: float32 [rows x k].
        weights: float32 [rows x 1], or None for 1.

        Weights multiply the exact products in float64. So a row of weight 2 adds as much as two
        rows.
        """
        X, table = X.mat(), table.mat()
        self._check(table, X.shape[1])
        cache, pattern, k = X.cache, X.pattern, table.shape[1]
        if pattern is None or X.shape[0] != table.shape[0]:
            raise ShapeError(
                f"add_product at {source_line()}: X is {X.shape}, and must be sparse with "
                f"{table.shape[0]} rows, as many as the table."
            )
        if X.dtype != np.float32 or table.dtype != np.float32:
            raise ShapeError(
                f"add_product at {source_line()}: X is {X.dtype} and the table {table.dtype}; both "
                "must be float32, whose products are exact."
            )
        self._written()
        factors = self._weights(weights, table)
        launch(cache, "add_exact_product", pattern, X.slot, table.slot, factors, *self._slots())
        cache.count(0, pattern, (4 if factors is None else 5) * k)

    def add_columns(self, table: Lazy, weights: Lazy | None = None) -> None:
        """Add the column sums of `table * weights` to a total of one row.

        table: float32 or float64 [rows x k].
        weights: float32 [rows x 1], or None for 1.
        """
        table = table.mat()
        self._check(table, 1)
        cache, k = table.cache, table.shape[1]
        self._written()
        factors = self._weights(weights, table)
        launch(cache, "add_exact_columns", table.slot, factors, *self._slots())
        cache.count((3 if factors is None else 4) * table.shape[0] * k)

    def _slots(self) -> tuple[Slot, Slot, Slot]:
        return self.grid.slot, self.total.slot, self.largest.slot

    @staticmethod
    def _weights(weights: Lazy | None, table: Mat) -> Slot | None:
        if weights is None:
            return None
        found = weights.mat()
        if found.shape != (table.shape[0], 1) or found.dtype != np.float32:
            raise ShapeError(
                f"ExactSum at {source_line()}: weights are {found.dtype} {found.shape}; of a table "
                f"of {table.shape[0]} rows they must be float32 ({table.shape[0]}, 1)."
            )
        return found.slot

    def _check(self, table: Mat, rows: int) -> None:
        if any(mat.dtype != np.float64 for mat in (self.total, self.grid, self.largest)):
            raise ShapeError(
                f"ExactSum at {source_line()}: total is {self.total.dtype}, grid {self.grid.dtype} "
                f"and largest {self.largest.dtype}; all must be float64."
            )
        if self.total.shape != (rows, table.shape[1]):
            raise ShapeError(
                f"ExactSum at {source_line()}: the sums are {self.total.shape}, but a table of "
                f"{table.shape[1]} columns adds to {rows} x {table.shape[1]}."
            )
        if self.grid.shape != self.largest.shape or self.grid.shape != (1, table.shape[1]):
            raise ShapeError(
                f"ExactSum at {source_line()}: grid is {self.grid.shape} and largest "
                f"{self.largest.shape}; both must be (1, {table.shape[1]}), a number per column."
            )

    def _written(self) -> None:
        where = source_line()
        for mat in (self.total, self.largest):
            mat.slot.written(where)
            mat.follow()


def grid_for(size: Any) -> Any:
    """Return the grid for sums of terms whose number times largest size is `size`.

    size: positive; an upper bound.

    The grid is c = 3 * 2^m >= 3 size. Adding c to a term and subtracting it again leaves a multiple
    of 2^(m - 51), so a term is off by at most 2^(m - 52). Sums are exact up to 2^(m + 2).

    >>> c = float(grid_for(1000.0))
    >>> c, (0.1 + c) - c == 0.1, (0.125 + c) - c
    (3072.0, False, 0.125)
    """
    return 3.0 * np.exp2(np.ceil(np.log2(size)))


def fits(grid: Any, size: Any) -> Any:
    """Return whether sums on this grid are exact.

    size: number of terms times the largest term.

    >>> bool(fits(grid_for(1000.0), 1024.0)), bool(fits(grid_for(1000.0), 1025.0))
    (True, False)
    """
    return 3.0 * size <= grid
