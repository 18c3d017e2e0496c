"""Whether numbers are finite, on the host and on a stand-in of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from blocklearn.matcache.cpu.kernels.finite import all_finite
from blocklearn.matcache.finite import is_finite

FLOATS = st.sampled_from([np.float32, np.float64])


@settings(deadline=None)
@given(
    data=st.data(),
    dtype=FLOATS,
    shape=arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=40),
)
def test_found_wherever_it_is(data: Any, dtype: Any, shape: tuple[int, int]) -> None:
    array = data.draw(
        arrays.arrays(dtype, shape, elements=st.floats(width=32, allow_subnormal=False))
    )
    expected = bool(np.isfinite(array).all())
    assert is_finite(array) == expected
    assert all_finite(array, large=0) == expected
    assert all_finite(array.T, large=0) == expected


def test_large_numbers_are_finite_though_their_sum_is_not() -> None:
    for finite in (is_finite, all_finite, lambda array: all_finite(array, large=0)):
        assert finite(np.full((1000, 1100), -3e38, np.float32))
        assert not finite(np.array([[3e38, 3e38, np.nan]], np.float32))
        assert not finite(np.array([[3e38, -np.inf]], np.float32))
