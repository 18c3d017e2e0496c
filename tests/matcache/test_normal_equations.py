"""Normal equations solved and summed, against numpy.linalg.solve in float64, row by row."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.matcache import (
    MatCache,
    ShapeError,
    add_outer,
    from_array,
    from_sparse,
    packed_columns,
    solve_rows,
    solve_sums,
)
from blocklearn.matcache.operations.normal_equations import MOST
from blocklearn.matcache.operations.packing import groups, packed, padded


class Problem:
    """Random equations: weights on a pattern with empty, short and full rows."""

    def __init__(
        self, n: int, m: int, k: int, seed: int, *, gram: bool, masked: bool, scaled: bool = False
    ) -> None:
        rng = np.random.default_rng(seed)
        shares = rng.choice([0.0, 0.1, 0.5, 1.0], size=(n, 1))
        W = np.where(rng.random((n, m)) < shares, rng.uniform(0.0, 3.0, (n, m)), 0.0)
        self.W = sp.csr_array(W.astype(np.float32))
        self.table = rng.normal(size=(m, k)).astype(np.float32)
        self.rows = rng.normal(size=(n, k)).astype(np.float32)
        self.ridge = rng.uniform(0.5, 2.0, (n, 1)).astype(np.float32)
        self.rhs = rng.normal(size=(n, k)).astype(np.float32)
        self.gram = self.table.T @ self.table if gram else None
        self.free: Any = None
        if masked:
            self.free = (rng.random((1, k)) < 0.7).astype(np.float32)
        self.diagonal: Any = None
        if scaled:
            scale = (rng.random((1, k)) < 0.7).astype(np.float32)
            self.diagonal = scale, (1.0 - scale) * rng.uniform(0.5, 2.0, (1, k)).astype(np.float32)

    def matrix(self, i: int) -> Any:
        row = self.W[[i]].tocoo()
        V = self.table[row.col].astype(np.float64)
        scale, shift = self.diagonal or (np.ones((1, V.shape[1])), 0.0)
        A = (V.T * row.data) @ V + np.diagflat(self.ridge[i] * scale + shift)
        return A if self.gram is None else A + self.gram

    def solve(self, A: Any, b: Any) -> Any:
        if self.free is None:
            return np.linalg.solve(A, b)
        free, x = self.free[0] > 0, b.astype(np.float64)
        rest = b[free] - A[np.ix_(free, ~free)] @ b[~free]
        x[free] = np.linalg.solve(A[np.ix_(free, free)], rest)
        return x

    def wanted(self) -> Any:
        return np.array([self.solve(self.matrix(i), b) for i, b in enumerate(self.rhs)])

    def mats(self, cache: MatCache) -> tuple[Any, ...]:
        W = from_sparse(cache, self.W)
        return W, *(from_array(cache, a) for a in (self.table, self.ridge, self.rhs))

    def options(self, cache: MatCache) -> dict[str, Any]:
        both = {"gram": self.gram, "free": self.free}
        found: dict[str, Any] = {n: from_array(cache, a) for n, a in both.items() if a is not None}
        if self.diagonal is not None:
            found["diagonal"] = tuple(from_array(cache, a) for a in self.diagonal)
        return found


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 40),
    m=st.integers(1, 30),
    k=st.sampled_from([1, 2, 3, 7, 15, 16, 17, 18]),
    seed=st.integers(0, 10**6),
    kind=st.fixed_dictionaries({n: st.booleans() for n in ("gram", "masked", "scaled")}),
)
def test_rows_are_solved(n: int, m: int, k: int, seed: int, kind: dict[str, bool]) -> None:
    problem = Problem(n, m, k, seed, **kind)
    with MatCache(threads=2) as cache:
        got = solve_rows(*problem.mats(cache), **problem.options(cache)).numpy()
    wanted = problem.wanted()
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("k", [10, 66])
def test_sums_over_blocks_are_solved(k: int) -> None:
    """The rows of several blocks, added up by column, are the equations of the columns."""
    problem = Problem(90, 40, k, 3, gram=True, masked=True, scaled=True)
    columns = Problem(40, 90, k, 3, gram=True, masked=True, scaled=True)
    columns.W, columns.table, columns.gram = problem.W.T.tocsr(), problem.rows, problem.gram
    with MatCache(threads=2) as cache:
        sums = from_array(cache, np.zeros((40, packed_columns(k)), np.float32))
        for start in range(0, 90, 32):
            part = slice(start, start + 32)
            W = from_sparse(cache, problem.W[part])
            add_outer(sums, W, from_array(cache, problem.rows[part]))
        mats = [from_array(cache, a) for a in (columns.ridge, columns.rhs)]
        got = solve_sums(sums, *mats, **columns.options(cache)).numpy()
        assert np.array_equal(solve_sums(sums, *mats, **columns.options(cache)).numpy(), got)
    wanted = columns.wanted()
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


def test_the_number_of_threads_does_not_matter() -> None:
    problem = Problem(300, 50, 17, 1, gram=False, masked=True)
    found = []
    for threads in (1, 2, 5):
        with MatCache(threads=threads) as cache:
            found.append(solve_rows(*problem.mats(cache), **problem.options(cache)).numpy())
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_many_entries_are_summed_precisely() -> None:
    """An item that 10^5 users rated: float32 sums against float64 ones."""
    rng = np.random.default_rng(0)
    n, k = 100_000, 18
    table = rng.uniform(0.0, 1.0, (n, k)).astype(np.float32)  # one sign: errors do not cancel
    b = (table.astype(np.float64) @ rng.normal(size=k))[None] @ table
    A = table.T.astype(np.float64) @ table + 10.0 * np.eye(k)
    with MatCache(threads=1) as cache:
        W = from_sparse(cache, sp.csr_array(np.ones((1, n), np.float32)))
        ridge, rhs = np.full((1, 1), 10.0, np.float32), b.astype(np.float32)
        mats = [from_array(cache, a) for a in (table, ridge, rhs)]
        got = solve_rows(W, *mats).numpy()
    wanted = np.linalg.solve(A, b[0])
    np.testing.assert_allclose(got[0], wanted, atol=1e-3 * np.abs(wanted).max())


def test_what_is_singular_to_float32_stays_finite() -> None:
    """Equal columns and no ridge worth the name."""
    table = np.repeat(np.arange(1.0, 6.0, dtype=np.float32)[:, None], 4, axis=1)
    with MatCache(threads=1) as cache:
        W = from_sparse(cache, sp.csr_array(np.ones((3, 5), np.float32)))
        mats = (table, np.full((3, 1), 1e-20, np.float32), np.full((3, 4), 55.0, np.float32))
        got = solve_rows(W, *(from_array(cache, a) for a in mats)).numpy()
    np.testing.assert_allclose(got.sum(axis=1), 1.0, rtol=1e-3)  # 55 (x1 + .. + x4) = 55
    assert np.abs(got).max() < 1e3


def test_nothing_is_allocated_again_and_nothing_computed_twice() -> None:
    problem = Problem(30, 20, 9, 0, gram=True, masked=True)
    with MatCache(threads=2) as cache:
        mats, options = problem.mats(cache), problem.options(cache)
        first = solve_rows(*mats, **options).numpy()
        cache.freeze()
        before = cache.stats()
        assert np.array_equal(solve_rows(*mats, **options).numpy(), first)
        after = cache.stats()
        assert (after.allocations, after.flops) == (before.allocations, before.flops)
        mats[-1].set(2.0 * problem.rhs)
        np.testing.assert_allclose(solve_rows(*mats, **options).numpy()[:, :1], 2 * first[:, :1])
        assert cache.stats().allocations == before.allocations


def test_shapes_are_checked() -> None:
    problem = Problem(6, 5, 3, 0, gram=False, masked=False)
    with MatCache(threads=1) as cache:
        W, table, ridge, rhs = problem.mats(cache)
        with pytest.raises(ShapeError, match=r"rhs is 6 x 1 float32; expected 6 x 3"):
            solve_rows(W, table, ridge, ridge)
        wide = from_array(cache, np.zeros((5, MOST + 1), np.float32))
        with pytest.raises(ShapeError, match=f"unknowns={MOST + 1}: must be 1 to {MOST}"):
            solve_rows(W, wide, ridge, rhs)
        with pytest.raises(ShapeError, match="sums is 5 x 3 float32; expected 5 x"):
            add_outer(table, W, rhs)
        with pytest.raises(ShapeError, match="is float64; must be float32"):
            solve_rows(from_sparse(cache, problem.W.astype(np.float64)), table, ridge, rhs)


@pytest.mark.parametrize("k", [1, 16, 17, 66, 130])
def test_packed_matrices_hold_the_upper_half(k: int) -> None:
    found = groups(k)
    assert found[0].first == 0 and found[-1].end == k
    assert all(a.end == b.first for a, b in itertools.pairwise(found))
    assert all(group.first + group.width == padded(k) for group in found)
    assert k * (k + 1) // 2 <= packed(k) <= (k + 16) * (k + 32) // 2
