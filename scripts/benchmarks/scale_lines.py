"""Merges that send lines, all or those that differ: their loops, measured, and their traffic."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.learner.engines.cost import Network, best_degrees
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Bytes, Exchange
from blocklearn.learner.engines.lines import LINE, Lines
from blocklearn.learner.engines.merging import CrewMerger
from blocklearn.matcache import MatCache, from_array
from blocklearn.matcache.merge import add

from .scale_network import shared_seconds

NBYTES = 4 * LINE


@dataclass(frozen=True)
class Local:
    """Seconds of the loops of a merge for one line, by one thread, on this machine.

    every: all loops of a merge in which all numbers travel, of four workers.
    """

    digest: float
    take: float
    put: float
    add: float
    every: float

    @staticmethod
    def measured(lines: int) -> Local:
        """Time each on `lines` lines."""
        array = np.random.default_rng(0).normal(size=lines * LINE).astype(np.float32)
        own, ids = Lines([array]), np.arange(0, lines, 2)
        part, total = own.take(ids), np.zeros(array.size)
        return Local(
            seconds(own.digests) / lines,
            seconds(lambda: own.take(ids)) / ids.size,
            seconds(lambda: own.put(ids, part)) / ids.size,
            seconds(lambda: add(array, total)) / lines,
            per_line_of_all(lines),
        )


class Silent(Exchange):
    """The connection of a worker of four, whose others give zeros at once."""

    def __init__(self) -> None:
        super().__init__(0, 4)

    def _swap(self, parts: list[Bytes], failed: bool) -> tuple[list[bool], list[Bytes]]:
        return [False] * self.size, [np.zeros(parts[0].size, np.uint8) for _ in parts]

    def close(self) -> None:
        """Do nothing."""


def per_line_of_all(lines: int) -> float:
    """Return the seconds of all loops for a line, if all numbers travel."""
    mat = from_array(MatCache(threads=1), np.ones((lines, LINE), np.float32), "x")
    merger = CrewMerger(Crew(Silent()))
    return seconds(lambda: merger.merge([("mean", [mat])], 0.5)) / lines


@dataclass(frozen=True)
class Traffic:
    """Lines of exchanges 3 and 4, of the worker with the most.

    - sent, arriving: to their owners, and there. back_out, back_in: merged lines.
    """

    sent: int
    arriving: int
    back_out: int
    back_in: int

    @staticmethod
    def of(lines: int, touched: Sequence[NDArray[np.int64]]) -> Traffic:
        """Count them. touched: lines that differ, by worker."""
        n = len(touched)
        counts, by_owner = np.zeros(lines, np.int32), np.zeros(lines, np.bool_)
        for rank, own in enumerate(touched):
            counts[own] += 1
            by_owner[own[own % n == rank]] = True
        differ = np.flatnonzero(counts)
        owned = np.bincount(differ % n, minlength=n)
        sent = np.array([np.count_nonzero(own % n != rank) for rank, own in enumerate(touched)])
        arriving = np.bincount(differ % n, counts[differ] - by_owner[differ], n)
        lacking = differ[by_owner[differ] & (counts[differ] < n)]  # another gives the old line
        extra = np.bincount(lacking % n, minlength=n)
        most = sent + np.roll(extra, 1), arriving + extra, owned * (n - 1), differ.size - owned
        return Traffic(*(int(part.max()) for part in most))


def merge_seconds(
    lines: int, n: int, traffic: Traffic | None, local: Local, network: Network
) -> float:
    """Return the seconds of a merge of `n` workers. traffic: None if all numbers travel."""
    if traffic is None:
        moved = network.exchange(lines * NBYTES, [n]) + shared_seconds(network, lines * NBYTES, n)
        return moved + lines * local.every
    return (
        network.exchange(8 * lines, best_degrees(n, 8 * lines, network))
        + network.exchange(lines / 4, best_degrees(n, lines / 4, network))
        + busiest(traffic.sent, traffic.arriving, n, network)
        + busiest(traffic.back_out, traffic.back_in, n, network)
        + lines * local.digest
        + traffic.sent * local.take
        + traffic.arriving * (local.put + local.add)
        + traffic.back_in * (local.take + local.put)
    )


def busiest(out: int, into: int, n: int, network: Network) -> float:
    """Return the seconds of the worker that sends or receives the most lines."""
    most = max(out, into) * NBYTES
    degrees = best_degrees(n, most, network)
    more = sum((degree - 1) / degree for degree in degrees) / ((n - 1) / n)
    return sum(degree - 1 for degree in degrees) * network.latency + more * most / network.bandwidth


def seconds(work: Callable[[], Any], rounds: int = 5) -> float:
    """Return the least processor seconds of a call, after a first one."""
    found = []
    for _ in range(rounds + 1):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found[1:])
