"""Rows in any order become rows in order, for all lengths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.matcache.cpu.compiling.jit import kernel
from blocklearn.matcache.cpu.kernels.sort_row import sort_numbers, tidy_row


@settings(deadline=None)
@given(size=st.integers(0, 400), most=st.integers(1, 1000), seed=st.integers(0, 99))
def test_sorted_and_summed(size: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, most, size).astype(np.int32)
    values = rng.integers(-4, 5, size).astype(np.float32)  # whose sums are exact
    expected = np.zeros(most)
    np.add.at(expected, indices, values)
    columns = np.unique(indices)
    left = tidy_row(indices, values)
    assert indices[:left].tolist() == columns.tolist()
    assert values[:left].tolist() == expected[columns].tolist()


def test_a_row_in_order_is_left_alone() -> None:
    indices, values = np.array([1, 5, 9], np.int32), np.array([1.0, 0.0, 2.0], np.float32)
    assert tidy_row(indices, values) == 3
    assert indices.tolist() == [1, 5, 9] and values.tolist() == [1, 0, 2]


@kernel()  # type: ignore[untyped-decorator]
def sort(numbers):  # type: ignore[no-untyped-def]
    sort_numbers(numbers)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 40, 1000])
def test_numbers_are_sorted(size: int) -> None:
    numbers = np.random.default_rng(size).integers(0, 100, size).astype(np.int32)
    wanted = np.sort(numbers)
    sort(numbers)
    np.testing.assert_array_equal(numbers, wanted)
