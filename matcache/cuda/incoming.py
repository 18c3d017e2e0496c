"""Copy arrays of a block to the device while the previous block is computed."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..containers.slots import GAP, aligned
from .arrays import DeviceArray
from .driver import Bytes, Copy, Driver
from .shelf import ALIGNED

if TYPE_CHECKING:
    from ..containers.cache import MatCache
    from ..containers.slots import Slot
    from .work import CudaWork

Source = tuple[int, int]
"""An address, and the number of what owns the memory there, see `joined`."""


class Sources:
    """Where arrays of pinned memory lie; asked once for each array, since NumPy is slow to tell."""

    def __init__(self, driver: Driver) -> None:
        """Start without arrays."""
        self._driver = driver
        self._known: dict[int, tuple[weakref.ref[Any], Source | None]] = {}

    def of(self, array: np.ndarray[Any, Any]) -> Source | None:
        """Return the source of an array, or None if it is not pinned."""
        known = self._known.get(id(array))
        if known is None or known[0]() is not array:
            known = self._look(array, id(array))
        return known[1]

    def _look(self, array: Any, name: int) -> tuple[weakref.ref[Any], Source | None]:
        source = None
        if self._driver.is_pinned(array):
            owner = array if array.base is None else array.base
            source = array.ctypes.data, id(owner)
        found = weakref.ref(array, lambda _: self._known.pop(name, None)), source
        self._known[name] = found
        return found


class DeviceIncoming:
    """Places on the device for some arrays of a block, which blocks use in turn. See `Incoming`.

    The arrays of a place lie one after the other, as those of a `HostBlock` do, so that few copies
    bring them. Arrays outside pinned memory are first copied into it. Those that the backend keeps
    are copied from the device's own memory.
    """

    def __init__(
        self,
        backend: CudaWork,
        sources: Sources,
        cache: MatCache,
        label: str,
        arrays: Sequence[tuple[tuple[int, ...], Any]],
        copies: int,
    ) -> None:
        """Reserve room in the plan, or allocate it at once if planning is over."""
        self.backend, self._sources = backend, sources
        self._arrays = [(shape, np.dtype(dtype)) for shape, dtype in arrays]
        self._starts, self._nbytes = [], 0
        for shape, dtype in self._arrays:
            self._starts.append(self._nbytes)
            self._nbytes += aligned(prod(shape) * dtype.itemsize)
        size, dtype = self._nbytes, np.dtype(np.uint8)
        if len(self._arrays) == 1:
            (shape, dtype), size = self._arrays[0], prod(self._arrays[0][0])
        self._places = [
            cache.result(
                ("incoming", cache.new_guid()), (1, size), dtype, f"{label} (on the device)"
            )
            for _ in range(copies)
        ]
        self._views: list[list[DeviceArray]] = []  # by place
        self._targets: list[list[int]] = []  # their addresses
        self._stages: dict[int, tuple[Bytes, int]] = {}  # pinned memory and its address, by place
        self._kept: dict[Hashable, list[Copy]] = {}  # from the shelf, by array and place
        self._block = -1  # the block it was last bound for

    @property
    def nbytes(self) -> int:
        """The bytes of all places."""
        return self._nbytes * len(self._places)

    @property
    def place(self) -> Slot:
        """The container that blocks use if they use only one."""
        return self._places[0]

    def bind(
        self,
        arrays: Sequence[np.ndarray[Any, Any] | None],
        counts: Sequence[int] | None = None,
        same: Hashable | None = None,
    ) -> list[DeviceArray]:
        """Start the copies, and return the arrays on the device."""
        backend = self.backend
        if not self._views:
            self._views = [self._viewed(place.array.address) for place in self._places]
            self._targets = [[view.address for view in views] for views in self._views]
        turn = backend.side % len(self._places)
        apart = backend.in_block and len(self._places) > 1 and self._block != backend.block
        self._block = backend.block
        views = self._views[turn][: len(arrays)]
        if apart and (same, turn) in self._kept:
            backend.bring(self._kept[same, turn])
            return views
        if counts is None:
            counts = [0 if array is None else array.size for array in arrays]
        if apart:
            backend.bring(self._copies(turn, arrays, counts, same))
            return views
        backend.drain()  # kernels or copies may still be using it
        for view, array, count in zip(views, arrays, counts, strict=True):
            if array is None:
                continue
            backend.send(view.address, array.reshape(-1)[:count].view(np.uint8))
        return views

    def _viewed(self, address: int) -> list[DeviceArray]:
        return [
            DeviceArray(address + start, shape, dtype)
            for start, (shape, dtype) in zip(self._starts, self._arrays, strict=True)
        ]

    def _copies(
        self,
        turn: int,
        arrays: Sequence[np.ndarray[Any, Any] | None],
        counts: Sequence[int],
        same: Hashable | None,
    ) -> list[Copy]:
        """Return the copies that bring arrays, and keep the arrays on the shelf if they fit."""
        sizes: list[int] = []
        sources: list[Source] = []
        for number, array in enumerate(arrays):
            if array is None:
                sources.append((0, 0))
                sizes.append(0)
                continue
            nbytes = counts[number] * array.itemsize
            known = self._sources.of(array)
            sources.append(known or self._staged(turn, number, array, nbytes))
            sizes.append(nbytes)
        kept = None if same is None else self._shelved(sizes)
        if kept is None:
            return joined(self._targets[turn], sources, sizes)
        shelf = self.backend.shelf
        places = [(address, id(shelf)) for address in kept]
        for place, targets in enumerate(self._targets):
            self._kept[same, place] = joined(targets, places, sizes)
        return joined(kept, sources, sizes) + self._kept[same, turn]

    def _shelved(self, sizes: Sequence[int]) -> list[int] | None:
        """Return addresses on the shelf, or None if there is no room.

        Neighbours lie as far apart as in a place, if one copy is to bring them: see `joined`.
        """
        shelf = self.backend.shelf
        if shelf is None:
            return None
        offsets, size, end = [], 0, 0  # end: of the array before, in a place
        for start, nbytes in zip(self._starts, sizes, strict=False):
            if nbytes:
                size += start - end if start - end <= GAP else -size % ALIGNED
                end = start + nbytes
            offsets.append(size)
            size += nbytes
        address = shelf.add(size)
        return None if address is None else [address + offset for offset in offsets]

    def _staged(self, turn: int, number: int, array: Any, nbytes: int) -> Source:
        """Copy an array to pinned memory."""
        if turn not in self._stages:
            memory = self.backend.driver.pinned(self._nbytes)
            self._stages[turn] = memory, memory.ctypes.data
        stage, address = self._stages[turn]
        start = self._starts[number]
        stage[start : start + nbytes] = array.reshape(-1).view(np.uint8)[:nbytes]
        return address + start, id(stage)


def joined(targets: Sequence[int], sources: Sequence[Source], sizes: Sequence[int]) -> list[Copy]:
    """Return copies of arrays: one for arrays of one owner that are neighbours in both places.

    targets: addresses in one piece of memory, ascending. What lies between neighbours is copied.
    """
    found: list[Copy] = []
    owner = 0
    for target, (source, of), nbytes in zip(targets, sources, sizes, strict=False):
        if not nbytes:
            continue
        if found and of == owner:
            to, begin, before = found[-1]
            if target - to == source - begin and 0 <= target - to - before <= GAP:
                found[-1] = to, begin, target - to + nbytes
                continue
        found.append((target, source, nbytes))
        owner = of
    return found
