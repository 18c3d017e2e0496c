"""Copy arrays of a block to the device while the previous block is computed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .arrays import DeviceArray

if TYPE_CHECKING:
    from ..containers.cache import MatCache
    from ..containers.slots import Slot
    from .backend import Cuda


class Kept(NamedTuple):
    """The place of an array that stays on the device. new: whether it is still empty."""

    address: int
    new: bool


class DeviceIncoming:
    """Places for an array on the device, which blocks use in turn. See `Incoming`.

    An array outside pinned memory is first copied into it. One that the backend keeps is copied
    from the device's own memory.
    """

    def __init__(
        self, backend: Cuda, cache: MatCache, label: str, size: int, dtype: Any, copies: int
    ) -> None:
        """Reserve room in the plan, or allocate it at once if planning is over."""
        self.backend = backend
        self._places = [
            cache.result(
                ("incoming", cache.new_guid()), (1, size), dtype, f"{label} (on the device)"
            )
            for _ in range(copies)
        ]
        self._stages: list[Any] = [None] * copies
        self._block = -1  # the block it was last bound for

    def bind(
        self, array: np.ndarray[Any, Any], count: int | None = None, same: Hashable | None = None
    ) -> DeviceArray:
        """Start the copy, and return the array on the device."""
        backend, driver = self.backend, self.backend.driver
        turn = backend.side % len(self._places)
        place = self._places[turn].array
        apart = backend.in_block and len(self._places) > 1 and self._block != backend.block
        self._block = backend.block
        if not apart:  # kernels or copies may still be using it
            backend.drain()
        flat = array.reshape(-1)[:count]
        assert flat.nbytes <= place.nbytes
        source = flat.view(np.uint8)
        if not apart:
            backend.send(place.address, source)
        elif source.size:
            kept = None if same is None else self._kept(same, source.size)
            if kept is None or kept.new:
                if not driver.is_pinned(flat):
                    source = self._staged(turn, source, place.nbytes)
                driver.copy_in(place.address, source, backend.copies)
            if kept is not None:
                ways = (kept.address, place.address) if kept.new else (place.address, kept.address)
                driver.copy_from(ways[0], driver, ways[1], source.size, backend.copies)
            backend.arriving()
        return DeviceArray(place.address, array.shape, array.dtype)

    @property
    def place(self) -> Slot:
        """The container that blocks use if they use only one."""
        return self._places[0]

    def _kept(self, same: Hashable, nbytes: int) -> Kept | None:
        """Return where the array is kept, or is to be kept; None: nowhere."""
        shelf, key = self.backend.shelf, (same, self)
        if shelf is None:
            return None
        address, new = shelf.find(key), False
        if address is None:
            address, new = shelf.add(key, nbytes), True
        return None if address is None else Kept(address, new)

    def _staged(self, turn: int, source: Any, nbytes: int) -> Any:
        if self._stages[turn] is None:
            self._stages[turn] = self.backend.driver.pinned(nbytes)
        stage = self._stages[turn][: source.size]
        np.copyto(stage, source)
        return stage
