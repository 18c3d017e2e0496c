"""Kernels are called from Python by a function of ours."""

import sys
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

from blocklearn.matcache.cpu.compiling.jit import helper, kernel


@kernel()
def seen(whole, short, real, half, line, table, cube, out):
    """Note what a kernel receives, as numbers."""
    out[0], out[1], out[2], out[3] = whole, short, real, half
    out[4], out[5], out[6] = line[1], table[1, 2], cube[1, 0, 1]
    out[7], out[8], out[9] = line.size, table.shape[0] * 10 + table.shape[1], cube.shape[2]


class Pair(NamedTuple):
    line: Any
    number: Any


@kernel()
def scaled(first, by, second, out):
    """Note the parts of records."""
    out[0], out[1], out[2] = first.line[1] * by, first.number, second.line[1, 0]
    out[3], out[4] = second.number, second.line.size


@kernel()
def fails(array):
    if array[0] > 0:
        raise ValueError("too large")


@kernel()
def twice(number):
    return 2 * number


@kernel()
def is_small(number):
    return number < 0


@kernel()
def only(point, out):
    out[0] = point[()]


@helper()
def more(number):
    return number + 1


@kernel(keeps_lock=True)
def locked(number):
    return more(2 * number)


ARGUMENTS = [
    -(2**62),
    np.int32(-7),
    0.1,
    np.float32(0.3),
    np.arange(4, dtype=np.int32),
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.arange(24, dtype=np.uint8).reshape(2, 3, 4)[:, :, ::2],
]


def test_every_kind_of_argument_arrives() -> None:
    out = np.zeros(10)
    seen(*ARGUMENTS, out)
    right = [-(2.0**62), -7, 0.1, float(np.float32(0.3)), 1, 6, 14, 4, 34, 2]
    np.testing.assert_array_equal(out, right)


def records() -> tuple[Pair, float, Pair]:
    line = np.arange(4, dtype=np.int32)
    return Pair(line, 0.25), 3.0, Pair(np.arange(6, dtype=np.float32).reshape(3, 2), -7)


def test_the_parts_of_records_arrive() -> None:
    out = np.zeros(5)
    scaled(*records(), out)
    np.testing.assert_array_equal(out, [3, 0.25, 2, -7, 6])


def test_references_are_counted() -> None:
    out = np.zeros(10)
    seen(*ARGUMENTS, out)
    first, by, second = records()
    watched = (*ARGUMENTS, *first, first, *second, second, out, None)
    before = [sys.getrefcount(one) for one in watched]
    for _ in range(50):
        seen(*ARGUMENTS, out)
        scaled(first, by, second, out)
    after = [sys.getrefcount(one) for one in watched]
    assert all(abs(a - b) < 20 for a, b in zip(after, before, strict=True))


def test_wrong_arguments_are_errors() -> None:
    out = np.zeros(10)
    seen(*ARGUMENTS, out)
    (found,) = seen.overloads.values()
    for wrong in ([], [*ARGUMENTS], ["x", *ARGUMENTS[1:], out], [*ARGUMENTS, [0.0]]):
        with pytest.raises(TypeError):
            found.entry_point(*wrong)
    first, by, second = records()
    scaled(first, by, second, out)
    (found,) = scaled.overloads.values()
    for pair in (Pair([], 0.25), Pair(first.line, "x")):
        with pytest.raises(TypeError):
            found.entry_point(pair, by, second, out)
    for short in ((first.line,), (*first, 1), None):
        with pytest.raises((TypeError, SystemError)):
            found.entry_point(short, by, second, out)


def test_the_only_element_of_an_array_without_axes_is_read() -> None:
    out = np.zeros(1)
    only(np.array(0.375), out)
    assert out[0] == 0.375


def test_a_kernel_that_fails_is_an_error() -> None:
    fails(np.zeros(1))
    with pytest.raises(ValueError, match="too large"):
        fails(np.ones(1))


def test_a_kernel_with_a_result_returns_it() -> None:
    assert twice(21) == 42
    assert twice(-(2**40)) == -(2**41)
    assert twice(0.375) == 0.75
    assert is_small(-1.0) is True and is_small(1.0) is False
    before = sys.getrefcount(True)
    for _ in range(50):
        is_small(-1.0)
    assert abs(sys.getrefcount(True) - before) < 20


def test_a_kernel_may_keep_the_lock() -> None:
    assert locked(21) == 43


def test_a_helper_needs_no_code_of_its_own() -> None:
    more.compile((numba.int64,))
    found = more.overloads[(numba.int64,)]
    with global_compiler_lock:  # nothing may have linked the helper yet
        assert found.library.get_pointer_to_function(found.fndesc.llvm_func_name) == 0
