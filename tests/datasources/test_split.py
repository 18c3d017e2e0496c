"""split_rows: every row on one side, and it stays there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklearn.datasources import DataError, split_rows
from blocklearn.datasources.holdout.samples import check_parts


@given(st.integers(0, 500), st.floats(0.01, 0.99), st.integers(0, 2**64 - 1))
def test_split_is_a_stable_partition(n: int, share: float, seed: int) -> None:
    train, held = split_rows(n, share, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, held])), np.arange(n))
    longer = split_rows(n + 100, share, seed)[1]
    np.testing.assert_array_equal(longer[longer < n], held)


def test_split_holds_out_the_share_and_depends_on_the_seed() -> None:
    n = 100_000
    held = split_rows(n, 0.05, 1)[1]
    assert abs(held.size / n - 0.05) < 4 * (0.05 * 0.95 / n) ** 0.5  # four standard errors
    both = np.intersect1d(held, split_rows(n, 0.05, 2)[1])
    assert abs(both.size / n - 0.0025) < 4 * (0.0025 / n) ** 0.5
    for wrong in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(DataError, match="share="):
            split_rows(10, wrong)
    with pytest.raises(DataError, match="seed="):
        split_rows(10, 0.5, -1)


@pytest.mark.parametrize(("train", "held", "remedy"), [(4, 0, "larger"), (0, 4, "smaller")])
def test_a_share_that_leaves_a_part_empty(train: int, held: int, remedy: str) -> None:
    with pytest.raises(DataError, match=f"Choose a {remedy} share .in a configuration `data.eval"):
        check_parts(0.5, train, held)
