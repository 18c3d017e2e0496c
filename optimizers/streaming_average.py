"""Average estimates of blocks: natural gradient of Hoffman, Blei, Bach (2010).

rho_t = (tau0 + t)^-kappa,   w <- (1 - rho_t) w + rho_t u,   t = 0, 1, ... blocks of this phase.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import log1p
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from blocklearn.matcache import Mat, Merge, scalar
from blocklearn.matcache.merge import opened

from .errors import CombinationError
from .estimates import StatisticsOptimizer
from .resting import Resting
from .updates import Objective, SparseEstimate

Delay = Annotated[float, Field(ge=0)]
LARGEST = 1.0 - 2.0**-53  # rho whose logarithm of 1 - rho is finite


class StreamingAverage(StatisticsOptimizer):
    """Averages estimates of blocks, with steps that become smaller.

    Takes estimates of a parameter, each made from one block alone.
    For conjugate models this is stochastic natural gradient (Hoffman et al. 2013, eq. 26).
    tau0 >= 0 slows down the first steps; kappa in (0.5, 1] forgets early blocks (Robbins-Monro).
    Differs from BIDMach's IncNorm: the decay counts blocks, and nothing is normalised.
    """

    kind: Literal["streaming-average"] = "streaming-average"
    tau0: Delay | list[Delay] = Field(
        1.0, description="delay: larger values down-weight early blocks; one, or one per phase"
    )
    kappa: float = Field(0.7, ge=0, le=1, description="forgetting rate; 0.5 < kappa <= 1 converges")
    moves_rows_alone: ClassVar[bool] = True

    def attach(self, *args: Any, **kwargs: Any) -> None:
        """Make the state: rho, which changes from step to step."""
        super().attach(*args, **kwargs)
        self._rho = scalar(self.cache, 0.0, "rho (streaming average)")
        self._now = scalar(self.cache, 0.0, "clock of resting rows (streaming average)")
        self._time = 0.0  # of the clock
        self._resting: dict[str, Resting] = {}

    def let_rest(self, values: Mapping[str, Mat], *, elsewhere: bool = False) -> dict[str, Mat]:
        """Let rows rest: see `resting.py`."""
        for name, value in values.items():
            w = self.parameters[name]
            p = self._resting[name] = Resting(name, w, value, self._now, elsewhere=elsewhere)
            self.state |= {f"{name}.seen": p.seen, f"{name}.sums": p.sums}
        return {name: p.sums for name, p in self._resting.items()}

    def enter(self, phase: int) -> None:
        """Count steps from the beginning of the phase."""
        super().enter(phase)
        self.steps = 0

    @property
    def form(self) -> Hashable:
        """Always the same."""
        return ()

    @property
    def end_form(self) -> Hashable:
        """Whether rows have rested."""
        return bool(self._time)

    def begin(self, X: Any) -> None:
        """Bring up to date the rows that the block will read."""
        for p in self._resting.values():
            p.wake(X, self._now)

    def step(self, updates: Mapping[str, Any], objective: Objective | None = None) -> None:
        """Set w <- (1 - rho) w + rho u, in one kernel with the expression u.

        A block without updates changes nothing, but counts.
        """
        if not updates:
            self.cache.each_block(self._count)
            return
        self.cache.each_block(self._advance)
        for name, update in updates.items():
            if isinstance(update, SparseEstimate):
                self._resting[name].step(update, self._rho, self._now)
            else:
                w = self.parameters[name]
                w <<= w + self._rho * (update - w)

    def _advance(self) -> None:
        """Set rho and the clock, and count the step."""
        delays = self.tau0 if isinstance(self.tau0, list) else [self.tau0]
        base = delays[min(self.phase, len(delays) - 1)] + self.steps
        rho = 1.0 if base <= 1.0 else base**-self.kappa
        self._rho.set(rho)
        if self._resting:
            self._time += log1p(-min(rho, LARGEST))
            self._now.set(self._time)
        self._count()

    def _count(self) -> None:
        self.steps += 1

    def settle(self) -> None:
        """Bring all rows up to date."""
        if self.cache.reserving or self._time:
            for p in self._resting.values():
                p.wake_all(self._now)
        self.cache.each_block(self._rewind)

    def _rewind(self) -> None:
        self._set_clock(0.0)

    def end_pass(self) -> None:
        """Bring all rows up to date, and add up their columns anew."""
        super().end_pass()
        for p in self._resting.values():
            p.restart()

    @property
    def at_rest(self) -> Mapping[str, Resting]:
        """See `Optimizer.at_rest`."""
        return self._resting

    def settled_elsewhere(self, ids: NDArray[np.int32]) -> None:
        """See `Optimizer.settled_elsewhere`."""
        for seen in opened([p.seen for p in self._resting.values()]) if ids.size else ():
            seen[ids] = 0.0
        self._set_clock(0.0)

    @property
    def rests(self) -> bool:
        """See `Optimizer.rests`."""
        return bool(self._resting)

    def unsettled(self, *, ever: bool = False) -> list[Mat]:
        """Return the resting parameters and their times."""
        if not (ever or self._time):
            return []
        return [mat for p in self._resting.values() for mat in (p.w, p.seen)]

    def pause(self) -> dict[str, Any]:
        """Return the steps, and the clock where rows rest."""
        return super().pause() | ({"time": self._time} if self._resting else {})

    def resume(self, paused: Mapping[str, Any]) -> None:
        """Continue from `paused`; at time 0 all rows are up to date.

        Raises CombinationError if rows of the state rest, but those of this run do not.
        """
        super().resume(paused)
        self._set_clock(float(paused.get("time", 0.0)))
        if self._time and not self._resting:
            raise CombinationError(
                "streaming-average: the state is from the middle of a pass in which some rows wait "
                "for their updates, but here rows do not wait. Continue with the same block_rows, "
                "data and mixins."
            )
        for p in self._resting.values():
            p.known = True
            if "time" not in paused:  # no row rested then
                p.restart()

    def _set_clock(self, time: float) -> None:
        self._time = time
        self._now.set(time)

    def merge_rule(self, name: str) -> Merge:
        """Return how replicas combine a state; at a merge no row has rested."""
        return "same" if name.endswith(".seen") else "mean"
