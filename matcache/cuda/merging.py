"""Merge replicas on devices: each device merges a share of every Mat for all.

A Mat is cut into as many slices as there are replicas. Each device receives its slice from all
others. One kernel merges the parts, in the order of the replicas and in float64. The device then
sends the result to each replica. So 2 (n - 1) / n of the bytes go into each device, and as many out
of it. Numbers are moved and never added on the way (see `wires.py`). So the bits equal those of a
merge on the host, for any connection between devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.matrices import Mat
from ..containers.merge_rule import Merge
from ..containers.slots import Slot
from ..emit.cuda_header import C_TYPES
from ..merge import merges, opened
from .arrays import DeviceArray
from .driver import Driver
from .kernels import merge_source
from .wires import Move, Wire, connect, wait

ROOM = 1 << 23  # most bytes of a slice merged at a time
ALIGNED = 64  # slices have a multiple of this many numbers

KERNELS: dict[Merge, str] = {"mean": "merge_mean", "sum": "merge_sum", "max": "merge_max"}


@merges("cuda")
class DeviceMerger:
    """Merges on devices, in memory that was planned. See `Merger`."""

    @staticmethod
    def plan(cache: MatCache, mats: Iterable[tuple[Merge, Mat]], replicas: int) -> None:
        """Plan room for parts and for values at `begin`, and prepare the kernels."""
        merged = [(rule, mat) for rule, mat in mats if rule in KERNELS]
        for rule, mat in merged:
            _text(cache, rule, mat.dtype)
            if rule == "sum":
                _base(cache, mat, replicas)
        _parts(cache, replicas, _room(merged, replicas))

    def __init__(self, caches: Sequence[MatCache], mats: Iterable[tuple[Merge, Mat]]) -> None:
        """Prepare the slices.

        caches: of the replicas, in their order.
        mats: those of one replica, as for `plan`.
        """
        self._caches = list(caches)
        self._backends = [cache.backend for cache in caches]
        self._count = len(caches)
        self._bytes = _room(mats, self._count)

    @property
    def _ends(self) -> tuple[list[Driver], list[Any]]:
        return [b.driver for b in self._backends], [b.compute for b in self._backends]

    @cached_property
    def _wire(self) -> Wire:
        return connect(*self._ends)

    def begin(self, sums: Iterable[Sequence[Mat]]) -> None:
        """See `Merger`. Each device keeps its slice."""
        for mats in sums:
            for turn, mat in enumerate(mats):
                own = self._slices(mat)[turn]
                base = _base(self._caches[turn], mat, self._count)
                if own.size:
                    self._flush(turn)
                    self._copy(turn, base.array.address, own.address, own.nbytes)

    def merge(self, work: Iterable[tuple[Merge, Sequence[Mat]]], weight: float = 1.0) -> None:
        """See `Merger`. Returns when all devices are done."""
        for turn in range(self._count):
            self._flush(turn)
        with self._wire.held():
            for rule, mats in work:
                if rule in KERNELS:
                    opened(mats)
                    self._merge(rule, mats, weight)
            wait(self._wire, *self._ends)

    def _merge(self, rule: Merge, mats: Sequence[Mat], weight: float) -> None:
        width = mats[0].dtype.itemsize
        slices = [self._slices(mat) for mat in mats]  # [replica][owner of the slice]
        length = slices[0][0].size  # of the longest slice
        room = self._bytes // width
        parts = [_parts(cache, self._count, self._bytes).array.address for cache in self._caches]
        rows = [[first + turn * self._bytes for turn in range(self._count)] for first in parts]
        for start in range(0, length, room):
            cut = [[part[start : start + room] for part in of] for of in slices]
            there = [
                Move(turn, part.address, owner, rows[owner][turn], part.nbytes)
                for turn, of in enumerate(cut)
                for owner, part in enumerate(of)
            ]
            self._move(there)
            for owner, part in enumerate(cut[0]):
                self._run(owner, rule, mats[owner], part.size, start, weight)
            self._move([move.back() for move in there])

    def _run(
        self, owner: int, rule: Merge, mat: Mat, count: int, start: int, weight: float
    ) -> None:
        if not count:
            return
        cache, width = self._caches[owner], mat.dtype.itemsize
        parts = _parts(cache, self._count, self._bytes)
        call: list[Any] = [count, self._count, self._bytes // width]
        if rule == "mean":
            call += [np.float64(weight / self._count), np.float64(1.0 - weight)]
        if rule == "sum":
            call.append(_base(cache, mat, self._count).array.address + start * width)
        cache.backend.launch(_text(cache, rule, mat.dtype), count, 256, *call, parts.array)

    def _slices(self, mat: Mat) -> list[DeviceArray]:
        flat, length = mat.slot.data().reshape(-1), _slice(mat, self._count)
        return [flat[turn * length : (turn + 1) * length] for turn in range(self._count)]

    def _move(self, moves: Iterable[Move]) -> None:
        away = []
        for move in moves:
            if move.nbytes and move.source == move.target:
                self._copy(move.source, move.received, move.sent, move.nbytes)
            elif move.nbytes:
                away.append(move)
        if away:
            self._wire.move(away)

    def _copy(self, turn: int, target: int, source: int, nbytes: int) -> None:
        backend = self._backends[turn]
        backend.driver.copy_from(target, backend.driver, source, nbytes, backend.compute)

    def _flush(self, turn: int) -> None:
        self._backends[turn].launcher.flush()

    def close(self) -> None:
        """See `Merger`."""
        if "_wire" in self.__dict__:
            self._wire.close()


def _room(mats: Iterable[tuple[Merge, Mat]], replicas: int) -> int:
    """Return the bytes of a slice that are merged at a time."""
    sizes = [_slice(mat, replicas) * mat.dtype.itemsize for rule, mat in mats if rule in KERNELS]
    return min(max(sizes, default=0), ROOM)


def _slice(mat: Mat, replicas: int) -> int:
    """Return the most numbers of `mat` that one device merges."""
    size = mat.slot.shape[0] * mat.slot.shape[1]
    return -(-size // (replicas * ALIGNED)) * ALIGNED


def _text(cache: MatCache, rule: Merge, dtype: Any) -> Any:
    kind = C_TYPES[np.dtype(dtype).name]
    return cache.backend.text(("merge", rule, kind), lambda: merge_source(kind), KERNELS[rule])


def _base(cache: MatCache, mat: Mat, replicas: int) -> Slot:
    shape = 1, _slice(mat, replicas)
    label = f"{mat.slot.label} before a merge"
    return cache.result(("merge", "base", mat.guid), shape, mat.dtype, label)


def _parts(cache: MatCache, replicas: int, nbytes: int) -> Slot:
    label = "parts of replicas that are merged"
    return cache.result(("merge", "parts"), (replicas, nbytes), np.uint8, label)
