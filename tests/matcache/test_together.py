"""Several results of one pass: float64 references, bits of separate kernels, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.matcache import (
    MatCache,
    ShapeError,
    StaleValueError,
    colmax,
    colsum,
    copy,
    exp,
    from_array,
    from_sparse,
    maximum,
    named,
    together,
    total,
)

SHAPES = {
    np.float32: [(700, 1), (7, 6), (2100, 6), (300, 270)],
    np.float64: [(1, 1), (1, 5), (300, 270)],
}


def matrix(cache: MatCache, shape: tuple[int, int], seed: int = 0, dtype: Any = np.float32) -> Any:
    return from_array(cache, np.random.default_rng(seed).normal(size=shape).astype(dtype))


@pytest.mark.parametrize(
    "shape, dtype", [(shape, dtype) for dtype, shapes in SHAPES.items() for shape in shapes]
)
def test_results_match_separate_kernels(
    memory: MatCache, shape: tuple[int, int], dtype: Any
) -> None:
    a, b = (matrix(memory, shape, seed, dtype) for seed in (1, 2))
    row, out = matrix(memory, (1, shape[1]), 3, dtype), named(memory, "out", shape, dtype)
    x, y = a + b, exp(a) * row + b * row
    one, columns, whole, most, same, other, again = together(
        (out, x), (colsum, x), (total, y), (colmax, y), (copy, x), (copy, y), (colsum, y)
    )
    assert one is out
    exact = [np.asarray(z.numpy(), np.float64) for z in (a, b, row)]
    sum_, mixed = exact[0] + exact[1], np.exp(exact[0]) * exact[2] + exact[1] * exact[2]
    wanted = [sum_, sum_.sum(0), mixed.sum(), mixed.max(0), sum_, mixed, mixed.sum(0)]
    for got, right in zip((one, columns, whole, most, same, other, again), wanted, strict=True):
        np.testing.assert_allclose(
            np.squeeze(got.numpy()), np.squeeze(right), rtol=2e-5, atol=3e-4, err_msg=got.label
        )
    if dtype is np.float64:
        return  # colsum(y) alone adds products without rounding them
    alone = (x, colsum(x), None, colmax(y), copy(x), y, colsum(y))
    for got, lone in zip((one, columns, whole, most, same, other, again), alone, strict=True):
        if lone is not None:
            np.testing.assert_array_equal(got.numpy(), lone.numpy())
    assert float(whole) == pytest.approx(float(total(copy(y))), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("shape", [(9000, 3), (40000, 1)])
def test_threads_change_no_bit(shape: tuple[int, int]) -> None:
    found = []
    for threads in (1, 2, 8):
        with MatCache(threads=threads) as cache:
            a, b = matrix(cache, shape, 1), matrix(cache, shape, 2)
            flat = together((copy, a * b), (total, a * b), (total, a + 1.0))
            wide = together((colsum, a * b), (total, a * b))
            found.append([x.numpy().tobytes() for x in (*flat, *wide)])
    assert found[0] == found[1] == found[2]


def test_a_matrix_that_is_read_can_be_assigned(memory: MatCache) -> None:
    a, b = named(memory, "a", (5, 3)), matrix(memory, (5, 3))
    a <<= b
    before = a.numpy()
    old = a * 2.0
    for _ in range(2):
        got, columns = together((a, a + b), (colsum, a - b))
        np.testing.assert_array_equal(got.numpy(), before + b.numpy())
        np.testing.assert_array_equal(a.numpy(), before + b.numpy())
        np.testing.assert_allclose(columns.numpy()[0], (before - b.numpy()).sum(0), atol=1e-6)
        before = a.numpy()
    with pytest.raises(StaleValueError):
        old.numpy()


@pytest.mark.parametrize("shape, dtype", [((700, 1), np.float32), ((300, 7), np.float64)])
def test_results_in_place_have_the_bits_of_others(memory: MatCache, shape: Any, dtype: Any) -> None:
    def new(x: Any) -> Any:
        return from_array(memory, x)

    x, y, z = (matrix(memory, shape, n).numpy().astype(dtype) for n in range(3))
    a, b, c, row = new(x), new(y), new(z), new(x[:1])
    other = copy(exp(a) / (b * b + 1.0) - row * a).numpy()
    turned = copy(maximum(b, a) * c).numpy()
    a <<= exp(a) / (b * b + 1.0) - row * a
    np.testing.assert_array_equal(a.numpy(), other)
    a.set(x)
    together((b, maximum(b, a) * c), (a, exp(a) / (b * b + 1.0) - row * a))
    np.testing.assert_array_equal(a.numpy(), other)
    np.testing.assert_array_equal(b.numpy(), turned)


def test_results_follow_operands_and_take_no_new_memory(memory: MatCache) -> None:
    a = matrix(memory, (6, 4))
    first = together((colsum, a + 1.0), (total, a))
    before = memory.stats().allocations
    a.set(np.ones((6, 4), np.float32))
    again = together((colsum, a + 1.0), (total, a))
    assert memory.stats().allocations == before
    np.testing.assert_array_equal(again[0].numpy(), np.full((1, 4), 12.0))
    assert float(again[1]) == 24.0
    with pytest.raises(StaleValueError):
        first[0].numpy()


class Sums(bl.Model):
    """Sums of exp(X), whose padding rows are not 0."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.sums = self.parameter("sums", 1, shapes.columns)
        self.most = self.parameter("most", 1, shapes.columns, -np.inf)
        self.whole = self.parameter("whole", 1, 1)

    def update(self, block: Any) -> None:
        x = exp(block.X)
        sums, most, whole = together((colsum, x), (colmax, -x), (total, x))
        self.sums <<= self.sums + sums
        self.most <<= maximum(self.most, most)
        self.whole <<= self.whole + whole

    def score(self, block: Any) -> Any:
        return {"mean": bl.Sum(total(block.X), total(block.weights))}

    def predict(self, block: Any) -> Any:
        return copy(block.X).mat()


