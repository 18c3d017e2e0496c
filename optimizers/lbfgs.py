"""L-BFGS over full passes.

Liu, Nocedal, Math. Programming 45 (1989); Nocedal, Wright, alg. 7.4.

    s = x - x_old,  y = g - g_old,  d = -H g by the two-loop recursion over the last `memory` pairs.

The recursion starts from a diagonal D, which learns from every pair (Gilbert, Lemarechal, Math.
Programming 45 (1989), eq. 4.9: BFGS restricted to diagonals):

    1 / D <- (y'Dy / y's) (1 - s^2 / (D s'D^-1 s)) / D + y^2 / y's.

Differs from scipy.optimize's "L-BFGS-B": no bounds; D is not a multiple of 1; every function value
is a pass over the data. All columns of all parameters are one problem with one step length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from blocklearn.matcache import Mat, maximum, named, scalar

from .full_pass import FullPass

SMALLEST = 1e-30  # of 1 / D: where a parameter neither moved nor has a gradient


class LBFGS(FullPass):
    """Moves once a pass, by curvature that the last passes showed.

    Takes gradients of the blocks' mean losses.
    """

    kind: Literal["lbfgs"] = "lbfgs"
    memory: int = Field(10, ge=1, le=100, description="pairs (s, y) that are kept")

    def attach(self, *args: Any, **kwargs: Any) -> None:
        """Make room for the pairs."""
        super().attach(*args, **kwargs)
        self.s = [self.keep(f"s{i}") for i in range(self.memory)]
        self.y = [self.keep(f"y{i}") for i in range(self.memory)]
        self.state["pairs"] = named(self.cache, "optimizer.pairs (lbfgs)", (1, 3), np.float64)
        self._factor = scalar(self.cache, 0.0, "factor (lbfgs)")
        self._stretch = scalar(self.cache, 0.0, "y'Dy / s'y (lbfgs)")
        self._length = scalar(self.cache, 0.0, "length of the step (lbfgs)")
        self._curvature = scalar(self.cache, 0.0, "curvature (lbfgs)")
        self.diagonal = self.keep("diagonal")
        self._forget_diagonal()
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
        if curvature > 0 or self.cache.reserving:
            self.scale = self._learn_diagonal(curvature)
            self.next = (self.next + 1) % self.memory
            self.held = min(self.held + 1, self.memory)
        if self.cache.reserving:
            self.held = self.memory
        self._remember_pairs()
        self._two_loops()

    def restart(self) -> None:
        """Forget all pairs."""
        self.held, self.next, self.scale = 0, 0, 1.0
        self._forget_diagonal()
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
        self._factor.set(self.scale)  # s'y / y'Dy of the newest pair
        for name, d in self.d.items():
            d <<= self._factor * self.diagonal[name] * d
        for i in reversed(newest_first):
            beta = rho[i] * self.dot(self.y[i], self.d)
            self._add(alpha[i] - beta, self.s[i])

    def _forget_diagonal(self) -> None:
        for diagonal in self.diagonal.values():
            diagonal <<= 1.0

    def _learn_diagonal(self, curvature: float) -> float:
        """Update D by the newest pair, whose s'y is `curvature` > 0; return s'y / y'Dy."""
        step = self._factor
        s = {name: step * d for name, d in self.d.items()}
        y = {name: self.sum[name] - g for name, g in self.g.items()}
        self._stretch.set(self._weighted_square(y) / curvature)
        self._length.set(self.dot(s, {name: s[name] / D for name, D in self.diagonal.items()}))
        self._curvature.set(curvature)
        for name, D in self.diagonal.items():
            rest = maximum(1.0 - s[name] * s[name] / (D * self._length), 0.0)
            bent = y[name] * y[name] / self._curvature
            D <<= 1.0 / maximum(self._stretch * rest / D + bent, SMALLEST)
        return curvature / self._weighted_square(y)

    def _weighted_square(self, v: Mapping[str, Any]) -> float:
        """Return v'Dv."""
        return self.dot(v, {name: self.diagonal[name] * v[name] for name in v})

    def _add(self, factor: float, v: dict[str, Mat]) -> None:
        """Set d <- d + factor v."""
        self._factor.set(factor)
        for name, d in self.d.items():
            d <<= d + self._factor * v[name]
