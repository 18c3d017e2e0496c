"""Run the steps of a tape again on a device: numbers of the host, and launches as one step.

Blocks use two sets of buffers in turn. Launches of a tape are made anew until two blocks with the
same buffers have asked for the same. From then on they are one step of the launcher, and no Python
code makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from .launcher import Repeated
from .work import CudaWork


def joined(backend: CudaWork, steps: Sequence[Any]) -> Iterator[Callable[[], None]]:
    """Yield functions that run steps of a `Tape` again."""
    for numbers, part in groupby(steps, lambda step: step.numbers):
        if numbers:
            yield from (step.again for step in part)
        else:
            yield Launches(backend, [step.again for step in part], "a recording")


class Launches:
    """Launches that follow one another, the same for all blocks with the same buffers."""

    def __init__(self, backend: CudaWork, again: Sequence[Callable[[], None]], where: str) -> None:
        """again: make the launches. where: names them in a warning."""
        self._backend, self._again, self._where = backend, again, where
        self._asked: dict[int, Repeated] = {}  # by the buffers of the block
        self._sure: set[int] = set()

    def __call__(self) -> None:
        """Make the launches."""
        side, launcher = self._backend.side, self._backend.launcher
        if side in self._sure and launcher.queueing:
            launcher.add(self._asked[side], self._where)
            return
        with launcher.collecting() as asked:
            for again in self._again:
                again()
        if asked.steps is None:
            return
        if side in self._asked and self._asked[side].steps == asked.steps:
            self._sure.add(side)
        else:
            self._asked[side] = Repeated(asked.steps)
