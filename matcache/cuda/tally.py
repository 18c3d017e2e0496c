"""What kernels count, where the host cannot know beforehand how much there will be to do."""

from __future__ import annotations

from typing import Any

from .arrays import DeviceArray
from .driver import Bytes, Driver


class Tally:
    """A number on the device that kernels add to, and the host looks at without waiting for it.

    Each block's end copies it to one of `places`, where it is looked at when the block is known to
    be over. seen: the largest value that arrived.
    """

    def __init__(self, driver: Driver, places: int) -> None:
        """Nobody counts yet."""
        self.driver, self.seen = driver, 0
        self._number: DeviceArray | None = None
        self._places: list[Bytes] = [driver.pinned(8) for _ in range(places)]
        for place in self._places:
            place[:] = 0

    def counted_in(self, number: DeviceArray) -> None:
        """`number`, int64 [1] and never less than it was, is what kernels add to."""
        self._number = number

    def copy(self, place: int, stream: Any) -> None:
        """Have the number copied, after what `stream` was given before."""
        if self._number is not None:
            self.driver.copy_out(self._places[place], self._number.address, stream)

    def look(self, place: int) -> None:
        """The copy is there."""
        self.seen = max(self.seen, int.from_bytes(self._places[place].tobytes(), "little"))
