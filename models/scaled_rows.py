"""Tables whose rows rest by a factor for each column, which all rows have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Mat
from blocklearn.optimizers import AtRest


class ScaledRows(AtRest):
    """A table whose rows are exact when they are multiplied by its factors.

    scales: [1 x 1], or one for each column.
    """

    scales: Mat

    @property
    def clock(self) -> NDArray[np.float64]:
        """See `AtRest`."""
        return np.array(self.scales.shown()[0], np.float64)

    def settle_elsewhere(
        self, at: NDArray[np.int32], rows: NDArray[np.float32], clock: NDArray[np.float64]
    ) -> None:
        """Make copies of rows exact, with the bits of `settle`."""
        rows *= clock.astype(np.float32)

    def wake_elsewhere(
        self,
        ids: NDArray[np.int32],
        rows: NDArray[np.float32],
        clock: NDArray[np.float64],
        seen: NDArray[np.float64] | None = None,
    ) -> None:
        """Do the same: all rows are behind alike."""
        self.settle_elsewhere(ids, rows, clock)
