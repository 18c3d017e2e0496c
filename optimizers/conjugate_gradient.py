"""Non-linear conjugate gradients, Polak-Ribiere+, over full passes.

Nocedal, Wright, section 5.2.

    beta = max(0, g'(g - g_old) / g_old'g_old),     d <- -g + beta d.

Differs from scipy.optimize's "CG": f and g cost a pass each, so the line search takes a first step
from the last one and cubic interpolation. BIDMach's CG is for quadratic objectives only.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from blocklearn.matcache import scalar

from .full_pass import FullPass


class ConjugateGradient(FullPass):
    """Moves once a pass, along directions that are conjugate to the ones before.

    Takes gradients of the blocks' mean losses.
    """

    kind: Literal["conjugate-gradient"] = "conjugate-gradient"
    curvature: ClassVar[float] = 0.1

    def direction(self) -> None:
        """Set d <- -g + beta d."""
        new = self.dot(self.sum, self.sum) - self.dot(self.sum, self.g)
        beta = max(0.0, new / max(self.dot(self.g, self.g), 1e-30))
        factor = scalar(self.cache, beta, "beta (conjugate gradient)")
        for name, d in self.d.items():
            d <<= factor * d - self.sum[name]

    def restart(self) -> None:
        """Do nothing: d is the only memory of earlier directions."""

    def first_step(self, slope: float) -> float:
        """Return a step with the first-order change of the last one.

        Nocedal, Wright, p. 59.
        """
        last = self.search
        return min(10.0 * last.step, last.step * last.slope0 / slope) if last.step else 1.0
