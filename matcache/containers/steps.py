"""The steps of a tape, and the order in which they run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .slots import Slot


class Step(NamedTuple):
    """One launch, or one number that the host set.

    what: name of the operation.
    parts: its arguments, made comparable.
    where: source line.
    again: runs it again.
    calls: the calls of kernels that do the same; None if it does more than that.
    sets: of a host function, the containers whose numbers it sets; None: it is none.
    numbers: whether it copies numbers of the host, and launches nothing.
    """

    what: str
    parts: Any
    where: str
    again: Callable[[], None]
    calls: list[Any] | None = None
    sets: frozenset[Slot] | None = None
    numbers: bool = False

    def touches(self, slots: frozenset[Slot]) -> bool:
        """Return whether the step may read or write one of these containers."""
        if self.calls is None:
            return True
        arrays = [arg for call in self.calls for arg in call.given if isinstance(arg, np.ndarray)]
        return any(np.may_share_memory(slot.array, array) for slot in slots for array in arrays)


def host_first(steps: Sequence[Step]) -> list[Step]:
    """Return steps in an order that does the same, with more calls of kernels in a row.

    Functions of the host, which only set numbers, come before all steps that do not touch these.
    """
    found: list[Step] = []
    for step in steps:
        place = len(found)
        while step.sets is not None and place and not found[place - 1].touches(step.sets):
            place -= 1
        found.insert(place, step)
    return found
