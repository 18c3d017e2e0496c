"""Keep a whole sparse matrix in device memory: kernels copy the rows of a block from there."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..containers.backend import Numbers
from ..containers.cache import MatCache
from ..containers.slots import PatternSlot, Slot
from .kernels import states_source
from .repeat import Launches
from .states import THREADS, launch_starts

KERNELS = ("row_sizes", "row_starts", "take_entries")


class DeviceMatrix:
    """Offsets, columns and values of all rows. See `HeldMatrix`."""

    def __init__(self, cache: MatCache, label: str, rows: int, entries: int) -> None:
        """Reserve the room in the plan."""
        self.backend = cache.backend
        arrays = {
            "offsets": (rows + 1, np.int64),
            "columns": (entries, np.int32),
            "values": (entries, np.float32),
        }
        self._arrays = {
            what: cache.result(
                ("held", label, what), (1, size), dtype, f"{what} of {label} (on the device)"
            )
            for what, (size, dtype) in arrays.items()
        }
        module = partial(states_source, 4)
        self._text = [self.backend.text((name, 4), module, name) for name in KERNELS]
        self._end = 0  # entries that were sent
        self._launches: dict[tuple[int, int], Launches] = {}  # by the arrays they use

    def take(self, ids: Slot, pattern: PatternSlot, values: Slot) -> None:
        """Launch copying rows to those of a block."""
        key = ids.array.address, pattern.indptr.address
        if key not in self._launches:
            again = [partial(self._take, ids, pattern, values)]
            self._launches[key] = Launches(self.backend, again, "rows of the data")
        self._launches[key]()

    def _take(self, ids: Slot, pattern: PatternSlot, values: Slot) -> None:
        n, backend = pattern.rows, self.backend
        *begin, entries = self._text
        offsets, columns, numbers = (slot.array for slot in self._arrays.values())
        starts, to = pattern.indptr, (pattern.indices, values.array)
        launch_starts(backend, begin, ids, offsets, starts, pattern.counts)
        call: list[Any] = [n, ids.array, offsets, columns, numbers, starts, *to]
        backend.launch(entries, pattern.capacity, THREADS, *call)

    def send(self, first: int, indptr: Numbers, indices: Numbers, values: Numbers) -> None:
        """Copy rows from the host, when the device is done with earlier work."""
        parts = [(first, indptr + self._end), (self._end, indices), (self._end, values)]
        self.backend.drain()
        for slot, (start, numbers) in zip(self._arrays.values(), parts, strict=True):
            place = slot.array.address + start * slot.dtype.itemsize
            self.backend.send(place, numbers.view(np.uint8))
        self._end += len(indices)
