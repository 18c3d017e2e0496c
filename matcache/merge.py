"""Merge what replicas have learned: Mats of equal shape in separate caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .containers.cache import MatCache
from .containers.matrices import Mat
from .containers.merge_rule import Merge
from .cpu.compiling.jit import kernel

CHUNK = 2**13  # numbers merged at a time: 64 KiB, which fit into the processor's caches
_kernel = kernel()  # no contraction: each product is rounded separately


class Merger(Protocol):
    """Merges groups of Mats, one Mat of each replica.

    Works in float64 and in the order of the replicas, so every device gives the same bits.
    """

    def begin(self, sums: Iterable[Sequence[Mat]]) -> None:
        """Remember the present values of Mats that will be merged by "sum".

        sums: one group of Mats for each sum; the Mats of a group are equal.
        """

    def merge(self, work: Iterable[tuple[Merge, Sequence[Mat]]], weight: float = 1.0) -> None:
        """Merge each group of Mats by its rule.

        work: pairs of a rule and the Mats of all replicas.
        weight: for "mean", the weight of the mean, in [0, 1].

        mean: each Mat becomes (1 - weight) * itself + weight * (mean of all).
        sum: each becomes its value at `begin` plus the growth of all Mats since then.
        max: each becomes the elementwise maximum of all.
        """

    def close(self) -> None:
        """Release the memory that only merging needs."""


MergerType = TypeVar("MergerType", bound=type)

_mergers: dict[str, Any] = {}


def merges(kind: str) -> Callable[[MergerType], MergerType]:
    """Register the decorated class as the merger for backends of `kind`.

    Its `plan(cache, mats, replicas)` reserves the memory that merging needs on one device.
    """

    def enter(merger: MergerType) -> MergerType:
        _mergers[kind] = merger
        return merger

    return enter


@merges("cpu")
class HostMerger:
    """Merges Mats in host memory, without allocating after the first `begin`."""

    @staticmethod
    def plan(cache: MatCache, mats: Iterable[tuple[Merge, Mat]], replicas: int) -> None:
        """Reserve nothing: merging on the host needs no memory of a cache."""

    def __init__(self, caches: Sequence[MatCache], mats: Iterable[tuple[Merge, Mat]]) -> None:
        """Allocate room for a chunk."""
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
    """Copy: into = found, in the precision of `into`."""
    for i in range(into.size):
        into[i] = found[i]


@_kernel
def add(found: NDArray[Any], total: NDArray[np.float64]) -> None:
    """Add: total = total + found."""
    for i in range(total.size):
        total[i] += found[i]


@_kernel
def scale(factor: float, total: NDArray[np.float64]) -> None:
    """Scale: total = factor * total."""
    for i in range(total.size):
        total[i] *= factor


@_kernel
def add_growth(own: NDArray[Any], before: NDArray[Any], total: NDArray[np.float64]) -> None:
    """Add a difference, taken in float64: total = total + (own - before)."""
    for i in range(total.size):
        total[i] += np.float64(own[i]) - np.float64(before[i])


@_kernel
def approach(part: NDArray[np.float64], rest: float, own: NDArray[Any]) -> None:
    """Average in float64: own = rest * own + part."""
    for i in range(own.size):
        own[i] = np.float64(own[i]) * rest + part[i]


def opened(mats: Sequence[Mat]) -> list[Any]:
    """Return the contents of the Mats, flattened and writable."""
    for mat in mats:
        mat.slot.written()
        mat.version = mat.slot.version
    return [mat.slot.data().reshape(-1) for mat in mats]


def make_merger(caches: Sequence[MatCache], mats: Iterable[tuple[Merge, Mat]]) -> Merger:
    """Make the merger for the Mats of these caches.

    caches: of the replicas, all on the CPU or each on a device.
    mats: rules and Mats of one replica, as for `plan_merge`.
    """
    merger: Merger = _mergers[caches[0].backend.kind](caches, mats)
    return merger


def plan_merge(cache: MatCache, mats: Iterable[tuple[Merge, Mat]], replicas: int) -> None:
    """Reserve the memory that merging these Mats needs on the device of `cache`.

    mats: pairs of a rule and a Mat of this replica.
    replicas: number of replicas.
    """
    _mergers[cache.backend.kind].plan(cache, mats, replicas)
