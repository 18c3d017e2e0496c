"""What NumPy has too: by axis, by position, joined; on the CPU and on a stand-in of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.matcache import (
    MatCache,
    ShapeError,
    argmax,
    argmin,
    colmax,
    colmin,
    concatenate,
    exp,
    from_array,
    from_sparse,
    grad,
    kernel_text,
    maximum,
    mean,
    named,
    rowmax,
    rowsum,
    rowwise,
    scalar,
)

NAN, INF = np.nan, np.inf
rng = np.random.default_rng(0)
A = rng.integers(-4, 4, (700, 6)).astype(np.float32)  # with many equal entries
A[:4] = [[1, NAN, 3, NAN, 0, 9], [-INF] * 6, [INF, 0, INF, 0, 0, 0], [0, 2, 2, 2, -1, -1]]
X = sp.csr_array(sp.random_array((30, 6), density=0.4, rng=3, dtype=np.float32))
X.data[:] = rng.integers(-2, 3, X.nnz)
X.data[X.indptr[7] : X.indptr[8]] = -1.0


def same(got: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(np.asarray(got), wanted)


def test_the_first_place_of_the_largest_and_smallest_entry(memory: MatCache) -> None:
    a = from_array(memory, A)
    same(argmax(a), A.argmax(axis=1)[:, None])
    same(argmin(a), A.argmin(axis=1)[:, None])
    same(argmax(a[:, 2]), np.zeros((len(A), 1)))
    x = from_sparse(memory, X)
    for got, pick in ((argmax(x), np.argmax), (argmin(x), np.argmin)):
        wanted = [
            row.indices[pick(row.data)] if row.nnz else -1.0
            for row in (X[[i]] for i in range(X.shape[0]))
        ]
        same(got, np.array(wanted)[:, None])


def test_the_places_in_a_rowwise_function_are_those_of_its_reference() -> None:
    def every(x: Any, S: Any) -> Any:
        return argmax(x * 2.0), argmin(S), x.mean(axis=1), x.sum(axis=1) * x.shape[1]

    both = rowwise(every)
    with MatCache(threads=1) as cache:
        got = both(from_array(cache, A[4:34]), from_sparse(cache, X))
        for one, wanted in zip(got, both.reference(A[4:34], X), strict=True):
            np.testing.assert_allclose(one.numpy(), wanted, rtol=1e-6)


def test_numbers_of_columns_are_read_at_the_entries_of_a_row(memory: MatCache) -> None:
    """`table[X]`, also of X.T, whose columns are rows; hostile numbers and empty rows included."""

    @rowwise
    def largest(S: Any, own: Any, numbers: Any) -> Any:
        return S * numbers[S], maximum(own, rowmax(numbers[S]))

    @rowwise
    def spread(ST: Any, numbers: Any, found: Any) -> None:
        numbers <<= maximum(numbers, rowmax(found[ST]))

    of_columns = np.array([[0.5, -INF, 3.0, 0.25, INF, -2.0]], np.float32)
    own = np.full((30, 1), -4.0, np.float32)
    x, numbers = from_sparse(memory, X), named(memory, "numbers", (6, 1))
    numbers.set(of_columns.T)
    scaled, best = largest(x, from_array(memory, own), numbers)
    rows = [X[[i]] for i in range(30)]
    wanted = [of_columns[0, row.indices].max(initial=-4.0) for row in rows]
    same(best, np.array(wanted)[:, None])
    with np.errstate(invalid="ignore"):
        same(rowmax(scaled), [
            [(row.data * of_columns[0, row.indices]).max(initial=-INF)] for row in rows
        ])  # fmt: skip

    numbers.set(of_columns.T)
    spread(x.T, numbers, best)
    columns = [X[:, [j]].nonzero()[0] for j in range(6)]
    found = [max(of_columns[0, j], *np.array(wanted)[c]) for j, c in enumerate(columns)]
    same(numbers, np.array(found, np.float32)[:, None])


def test_numbers_of_columns_are_differentiated() -> None:
    """At the entries of a row, by the table."""

    @rowwise
    def loss(S: Any, numbers: Any) -> Any:
        return (rowsum(S * numbers[S] * numbers[S]) - 1.0) ** 2

    dense, t = X.toarray().astype(np.float64), np.linspace(0.5, 1.5, 6)
    slopes = 2.0 * (dense @ t**2 - 1.0)
    with MatCache(threads=1) as cache:
        got = grad(loss, "numbers")(from_sparse(cache, X), from_array(cache, t[:, None]))
        np.testing.assert_allclose(got.numpy().ravel(), slopes @ dense * 2.0 * t, rtol=1e-5)


def test_only_tables_of_one_column_are_read_at_entries() -> None:
    def program(S: Any, numbers: Any) -> Any:
        return rowsum(numbers[S])

    with MatCache(threads=1) as cache:
        x = from_sparse(cache, X)
        with pytest.raises(ShapeError, match="must have one column; sddmm"):
            rowwise(program)(x, from_array(cache, np.ones((6, 2))))
        with pytest.raises(ShapeError, match="'numbers' is 5 x 1, but there are 6 columns"):
            rowwise(program)(x, from_array(cache, np.ones((5, 1))))
        with pytest.raises(ShapeError, match="a subscript of 'numbers' at .*recorded once"):
            rowwise(lambda S, numbers: rowsum(S) * numbers[0])(
                x, from_array(cache, np.ones((6, 1)))
            )


def test_columns_and_axes(memory: MatCache) -> None:
    a, x = from_array(memory, A), from_sparse(memory, X)
    same(colmax(a), A.max(axis=0)[None])
    same(colmin(a), A.min(axis=0)[None])
    same(colmax(from_array(memory, np.zeros((0, 3)))), np.full((1, 3), -INF))
    b, B = a[4:], A[4:]
    for axis in (0, 1, -1):
        np.testing.assert_allclose(b.sum(axis=axis).numpy().ravel(), B.sum(axis=axis), rtol=1e-6)
        np.testing.assert_allclose(mean(b, axis).numpy().ravel(), B.mean(axis=axis), rtol=1e-5)
    np.testing.assert_allclose(x.mean(axis=1).numpy().ravel(), X.toarray().mean(axis=1), rtol=1e-6)
    assert float(mean(b)) == pytest.approx(B.mean(), rel=1e-5)
    assert float(x.mean()) == pytest.approx(X.toarray().mean())
    for turned, T in ((b.mat().T, B.T), (x, X.toarray())):
        for axis in (0, 1):
            found = [turned.sum(axis=axis), turned.mean(axis=axis), mean(turned, axis)]
            for got, want in zip(found, (T.sum(axis), T.mean(axis), T.mean(axis)), strict=True):
                np.testing.assert_allclose(got.numpy().ravel(), want, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="axis=2"):
        a.sum(axis=2)
    with pytest.raises(ShapeError, match="dense"):
        colmax(x)


def test_parts_are_written_as_in_numpy(memory: MatCache) -> None:
    a, kept = from_array(memory, A[4:]), A[4:].copy()
    source, held = from_array(memory, A[4:12] * 3), A[4:12] * 3

    def check(write: Any) -> None:
        write(a, source), write(kept, held)
        same(a, kept)

    def shifted(x: Any, s: Any) -> None:
        x[1:6] = x[0:5]

    def doubled(x: Any, s: Any) -> None:
        x[:, [4, 1]] *= 2.0

    def one(x: Any, s: Any) -> None:
        x[-1, 0] = 7.5

    def row(x: Any, s: Any) -> None:
        x[[5, 2], 1:4] = s[3:4, 0:3]

    def turned(x: Any, s: Any) -> None:
        x[::-1] = x[:]

    for write in (shifted, doubled, one, row, turned):
        check(write)
    a[3] <<= -1.0
    kept[3] = -1.0
    same(a, kept)


@pytest.mark.parametrize("k", [1, 6])
def test_rows_are_added_in_the_order_of_their_positions(memory: MatCache, k: int) -> None:
    at = rng.integers(0, 40, 500)
    at[:200] = 11  # one row gets most
    rows = rng.normal(size=(500, k)).astype(np.float32)
    table = rng.normal(size=(40, k)).astype(np.float32)
    wanted = table.copy()
    np.add.at(wanted, at, rows)  # one after another, in float32
    t, r = from_array(memory, table), from_array(memory, rows)
    t[at] += r
    same(t, wanted)
    for places in (at[None], at[:, None].astype(np.float32)):
        t.set(table)
        t[from_array(memory, places)] += r
        same(t, wanted)
    t.set(table)
    t[from_array(memory, at[None])] -= 0.5
    np.subtract.at(table, at, np.float32(0.5))
    same(t, table)


@pytest.mark.parametrize("k", [1, 16])
@pytest.mark.parametrize("order", ["any", "ascending", "neighbours"])
def test_the_number_of_threads_changes_no_bit(k: int, order: str) -> None:
    n = 640_000 // k
    at, rows = rng.integers(5, 900, (1, n)), rng.normal(size=(n, k)).astype(np.float32)
    if order == "ascending":
        at.sort()  # each thread then reads only the positions that it writes
    if order == "neighbours":
        at = np.arange(3, n + 3)[None]
    wanted = np.zeros((max(905, n + 5), k), np.float32)
    np.add.at(wanted, at[0], rows)
    for threads in (1, 2, 5):
        with MatCache(threads=threads) as cache:
            table = named(cache, "table", wanted.shape)
            table[from_array(cache, at)] += from_array(cache, rows)
            same(table.numpy(), wanted)


def test_positions_out_of_range_write_nothing(memory: MatCache) -> None:
    t = from_array(memory, np.ones((5, 2)))
    for wrong in (np.array([[1, 5]]), np.array([[0, -1]]), np.array([[3, -1, 2]])):
        with pytest.raises(IndexError, match=rf"position {wrong[0, 1]} on axis 0"):
            t[from_array(memory, wrong)] += 1.0
        same(t, np.ones((5, 2)))
    with pytest.raises(IndexError, match="position 7 on axis 1"):
        t[:, [7]] = 1.0


def test_what_cannot_be_written_is_named(memory: MatCache) -> None:
    t, x = from_array(memory, np.ones((5, 2))), from_sparse(memory, X)
    cases: list[tuple[str, Any]] = [
        ("the part is 2 x 2, the value 3 x 2", lambda: t.__setitem__([0, 1], t[[0, 1, 2]])),
        ("must be a number or a dense matrix", lambda: t.__setitem__(0, np.ones(2))),
        ("must be a number or a dense matrix", lambda: t.__setitem__(0, x)),
        ("columns=.*different numbers", lambda: t.__setitem__((0, [1, 1]), 1.0)),
        ("columns=.*different numbers", lambda: t[0, from_array(memory, [[1]])].__iadd__(1.0)),
        ("no container of its own", lambda: (t + 1.0)[0].__iadd__(1.0)),
    ]
    for message, write in cases:
        with pytest.raises(ShapeError, match=message):
            write()
    same(t, np.ones((5, 2)))


def test_matrices_are_joined(memory: MatCache) -> None:
    a, b = from_array(memory, A), from_array(memory, A[:, :2] + 1)
    same(concatenate([a, b, a * 2.0], axis=1), np.concatenate([A, A[:, :2] + 1, A * 2], axis=1))
    same(concatenate([a, a[3:5]]), np.concatenate([A, A[3:5]]))
    same(concatenate([a, a[3:5]], axis=-2), np.concatenate([A, A[3:5]]))
    same(concatenate([a, b], axis=-1), np.concatenate([A, A[:, :2] + 1], axis=1))
    wrong: Any = b  # in place of the axis
    with pytest.raises(
        ValueError, match=r"axis=<Mat .*>: must be 0 or 1; matrices are in one list"
    ):
        concatenate(a, wrong)
    with pytest.raises(ShapeError, match="equal columns"):
        concatenate([a, b])
    with pytest.raises(ShapeError, match="sparse"):
        concatenate([from_sparse(memory, X), a])
    with pytest.raises(ValueError, match="concatenate at .*: no parts; pass one matrix or more"):
        concatenate([])
    with pytest.raises(ShapeError, match=r"concatenate\(axis=1\) at .*: 2.0 is not a matrix"):
        concatenate([a, 2.0], axis=1)
    with pytest.raises(ValueError, match="axis=2"):
        concatenate([a, b], axis=2)


# ---------------------------------------------------------------- tables made in the call


def machine(X: Any, V: Any, scale: Any) -> Any:
    """The second-order term of a factorization machine."""
    s = X @ V
    return 0.5 * (rowsum(s * s) - rowsum((X * X) @ (V * V * scale)))


def test_tables_are_made_in_the_call(memory: MatCache) -> None:
    V, function = rng.normal(size=(6, 3)), rowwise(machine)
    x, v = from_sparse(memory, X), from_array(memory, V.astype(np.float32))
    scale = scalar(memory, 1.0)
    for factor in (1.0, 0.5):  # their contents are those at the time of the call
        scale.set(factor)
        v.set(V * factor)
        wanted = function.reference(X, V * factor, factor)
        np.testing.assert_allclose(function(x, v, scale).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_tables_as_tall_as_the_data_are_made_too() -> None:
    """A row of such a matrix could be meant as well: its use decides."""
    square, V = X[:6], rng.normal(size=(6, 3))
    function = rowwise(lambda X, V: (X @ (V * V), V * V))
    with MatCache(threads=1) as cache:
        got = function(from_sparse(cache, square), from_array(cache, V))
        for one, wanted in zip(got, function.reference(square, V), strict=True):
            np.testing.assert_allclose(one.numpy(), wanted, rtol=1e-6)
        with pytest.raises(ShapeError, match="also read across rows"):
            rowwise(lambda X, V: (V.__ilshift__(1.0), X @ (V * V))[1])(
                from_sparse(cache, square), from_array(cache, V)
            )


def test_texts_of_kernels() -> None:
    with MatCache(threads=1) as cache:
        a, function = from_array(cache, A), rowwise(lambda x: rowsum(exp(x)))
        assert "m.exp(" in kernel_text(function, a)
        assert "__global__" in kernel_text(function, a, device="cuda")
        assert "m.exp(" in kernel_text(exp(a) + 1.0)
        assert "__global__" in kernel_text(exp(a) + 1.0, device="cuda")
        with pytest.raises(ValueError, match="device='gpu'"):
            kernel_text(function, a, device="gpu")  # type: ignore[arg-type]
        with pytest.raises(ShapeError, match="must be a @rowwise function"):
            kernel_text(rowsum, a)


# ---------------------------------------------------------------- in a model


class Means(bl.Model):
    """k-means by NumPy's names: means of the blocks' rows are added to their nearest centre."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.centres = self.parameter("centres", 3, shapes.columns, rng.uniform(3, shapes.columns))
        self.counts = self.parameter("counts", 3, 1, 1.0)
        self.mean = self.parameter("mean", 1, shapes.columns)

    def update(self, block: Any) -> None:
        c = self.centres
        nearest = argmax(2.0 * (block.X @ c.T) - rowsum(c * c).T)
        self.counts[nearest] += block.weights
        c[nearest] += (block.X - c[nearest]) * block.weights / self.counts[nearest]
        self.mean[:, :] = block.X.mean(axis=0)

    def score(self, block: Any) -> Any:
        return {"mean": bl.Sum(block.X.mean() * 1.0, 1.0)}

    def predict(self, block: Any) -> Any:
        return (block.X @ self.centres.T).mat()


def test_a_model_uses_them_without_allocation_and_without_padding() -> None:
    data = rng.normal(size=(41, 3)).astype(np.float32)
    learner = bl.Learner(Means(), train=data, passes=2, block_rows=64, threads=2).fit()
    assert learner.progress.allocations_after_warmup == 0
    np.testing.assert_allclose(learner.parameter("mean")[0], data.mean(axis=0), rtol=1e-5)
    assert learner.parameter("counts").sum() == 3 + 2 * 41
