"""Merge replicas of several workers, with the bits that a merge in one process has.

Every worker owns a part of the numbers. It receives them from all replicas, adds them up in the
order of the replicas in float64, and gives the result to all. So a merge sends each number about
twice, whatever the number of workers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Mat, Merge
from blocklearn.matcache.merge import add, add_growth, approach, put, scale

from .crew import Crew, bounds

PIECE = 2**22
"""Numbers that are merged at a time: this bounds the memory of a merge."""


class CrewMerger:
    """A `Merger` for Mats of several workers, each of which has the same number of replicas.

    Replica r of all is the replica r // workers of the worker r % workers.
    """

    def __init__(self, crew: Crew) -> None:
        """Allocate nothing yet."""
        self._crew = crew
        self._bases: dict[int, NDArray[Any]] = {}  # by the GUID of the first Mat

    def begin(self, sums: Iterable[Sequence[Mat]]) -> None:
        """See `Merger`."""
        for mats in sums:
            first = _on_host(mats[0])
            np.copyto(self._bases.setdefault(mats[0].guid, np.empty_like(first)), first)

    def merge(self, work: Iterable[tuple[Merge, Sequence[Mat]]], weight: float = 1.0) -> None:
        """See `Merger`."""
        groups: dict[tuple[Merge, str], list[Sequence[Mat]]] = defaultdict(list)
        for rule, mats in work:
            if rule != "same":
                groups[rule, mats[0].dtype.str].append(mats)
        for (rule, _), found in groups.items():
            self._merge(rule, found, weight)

    def _merge(self, rule: Merge, groups: list[Sequence[Mat]], weight: float) -> None:
        """Merge Mats of one rule and dtype, as if they were one long array for each replica."""
        for mats in groups:
            for mat in mats:
                mat.slot.written()
                mat.version = mat.slot.version
        replicas = [[_on_host(mats[i]) for mats in groups] for i in range(len(groups[0]))]
        before = [self._bases[mats[0].guid] for mats in groups] if rule == "sum" else None
        for spans in _pieces([array.size for array in replicas[0]]):
            rows = np.array([_packed(arrays, spans) for arrays in replicas])
            base = None if before is None else _packed(before, spans)
            merged = self._piece(rule, rows, base, weight)
            for arrays, own in zip(replicas, rows, strict=True):
                if rule == "mean":
                    approach(merged.astype(np.float64, copy=False), 1.0 - weight, own)
                    if merged.dtype != np.float64:  # what was rounded to zero keeps its sign
                        np.copyto(own, merged, where=merged == 0)
                else:
                    own[:] = merged
                _unpack(own, arrays, spans)
        for i, arrays in enumerate(replicas):
            for mats, array in zip(groups, arrays, strict=True):
                mats[i].cache.backend.put_back(mats[i].slot.data(), array)

    def _piece(
        self, rule: Merge, rows: NDArray[Any], base: NDArray[Any] | None, weight: float
    ) -> NDArray[Any]:
        """Return what all replicas make of a piece.

        rows: [own replicas x numbers]. base: the values at `begin`, for a sum.
        """
        crew = self._crew
        cuts = bounds(rows.shape[1], crew.size)
        spans = [slice(a, b) for a, b in pairwise(cuts)]
        found = crew.exchange.exchange([rows[:, span] for span in spans])
        by_worker = [part.reshape(len(rows), -1) for part in found]
        parts = [worker[i] for i in range(len(rows)) for worker in by_worker]  # in order
        own = spans[crew.rank]
        merged = _combined(rule, parts, None if base is None else base[own], weight)
        return np.concatenate(crew.exchange.exchange([merged] * crew.size))

    def close(self) -> None:
        """See `Merger`."""
        self._bases.clear()


def _combined(
    rule: Merge, parts: list[NDArray[Any]], base: NDArray[Any] | None, weight: float
) -> NDArray[Any]:
    """Merge the same numbers of all replicas; see `HostMerger`, whose bits these are."""
    if rule == "max":
        found = parts[0].copy()
        for part in parts[1:]:
            np.maximum(found, part, out=found)
        return found
    total = np.empty(parts[0].size)
    if base is not None:
        put(base, total)
        for part in parts:
            add_growth(part, base, total)
        return _rounded(total, parts[0].dtype)
    put(parts[0], total)
    for part in parts[1:]:
        add(part, total)
    scale(weight / len(parts), total)
    return _rounded(total, parts[0].dtype) if weight == 1.0 else total


def _rounded(total: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round to `dtype`; what is too large becomes infinite, as in the kernels of `HostMerger`."""
    with np.errstate(over="ignore", invalid="ignore"):
        return total.astype(dtype)


Span = tuple[int, int, int]
"""The number of an array, and the bounds of a part of it."""


def _pieces(sizes: Sequence[int]) -> Iterable[list[Span]]:
    """Cut arrays into pieces of at most `PIECE` numbers, each of parts of one or more arrays."""
    piece: list[Span] = []
    room = PIECE
    for number, size in enumerate(sizes):
        start = 0
        while start < size:
            stop = min(size, start + room)
            piece.append((number, start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield piece
                piece, room = [], PIECE
    if piece:
        yield piece


def _packed(arrays: Sequence[NDArray[Any]], spans: Sequence[Span]) -> NDArray[Any]:
    return np.concatenate([arrays[i].reshape(-1)[start:stop] for i, start, stop in spans])


def _unpack(row: NDArray[Any], arrays: Sequence[NDArray[Any]], spans: Sequence[Span]) -> None:
    place = 0
    for i, start, stop in spans:
        arrays[i].reshape(-1)[start:stop] = row[place : place + stop - start]
        place += stop - start


def _on_host(mat: Mat) -> NDArray[Any]:
    """Return the contents: those of a Mat in host memory are no copy."""
    found: NDArray[Any] = mat.cache.backend.host(mat.slot.data())
    return found
