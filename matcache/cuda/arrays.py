"""Arrays on a device, as containers hold them: address, shape and dtype."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False, slots=True)
class DeviceArray:
    """C-contiguous numbers at `address`. Supports slicing of rows and reshaping only.

    Ask the backend for a copy to get at the numbers.

    >>> slab = DeviceArray(4096, (1024,), np.dtype(np.uint8))
    >>> part = slab[256:320].view(np.dtype(np.float32)).reshape((4, 4))
    >>> part.address - slab.address, part.shape, part[1:].address - part.address
    (256, (4, 4), 16)
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of all numbers in bytes."""
        return self.size * self.dtype.itemsize

    def __getitem__(self, part: slice) -> DeviceArray:
        """Return consecutive rows."""
        start, stop, step = part.indices(self.shape[0])
        assert step == 1
        row = prod(self.shape[1:]) * self.dtype.itemsize
        rows = max(0, stop - start)
        return DeviceArray(self.address + start * row, (rows, *self.shape[1:]), self.dtype)

    def reshape(self, *shape: Any) -> DeviceArray:
        """Return the same numbers in another shape; one side may be -1."""
        sides: tuple[int, ...] = shape[0] if isinstance(shape[0], tuple) else shape
        if -1 in sides:
            others = -prod(sides)
            sides = tuple(self.size // others if n == -1 else n for n in sides)
        assert prod(sides) == self.size
        return DeviceArray(self.address, sides, self.dtype)

    def view(self, dtype: np.dtype[Any]) -> DeviceArray:
        """Return the same bytes as one row of numbers of another type."""
        return DeviceArray(self.address, (self.nbytes // dtype.itemsize,), dtype)
