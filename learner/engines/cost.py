"""Predict the seconds of a merge from sizes, and choose how to exchange.

All workers compute from the same numbers, so they choose the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

DIGEST = 8  # bytes


@dataclass(frozen=True)
class Network:
    """What connects the workers. latency: seconds of a message. bandwidth: bytes a second."""

    latency: float = 5e-5
    bandwidth: float = 1.25e9

    def exchange(self, nbytes: float, degrees: Sequence[int]) -> float:
        """Return the seconds in which each worker sends `nbytes` in all, to all others.

        degrees: of the layers, see `Nested`.
        """
        sent = sum((degree - 1) / degree for degree in degrees) * nbytes
        return sum(degree - 1 for degree in degrees) * self.latency + sent / self.bandwidth


ASSUMED = Network()
"""10 Gb/s and 50 microseconds: what is assumed where nothing is measured."""


@dataclass(frozen=True)
class Sizes:
    """What is merged.

    - workers: number of them.
    - lines: of all numbers, see `Lines`. line_bytes: of each.
    - touched: lines in which one worker differs from the others, at most.
    - union: lines in which any does, at most.
    """

    workers: int
    lines: int
    line_bytes: int
    touched: float
    union: float

    @property
    def dense_bytes(self) -> float:
        """The bytes of all numbers: each worker sends about as many twice."""
        return self.lines * self.line_bytes

    @property
    def sparse_bytes(self) -> tuple[float, float, float, float]:
        """The bytes of the four exchanges of a sparse merge, that a worker sends."""
        wishes = 2 * self.lines / 8
        to_owners = (self.touched + self.union / self.workers) * self.line_bytes
        return self.lines * DIGEST, wishes, to_owners, self.union * self.line_bytes


@dataclass(frozen=True)
class NeededSizes:
    """What is merged where workers fetch the rows that their blocks need: see `NeededRows`.

    - workers: number of them.
    - rounds: blocks of each from one merge to the next.
    - touched: rows of a worker's blocks in these, at most.
    - row_bytes: of a row of all tables.
    """

    workers: int
    rounds: int
    touched: float
    row_bytes: int


ID = 4  # bytes


def dense_seconds(sizes: Sizes, network: Network = ASSUMED) -> float:
    """Return the seconds of a merge in which every number travels."""
    one = [sizes.workers]
    return 2 * network.exchange(sizes.dense_bytes, one)


def sparse_seconds(sizes: Sizes, network: Network = ASSUMED) -> float:
    """Return the seconds of a merge in which lines travel that differ."""
    return sum(
        network.exchange(nbytes, best_degrees(sizes.workers, nbytes, network))
        for nbytes in sizes.sparse_bytes
    )


def needed_seconds(needs: NeededSizes, network: Network = ASSUMED) -> float:
    """Return the seconds from one merge to the next in which rows travel that blocks need.

    Each round asks for rows and gets them; a merge gives them to their owners.
    """
    return needs.rounds * fetch_seconds(needs, network) + give_seconds(needs, network)


def fetch_seconds(needs: NeededSizes, network: Network = ASSUMED) -> float:
    """Return the seconds in which rows travel that a block needs, one of the rounds."""
    each = needs.touched / needs.rounds
    return sum(_fastest(needs, nbytes, network) for nbytes in (ID * each, needs.row_bytes * each))


def give_seconds(needs: NeededSizes, network: Network = ASSUMED) -> float:
    """Return the seconds in which the rows of all rounds travel to their owners."""
    return _fastest(needs, needs.row_bytes * needs.touched, network)


def _fastest(needs: NeededSizes, nbytes: float, network: Network) -> float:
    return network.exchange(nbytes, best_degrees(needs.workers, nbytes, network))


def best_degrees(workers: int, nbytes: float, network: Network = ASSUMED) -> tuple[int, ...]:
    """Return the degrees of the fastest exchange of `nbytes` that each worker sends.

    >>> best_degrees(64, 1e3), best_degrees(64, 1e9)
    ((2, 2, 2, 2, 2, 2), (64,))
    """
    return min(degrees_of(workers), key=lambda degrees: network.exchange(nbytes, degrees))


@cache
def degrees_of(workers: int) -> list[tuple[int, ...]]:
    """Return all products of ascending degrees above 1 that give `workers`.

    >>> degrees_of(12)
    [(12,), (2, 6), (3, 4), (2, 2, 3)]
    """
    found: list[tuple[int, ...]] = [(workers,)]
    for first in range(2, int(workers**0.5) + 1):
        if workers % first == 0:
            found += [(first, *rest) for rest in degrees_of(workers // first) if rest[0] >= first]
    assert all(prod(degrees) == workers for degrees in found)
    return sorted(found, key=lambda degrees: (len(degrees), degrees))
