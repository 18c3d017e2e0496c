"""Sum gradients, losses and weights over a pass; exactly for a `LinearLoss`.

Sums are kept on a grid (matcache/operations/exact.py), which must fit the size of their terms. That
size is known only when the pass has ended. If the grid did not fit, the pass does not count, and is
repeated on a better grid. The size hardly changes between passes, so this happens in the first pass
or never.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blocklearn.matcache import (
    Column,
    ExactSum,
    Mat,
    MatCache,
    Merge,
    Rows,
    add_wide_product,
    fits,
    grid_for,
    named,
    total,
)

from .linear_loss import LinearLoss
from .row import Row, kernel
from .updates import Gradient, Objective, Update, masked

LOSS, WEIGHT = "pass.loss", "pass.weight"
ROWS = "pass.rows"
FIRST = 2.0**30  # rows times largest term, in the first pass: a million rows of terms below 1,000
SPARE = 4.0  # factor by which terms may grow until the next pass
COARSE = 2.0**16  # a grid coarser than needed by more than this factor is not accepted


class PassSums:
    """Sums over one pass of the data, for each parameter."""

    def __init__(self, cache: MatCache, parameters: Mapping[str, Mat]) -> None:
        """Make empty sums of the parameters' shapes."""
        self.cache, self.parameters = cache, parameters
        self.state: dict[str, Mat] = {}
        self.masks: dict[str, Any] = {}
        self._sums = {name: self._sum(name, *w.shape) for name, w in parameters.items()}
        self._sums |= {name: self._sum(name, 1, 1) for name in (LOSS, WEIGHT)}
        self._rows = self._keep(f"{ROWS}.sum", 1, 1)
        self._accumulate = kernel(_accumulate_row, "accumulate")
        for part in self._sums.values():
            part.grid.set(np.full(part.grid.shape, grid_for(FIRST)))

    @staticmethod
    def merge_rule(name: str) -> Merge:
        """Return how replicas combine the state `name`."""
        if name.endswith(".sum"):
            return "sum"
        return "max" if name.endswith(".largest") else "same"

    def add_rows(self, name: str, update: LinearLoss, R: Rows, loss: Column) -> None:
        """Add a block's rows.

        If X is sparse, and for a bias, the sums have the same bits in any order of the rows: a row
        of weight 2 equals two rows. For a dense X they are sums in float64.

        R: [rows x targets], derivatives of the losses by X @ W, without weights.
        loss: [rows x 1], losses without weights. Weights are multiplied in exactly.
        """
        X, weights, part = update.block.X, update.block.weights, self._sums[name]
        self.masks[name] = update.mask
        if X.pattern is not None:
            part.add_product(X, R, weights)
        else:
            add_wide_product(part.total, X, R, weights)
        if update.bias is not None:
            self._sums[update.bias].add_columns(R, weights)
        self._sums[LOSS].add_columns(loss, weights)
        self._sums[WEIGHT].add_columns(weights)
        rows = self._rows
        rows <<= rows + total(weights > 0.0)

    def add(self, updates: Mapping[str, Update], objective: Objective) -> None:
        """Add a block's gradients of its mean loss, its losses and its weights."""
        for name, update in updates.items():
            s = self._sums[name].total
            if isinstance(update, Gradient) and update.sparse:
                self._accumulate(
                    XT=update.X.T, R=update.R, mask=update.mask, D=update.D, w=s,
                    state=(self.parameters[name],), rate=objective.weight,
                )  # fmt: skip
            else:
                g = update.at(self.parameters[name]) if isinstance(update, Gradient) else update
                if isinstance(update, Gradient):
                    g = masked(g, update.mask)
                s <<= s + objective.weight * g
        for sums, value in ((LOSS, objective.loss), (WEIGHT, objective.weight)):
            s = self._sums[sums].total
            s <<= s + value

    def complete(self) -> bool:
        """Return whether the sums are valid, and choose the grids of the next pass."""
        rows, hold = max(1.0, float(self._rows)), True
        for part in self._sums.values():
            grid, size = part.grid.numpy(), rows * part.largest.numpy()
            seen = (size > 0) & np.isfinite(size)
            size = np.where(seen, size, 1.0)
            hold &= bool(np.all(fits(grid, size) & (grid <= COARSE * grid_for(size)) | ~seen))
            part.grid.set(np.where(seen, grid_for(SPARE * size), grid))
        return hold

    def gradient(self, name: str) -> Any:
        """Return the gradient of the mean loss: an expression of the parameter's shape."""
        mean = self._sums[name].total / self._sums[WEIGHT].total
        return masked(mean, self.masks.get(name))

    @property
    def loss(self) -> Mat:
        """The sum of the weighted losses."""
        return self._sums[LOSS].total

    @property
    def weight(self) -> Mat:
        """The sum of the weights."""
        return self._sums[WEIGHT].total

    def clear(self) -> None:
        """Reset the sums for the next pass."""
        self._rows.set(0.0)
        for part in self._sums.values():
            for mat in (part.total, part.largest):
                mat <<= 0.0

    def _sum(self, name: str, rows: int, columns: int) -> ExactSum:
        return ExactSum(
            self._keep(f"{name}.sum", rows, columns),
            self._keep(f"{name}.grid", 1, columns),
            self._keep(f"{name}.largest", 1, columns),
        )

    def _keep(self, name: str, rows: int, columns: int) -> Mat:
        mat = named(self.cache, f"optimizer.{name}", (rows, columns), np.float64)
        mat <<= 0.0
        self.state[name] = mat
        return mat


def _accumulate_row(row: Row) -> None:
    g = row.gradient(row.state[0])
    row.w <<= row.w + row.rate * masked(g, row.mask)
