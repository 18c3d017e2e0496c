"""Tables that are larger than the device: their first rows lie there, the others on the host.

A table is one range of addresses, and kernels read and write all of it in place: rows on the host
come across the bus as they are read. So nothing is fetched ahead, evicted or written back, and
kernels, graphs and bits are those of tables that lie on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..containers.backend import Numbers
from .arrays import DeviceArray
from .kernels import states_source
from .work import CudaWork

THREADS = 256
ID_BYTES = 8


class DeviceSpread:
    """Makes such tables, and reads and writes some of their rows. See `Spread`."""

    def __init__(self, backend: CudaWork) -> None:
        """Use a backend, between blocks."""
        self._backend = backend

    def new(self, shape: tuple[int, int], dtype: Any, near: int) -> DeviceArray:
        """Allocate a table of zeros. near: rows that lie on the device.

        Raises MemoryPlanError if the device or the host has too little memory.
        """
        kind = np.dtype(dtype)
        row = shape[1] * kind.itemsize
        raw = self._backend.allocate(shape[0] * row, near=near * row)
        self._backend.clear(raw)
        return raw.view(kind).reshape(shape)

    def read(self, table: DeviceArray, rows: Numbers) -> Numbers:
        """Return rows of a table, after all earlier launches. rows: int64, their numbers."""
        found = np.empty((rows.size, table.shape[1]), table.dtype)
        for part, ids, numbers in self._parts(table, rows):
            self._launch("take_rows", ids, table, numbers)
            found[part] = numbers
        return found

    def write(self, table: DeviceArray, rows: Numbers, numbers: Numbers) -> None:
        """Set rows of a table, each once, after all earlier launches.

        rows: int64. numbers: a row for each.
        """
        for part, ids, staged in self._parts(table, rows):
            staged[:] = numbers[part]
            self._launch("put_rows", ids, staged, table)

    def finite(self, table: DeviceArray) -> bool:
        """Return whether all numbers are finite."""
        return self._backend.finite(table)

    def _parts(self, table: DeviceArray, rows: Numbers) -> Iterator[tuple[slice, Numbers, Numbers]]:
        """Yield parts of the rows, their numbers, and room for them, where kernels reach both."""
        self._backend.drain()
        room, width = self._backend.bounced(), table.shape[1]
        row = width * table.dtype.itemsize
        most = room.size // (ID_BYTES + row)
        for start in range(0, rows.size, most):
            part = slice(start, min(start + most, rows.size))
            count = part.stop - start
            ids = room[: ID_BYTES * count].view(np.int64)
            ids[:] = rows[part]
            numbers = room[ids.nbytes : ids.nbytes + row * count].view(table.dtype)
            yield part, ids, numbers.reshape(count, width)

    def _launch(self, name: str, ids: Numbers, source: Any, target: Any) -> None:
        """Copy rows between a table and the host. source, target: one of them is the table."""
        backend, itemsize = self._backend, source.dtype.itemsize
        text = backend.text((name, itemsize), partial(states_source, itemsize), name)
        width = source.shape[1]
        arrays = [
            array if isinstance(array, DeviceArray) else array.ctypes.data
            for array in (source, target)
        ]
        backend.launch(text, ids.size * width, THREADS, ids.size, width, ids.ctypes.data, *arrays)
        backend.drain()
