"""Pinned memory for numbers that a block's update sets, from which its graph copies them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import source_line
from .arrays import DeviceArray
from .driver import Driver
from .launcher import CopyIn

STAGE = 1 << 20  # bytes for each side


class Staged(NamedTuple):
    """A place for the numbers of an array, for each block anew.

    start, end: in bytes.
    numbers: the place, of the array's shape and dtype.
    step, where: the copy to the device, and the source line that asked for it first.
    """

    array: DeviceArray
    start: int
    end: int
    numbers: np.ndarray[Any, Any]
    step: CopyIn
    where: str


class Stage:
    """Gives out places, one after the other.

    memory: of each side.
    """

    def __init__(self, driver: Driver, sides: int) -> None:
        """Allocate the memory. sides: blocks in use at a time."""
        self.memory = [driver.pinned(STAGE) for _ in range(sides)]
        self._places: list[list[Staged]] = [[] for _ in range(sides)]
        self._set = self._staged = 0  # numbers and bytes that this block has set

    def begin(self) -> None:
        """Begin a block."""
        self._set = self._staged = 0

    def place_for(self, array: DeviceArray, side: int) -> Staged | None:
        """Return the next place for numbers of the block on a side; None: there is no room.

        Blocks set the same numbers in the same order, so the place is mostly that of an earlier
        block.
        """
        places, number = self._places[side], self._set
        if number < len(places):
            found = places[number]
            if found.array is array and found.start == self._staged:
                self._set, self._staged = number + 1, found.end
                return found
        start, nbytes = self._staged, array.nbytes
        if not 0 < nbytes <= STAGE - start:
            return None
        room = self.memory[side][start : start + nbytes]
        numbers = room.view(array.dtype).reshape(array.shape)
        step = CopyIn(array.address, side, start, nbytes)
        end = start + -(-nbytes // 16) * 16
        found = Staged(array, start, end, numbers, step, f"set at {source_line()}")
        places[number:] = [found]
        self._set, self._staged = number + 1, end
        return found
