"""Replace parameters by means of estimates over growing windows (telescoping).

    w <- mean of u over the last window,  windows of first, first * growth, ... blocks.

Stepwise EM with growing batches; after BIDMach's Telescoping. Differs: windows count blocks. There
they count samples, so every block ended a window for a long time. A window's estimates are
forgotten at its end; there they stayed in the sum.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal

from pydantic import Field, PositiveInt

from blocklearn.matcache import named, scalar, where

from .estimates import StatisticsOptimizer
from .row import Row, kernel
from .updates import Objective


class Telescoping(StatisticsOptimizer):
    """Replaces parameters by means of estimates over growing windows of blocks.

    Takes estimates of a parameter, each made from one block alone.
    """

    kind: Literal["telescoping"] = "telescoping"
    first: PositiveInt = Field(1, description="blocks of the first window")
    growth: float = Field(1.5, ge=1, description="factor between the lengths of windows")

    def attach(self, *args: Any, **kwargs: Any) -> None:
        """Make the state: the sum of a window's estimates."""
        super().attach(*args, **kwargs)
        self._done = scalar(self.cache, 0.0, "blocks of the window that ends (telescoping)")
        for name, w in self.parameters.items():
            s = self.state[f"{name}.sum"] = named(
                self.cache, f"optimizer.{name}.sum", w.shape, w.dtype
            )
            s <<= 0.0
        self._refresh = kernel(_refresh_row, "telescoping")

    @property
    def form(self) -> Hashable:
        """Always the same."""
        return ()

    def step(self, updates: Mapping[str, Any], objective: Objective | None = None) -> None:
        """Add the estimates. At the end of a window, their mean becomes the parameters."""
        self.cache.each_block(self._advance)
        for name, update in updates.items():
            s = self.state[f"{name}.sum"]
            self._refresh(w=self.parameters[name], g=update, count=self._done, state=(s,))

    def _advance(self) -> None:
        """Set the length of the window that ends with this step, and count the step."""
        self.steps += 1
        self._done.set(float(self._window_that_ends(self.steps)))

    def _window_that_ends(self, step: int) -> int:
        """Return the length of the window that ends with this step; 0 if none does.

        >>> [Telescoping(first=1, growth=2)._window_that_ends(n) for n in range(1, 9)]
        [1, 0, 2, 0, 0, 0, 4, 0]
        """
        end, exact = 0, float(self.first)
        while end < step:
            window = int(exact)
            end += window
            exact *= self.growth
        return window if end == step else 0


def _refresh_row(row: Row) -> None:
    (s,) = row.state
    mean = (s + row.g) / where(row.count, row.count, 1.0)
    s <<= s + row.g
    row.w <<= where(row.count, mean, row.w)
    s <<= where(row.count, 0.0, s)
