"""Rows in any order become rows in order, for all lengths."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.matcache.cpu.sort_row import tidy_row


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
