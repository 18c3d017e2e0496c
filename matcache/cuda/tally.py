"""Count work in kernels whose amount the host cannot know beforehand."""

from __future__ import annotations

from typing import Any

from .arrays import DeviceArray
from .driver import Bytes, Driver


class Tally:
    """A counter on the device that the host reads without waiting.

    places: how many copies may be under way.
    seen: the largest value that arrived.

    The end of each block copies the counter to one place. It is read once the block is known to be
    over.
    """

    def __init__(self, driver: Driver, places: int) -> None:
        """Start without a counter."""
        self.driver, self.seen = driver, 0
        self._number: DeviceArray | None = None
        self._places: list[Bytes] = [driver.pinned(8) for _ in range(places)]
        for place in self._places:
            place[:] = 0

    def counted_in(self, number: DeviceArray) -> None:
        """Use `number`, int64 [1] and never decreasing, as the counter."""
        self._number = number

    def copy(self, place: int, stream: Any) -> None:
        """Copy the counter, after the earlier work of `stream`."""
        if self._number is not None:
            self.driver.copy_out(self._places[place], self._number.address, stream)

    def look(self, place: int) -> None:
        """Read a copy that has arrived."""
        if self._number is not None:
            self.seen = max(self.seen, int.from_bytes(self._places[place].tobytes(), "little"))
