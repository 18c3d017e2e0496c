"""Copy arrays of blocks to the device while it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .driver import Copy, Driver


class Arrivals:
    """The copies of blocks, on a stream of their own.

    stream: runs the copies.
    """

    def __init__(self, driver: Driver, sides: int, compute: Any) -> None:
        """Make the stream.

        sides: blocks in use at a time.
        compute: the stream of kernels, which wait for the copies.
        """
        self._driver, self._compute, self.stream = driver, compute, driver.stream()
        self._arrived = [driver.event() for _ in range(sides)]  # the last copies of each side
        self._coming: list[Copy] = []  # not started yet

    def bring(self, copies: Sequence[Copy]) -> None:
        """Make these copies before any later kernel runs."""
        self._coming += copies

    def start(self, side: int) -> None:
        """Start the copies that came, which belong to the block of this side."""
        if self._coming:
            self._driver.copy(self._coming, self.stream)
            self._driver.record(self._arrived[side], self.stream)
            self._driver.wait(self._compute, self._arrived[side])
            self._coming.clear()

    def wait(self, side: int) -> None:
        """Wait until the copies of a side have left the host."""
        self._driver.synchronize(self._arrived[side])

    def drop(self) -> None:
        """Forget the copies that have not been started."""
        self._coming.clear()
