"""Learners that an estimator keeps from one call to the next, to predict or to learn more rows.

To plan and allocate a learner takes ten milliseconds, to predict a row a fraction of one.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..training.states.same_bits import same_bits
from ..training.states.state import State

if TYPE_CHECKING:
    from ..learner import Learner
    from ..training.at_hand import RowsAtHand
    from ..training.further_rows import FurtherRows

Tensors = Mapping[str, NDArray[Any]]
MOST = 4  # learners that wait for the next prediction
MOST_BYTES = 2**26  # of one of them; the plan of a larger one costs less than its numbers


@dataclass(eq=False)
class Kept:
    """A learner that predicts. It belongs to the process that made it.

    plan: what it was planned for.
    tensors: copies of those that it predicts from.
    """

    plan: Any
    learner: Learner
    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    process: int = field(default_factory=os.getpid)
    _at_hand: RowsAtHand | None = None
    _asked: bool = False  # whether later rows can be predicted at hand
    _further: FurtherRows | None = None

    def predict(self, X: Any, side: int) -> NDArray[Any]:
        """Return one result row per row of X: see `Learner.predict`."""
        found = None if self._at_hand is None else self._at_hand.predict(X)
        if found is not None:
            return found
        found = self.learner.predict(X, side=side)
        if not self._asked:
            from ..training import at_hand  # imports Numba, which many fits do not need

            self._at_hand, self._asked = at_hand.rows_at_hand(self.learner, X, side), True
        return found

    def learn(self, state: State, data: Any, of_rows: int) -> None:
        """Make one more pass, over `data`, from `state`.

        data: X, (X, Y) or (X, Y, weights). of_rows: rows of the whole data.
        """
        from ..training.further_rows import further_rows  # imports Numba, as learners do

        learner, further = self.learner, self._further
        if further is not None:
            if not further.holds(state, learner):
                learner.restore(state)
            if further.train(data, of_rows, learner):
                return
        before, learner.data.of_rows = learner.team, of_rows
        learner.fit_from(state, data)
        self._further = further_rows(learner, before)

    def turn_to(self, tensors: Tensors) -> None:
        """Predict from these tensors, which may be changed later."""
        same = tensors.keys() == self.tensors.keys()
        if not (same and all(same_bits(self.tensors[name], tensors[name]) for name in tensors)):
            self.tensors = {name: np.array(array, order="C") for name, array in tensors.items()}
            self.learner.restore(State(self.tensors, {}))

    def rest(self) -> bool:
        """End the learner's threads until it predicts again; return whether it is to be kept."""
        team = self.learner.team
        if team is None or team.nbytes > MOST_BYTES:
            return False
        team.rest()
        return True


class KeptLearners:
    """Lends learners that predict, each to one call at a time, so that threads share none.

    They are closed when this is garbage-collected. A forked process uses none of its parent's.
    """

    def __init__(self) -> None:
        """Start without any."""
        self._kept: list[Kept] = []
        weakref.finalize(self, _close, self._kept).atexit = False

    @contextmanager
    def lent(
        self,
        plan: Any,
        tensors: Tensors,
        make: Callable[[], Learner],
        serves: Callable[[Learner], bool] = lambda _: True,
    ) -> Iterator[Kept]:
        """Lend a learner that predicts from `tensors`; after an error it is closed.

        plan: all that a learner is planned for, the shapes of tensors included.
        make: makes another, where all that were kept are of other plans or lent.
        serves: whether one that was kept serves; else it is closed.
        """
        one = self._take(plan)
        if one is not None and not serves(one.learner):
            one.learner.close()
            one = None
        one = one or Kept(plan, make())
        try:
            one.turn_to(tensors)
            yield one
            keep = one.rest()
        except BaseException:
            one.learner.close()
            raise
        if keep:
            self._put(one)
        else:
            one.learner.close()

    def _own(self) -> list[Kept]:
        """Return those of this process, the one that has waited longest first."""
        return [one for one in list(self._kept) if one.process == os.getpid()]

    def _take(self, plan: Any) -> Kept | None:
        """Take out a learner of this plan; None: there is none."""
        for one in reversed(self._own()):
            if one.plan == plan and self._remove(one):
                return one
        return None

    def _put(self, one: Kept) -> None:
        """Keep a learner, instead of the one that has waited longest if these are too many."""
        self._kept.append(one)
        for old in self._own()[:-MOST]:
            if self._remove(old):
                old.learner.close()

    def _remove(self, one: Kept) -> bool:
        """Return whether this call, and no other thread, has taken it out."""
        try:
            self._kept.remove(one)
        except ValueError:
            return False
        return True


def takes(learner: Learner, state: State | None) -> bool:
    """Return whether a state replaces all numbers of a learner that has trained; None: it begins.

    A solver without a learner leaves no sums of an optimizer, which then begin afresh.
    """
    team = learner.team
    if team is None or state is None:
        return False
    return team.first.learned.mats().keys() <= state.tensors.keys()


def _close(kept: list[Kept]) -> None:
    for one in kept:
        if one.process == os.getpid():
            one.learner.close()
