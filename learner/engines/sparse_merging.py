"""Merge the lines in which replicas differ, with the bits of a merge of all numbers.

Between two merges a block of power-law rows touches few rows of a table. The others change in all
replicas alike, or not at all. So workers first compare digests of lines:

1. Every worker owns every n-th line, and gets the digests of these from all replicas. (Frequent
   words often come first in a table, so runs of lines would be unlike.)
2. It says which replicas it wants which lines from: one for each kind of line, where they differ.
3. It gets these lines, and combines them in the order of the replicas; equal lines count for all.
4. It gives the results to all. Lines that are alike each worker combines by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Merge

from .combine import combined, combined_alike, stays_alike, take_over
from .lines import LINE, SAME_NOWHERE, Lines


class Swap(Protocol):
    """`Exchange.exchange`, or one with the same meaning."""

    def __call__(
        self, parts: Sequence[NDArray[Any]], into: NDArray[Any] | None = None, /
    ) -> list[NDArray[Any]]:
        """See `Exchange.exchange`."""


@dataclass(frozen=True)
class Differing:
    """What workers have found out about their lines.

    - workers: how many there are; line i is owned by worker i mod workers.
    - differ: [lines], whether replicas differ.
    - wanted: [own replicas x lines], which lines this worker gives to their owners.
    - giver: [replicas x own lines that differ], the replica that gives the same line, by replica.
    """

    workers: int
    differ: NDArray[np.bool_]
    wanted: NDArray[np.bool_]
    giver: NDArray[np.int64]

    def of(self, owner: int) -> NDArray[np.int64]:
        """Return the lines of a worker that differ."""
        return np.flatnonzero(self.differ[owner :: self.workers]) * self.workers + owner


def compare(replicas: Sequence[Lines], swap: Swap, rank: int, workers: int) -> Differing:
    """Find the lines in which the replicas of all workers differ; exchanges 1 and 2.

    replicas: the lines of the replicas of this worker.
    """
    each, count = len(replicas), replicas[0].count
    digests = np.array([lines.digests() for lines in replicas])
    found = swap([digests[:, owner::workers] for owner in range(workers)])
    by_worker = [part.reshape(each, -1) for part in found]
    table = np.array([worker[i] for i in range(each) for worker in by_worker])  # in order
    differ = (table != table[0]).any(axis=0) | (table == SAME_NOWHERE).any(axis=0)
    giver = givers(table[:, differ], rank)
    wanted = np.zeros(table.shape, np.bool_)
    wanted[:, differ] = giver == np.arange(len(table))[:, None]
    found = swap(
        [
            np.packbits(np.concatenate([*wanted[worker::workers], differ]))
            for worker in range(workers)
        ]
    )
    whole = np.empty((each + 1, count), np.bool_)
    for owner, part in enumerate(found):
        own = whole[:, owner::workers]
        own[:] = np.unpackbits(part, count=own.size).reshape(own.shape)
    return Differing(workers, whole[-1], whole[:-1], giver)


def givers(table: NDArray[np.uint64], rank: int) -> NDArray[np.int64]:
    """Return for each digest [replicas x lines] the replica that gives this kind of line.

    It is the first from replica `rank` on, around: lines that the owner has are not sent, and the
    others of a kind give about as many lines each.
    """
    turned = np.roll(table, -rank, axis=0)
    replicas = np.arange(len(table))[:, None]
    order = np.argsort(turned, axis=0, kind="stable")
    ordered = np.take_along_axis(turned, order, 0)
    fresh = np.ones(table.shape, np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    heads = np.maximum.accumulate(np.where(fresh, replicas, 0), axis=0)
    found = np.empty(table.shape, np.int64)
    np.put_along_axis(found, order, np.take_along_axis(order, heads, 0), 0)
    found = np.where(turned == SAME_NOWHERE, replicas, found)
    return np.roll((found + rank) % max(1, len(table)), rank, axis=0)


def merge_differing(
    rule: Merge,
    replicas: Sequence[Lines],
    base: Lines | None,
    found: Differing,
    swap: Swap,
    rank: int,
    piece: int,
) -> None:
    """Merge the lines in which replicas differ; exchanges 3 and 4, some lines at a time.

    piece: numbers that all workers merge at a time.
    """
    workers, each = found.workers, len(replicas)
    lines = [found.of(owner) for owner in range(workers)]
    step = max(1, piece // LINE // workers)
    for start in range(0, max(part.size for part in lines), step):
        ids = [part[start : start + step] for part in lines]
        given = [
            np.concatenate(
                [own.take(some[found.wanted[i, some]]) for i, own in enumerate(replicas)]
            )
            for some in ids
        ]
        giver = found.giver[:, start : start + step]
        parts = _in_order(swap(given), giver, each, workers)
        before = None if base is None else base.take(ids[rank]).reshape(-1)
        merged = combined(rule, parts, before, 1.0) if parts[0].size else parts[0]
        for some, result in zip(ids, swap([merged] * workers), strict=True):
            for own in replicas:
                taken = own.take(some).reshape(-1)
                take_over(rule, result, taken, 1.0)
                own.put(some, taken.reshape(-1, LINE))


def _in_order(
    found: Sequence[NDArray[Any]], giver: NDArray[np.int64], each: int, workers: int
) -> list[NDArray[Any]]:
    """Return the lines of each replica, flat, in order: those that were not sent are equal."""
    came = np.zeros((*giver.shape, LINE), found[0].dtype)
    sent = giver == np.arange(len(giver))[:, None]
    for worker, part in enumerate(found):
        rows, place = part.reshape(-1, LINE), 0
        for i in range(each):
            own = sent[i * workers + worker]
            count = int(np.count_nonzero(own))
            came[i * workers + worker, own] = rows[place : place + count]
            place += count
    columns = np.arange(giver.shape[1])
    return [came[row, columns].reshape(-1) for row in giver]


def merge_alike(
    rule: Merge,
    replicas: Sequence[Lines],
    base: Lines | None,
    found: Differing,
    total: int,
    piece: int,
) -> None:
    """Merge the lines that are the same in all replicas, `total` in number; no exchange."""
    if stays_alike(rule, replicas[0].dtype):
        return
    ids = np.flatnonzero(~found.differ)
    step = max(1, piece // LINE)
    for start in range(0, ids.size, step):
        some = ids[start : start + step]
        own = replicas[0].take(some)
        before = None if base is None else base.take(some)
        if before is None:
            groups = [np.arange(some.size)]
        else:
            moved = (own.view(np.uint8) != before.view(np.uint8)).any(axis=1)
            groups = [np.flatnonzero(moved), np.flatnonzero(~moved)]
        for group in groups:
            values = own[group].reshape(-1)
            if not values.size:
                continue
            old = None if before is None else before[group].reshape(-1)
            merged = combined_alike(rule, values, old, total)
            taken = values.copy()
            take_over(rule, merged, taken, 1.0)
            for lines in replicas:
                lines.put(some[group], taken.reshape(-1, LINE))
