"""Average rows that rest while their features do not occur.

Such a row is estimated at the same numbers u by every block. The average w <- w + rho (u - w) then
has a closed form: after blocks of rates rho_s, w - u is multiplied by the product of all 1 - rho_s.
The clock is the sum of their logarithms; a row is brought up to date when it is read next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import (
    Column,
    DenseInput,
    Mat,
    MatCache,
    Number,
    Rows,
    Sparse,
    Table,
    colsum,
    exp,
    named,
    rowwise,
    scalar,
)

from .base import AtRest
from .updates import SparseEstimate

ROOM = 2**19  # numbers


class Resting(AtRest):
    """A parameter whose rows rest.

    w: [features x columns].
    rest: [features x 1 or columns], the estimate of a row whose feature does not occur.
    seen: float64 [features x 1], time of the clock when a row was last exact.
    sums: [1 x columns], column sums of w, all rows up to date.
    """

    def __init__(self, name: str, w: Mat, rest: Mat, now: Mat, *, elsewhere: bool = False) -> None:
        """Make the state. now: the clock. elsewhere: see `Optimizer.let_rest`."""
        self.w, self.rest, self._now, self._elsewhere = w, rest, now, elsewhere
        rows, columns = w.shape
        self.seen = named(w.cache, f"optimizer.{name}.seen", (rows, 1), np.float64)
        self.sums = named(w.cache, f"optimizer.{name}.sums", (1, columns), w.dtype)
        self._room: Room | None = None
        self.restart()

    def restart(self) -> None:
        """Start the clock at 0: all rows of w are up to date."""
        self.known = not self._elsewhere
        if self._elsewhere:
            return
        self.seen <<= 0.0
        self.sums <<= colsum(self.w)

    def wake(self, X: Any, now: Mat) -> None:
        """Bring the rows up to date whose features occur in X."""
        wake_rows(X.T, self.w, self.rest, self.seen, now)

    def wake_all(self, now: Mat) -> None:
        """Bring all rows up to date, and start the clock at 0."""
        wake_rows(None, self.w, self.rest, self.seen, now)
        self.seen <<= 0.0

    @property
    def clock(self) -> NDArray[np.float64]:
        """See `AtRest`."""
        return np.array(self._now.shown()[0], np.float64)

    def wake_elsewhere(
        self,
        ids: NDArray[np.int32],
        rows: NDArray[Any],
        clock: NDArray[np.float64],
        seen: NDArray[np.float64] | None = None,
    ) -> None:
        """Bring copies of rows up to date, with the bits of `wake_all`.

        ids: their numbers. rows: [ids x columns], as they were at the times `seen`; None: at 0.
        """
        times = np.zeros((len(ids), 1)) if seen is None else seen
        self._wake_copies(ids, rows, times, float(clock[0]))

    def settle_elsewhere(
        self, at: NDArray[np.int32], rows: NDArray[Any], clock: NDArray[np.float64]
    ) -> None:
        """Bring copies of rows up to date, as they are now, with the bits of `wake_all`."""
        self._wake_copies(at, rows, self.seen.shown()[at], float(clock[0]))

    def _wake_copies(
        self, ids: NDArray[np.int32], rows: NDArray[Any], seen: NDArray[Any], now: float
    ) -> None:
        if not now:
            return
        if self._room is None:
            self._room = Room(self.w.shape[1], *self.rest.shape)
        rest = self.rest.shown()
        for start in range(0, len(ids), self._room.rows):
            some = slice(start, start + self._room.rows)
            self._room.wake(rows[some], rest[ids[some]], seen[some], now)

    def step(self, update: SparseEstimate, rho: Mat, now: Mat) -> None:
        """Average the rows that occur, which are up to date, and the sums. now: after the step."""
        X, R, W, scale = update.X, update.R, update.W, update.scale
        found = colsum(W if R is None else products(X, R, W))
        self.sums <<= self.sums + rho * (colsum(self.rest) + scale * found - self.sums)
        average_rows(X.T, self.w, self.rest, self.seen, R, W, scale, rho, now)


class Room:
    """Brings copies of rows up to date, some at a time: many where they lie, few in its memory.

    columns: of the rows. most: rows that there are. rest: columns of their estimates, 1 or as many.
    """

    def __init__(self, columns: int, most: int, rest: int) -> None:
        """Allocate its memory."""
        self.rows = max(1, min(most, ROOM // columns))
        self._cache = cache = MatCache(threads=1)
        self._w = DenseInput(cache, "rows", (self.rows, columns), np.float32, copies=1)
        self._few = np.zeros((self.rows, columns), np.float32)
        self._rest = named(cache, "their estimates", (self.rows, rest))
        self._seen = named(cache, "times", (self.rows, 1), np.float64)
        self._now = scalar(cache, 0.0, "clock")
        for mat in (self._rest, self._seen):
            mat <<= 0.0

    def wake(self, w: Any, rest: Any, seen: Any, now: float) -> None:
        """Bring up to `rows` rows up to date, in place."""
        for mat, numbers in ((self._rest, rest), (self._seen, seen)):
            mat.shown()[: len(numbers)] = numbers
        self._now.set(now)
        whole = len(w) == self.rows and w.flags.c_contiguous
        rows = w if whole else self._few
        if not whole:
            rows[: len(w)] = w
        wake_rows(None, self._w.bind(rows), self._rest, self._seen, self._now)
        if not whole:
            w[:] = rows[: len(w)]


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
