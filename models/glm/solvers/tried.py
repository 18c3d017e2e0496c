"""A solver that is tried first, and one that takes over where it would take longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ..sums.curves import Array
from .newton import NewtonSolver
from .rough_rows import RoughRows
from .wide_rows import WideSolver


class TriedSolver:
    """Solves for W and b, pass by pass, as `NewtonSolver`.

    The first step of the last solver of log losses ends where the first solver has come. Of other
    losses it begins anew: from there squared hinges and a softmax take more passes as often as not.
    """

    def __init__(self, first: NewtonSolver | RoughRows, last: Callable[[], WideSolver]) -> None:
        """Keep the solver to try, and what makes the other."""
        self._now: NewtonSolver | RoughRows | WideSolver = first
        self._first, self._last = first, last

    @property
    def converged(self) -> bool:
        """Whether a further pass would gain nothing."""
        return self._now.converged

    @property
    def W(self) -> NDArray[np.float32]:
        """The weights [features x k]."""
        return self._now.W

    @property
    def b(self) -> NDArray[np.float32]:
        """The intercepts [k]."""
        return self._now.b

    @property
    def mean(self) -> Array:
        """The means of columns; known after the first pass."""
        return self._now.mean

    @property
    def variance(self) -> Array:
        """The variances of columns; known after the first pass."""
        return self._now.variance

    def passes(self, most: int, tolerance: float, threads: int) -> Iterator[int]:
        """Make passes: see `NewtonSolver`."""
        made = 0
        for made in self._first.passes(most, tolerance, threads):
            yield made
            if self._first.spent:
                break
        if made < most and not self._first.converged:
            self._now = self._last()
            first = self._first
            if isinstance(first, NewtonSolver) and first.link == "logistic":
                self._now.found = first.last_trial
            for number in self._now.passes(most - made, tolerance, threads):
                yield made + number
