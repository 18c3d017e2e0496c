"""Sums that do not depend on the order of their terms, and what full passes make of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.matcache import (
    ExactSum,
    MatCache,
    ShapeError,
    add_wide_product,
    fits,
    from_array,
    from_sparse,
    grid_for,
    named,
)
from blocklearn.models import GLM
from blocklearn.optimizers import LBFGS, ConjugateGradient, Optimizer
from blocklearn.optimizers import pass_sums as module
from tests.support.often import rarely

Array = np.ndarray[Any, Any]


def exact_sum(cache: MatCache, rows: int, columns: int, size: float) -> ExactSum:
    grid = from_array(cache, np.full((1, columns), grid_for(size), np.float64))
    total = named(cache, "total", (rows, columns), np.float64)
    return ExactSum(total, grid, named(cache, "largest", (1, columns), np.float64))


def product(
    X: sp.csr_array, R: Array, blocks: list[Array], threads: int, weights: Array | None = None
) -> tuple[Array, Array]:
    """X.T @ (R * weights) over the rows of each block in turn, and the largest terms."""
    largest = np.abs(X.toarray().astype(float)[:, :, None] * R[:, None, :]).max(initial=1e-9)
    with MatCache(threads=threads) as cache:
        found = exact_sum(cache, X.shape[1], R.shape[1], len(R) * largest)
        for rows in blocks:
            factors = None if weights is None else from_array(cache, weights[rows])
            found.add_product(from_sparse(cache, X[rows]), from_array(cache, R[rows]), factors)
        return found.total.numpy(), found.largest.numpy()


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 30), st.integers(1, 6), st.integers(1, 5), st.floats(0.0, 1.0),
    st.integers(-20, 20), st.integers(0, 10**6),
)  # fmt: skip
def test_products_in_any_order(
    n: int, features: int, k: int, density: float, scale: int, seed: int
) -> None:
    """Any order and cut of the rows, and any number of threads; terms of very different sizes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features)) * (rng.random((n, features)) < density) * 2.0**scale
    X = sp.csr_array((X * 10.0 ** rng.integers(-6, 6, size=(n, 1))).astype(np.float32))
    R = rng.normal(size=(n, k)).astype(np.float32)
    once, largest = product(X, R, [np.arange(n)], 1)
    order = rng.permutation(n)
    again, same = product(X, R, np.array_split(order, min(3, n)), 2)
    np.testing.assert_array_equal(once, again)
    np.testing.assert_array_equal(largest, same)
    dense = X.toarray().astype(float)
    for c in range(features):
        for j in range(k):
            terms = dense[:, c] * R[:, j].astype(float)
            bound = np.abs(dense[:, :, None] * R[:, None, :]).max(initial=1e-9)
            assert abs(once[c, j] - math.fsum(terms)) <= n * n * bound * 2.0**-51
            assert largest[0, j] >= np.abs(terms).max(initial=0.0)


def test_columns_in_any_order() -> None:
    rng = np.random.default_rng(0)
    table = (rng.normal(size=(1000, 3)) * 10.0 ** rng.integers(-8, 3, (1000, 1))).astype(np.float32)
    found = []
    for order in (np.arange(1000), rng.permutation(1000)):
        with MatCache() as cache:
            one = exact_sum(cache, 1, 3, 1000 * np.abs(table).max())
            for rows in np.array_split(order, 7):
                one.add_columns(from_array(cache, table[rows]))
            found.append(one.total.numpy())
            assert one.largest.numpy().tolist() == np.abs(table.astype(float)).max(0)[None].tolist()
    np.testing.assert_array_equal(found[0], found[1])
    expected = [math.fsum(column) for column in table.T.astype(float)]
    np.testing.assert_allclose(found[0][0], expected, rtol=1e-7)
    assert not np.array_equal(
        np.cumsum(table.astype(float), axis=0)[-1], np.cumsum(table[::-1].astype(float), axis=0)[-1]
    )  # plain sums do depend on it


