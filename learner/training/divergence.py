"""Numbers that are no longer finite end a run: what is learnt from then on is worthless."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..errors import DivergedError
from .progress import Progress
from .replica import Replica
from .team import Team

SHARE = 0.01  # of the time, at most, that checks after blocks may take
PART = 2**22  # numbers that are looked at at a time, where a sum does not tell


class FiniteCheck:
    """Looks at what a model has learnt: after blocks as often as costs next to nothing, and at the
    end of every pass.

    What is looked at are parameters and the state of rows (of the present block, and of all rows at
    the end of a pass); not what optimizers keep, where an infinite number may have a meaning.
    """

    def __init__(self) -> None:
        """The first look comes after the first block."""
        self._due = -math.inf

    def after_block(self, team: Team, progress: Progress) -> None:
        """A look, if it is time for one. Raises DivergedError."""
        begun = time.perf_counter()
        if begun >= self._due:
            check_finite(learnt(team.first, whole=False), progress)
            now = time.perf_counter()
            self._due = now + (now - begun) / SHARE

    def now(self, team: Team, progress: Progress) -> None:
        """A look at everything. Raises DivergedError."""
        check_finite(learnt(team.first, whole=True), progress)


def check_finite(arrays: Iterable[tuple[str, Any]], progress: Progress) -> None:
    """Notes in `progress` that `arrays` (names come with them) are finite.

    Raises:
        DivergedError: one is not; the message names the blocks since the last look.
    """
    for name, array in arrays:
        if not is_finite(array):
            raise DivergedError(
                f"{name} is not finite after {_since(progress)}: the model has diverged. "
                "Lower the optimizer's rate or raise the regularisation."
            )
    progress.finite = (progress.pass_, progress.block)


def _since(progress: Progress) -> str:
    """Which blocks of the present pass were trained on since the last look."""
    pass_, done = progress.finite
    first, last = done if pass_ == progress.pass_ else 0, progress.block - 1
    blocks = f"block {last}" if first >= last else f"blocks {first} to {last}"
    return f"{blocks} of pass {progress.pass_} (both count from 0)"


def learnt(replica: Replica, *, whole: bool) -> Iterator[tuple[str, Any]]:
    """Parameters and states of rows by name; whole: of all rows, not of the present block alone."""
    model, shown = replica.model, replica.cache.backend.host
    for name, mat in model.parameters.items():
        yield name, shown(mat.slot.data())
    for name, state in model.states.items():
        yield name, state.kept if whole else shown(state.rows.slot.data())


def is_finite(array: Any) -> bool:
    """Whether all numbers are finite, in one trip through memory and without any more of it.

    >>> is_finite(np.array([3e38, 3e38], np.float32)), is_finite(np.array([np.inf, -np.inf]))
    (True, False)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(float(array.sum(dtype=array.dtype))):
            return True  # NaN and infinity never leave a sum
    flat = array.reshape(-1)  # a sum of finite numbers may be infinite, so look at each
    return all(np.isfinite(flat[i : i + PART]).all() for i in range(0, flat.size, PART))
