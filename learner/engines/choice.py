"""Choose between exchanging all numbers and those that differ, from sizes and earlier merges."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cost import Sizes, best_degrees, dense_seconds, sparse_seconds
from .exchange import Exchange
from .lines import LINE
from .nested import Nested
from .sparse_merging import Differing, Swap

FEW = 2**20
"""Numbers below which all are exchanged: more exchanges cost more than they save."""

MANY = 16
"""Workers from which on layers may pay: each layer is an exchange of its own."""

PATIENT = 31
"""Merges of all numbers after one whose replicas differed too much, before it is tried again."""


class Choice:
    """What a worker remembers of earlier merges. All workers remember the same."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._dense: dict[Hashable, int] = {}  # merges of all numbers that are left

    def sparse(self, key: Hashable, arrays: Sequence[NDArray[Any]]) -> bool:
        """Return whether to compare lines first. key: of what is merged together."""
        if sum(array.size for array in arrays) < FEW:
            return False
        left = self._dense.get(key, 0)
        self._dense[key] = max(0, left - 1)
        return left == 0

    def note(self, key: Hashable, found: Differing) -> None:
        """Note how many lines differed: if too many, the next merges exchange all numbers."""
        lines, union = found.differ.size, int(np.count_nonzero(found.differ))
        sizes = Sizes(self._exchange.size, lines, 4 * LINE, union, union)
        if sparse_seconds(sizes) > dense_seconds(sizes):
            self._dense[key] = PATIENT

    def swap(self, nbytes: int) -> Swap:
        """Return the exchange for so many bytes of each worker: in one layer or in several."""
        exchange = self._exchange
        if not exchange.by_pairs or exchange.size < MANY:
            return exchange.exchange
        degrees = best_degrees(exchange.size, nbytes)
        return exchange.exchange if len(degrees) == 1 else Nested(exchange, degrees).exchange