def test_a_weight_is_as_good_as_rows_that_repeat() -> None:
    """Of numbers of few digits, which no grid cuts off, to the last bit; 0 is an absent row."""
    rng = np.random.default_rng(3)
    X = sp.random_array((40, 9), density=0.4, rng=rng, format="csr", dtype=np.float32)
    X.data = np.ceil(64.0 * X.data) / 64.0
    R = (np.round(64.0 * rng.normal(size=(40, 3))) / 64.0).astype(np.float32)
    weights = rng.integers(0, 6, (40, 1)).astype(np.float32)
    rows = np.repeat(np.arange(40), weights[:, 0].astype(int))
    once, largest = product(X, R, [np.arange(20), np.arange(20, 40)], 2, weights)
    again, _ = product(X[rows], R[rows], [np.arange(len(rows))], 1)
    np.testing.assert_array_equal(once, again)
    terms = (X.toarray().astype(float)[:, :, None] * R[:, None]) * weights[:, :, None]
    np.testing.assert_array_equal(largest, np.abs(terms).max(axis=(0, 1))[None])
    sums = []
    for table, factors in ((R[rows], None), (R, weights)):
        with MatCache() as cache:
            one = exact_sum(cache, 1, 3, 1000.0)
            one.add_columns(
                from_array(cache, table), None if factors is None else from_array(cache, factors)
            )
            sums.append(one.total.numpy())
    np.testing.assert_array_equal(*sums)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (130, 1), (300, 7)])
def test_sums_of_dense_products_in_float64(n: int, k: int) -> None:
    """Far better than float32 can say, the same at any number of threads."""
    rng = np.random.default_rng(n)
    X, R = (rng.normal(size=(50, m)).astype(np.float32) for m in (n, k))
    weights = rng.random((50, 1)).astype(np.float32)
    found = []
    for threads in (1, 3):
        with MatCache(threads=threads) as cache:
            total = named(cache, "total", (n, k), np.float64)
            total <<= 1.0
            mats = [from_array(cache, array) for array in (X, R, weights)]
            for _ in range(2):
                add_wide_product(total, *mats)
            found.append(total.numpy())
            with pytest.raises(ShapeError, match="weights are"):
                add_wide_product(total, *mats[:2], from_array(cache, weights[1:]))
    np.testing.assert_array_equal(*found)
    expected = 1.0 + 2.0 * X.astype(float).T @ (R.astype(float) * weights)
    np.testing.assert_allclose(found[0], expected, rtol=1e-13, atol=1e-13)


def test_grids() -> None:
    for size in (1e-300, 0.3, 1.0, 2.0**20, 1e200):
        grid = grid_for(size)
        assert fits(grid, size) and not fits(grid, 2.1 * size)
        assert (size + grid) - grid == pytest.approx(size, rel=2.0**-50)


def test_shapes_that_do_not_fit_are_named() -> None:
    with MatCache() as cache:
        one = exact_sum(cache, 4, 2, 1.0)
        X = from_sparse(cache, sp.csr_array(np.eye(4, dtype=np.float32)))
        with pytest.raises(ShapeError, match="4 x 3"):
            one.add_product(X, from_array(cache, np.ones((4, 3), np.float32)))
        with pytest.raises(ShapeError, match="sparse with 5 rows"):
            one.add_product(X, from_array(cache, np.ones((5, 2), np.float32)))
        with pytest.raises(ShapeError, match="1 x 2"):
            one.add_columns(from_array(cache, np.ones((5, 2), np.float32)))
        narrow = from_array(cache, np.ones((1, 1)))
        for wrong in (
            ExactSum(one.total, narrow, one.largest),
            ExactSum(one.total, one.grid, narrow),
        ):
            with pytest.raises(ShapeError, match=r"both must be \(1, 2\), a number per column"):
                wrong.add_product(X, from_array(cache, np.ones((4, 2), np.float32)))
        with pytest.raises(ShapeError, match="the table float64; both must be float32"):
            one.add_product(X, from_array(cache, np.ones((4, 2))))
        for bad in (np.ones((4, 2), np.float32), np.ones((4, 1))):
            table = from_array(cache, np.ones((4, 2), np.float32))
            with pytest.raises(ShapeError, match=r"must be float32 \(4, 1\)"):
                one.add_product(X, table, from_array(cache, bad))
        grid = from_array(cache, np.ones((1, 2), np.float32))
        with pytest.raises(ShapeError, match="grid float32 and largest float64; all must be"):
            ExactSum(one.total, grid, one.largest).add_product(X, one.total)