def test_padding_rows_do_not_count_and_updates_are_repeated() -> None:
    data = np.random.default_rng(0).normal(size=(1037, 3)).astype(np.float32)
    learner = bl.Learner(Sums(), data, passes=1, block_rows=100).fit()
    parameters = {name: mat.numpy() for name, mat in learner.model.parameters.items()}
    np.testing.assert_allclose(parameters["sums"][0], np.exp(data).sum(0), rtol=1e-5)
    np.testing.assert_allclose(parameters["whole"], np.exp(data).sum(), rtol=1e-5)
    np.testing.assert_allclose(parameters["most"][0], -np.exp(data).min(0), rtol=1e-5)


def test_turned_matrices_are_summed_together(memory: MatCache) -> None:
    a = matrix(memory, (5, 3))
    columns, whole = together((colsum, a.T), (total, a.T))
    np.testing.assert_allclose(columns.numpy()[0], a.numpy().sum(axis=1), rtol=1e-6)
    assert float(whole) == pytest.approx(a.numpy().sum(dtype=np.float64), rel=1e-6)


def test_what_cannot_be_computed_together_is_named(memory: MatCache) -> None:
    a, b = matrix(memory, (5, 3)), matrix(memory, (5, 1))
    X = from_sparse(memory, sp.csr_array(np.eye(5, 3, dtype=np.float32)))
    out = named(memory, "out", (3, 5))
    for pairs, fault in (
        ([], "no matrix"),
        ([(total, 1.0)], "no matrix"),
        ([(exp, a)], "exp: must be copy, total, colsum, colmax, or a matrix"),
        ([(total, a), (total, b)], "is 5 x 1; must be dense and 5 x 3"),
        ([(total, a), (total, X)], "must be dense"),
        ([(out, a)], "out is 3 x 5; must be"),
        ([(named(memory, "o", (5, 3)), a)] * 2, "assigned to twice"),
    ):
        with pytest.raises(ShapeError, match=fault):
            together(*pairs)
