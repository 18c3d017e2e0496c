"""What several replicas have learned, merged: Mats of one shape in caches of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .containers.cache import MatCache
from .containers.matrices import Mat

Merge = Literal["mean", "sum", "max", "same"]
"""How replicas are combined: the mean of weights, the sum of statistics, the largest of bounds;
"same": they are equal."""

CHUNK = 2**13  # numbers that are merged at a time: 64 KiB, which stay in the processor's caches
_kernel = njit(nogil=True, cache=True)  # without contraction: products are rounded by themselves


class Merger(Protocol):
    """Merges Mats, one of each replica, in the order of the replicas and in float64: the same bits
    wherever they lie.
    """

    def begin(self, sums: Iterable[Sequence[Mat]]) -> None:
        """Remember what sums are now; the Mats of each are equal."""

    def merge(self, work: Iterable[tuple[Merge, Sequence[Mat]]], weight: float = 1.0) -> None:
        """Mats by their rules.

        mean: each becomes (1 - weight) itself + weight (mean of all). sum: each becomes what it was
        at `begin` + the sum of what each has grown by. max: each becomes the largest of all, number
        by number.
        """

    def close(self) -> None:
        """Let go of what only merging needs."""


MergerType = TypeVar("MergerType", bound=type)

_mergers: dict[str, Any] = {}


def merges(kind: str) -> Callable[[MergerType], MergerType]:
    """Enter the decorated class as what merges the Mats of backends of `kind`.

    Its `plan(cache, mats, replicas)` reserves the memory that merging takes on one device.
    """

    def enter(merger: MergerType) -> MergerType:
        _mergers[kind] = merger
        return merger

    return enter


@merges("cpu")
class HostMerger:
    """Merges Mats in the memory of the host; without allocating after the first `begin`."""

    @staticmethod
    def plan(cache: MatCache, mats: Iterable[tuple[Merge, Mat]], replicas: int) -> None:
        """Reserve nothing: merging takes no memory of a cache."""

    def __init__(self, caches: Sequence[MatCache], mats: Iterable[tuple[Merge, Mat]]) -> None:
        """Make room for a chunk."""
        self._sum = np.empty(CHUNK)
        self._bases: dict[int, np.ndarray[Any, Any]] = {}  # by the GUID of the first Mat

    def begin(self, sums: Iterable[Sequence[Mat]]) -> None:
        """See `Merger`."""
        for mats in sums:
            guid, first = mats[0].guid, mats[0].slot.data()
            if guid not in self._bases:
                self._bases[guid] = np.empty(first.shape, first.dtype)
            np.copyto(self._bases[guid], first)

    def merge(self, work: Iterable[tuple[Merge, Sequence[Mat]]], weight: float = 1.0) -> None:
        """See `Merger`."""
        for rule, mats in work:
            if rule == "mean":
                self._mean(opened(mats), weight)
            elif rule == "sum":
                self._add(opened(mats), self._bases[mats[0].guid].reshape(-1))
            elif rule == "max":
                self._largest(opened(mats))

    def _mean(self, arrays: list[np.ndarray[Any, Any]], weight: float) -> None:
        for start in range(0, arrays[0].size, CHUNK):
            first, *others = [array[start : start + CHUNK] for array in arrays]
            total = self._sum[: first.size]
            put(first, total)
            for other in others:
                add(other, total)
            scale(weight / len(arrays), total)
            for own in (first, *others):
                approach(total, 1.0 - weight, own)

    def _add(self, arrays: list[np.ndarray[Any, Any]], base: np.ndarray[Any, Any]) -> None:
        for start in range(0, arrays[0].size, CHUNK):
            before = base[start : start + CHUNK]
            parts = [array[start : start + CHUNK] for array in arrays]
            total = self._sum[: before.size]
            put(before, total)
            for own in parts:
                add_growth(own, before, total)
            for own in parts:
                put(total, own)

    def _largest(self, arrays: list[np.ndarray[Any, Any]]) -> None:
        first, *others = arrays
        for other in others:
            np.maximum(first, other, out=first)
        for other in others:
            np.copyto(other, first)

    def close(self) -> None:
        """See `Merger`."""
        self._bases.clear()


@_kernel
def put(found: NDArray[Any], into: NDArray[Any]) -> None:
    """into = found, in the precision of `into`."""
    for i in range(into.size):
        into[i] = found[i]


@_kernel
def add(found: NDArray[Any], total: NDArray[np.float64]) -> None:
    """total = total + found."""
    for i in range(total.size):
        total[i] += found[i]


@_kernel
def scale(factor: float, total: NDArray[np.float64]) -> None:
    """total = factor * total."""
    for i in range(total.size):
        total[i] *= factor


@_kernel
def add_growth(own: NDArray[Any], before: NDArray[Any], total: NDArray[np.float64]) -> None:
    """total = total + (own - before), the difference in float64."""
    for i in range(total.size):
        total[i] += np.float64(own[i]) - np.float64(before[i])


@_kernel
def approach(part: NDArray[np.float64], rest: float, own: NDArray[Any]) -> None:
    """own = rest * own + part, in float64."""
    for i in range(own.size):
        own[i] = np.float64(own[i]) * rest + part[i]


def opened(mats: Sequence[Mat]) -> list[Any]:
    """The contents of the Mats, flat, to be written to."""
    for mat in mats:
        mat.slot.written()
        mat.version = mat.slot.version
    return [mat.slot.data().reshape(-1) for mat in mats]


def make_merger(caches: Sequence[MatCache], mats: Iterable[tuple[Merge, Mat]]) -> Merger:
    """For the Mats of these caches, one of each replica: all on the CPU, or each on a device. mats:
    those of one replica, as for `plan_merge`.
    """
    merger: Merger = _mergers[caches[0].backend.kind](caches, mats)
    return merger


def plan_merge(cache: MatCache, mats: Iterable[tuple[Merge, Mat]], replicas: int) -> None:
    """While memory is planned: the room that merging these Mats takes on the device of `cache`."""
    _mergers[cache.backend.kind].plan(cache, mats, replicas)
