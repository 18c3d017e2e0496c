"""Keep blocks that are the same in every pass in device memory.

A kept array is copied within the device, to the place where graphs expect it: at the speed of the
device's memory, not of its connection to the host.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..containers.cache import MatCache

ALIGNED = 256  # bytes


class DeviceShelf:
    """Room for arrays of blocks, each given once; those that do not fit are not kept."""

    def __init__(self, cache: MatCache, nbytes: int) -> None:
        """Reserve the room in the plan."""
        shape = 1, nbytes
        self._slot = cache.result(("kept blocks",), shape, "uint8", "blocks kept on the device")
        self._used = 0
        self._places: dict[Hashable, int] = {}  # where arrays begin

    def find(self, key: Hashable) -> int | None:
        """Return the address of the array known by `key`, or None."""
        start = self._places.get(key)
        return None if start is None else self._slot.array.address + start

    def add(self, key: Hashable, nbytes: int) -> int | None:
        """Return the address for an array to keep, or None if it does not fit."""
        start, end = self._used, self._used + nbytes
        if end > self._slot.nbytes:
            return None
        self._used = -(-end // ALIGNED) * ALIGNED
        self._places[key] = start
        return int(self._slot.array.address + start)
