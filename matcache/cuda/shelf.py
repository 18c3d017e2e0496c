"""Keep blocks that are the same in every pass in device memory.

A kept array is copied within the device, to the place where graphs expect it: at the speed of the
device's memory, not of its connection to the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..containers.cache import MatCache

ALIGNED = 16  # bytes; copies are slower elsewhere


class DeviceShelf:
    """Room for the arrays of blocks, each given once; blocks that do not fit are not kept."""

    def __init__(self, cache: MatCache, nbytes: int) -> None:
        """Reserve the room in the plan."""
        shape = 1, nbytes
        self._slot = cache.result(("kept blocks",), shape, "uint8", "blocks kept on the device")
        self._used = 0

    def add(self, nbytes: int) -> int | None:
        """Return the address of so many bytes, or None if they do not fit."""
        start = self._used
        if start + nbytes > self._slot.nbytes:
            return None
        self._used = start + -(-nbytes // ALIGNED) * ALIGNED
        return int(self._slot.array.address + start)
