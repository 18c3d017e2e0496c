"""Copy arrays of a block to the device while the previous block is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import DeviceArray

if TYPE_CHECKING:
    from ..containers.cache import MatCache
    from .backend import Cuda


class DeviceIncoming:
    """Places for an array on the device, which blocks use in turn. See `Incoming`.

    An array outside pinned memory is first copied into it.
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

    def bind(self, array: np.ndarray[Any, Any], count: int | None = None) -> DeviceArray:
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
            if not driver.is_pinned(flat):
                source = self._staged(turn, source, place.nbytes)
            driver.copy_in(place.address, source, backend.copies)
            backend.arriving()
        return DeviceArray(place.address, array.shape, array.dtype)

    def _staged(self, turn: int, source: Any, nbytes: int) -> Any:
        if self._stages[turn] is None:
            self._stages[turn] = self.backend.driver.pinned(nbytes)
        stage = self._stages[turn][: source.size]
        np.copyto(stage, source)
        return stage
