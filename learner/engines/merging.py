"""Merge replicas of several workers, with the bits that a merge in one process has.

Every worker owns a part of the numbers. It receives them from all replicas, adds them up in the
order of the replicas in float64, and gives the result to all. So a merge sends each number about
twice, whatever the number of workers. Of large tables in which replicas differ little, only what
differs is sent: see `sparse_merging.py`. The bits are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Mat, Merge

from .choice import Choice
from .combine import combined, take_over
from .crew import Crew, bounds
from .lines import LINE, Lines
from .sparse_merging import compare, merge_alike, merge_differing

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
        self._choice = Choice(crew.exchange)

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
        if weight == 1.0 and self._choice.sparse((rule, replicas[0][0].dtype.str), replicas[0]):
            self._merge_lines(rule, replicas, before)
        else:
            self._merge_all(rule, replicas, before, weight)
        for i, arrays in enumerate(replicas):
            for mats, array in zip(groups, arrays, strict=True):
                mats[i].cache.backend.put_back(mats[i].slot.data(), array)

    def _merge_lines(
        self, rule: Merge, replicas: list[list[NDArray[Any]]], before: list[NDArray[Any]] | None
    ) -> None:
        """Merge, and exchange the lines in which replicas differ."""
        crew, total = self._crew, len(replicas) * self._crew.size
        lines = [Lines(arrays) for arrays in replicas]
        base = None if before is None else Lines(before)
        found = compare(lines, self._choice.swap(8 * lines[0].count), crew.rank, crew.size)
        self._choice.note((rule, replicas[0][0].dtype.str), found)
        nbytes = LINE * replicas[0][0].itemsize * int(np.count_nonzero(found.differ))
        swap = self._choice.swap(nbytes)
        merge_differing(rule, lines, base, found, swap, crew.rank, PIECE)
        merge_alike(rule, lines, base, found, total, PIECE)

    def _merge_all(
        self,
        rule: Merge,
        replicas: list[list[NDArray[Any]]],
        before: list[NDArray[Any]] | None,
        weight: float,
    ) -> None:
        """Merge, and exchange all numbers."""
        for spans in _pieces([array.size for array in replicas[0]]):
            rows = np.array([_packed(arrays, spans) for arrays in replicas])
            base = None if before is None else _packed(before, spans)
            merged = self._piece(rule, rows, base, weight)
            for arrays, own in zip(replicas, rows, strict=True):
                take_over(rule, merged, own, weight)
                _unpack(own, arrays, spans)

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
        merged = combined(rule, parts, None if base is None else base[own], weight)
        return np.concatenate(crew.exchange.share(merged))

    def close(self) -> None:
        """See `Merger`."""
        self._bases.clear()


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
