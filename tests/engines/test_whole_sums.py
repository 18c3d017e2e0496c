"""Sums over rows that several workers own have the bits of one process."""

from __future__ import annotations

import numpy as np
import pytest

from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.engines.whole_sums import column_sums
from blocklearn.matcache import MatCache, colsum, named
from tests.support.workers import results


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("rows", [3, 700, 5_003, 40_000])
def test_sums_of_owned_rows_are_those_of_one_process(workers: int, rows: int) -> None:
    """Of one chunk, of several, and of as many as there are at most; in another order they differ.

    A worker may own no row, and a chunk may be missing in the last round.
    """
    rng = np.random.default_rng(0)
    table = (rng.normal(size=(rows, 3)) * np.exp(8 * rng.normal(size=(rows, 1)))).astype(np.float32)
    mat = named(MatCache(threads=2), "table", table.shape)
    mat.set(table)
    expected = [colsum(mat).mat().numpy(), colsum(mat * mat).mat().numpy()]

    def work(own: Exchange) -> list[bytes]:
        mine = table[own.rank :: workers]
        both = [lambda rows: rows, lambda rows: rows * rows]
        return [column_sums(Crew(own), own.exchange, mine, rows, terms).tobytes() for terms in both]

    assert results(workers, work) == [[each.tobytes() for each in expected]] * workers
    np.testing.assert_allclose(expected[0][0], table.sum(axis=0, dtype=np.float64), rtol=1e-5)


def test_sums_that_differ_in_order_are_told_apart() -> None:
    """So the test above could fail: its numbers have other sums in another order."""
    table = np.array([[1.0], [2.0**60], [-(2.0**60)]], np.float32)
    found = [
        column_sums(Crew(), lambda parts: list(parts), each, 3, lambda rows: rows).item()
        for each in (table, table[::-1].copy())
    ]
    assert found == [0.0, 1.0]
