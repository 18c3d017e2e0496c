"""What several replicas have learned, merged: Mats of one shape in caches of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from .lazy import Mat

Merge = Literal["mean", "sum", "max", "same"]
"""How replicas are combined: the mean of weights, the sum of statistics, the largest of bounds;
"same": they are equal."""

CHUNK = 2**16  # numbers that are merged at a time


class Merger:
    """Merges Mats in fixed order, in float64; without allocating, unless they are on devices, whose
    numbers come to the host and go back.
    """

    def __init__(self) -> None:
        """With room for a chunk."""
        self._sum = np.empty(CHUNK)
        self._part = np.empty(CHUNK)

    def mean(self, mats: Sequence[Mat], weight: float = 1.0) -> None:
        """Each becomes (1 - weight) itself + weight (mean of all)."""
        arrays = _open(mats)
        for start in range(0, arrays[0].size, CHUNK):
            total, part = self._room(arrays[0].size - start)
            parts = [array[start : start + CHUNK] for array in arrays]
            np.copyto(total, parts[0])
            for other in parts[1:]:
                total += other
            total *= weight / len(parts)
            for own in parts:
                np.multiply(own, 1.0 - weight, out=part)
                part += total
                np.copyto(own, part, casting="same_kind")
        _shut(mats, arrays)

    def sum(self, mats: Sequence[Mat], base: np.ndarray[Any, Any]) -> None:
        """Each becomes base + the sum of what each has grown by since it was `base`."""
        arrays, base = _open(mats), base.reshape(-1)
        for start in range(0, arrays[0].size, CHUNK):
            total, part = self._room(arrays[0].size - start)
            before = base[start : start + CHUNK]
            parts = [array[start : start + CHUNK] for array in arrays]
            np.copyto(total, before)
            for own in parts:
                np.subtract(own, before, out=part, casting="same_kind")
                total += part
            for own in parts:
                np.copyto(own, total, casting="same_kind")
        _shut(mats, arrays)

    def largest(self, mats: Sequence[Mat]) -> None:
        """Each becomes the largest of all, number by number."""
        first, *others = _open(mats)
        for other in others:
            np.maximum(first, other, out=first)
        for other in others:
            np.copyto(other, first)
        _shut(mats, [first, *others])

    def _room(self, left: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return self._sum[: min(left, CHUNK)], self._part[: min(left, CHUNK)]


def _open(mats: Sequence[Mat]) -> list[np.ndarray[Any, Any]]:
    """The contents of the Mats, flat, to be written to."""
    for mat in mats:
        mat.slot.written()
        mat.version = mat.slot.version
    return [mat.cache.backend.host(mat.slot.data()).reshape(-1) for mat in mats]


def _shut(mats: Sequence[Mat], arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    """What was written is brought back to where it is not the memory of the Mats themselves."""
    for mat, array in zip(mats, arrays, strict=True):
        mat.cache.backend.put_back(mat.slot.data(), array)
