"""Fit a linear estimator by a solver of rows in memory, which needs no learner."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...training.states.state import State
from ..base import Array
from ..callbacks import telling
from ..parameters import seed_of, used_threads, whole
from .units import Units

if TYPE_CHECKING:
    from .base import LinearEstimator


class Solver(Protocol):
    """A solver that makes passes: W [features x k], b [k], and whether it has converged."""

    @property
    def W(self) -> Array:
        """The weights."""

    @property
    def b(self) -> Array:
        """The intercepts."""

    @property
    def converged(self) -> bool:
        """Whether a further pass would gain nothing."""


@dataclass
class Progress:
    """The position of a fit, as callbacks see it."""

    passes: int
    pass_: int = 0
    stop: bool = False


Passes = Callable[[int, int, int], Iterator[int]]
"""Makes passes, and yields their numbers from 1, given the most passes, a seed and threads."""


def by_passes(
    estimator: LinearEstimator,
    found: Solver,
    passes: Passes,
    told: dict[str, Any],
    units: Units | None = None,
) -> None:
    """Fit the estimator.

    told: what callbacks receive: X, y, metadata. units: of the data that `found` solves.
    """
    begun = time.perf_counter()
    seed, progress = seed_of(estimator.random_state), Progress(whole(estimator, "max_iter"))

    def learned(found: Solver) -> dict[str, Any]:
        return estimator._found(found.W, found.b, units)

    with telling(estimator, told, progress.passes, learned) as hooks:
        for hook in hooks:
            hook.start(found, progress)
        for number in passes(progress.passes, seed, used_threads(estimator.n_jobs)):
            progress.pass_ = number - 1
            progress.stop = found.converged
            for hook in hooks:
                hook.pass_end(found, progress)
            if progress.stop:
                break
        for name, value in learned(found).items():
            setattr(estimator, name, value)
        estimator._seed = seed
        estimator.n_iter_ = done = progress.pass_ + 1
        estimator.n_samples_seen_ = rows = told["X"].shape[0]
        seconds = time.perf_counter() - begun
        position = {"pass": done, "block": 0, "rows": rows * done, "steps": 0}
        estimator._keep_stream(State({}, position | {"seconds": seconds, "best": None}))