# ------------------------------------------------------------------ full passes

N, V = 211, 25


def problem(seed: int = 0) -> tuple[sp.csr_array, Array, Array]:
    rng = np.random.default_rng(seed)
    X = sp.random_array((N, V), density=0.3, rng=rng, format="csr", dtype=np.float32)
    scores = X @ rng.normal(size=(V, 3)) + 0.3 * rng.normal(size=(N, 3))
    return X, scores, rng.integers(1, 1000, size=N) / 7.0


def trained(
    model: GLM, X: Any, Y: Array, weights: Array, optimizer: Optimizer, block_rows: int,
    threads: int = 1, shuffle: Any = False, passes: int = 12,
) -> dict[str, Array]:  # fmt: skip
    source = MatrixSource(X, targets=Y, weights=weights, block_rows=block_rows, shuffle=shuffle)
    learner = bl.Learner(model, source, optimizer=optimizer, threads=threads, passes=passes).fit()
    assert learner.progress.allocations_after_warmup == 0
    tensors = learner.state().tensors
    learner.close()
    return tensors


@pytest.mark.parametrize("optimizer", [LBFGS(), ConjugateGradient()], ids=lambda o: o.kind)
@pytest.mark.parametrize("link", ["softmax", *rarely("logistic", "linear", "poisson")])
def test_the_order_of_the_rows_changes_no_bit(link: Any, optimizer: Optimizer) -> None:
    """Nor do blocks or threads, though weights and targets are numbers of all digits."""
    X, scores, weights = problem()
    Y = np.exp(scores) if link == "poisson" else scores
    if link == "logistic":
        Y = (scores > 0).astype(float)
    if link == "softmax":
        Y = np.eye(3)[scores.argmax(axis=1)]
    model = GLM(link=link, l2=1e-3, class_weight=None if link in ("linear", "poisson") else {1: 3})
    first = trained(model, X, Y, weights, optimizer, N)
    assert np.isfinite(first["W"]).all() and np.abs(first["W"]).max() > 0.05
    order = np.random.default_rng(1).permutation(N)
    for other in (
        trained(model, X[order], Y[order], weights[order], optimizer, N),
        trained(model, X[order], Y[order], weights[order], optimizer, 20, threads=3),
        trained(model, X, Y, weights, optimizer, 64, shuffle=True),
    ):
        for name, tensor in first.items():
            np.testing.assert_array_equal(tensor, other[name], err_msg=name)


def test_replicas_add_up_to_the_same_bits() -> None:
    X, scores, weights = problem()
    source = MatrixSource(X, targets=scores > 0, weights=weights, block_rows=16)
    found = []
    for replicas in (1, 3):
        learner = bl.Learner(
            GLM(l2=1e-3), source, optimizer=LBFGS(), threads=3, passes=6, replicas=replicas
        ).fit()
        found.append(learner.state().tensors)
        learner.close()
    np.testing.assert_array_equal(found[0]["W"], found[1]["W"])


@pytest.mark.parametrize("first", [2.0**-40, 2.0**60])
def test_a_pass_on_a_grid_that_does_not_suit_is_repeated(first: float, monkeypatch: Any) -> None:
    """Too small, sums would not be exact; too large, terms would be cut off."""
    X, scores, weights = problem()
    model = GLM(link="linear", l2=1e-3)
    settings: dict[str, Any] = {"optimizer": LBFGS(), "block_rows": 50}
    suits = trained(model, X, scores, weights, passes=7, **settings)
    monkeypatch.setattr(module, "FIRST", first)
    repeated = trained(model, X, scores, weights, passes=8, **settings)
    np.testing.assert_allclose(suits["W"], repeated["W"], rtol=1e-4, atol=1e-5)
    short = trained(model, X, scores, weights, passes=7, **settings)
    assert np.abs(short["W"] - suits["W"]).max() > 1e-3  # one pass did not count
    order = np.random.default_rng(1).permutation(N)
    again = trained(
        model, X[order], scores[order], weights[order], LBFGS(), 30, threads=2, passes=8
    )
    np.testing.assert_array_equal(again["W"], repeated["W"])
