"""Fit straight losses by the rows near their kinks: the others keep their sides.

Portnoy, Koenker, Statistical Science 12 (1997), section 5. The solution for some rows tells which
rows have errors far above 0, and which far below. If they stay there, their losses are straight,
and only the sum (X, 1)'a of them takes part in steps for the other rows. After each pass all errors
are looked at: rows that have crossed 0 join those near, and steps begin anew. If none has at the
end, and their sum is balanced by rows near, the solution is that of all rows.

Differs:

- The first rows are spread by class, so that a rare one is well known.
- Where rows near do not tell a column, as a rare category, their sum stays unbalanced. Then all
  rows are near.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache.cpu.pool import Pool

from ..sums.curves import Array
from ..sums.dense_rows import DenseRows
from ..sums.dense_sums import spread
from .interior_steps import Column, Start
from .lines import Lines
from .proximal import Penalties

PART = 2  # times the cube root of columns per row: the share of first rows, and of those near
MOST = 0.3  # the same: with more, all rows take no longer
LEAST = 2**17  # numbers of X: with fewer, the same holds
MANY = 0.5  # of rows near: if more cross 0, parts tell too little, and all rows are near
ROUGH = 0.1  # tolerance of the first rows
WIDE = 0.5  # share of rows near, beyond which all are
BALANCED = 1e-6  # of the size of a column: less of (X, 1)'a less l2 W is rounding


def worth_parts(rows: DenseRows, targets: int) -> bool:
    """Return whether a part of the rows tells enough of the others.

    Each target has a copy of its own part. All together are no larger than X at first.
    """
    part = _part(rows)
    return part <= min(MOST, 1.0 / targets) and rows.count * rows.features >= LEAST


def _part(rows: DenseRows) -> float:
    """Return the share of first rows, and of rows near.

    Scores by a share p of n rows differ from those by all as (columns / (n p))^1/2 (Portnoy and
    Koenker), so as large a share of rows is near, and p is best the cube root of columns / n.
    """
    return float(PART * np.cbrt((rows.features + 1) / rows.count))


class NearRows:
    """A column, as `Column`, by its first rows, and then by those near the kink of the loss."""

    def __init__(self, rows: DenseRows, lines: Lines, penalties: Penalties, start: Start) -> None:
        """Keep the problem."""
        self._rows, self._lines, self._penalties, self._start = rows, lines, penalties, start
        self._count = int(_part(rows) * rows.count)
        shares = sum(line / max(line.sum(), 1e-300) for line in (lines.up, lines.down))
        some, stand_for = spread(shares, self._count)
        first = lines.of_rows(some, stand_for / shares[some], lines.margin)
        here = start._replace(errors=start.errors[some])
        self._column = Column(rows.chosen(some), first, penalties, here)
        self._near: NDArray[np.bool_] = np.zeros(rows.count, bool)
        self._above: NDArray[np.bool_] | None = None  # errors above 0, when `_near` was set
        self.converged = start.first == 0.0

    @property
    def theta(self) -> Array:
        """The weights and the intercept."""
        return self._column.theta

    def sparse_theta(self, sizes: Array) -> Array:
        """Return theta, with the weights that an L1 penalty makes 0. sizes: of columns."""
        return self._column.sparse_theta(sizes)

    def step(self, pool: Pool, silent: NDArray[np.bool_], tolerance: float) -> None:
        """Make steps that read as many rows as there are, and look at the errors of all.

        silent, tolerance: as of `Column.step`.
        """
        column, read = self._column, 0
        while read < self._rows.count and not column.converged:
            column.step(pool, silent, tolerance if self._above is not None else ROUGH)
            read += column.count
        if column.count == self._rows.count:
            self.converged = column.converged
        elif column.converged or self._above is not None:
            self._look(pool, silent)

    def _look(self, pool: Pool, silent: NDArray[np.bool_]) -> None:
        """Find out whether all rows keep their sides, else choose those near anew."""
        rows, lines, near = self._rows, self._lines, self._near
        errors = lines.t - rows.scores(self.theta, pool)
        above, sizes = errors > 0.0, abs(errors)
        if self._above is not None:
            crossed = ~near & (above != self._above)
            if not crossed.any():
                self.converged = self._column.converged and self._balanced(pool, silent)
                if self.converged or not self._column.converged:
                    return
                near[:] = True
            near |= crossed | (crossed.sum() > MANY * self._count)
        self._above = above
        near |= sizes <= np.partition(sizes, self._count)[self._count]
        if near.mean() > WIDE:
            self._column = Column(rows, lines, self._penalties, self._start)
            return
        some = np.flatnonzero(near)
        pull = rows.turned(np.where(near, 0.0, np.where(above, lines.up, -lines.down)), pool)
        start = Start(self.theta, errors[some], self._start.first)
        chosen, kept = rows.chosen(some), lines.of_rows(some, 1.0, 0.0)
        self._column = Column(chosen, kept, self._penalties, start, pull)

    def _balanced(self, pool: Pool, silent: NDArray[np.bool_]) -> bool:
        """Return whether the rows near tell all columns: `Column.rest` is nothing."""
        squares = self._rows.moments(self._lines.up + self._lines.down, pool)[1]
        rest = self._column.rest(pool, silent)
        return bool((abs(rest) <= BALANCED * np.sqrt(np.append(squares, 1.0))).all())
