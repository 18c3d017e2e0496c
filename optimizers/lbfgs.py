"""L-BFGS over full passes. Liu, Nocedal, Math. Programming 45 (1989); Nocedal, Wright, algorithm 7.4.

    s = x - x_old,  y = g - g_old,  d = -H g by the two-loop recursion over the last `memory` pairs.

Differs from scipy.optimize's "L-BFGS-B": no bounds, and every function value is a pass over the data.
All columns of all parameters are one problem with one step length.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from ..matcache import Mat, named, scalar
from .full_pass import FullPass


class LBFGS(FullPass):
    """Each update is the gradient of a block's mean loss; parameters move once per pass."""

    kind: Literal["lbfgs"] = "lbfgs"
    memory: int = Field(10, ge=1, le=100, description="pairs (s, y) that are kept")

    def attach(self, *args: object, **kwargs: object) -> None:
        """Make room for the pairs."""
        super().attach(*args, **kwargs)  # type: ignore[arg-type]
        self.s = [self.keep(f"s{i}") for i in range(self.memory)]
        self.y = [self.keep(f"y{i}") for i in range(self.memory)]
        self.state["pairs"] = named(self.cache, "optimizer.pairs (lbfgs)", (1, 2), np.float64)
        self.state["pairs"].set(np.zeros((1, 2)))
        self._factor = scalar(self.cache, 0.0, "factor (lbfgs)")
        self.held, self.next = 0, 0

    def direction(self) -> None:
        """Keep the newest pair, then d <- -H g."""
        s, y = self.s[self.next], self.y[self.next]
        self._factor.set(self.search.step)
        for name in s:
            s_, y_ = s[name], y[name]
            s_ <<= self._factor * self.d[name]
            y_ <<= self.sum[name] - self.g[name]
        if self.dot(s, y) > 0:
            self.next = (self.next + 1) % self.memory
            self.held = min(self.held + 1, self.memory)
        if self.cache.reserving:
            self.held = self.memory
        self.state["pairs"].set(np.array([[self.held, self.next]], np.float64))
        self._two_loops()

    def restart(self) -> None:
        """Forget all pairs."""
        self.held, self.next = 0, 0
        self.state["pairs"].set(np.zeros((1, 2)))

    def resume(self, steps: int) -> None:
        """Also how many pairs there are."""
        super().resume(steps)
        self.held, self.next = (int(x) for x in self.state["pairs"].numpy()[0])

    def _two_loops(self) -> None:
        for name, d in self.d.items():
            d <<= -self.sum[name]
        newest_first = [(self.next - 1 - i) % self.memory for i in range(self.held)]
        rho = {i: 1.0 / self.dot(self.s[i], self.y[i]) for i in newest_first}
        alpha = {}
        for i in newest_first:
            alpha[i] = rho[i] * self.dot(self.s[i], self.d)
            self._add(-alpha[i], self.y[i])
        if newest_first:
            y = self.y[newest_first[0]]
            self._factor.set(1.0 / (rho[newest_first[0]] * self.dot(y, y)))
            for d in self.d.values():
                d <<= self._factor * d
        for i in reversed(newest_first):
            beta = rho[i] * self.dot(self.y[i], self.d)
            self._add(alpha[i] - beta, self.s[i])

    def _add(self, factor: float, v: dict[str, Mat]) -> None:
        """d <- d + factor v."""
        self._factor.set(factor)
        for name, d in self.d.items():
            d <<= d + self._factor * v[name]
