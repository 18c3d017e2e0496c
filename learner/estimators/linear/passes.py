"""Fit a linear estimator by a solver of rows in memory, which needs no learner."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ...training.states.state import State
from ..base import Array, LearnerEstimator
from ..callbacks import telling
from ..parameters import seed_of, used_threads, whole
from .seen import Seen
from .units import Units


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


@dataclass(frozen=True)
class Fit:
    """A fit of rows in memory, before its first pass.

    passes: makes passes, and yields their numbers from 1, given the most, a tolerance, a seed and
        threads.
    seen: tells what is known of the rows, after the last pass.
    ends: whether passes end at an optimum, unless they are too few.
    units: of the data that are solved; None: their own.
    """

    solver: Solver
    passes: Callable[[int, float, int, int], Iterator[int]]
    seen: Callable[[], Seen]
    ends: bool = True
    units: Units | None = None


@dataclass
class Progress:
    """The position of a fit, as callbacks see it."""

    passes: int
    pass_: int = 0
    stop: bool = False


def by_passes(
    estimator: LearnerEstimator,
    fit: Fit,
    tolerance: float,
    told: dict[str, Any],
    learned: Callable[[Solver], dict[str, Any]],
) -> None:
    """Fit the estimator.

    told: what callbacks receive: X, y, metadata. learned: returns the attributes that a solver has
    learned.
    """
    begun, found = time.perf_counter(), fit.solver
    seed, progress = seed_of(estimator.random_state), Progress(whole(estimator, "max_iter"))
    with telling(estimator, told, progress.passes, learned) as hooks:
        for hook in hooks:
            hook.start(found, progress)
        threads = used_threads(estimator.n_jobs)
        for number in fit.passes(progress.passes, tolerance, seed, threads):
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
