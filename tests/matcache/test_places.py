"""Kernels whose indexes are places: the same numbers, without asking which index is negative."""

# Numba infers the types of the kernel.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from blocklearn.matcache.cpu import jit


def move(places, table, found):
    """Read and write elements by one index and two; count from the end by constants."""
    for i in range(places.size):
        found[places[i]] += table[places[i], places[-1]]
    found[-1] = table[3, 1]


MOVES = jit.kernel(places=True)(move)
TYPES = (numba.int32[::1], numba.float64[:, ::1], numba.float64[::1])


def test_single_constants_count_from_the_end_and_other_indexes_are_places() -> None:
    table, found = np.arange(12.0).reshape(4, 3), np.zeros(5)
    MOVES(np.array([0, 3, 1], np.int32), table, found)
    np.testing.assert_array_equal(found, [1, 4, 0, 10, 10])


def test_only_constants_are_asked_for_their_sign() -> None:
    asked = {}
    for places in (True, False):
        compiled: Any = jit.helper(places=places)(move)
        compiled.compile(TYPES)
        (text,) = (one.library.get_llvm_str() for one in compiled.overloads.values())
        asked[places] = text.count("icmp slt")
    assert asked[True] == 1 < asked[False]
