"""Search a line by the strong Wolfe conditions, one function value at a time.

Nocedal, Wright, Numerical Optimization (2nd ed.), algorithms 3.5 and 3.6 as one bracket. Differs:

1. Sufficient decrease has a slack of `NOISE` times |f0|, since losses come from float32 kernels
   (Hager, Zhang, SIAM J. Optim. 2005).
2. It is a state machine, since each value costs a whole pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

DECREASE = 1e-4
NOISE = 1e-7
TRIALS = 20


@dataclass
class LineSearch:
    """Searches along a direction from f(0) = f0 with slope slope0 < 0.

    curvature: the slope must shrink to this share of slope0.
    step: the next trial.
    trials: their number so far.
    low, high: ends of the bracket, with value and slope; high is infinite until it is found.
    """

    f0: float = 0.0
    slope0: float = -1.0
    curvature: float = 0.9
    step: float = 1.0
    trials: float = 0.0
    low: float = 0.0
    f_low: float = 0.0
    slope_low: float = 0.0
    high: float = math.inf
    f_high: float = 0.0
    slope_high: float = 0.0

    NUMBERS: ClassVar[int] = 11

    @classmethod
    def start(cls, f0: float, slope0: float, step: float, curvature: float) -> LineSearch:
        """Return a new search whose first trial is `step`."""
        return cls(f0, slope0, curvature, step, f_low=f0, slope_low=slope0)

    def accepts(self, f: float, slope: float) -> bool:
        """Return whether the trial, with this value and slope, ends the search.

        If not, `step` becomes the next trial, unless the search has `failed`.
        """
        self.trials += 1
        limit = self.f0 + DECREASE * self.step * self.slope0 + NOISE * abs(self.f0)
        rises = self.low > 0 and f > self.f_low + NOISE * abs(self.f0)
        if not (f <= limit) or rises:  # also for NaN
            self.high, self.f_high, self.slope_high = self.step, f, slope
        elif abs(slope) <= -self.curvature * self.slope0:
            return True
        else:
            if slope * ((self.high if self.high < math.inf else math.inf) - self.low) >= 0:
                self.high, self.f_high, self.slope_high = self.low, self.f_low, self.slope_low
            self.low, self.f_low, self.slope_low = self.step, f, slope
        self.step = self._next()
        return False

    @property
    def failed(self) -> bool:
        """Whether the search has run out of trials."""
        return self.trials >= TRIALS

    def _next(self) -> float:
        """Return the next trial: beyond `low`, or a minimum well inside the bracket.

        Without an upper end it doubles the step (halves it while `low` is 0). With one it takes the
        minimum of the cubic through both ends.
        """
        if self.high == math.inf:
            return 2.0 * self.step if self.low else self.step / 2.0
        a, b = self.low, self.high
        width = b - a
        middle = a + width / 2.0
        values = (self.f_low, self.slope_low, self.f_high, self.slope_high)
        if not all(math.isfinite(x) for x in values):
            return a + width / 10.0
        d1 = self.slope_low + self.slope_high - 3.0 * (self.f_low - self.f_high) / (a - b)
        square = d1 * d1 - self.slope_low * self.slope_high
        if square < 0:
            return middle
        d2 = math.copysign(math.sqrt(square), width)
        denominator = self.slope_high - self.slope_low + 2.0 * d2
        if denominator == 0:
            return middle
        step = b - width * (self.slope_high + d2 - d1) / denominator
        inside = min(a, b) + abs(width) / 10.0 <= step <= max(a, b) - abs(width) / 10.0
        return step if inside else middle
