"""L-BFGS over full passes.

Liu, Nocedal, Math. Programming 45 (1989); Nocedal, Wright, alg. 7.4.

    s = x - x_old,  y = g - g_old,  d = -H g by the two-loop recursion over the last `memory` pairs.

Differs from scipy.optimize's "L-BFGS-B": no bounds; every function value is a pass over the data.
All columns of all parameters are one problem with one step length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from blocklearn.matcache import Mat, named, scalar

from .full_pass import FullPass


class LBFGS(FullPass):
    """Takes gradients of the blocks' mean losses; parameters move once per pass."""

    kind: Literal["lbfgs"] = "lbfgs"
    memory: int = Field(10, ge=1, le=100, description="pairs (s, y) that are kept")

    def attach(self, *args: Any, **kwargs: Any) -> None:
        """Make room for the pairs."""
        super().attach(*args, **kwargs)
        self.s = [self.keep(f"s{i}") for i in range(self.memory)]
        self.y = [self.keep(f"y{i}") for i in range(self.memory)]
        self.state["pairs"] = named(self.cache, "optimizer.pairs (lbfgs)", (1, 3), np.float64)
        self._factor = scalar(self.cache, 0.0, "factor (lbfgs)")
        self.held: int = 0
        self.next: int = 0
        self.scale: float = 1.0
        self._remember_pairs()

    def direction(self) -> None:
        """Keep the newest pair, then set d <- -H g."""
        s, y = self.s[self.next], self.y[self.next]
        self._factor.set(self.search.step)
        for name in s:
            s_, y_ = s[name], y[name]
            s_ <<= self._factor * self.d[name]
            y_ <<= self.sum[name] - self.g[name]
        curvature = self.dot(s, y)
        difference = {name: self.sum[name] - g for name, g in self.g.items()}
        if curvature > 0:
            self.scale = curvature / self.dot(difference, difference)
            self.next = (self.next + 1) % self.memory
            self.held = min(self.held + 1, self.memory)
        if self.cache.reserving:
            self.held = self.memory
        self._remember_pairs()
        self._two_loops()

    def restart(self) -> None:
        """Forget all pairs."""
        self.held, self.next, self.scale = 0, 0, 1.0
        self._remember_pairs()

    def resume(self, paused: Mapping[str, Any]) -> None:
        """Continue the search, with the pairs that the state holds."""
        super().resume(paused)
        held, following, self.scale = (float(x) for x in self.state["pairs"].numpy()[0])
        self.held, self.next = int(held), int(following)

    def _remember_pairs(self) -> None:
        self.state["pairs"].set(np.array([[self.held, self.next, self.scale]], np.float64))

    def _two_loops(self) -> None:
        for name, d in self.d.items():
            d <<= -self.sum[name]
        newest_first = [(self.next - 1 - i) % self.memory for i in range(self.held)]
        rho = {i: 1.0 / self.dot(self.s[i], self.y[i]) for i in newest_first}
        alpha = {}
        for i in newest_first:
            alpha[i] = rho[i] * self.dot(self.s[i], self.d)
            self._add(-alpha[i], self.y[i])
        self._factor.set(self.scale)  # s'y / y'y of the newest pair
        for d in self.d.values():
            d <<= self._factor * d
        for i in reversed(newest_first):
            beta = rho[i] * self.dot(self.y[i], self.d)
            self._add(alpha[i] - beta, self.s[i])

    def _add(self, factor: float, v: dict[str, Mat]) -> None:
        """Set d <- d + factor v."""
        self._factor.set(factor)
        for name, d in self.d.items():
            d <<= d + self._factor * v[name]
