"""Exchange in layers of few partners each, nested by degrees.

Zhao, Canny 2014, "Kylix: A Sparse Allreduce for Commodity Clusters", without adding on the way: a
sum must have the order of the replicas, so parts travel as they are. With degrees 8 x 8, each of 64
workers sends 14 messages and not 63, and every byte twice: it pays where messages are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .exchange import Bytes, Exchange

HEAD = 3  # numbers that describe a part: who gave it, to whom, and its bytes


class Nested:
    """An exchange through layers; layer l has groups of `degrees[l]` workers.

    degrees: their product is the number of workers.

    The workers of a group differ in one digit of their rank, written in these bases. Raises
    `ValueError` if the product is another.
    """

    def __init__(self, exchange: Exchange, degrees: Sequence[int]) -> None:
        if prod(degrees) != exchange.size:
            raise ValueError(f"degrees={list(degrees)}: their product must be {exchange.size}")
        self._exchange, self._degrees = exchange, list(degrees)

    def exchange(
        self, parts: Sequence[NDArray[Any]], into: NDArray[Any] | None = None
    ) -> list[NDArray[Any]]:
        """Give `parts[i]` to worker i, and return what each gave to this one, as `Exchange` does.

        All arrays have one dtype, which all workers use in this call. into: see there.
        """
        own, dtype = self._exchange, parts[0].dtype
        held = {
            (own.rank, to): np.ascontiguousarray(part).reshape(-1).view(np.uint8)
            for to, part in enumerate(parts)
        }
        stride = own.size
        for degree in self._degrees:
            stride //= degree
            held = self._layer(held, degree, stride)
        found = [held[by, own.rank].view(dtype) for by in range(own.size)]
        if into is not None:
            np.concatenate(found, out=into)
        return found

    def _layer(
        self, held: dict[tuple[int, int], Bytes], degree: int, stride: int
    ) -> dict[tuple[int, int], Bytes]:
        """Move each part to the worker of the group that has the same digit as its goal."""
        own = self._exchange
        given = [np.empty(0, np.uint8)] * own.size
        first = own.rank - own.rank // stride % degree * stride  # the worker with digit 0
        for digit in range(degree):
            some = {key: part for key, part in held.items() if key[1] // stride % degree == digit}
            given[first + digit * stride] = _packed(some)
        found: dict[tuple[int, int], Bytes] = {}
        for part in own.exchange(given):
            found |= _unpacked(part)
        return found


def _packed(parts: dict[tuple[int, int], Bytes]) -> Bytes:
    heads = [[by, to, part.size] for (by, to), part in parts.items()]
    numbers = np.array([len(heads), *np.ravel(heads)], np.int64)
    return np.concatenate([numbers.view(np.uint8), *(_whole(part) for part in parts.values())])


def _whole(part: Bytes) -> Bytes:
    """Fill up to whole words, so that each part begins where any dtype may."""
    return np.concatenate([part, np.zeros(-part.size % 8, np.uint8)])


def _unpacked(message: Bytes) -> dict[tuple[int, int], Bytes]:
    if not message.size:
        return {}
    count = int(message[:8].view(np.int64)[0])
    place = 8 * (1 + HEAD * count)
    found = {}
    for by, to, size in message[8:place].view(np.int64).reshape(count, HEAD).tolist():
        found[by, to] = message[place : place + size].copy()
        place += size + -size % 8
    return found
