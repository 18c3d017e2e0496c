"""Elements of arrays in kernels, and kernels whose indexes are places: they ask for no sign."""

# Numba infers the types of the kernel.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from blocklearn.matcache.cpu.compiling import jit


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


def turn(cube, flags, back, unsigned):
    """Read and write elements of three axes, in any layout, by indexes of either sign."""
    for i in range(cube.shape[0]):
        for j in range(cube.shape[1]):
            if flags[i, j - 1]:
                cube[i, j, back - j] += cube[unsigned, -1, j]
                flags[i, j - 1] = cube[0, 0, 0] > 1


def test_indexes_count_from_the_end_in_arrays_of_any_layout() -> None:
    """The kernel finds what its text finds in Python."""
    compiled: Any = jit.kernel()(turn)
    numbers = np.arange(48.0).reshape(4, 3, 4) / 8
    cubes = numbers.copy(), np.asfortranarray(numbers), np.repeat(numbers, 2, 0)[::2]
    flags = np.arange(12).reshape(4, 3) % 5 != 0
    wanted, known = numbers.copy(), flags.copy()
    turn(wanted, known, -1, np.uint32(2))
    for cube in cubes:
        found = flags.copy()
        compiled(cube, found, -1, np.uint32(2))
        np.testing.assert_array_equal(cube, wanted)
        np.testing.assert_array_equal(found, known)
    assert not np.array_equal(known, flags)
