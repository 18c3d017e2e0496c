"""Expressions on Mats against NumPy and SciPy: operators, shapes, assignment, products, ..."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.matcache import (
    MatCache,
    Scalar,
    ShapeError,
    SparseInput,
    SparseMat,
    argsort,
    colsum,
    copy,
    exp,
    from_array,
    from_sparse,
    gram,
    named,
    random,
    rowdot,
    rowmax,
    rowmin,
    rownnz,
    rowsum,
    scalar,
    sddmm,
    sort,
    split_tokens,
    total,
    where,
)
from tests.support import philox
from tests.support.often import crossed

rng = np.random.default_rng(0)
A, B = rng.normal(size=(2, 7, 6)).astype(np.float32)
ROW, COLUMN = rng.normal(size=(1, 6)).astype(np.float32), rng.normal(size=(7, 1)).astype(np.float32)
X = sp.random_array((7, 6), density=0.4, rng=1, format="csr", dtype=np.float32)
X.data[0] = 3.0


@pytest.fixture
def memory() -> Iterator[MatCache]:
    with MatCache(threads=2) as cache:
        yield cache


def close(got: Any, wanted: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=rtol, atol=atol)


def dense(mat: SparseMat, like: Any) -> Any:
    """A sparse result as a dense array."""
    return sp.csr_array((mat.numpy(), like.indices, like.indptr), shape=like.shape).toarray()


# ---------------------------------------------------------------- operators


def test_operators_are_pythons(memory: MatCache) -> None:
    a, b = from_array(memory, A), from_array(memory, B)
    close(a + b - 2 * a / 3, A + B - 2 * A / 3)
    close(1 - a * b, 1 - A * B)
    close(2 / (abs(b) + 1), 2 / (abs(B) + 1))
    close(-a + +b, -A + B)
    close((abs(a) + 0.5) ** b, (abs(A) + 0.5) ** B)
    close(a**2, A**2)
    close(2**a, 2**A)
    close(where(a > b, a, b), np.maximum(A, B))
    close((a >= b) + (a < 0) + (a <= b) - (b > 0.0), (A >= B) * 1.0 + (A < 0) + (A <= B) - (B > 0))


def test_numpy_scalars_are_numbers(memory: MatCache) -> None:
    a = from_array(memory, A)
    for number in (np.float32(1.5), np.float64(1.5), np.int64(2), 3, True):
        close(number * a + number, number * A + number)
        close(a - number, A - number)
        close(number / (a + 9.0), number / (A + 9.0))
        close(number > a, np.float32(number > A))
        close(number <= a, np.float32(number <= A))


def test_arrays_and_other_objects_are_refused(memory: MatCache) -> None:
    a = from_array(memory, A)
    for other in (A, "x", None, [1.0]):
        message = "from_array" if other is not None else "None in place of a matrix"
        with pytest.raises(ShapeError, match=message):
            a + other
        with pytest.raises(ShapeError, match=message):
            other * a if not isinstance(other, str | list) else a * other
    with pytest.raises(TypeError, match="where"):
        bool(a > 0)
    for call, ours in ((np.exp, "exp"), (np.tan, "exp, log, maximum, total and others")):
        with pytest.raises(
            TypeError, match=rf"^np\.{call.__name__} at .*{__name__.split('.')[-1]}"
        ):
            call(a)
        with pytest.raises(TypeError, match=rf"use blocklearn\.matcache\.{ours}$"):
            call(a + 1.0)
    for refused in (np.add.reduce, np.sum, np.mean, np.linalg.norm):
        with pytest.raises(TypeError, match=r"use (blocklearn|x\.sum\(axis\))"):
            refused(a)
    with pytest.raises(TypeError, match=r"^np\.add\.at at .*use x\[positions\] \+= rows$"):
        np.add.at(a, [0], 1.0)
    for method, ours in (("max", r"rowmax\(x\) or colmax"), ("tanh", r"blocklearn.matcache.tanh")):
        for x in (a, a + 1.0, a.T):
            with pytest.raises(AttributeError, match=rf"no attribute '{method}'; use {ours}"):
                getattr(x, method)
    with pytest.raises(AttributeError, match="no attribute 'reshape'$"):
        a.reshape(3, 5)
    with pytest.raises(TypeError, match=r"^np\.clip at .* use blocklearn"):
        np.clip(a, 0, 1)


@pytest.mark.parametrize("left", [A, ROW, COLUMN, np.float32([[2.0]])])
@pytest.mark.parametrize("right", [A, ROW, COLUMN, np.float32([[2.0]])])
def test_rows_and_columns_broadcast(memory: MatCache, left: Any, right: Any) -> None:
    close(from_array(memory, left) - from_array(memory, right), left - right)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), st.tuples(st.integers(0, 3), st.integers(0, 3))
)
def test_shapes_broadcast_as_in_numpy(a: tuple[int, int], b: tuple[int, int]) -> None:
    with MatCache(threads=1) as memory:
        x, y = np.full(a, 2.0, np.float32), np.full(b, 3.0, np.float32)
        try:
            wanted = x + y
        except ValueError:
            with pytest.raises(ShapeError, match="do not fit"):
                from_array(memory, x) + from_array(memory, y)
            return
        got = from_array(memory, x) + from_array(memory, y)
        assert got.shape == wanted.shape
        np.testing.assert_array_equal(np.asarray(got), wanted)


def test_long_expressions(memory: MatCache) -> None:
    """Deeper than Python's stack, and with shared parts that would double at every step."""
    x: Any = from_array(memory, A)
    for _ in range(1500):
        x = x * 0.5 + 1
    close(x, np.full(A.shape, 2.0))
    y: Any = from_array(memory, A)
    z: Any = from_sparse(memory, X)
    for _ in range(60):
        y, z = (y + y) * 0.5, (z + z) * 0.5
    close(y, A)
    close(z, X.data)


def test_shapes_that_do_not_fit_are_named(memory: MatCache) -> None:
    a, b = from_array(memory, A), from_array(memory, A.T.copy())
    with pytest.raises(ShapeError, match=r"test_lazy.py:\d+: shapes 7 x 6 and 6 x 7 do not fit"):
        a + b
    with pytest.raises(ShapeError, match=r"7 x 6 times 7 x 6: 6 columns against 7 rows"):
        a @ a
    with pytest.raises(ShapeError, match="is 6 x 7, the value 7 x 6|shapes 6 x 7 and 7 x 6"):
        b <<= a


# ---------------------------------------------------------------- dtypes


def test_a_scalar_of_float64_leaves_float32_alone(memory: MatCache) -> None:
    a, s = from_array(memory, A), scalar(memory, 0.1)
    assert (a * s).dtype == np.float32
    close(a * s, A * np.float32(0.1))
    assert (a * s).mat().dtype == np.float32


def test_scalars_are_combined_in_their_own_precision(memory: MatCache) -> None:
    a, huge, tiny = from_array(memory, A), scalar(memory, 1e200), scalar(memory, 1e-200)
    close(a * (huge * tiny), A)  # either factor alone is not a float32
    n = from_array(memory, np.array([[2**40 + 1]]))
    close(a * (n - 2**40), A)


def test_integers_are_computed_in_float64(memory: MatCache) -> None:
    n = np.array([[2**40 + 1, 3], [5, 7]])
    a = from_array(memory, n)
    assert (a + a).dtype == np.float64
    np.testing.assert_array_equal(np.asarray(a - 2**40), n - 2.0**40)
    assert float(total(a)) == n.sum()
    close(rowsum(a), n.sum(axis=1, keepdims=True), rtol=1e-15)
    close(colsum(a), n.sum(axis=0, keepdims=True), rtol=1e-15)
    close(a @ a, n.astype(float) @ n)
    close(from_array(memory, np.ones((3, 2), np.float32)) @ from_array(memory, [[1, 2], [3, 4]]),
          [[4, 6]] * 3)  # fmt: skip
    assert a[[1], [0]].dtype == np.int64
    counts = named(memory, "counts", (2, 2), np.int64)
    counts <<= a * 2
    np.testing.assert_array_equal(counts.numpy(), 2 * n)


def test_float64_is_kept_until_it_is_stored(memory: MatCache) -> None:
    big = A.astype(np.float64) + 1e9
    x = from_array(memory, big)
    small = named(memory, "small", A.shape)
    small <<= x - 1e9
    close(small, big - 1e9, rtol=1e-7)
    close(from_array(memory, A) * (x - 1e9), A * (big - 1e9), rtol=1e-12)


def test_mixed_products(memory: MatCache) -> None:
    a32, b64 = from_array(memory, A), from_array(memory, B.T.astype(np.float64))
    assert (a32 @ b64).dtype == np.float64
    close(a32 @ b64, A.astype(float) @ B.T)
    one = scalar(memory, 2.0)
    assert (from_array(memory, COLUMN) @ one).dtype == np.float32
    close(from_array(memory, COLUMN) @ one, 2 * COLUMN)
    x64 = from_sparse(memory, X.astype(np.float64))
    close(x64 @ from_array(memory, B[:6]), X.toarray().astype(float) @ B[:6], rtol=1e-12)
    close(
        from_sparse(memory, X) @ b64[:, [0, 1]].mat(), X.toarray() @ B.T[:, :2].astype(float), 1e-12
    )


def test_what_a_container_cannot_hold_is_refused(memory: MatCache) -> None:
    n = from_array(memory, np.array([[1, 2]]))
    with pytest.raises(ShapeError, match="float64, which int64 cannot hold"):
        n.set(0.5)
    with pytest.raises(ShapeError, match=r"shape \(3, 1\), expected \(1, 2\)"):
        n.set(np.ones((3, 1)))
    with pytest.raises(ShapeError, match="complex128"):
        from_array(memory, np.array([[1j]]))
    assert from_array(memory, np.array([True, False])).dtype == np.int64
    assert from_array(memory, np.float16([1.5])).dtype == np.float32
    assert from_array(memory, np.longdouble([1.5])).dtype == np.float64


# ---------------------------------------------------------------- assignment


def test_assignment_writes_into_the_container(memory: MatCache) -> None:
    x = from_array(memory, A)
    guid, entries = x.guid, memory.stats().entries
    handle = x
    x <<= x * 2 - exp(x)
    assert handle is x
    assert x.guid == guid
    close(x, A * 2 - np.exp(A))
    x <<= 3
    close(x, np.full(A.shape, 3.0))
    x <<= from_array(memory, ROW, "row")
    close(x, np.broadcast_to(ROW, A.shape))
    x <<= exp(from_array(memory, COLUMN, "column"))
    close(x, np.broadcast_to(np.exp(COLUMN), A.shape))
    assert memory.stats().entries <= entries + 5  # row, column, exp(column), bounds


def test_the_target_may_be_an_operand_through_anything(memory: MatCache) -> None:
    x = from_array(memory, A)
    wanted = A.copy()
    x <<= x - colsum(x) + rowsum(x) * x
    wanted = wanted - wanted.sum(0, keepdims=True) + wanted.sum(1, keepdims=True) * wanted
    close(x, wanted, rtol=1e-4, atol=1e-5)
    square = from_array(memory, A[:6])
    square <<= square @ square
    close(square, A[:6] @ A[:6])
    square.set(A[:6])
    square <<= square.T
    close(square, A[:6].T)
    square <<= square.T @ square
    close(square, A[:6] @ A[:6].T)
    square.set(A[:6])
    square <<= square[[5, 4, 3, 2, 1, 0]]
    close(square, A[5::-1])
    one = from_array(memory, A[:1])
    one <<= one + total(one) * one.T[[0]]  # one row: rows and columns look alike
    close(one, A[:1] + A[:1].sum() * A[0, 0])


def test_expressions_cannot_be_assigned_to(memory: MatCache) -> None:
    a = from_array(memory, A)
    y: Any = a + 1
    with pytest.raises(ShapeError, match="no\\s+container of its own"):
        y <<= 2
    t: Any = a.T
    with pytest.raises(ShapeError, match="cannot be assigned"):
        t <<= 2


# ---------------------------------------------------------------- reductions


def test_reductions(memory: MatCache) -> None:
    a, b = from_array(memory, A), from_array(memory, B)
    assert isinstance(total(a), Scalar)
    assert total(a).dtype == np.float64
    assert float(total(a * b)) == pytest.approx((A * B).sum(dtype=float), rel=1e-6)
    assert float((a - b).sum()) == pytest.approx((A - B).sum(dtype=float), rel=1e-5)
    close(colsum(a * ROW.item(0)), (A * ROW.item(0)).sum(0, keepdims=True))
    close(rowsum(a + b), (A + B).sum(1, keepdims=True))
    close(rowmax(a), A.max(1, keepdims=True))
    close(rowmin(a * b), (A * B).min(1, keepdims=True))
    close(rowdot(a, b), (A * B).sum(1, keepdims=True))
    row = from_array(memory, ROW)
    close(rowmax(row * a), (ROW * A).max(1, keepdims=True))  # the row comes first
    close(rowsum(row), ROW.sum(keepdims=True))
    close(rowmax(from_array(memory, COLUMN)), COLUMN)
    with pytest.raises(ShapeError, match="not sparse"):
        rownnz(a)


def test_sums_are_as_exact_as_float64(memory: MatCache) -> None:
    ones = np.full((100_000, 3), 0.1, np.float32)
    x = from_array(memory, ones)
    assert float(total(x)) == pytest.approx(ones.sum(dtype=float), rel=1e-12)
    close(colsum(x), ones.sum(0, dtype=float)[None], rtol=1e-6)


def test_sums_of_nothing(memory: MatCache) -> None:
    for shape in ((0, 4), (4, 0)):
        x = from_array(memory, np.zeros(shape, np.float32))
        assert float(total(x + 1)) == 0
        assert np.asarray(colsum(x)).shape == (1, shape[1])
        close(rowsum(x), np.zeros((shape[0], 1)))
        close(x @ x.T, np.zeros((shape[0], shape[0])))


def test_nan_stays_nan(memory: MatCache) -> None:
    data = A.copy()
    data[2, 3] = np.nan
    x = from_array(memory, data)
    assert np.isnan(float(total(x)))
    for reduce in (rowsum, rowmax, rowmin):
        np.testing.assert_array_equal(np.isnan(np.asarray(reduce(x)))[:, 0], np.arange(7) == 2)
    np.testing.assert_array_equal(np.isnan(np.asarray(colsum(x)))[0], np.arange(6) == 3)
    assert np.isnan(np.asarray(x * 0)[2, 3])
    assert np.isnan(np.asarray(x - x)[2, 3])


# ---------------------------------------------------------------- products


def test_dense_products(memory: MatCache) -> None:
    a, b = from_array(memory, A), from_array(memory, B)
    close(a @ b.T, A @ B.T)
    close(a.T @ b, A.T @ B)
    close((a * 2).T @ (b + 1), (A * 2).T @ (B + 1))
    close(a.T @ b.T[:, [0, 1, 2, 3, 4, 5, 6]].T, A.T @ B)
    close(a.T.T @ b.T, A @ B.T)
    close(gram(a), A.T @ A)
    close(a.T + b.T, A.T + B.T)
    close((a.T @ a) @ (b.T @ b), (A.T @ A) @ (B.T @ B), rtol=1e-4)
    with pytest.raises(ShapeError, match="not a matrix"):
        a @ 2.0
    with pytest.raises(ShapeError, match="from_array"):
        A @ a


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (1, 5, 1), (300, 1, 1), (300, 4, 1), (1, 4, 300), (257, 3, 5)]
)
def test_products_of_all_shapes(memory: MatCache, shape: tuple[int, int, int]) -> None:
    n, m, k = shape
    a, b = rng.normal(size=(n, m)), rng.normal(size=(m, k))
    x, y = from_array(memory, a), from_array(memory, b)
    close(x @ y, a @ b, rtol=1e-12)
    close(from_array(memory, a.T.copy()).T @ y, a @ b, rtol=1e-12)
    close(x @ from_array(memory, b.T.copy()).T, a @ b, rtol=1e-12)


def test_sparse_products(memory: MatCache) -> None:
    x, table, rows = from_sparse(memory, X), from_array(memory, B[:6]), from_array(memory, A)
    close(x @ table, X.toarray() @ B[:6])
    close(x.T @ rows, X.toarray().T @ A)
    close((x * x).T @ (rows + 1), (X.toarray() ** 2).T @ (A + 1))
    close(x @ from_array(memory, COLUMN[:6]), X.toarray() @ COLUMN[:6])
    got = sddmm(rows, table, x)
    assert isinstance(got, SparseMat)
    close(dense(got, X), (A @ B[:6].T) * (X.toarray() != 0))
    for wrong in (
        lambda: table @ x,
        lambda: x @ x,
        lambda: rows @ x.T,
    ):
        with pytest.raises(ShapeError):
            wrong()
    with pytest.raises(ShapeError, match="n x k, m x k, n x m"):
        sddmm(table, rows, x)
    with pytest.raises(ShapeError, match="only be the left side"):
        x.T + 1


def test_the_product_of_a_transposed_dense_matrix_with_a_sparse_one(memory: MatCache) -> None:
    a, x = from_array(memory, A), from_sparse(memory, X)
    close(a.T @ x, A.T @ X.toarray())
    close((2.0 * a).T @ (x * 3.0), 6.0 * A.T @ X.toarray())
    close(a.T @ x + a.T @ a, A.T @ (X.toarray() + A))
    assert (a.T @ x).shape == (6, 6)
    with pytest.raises(ShapeError, match=r"one side must be dense"):
        x.T @ from_sparse(memory, X)
    with pytest.raises(ShapeError, match=r"@ at .*test_lazy\.py"):
        from_array(memory, B.T).T @ from_sparse(memory, X[:5])


@pytest.mark.parametrize(
    "kind", ["empty", "no rows", "no columns", "one row", "one column", "full"]
)
def test_sparse_products_of_extreme_matrices(memory: MatCache, kind: str) -> None:
    matrix = {
        "empty": sp.csr_array((50, 9), dtype=np.float32),
        "no rows": sp.csr_array((0, 9), dtype=np.float32),
        "no columns": sp.csr_array((5, 0), dtype=np.float32),
        "one row": X[[0]],
        "one column": sp.csr_array(X[:, [2]]),
        "full": sp.csr_array(np.ones((70, 5), np.float32)),
    }[kind]
    n, m = matrix.shape
    x = from_sparse(memory, matrix)
    table, rows = np.ones((m, 3), np.float32), np.ones((n, 3), np.float32)
    close(x @ from_array(memory, table), matrix @ table)
    close(x.T @ from_array(memory, rows), matrix.T @ rows)
    assert float(total(x)) == matrix.sum()


def test_transposed_products_clear_what_the_last_block_left(memory: MatCache) -> None:
    block = SparseInput(memory, "X", 4, 8, 8)

    def bind(matrix: Any) -> SparseMat:
        csc = sp.csc_array(matrix)
        active = np.flatnonzero(np.diff(csc.indptr)).astype(np.int32)
        csc.sort_indices()
        order = np.empty(matrix.nnz, np.int32)
        order[:] = np.lexsort((np.repeat(np.arange(4), np.diff(matrix.indptr)), matrix.indices))
        return block.bind(
            indptr=matrix.indptr.astype(np.int64),
            indices=matrix.indices.astype(np.int32),
            values=matrix.data.astype(np.float32),
            active=active,
            active_count=active.size,
            starts=np.append(csc.indptr[active], csc.nnz).astype(np.int64),
            t_rows=csc.indices.astype(np.int32),
            t_pos=order,
        )

    rows = from_array(memory, np.ones((4, 2), np.float32))
    for columns in ([0, 3, 7], [1], [], [7], [2, 5]):
        matrix = sp.lil_array((4, 8), dtype=np.float32)
        for i, c in enumerate(columns):
            matrix[i, c] = c + 1
        matrix = sp.csr_array(matrix)
        close(bind(matrix).T @ rows, matrix.T @ np.ones((4, 2)))


# ---------------------------------------------------------------- sparse, elementwise


def test_sparse_elementwise_with_rows_and_columns(memory: MatCache) -> None:
    x, row, column = from_sparse(memory, X), from_array(memory, ROW), from_array(memory, COLUMN)
    there = X.toarray() != 0
    full = X.toarray()
    close(dense(x * 2 + 1, X), (full * 2 + 1) * there)
    close(dense(x * row, X), full * ROW * there)
    close(dense(column - x, X), (COLUMN - full) * there)
    close(
        dense(exp(x) * (row + 1) / exp(column), X),
        np.exp(full) * (ROW + 1) / np.exp(COLUMN) * there,
    )
    close(dense(scalar(memory, 0.5) * x * x, X), 0.5 * full**2 * there)
    close(rowsum(x * row), (full * ROW).sum(1, keepdims=True))
    close(rownnz(x), there.sum(1, keepdims=True))
    close(rowmax(x), np.where(there, full, -np.inf).max(1, keepdims=True))
    assert float(total(x * x)) == pytest.approx((full**2).sum(), rel=1e-6)
    with pytest.raises(ShapeError, match="a number, a column 7 x 1 or a row 1 x 6"):
        x * from_array(memory, A)
    with pytest.raises(ShapeError, match="different patterns"):
        x * from_sparse(memory, X)
    close(colsum(x), full.sum(axis=0)[None])
    with pytest.raises(ShapeError, match=r"must be \(1, 1\)"):
        float(x)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1)])
def test_sparse_rows_and_columns_of_one(memory: MatCache, shape: tuple[int, int]) -> None:
    full = np.arange(1, shape[0] * shape[1] + 1, dtype=np.float32).reshape(shape)
    x = from_sparse(memory, sp.csr_array(full))
    row, column = np.full((1, shape[1]), 2.0), np.full((shape[0], 1), 3.0)
    row[0, -1] = column[-1, 0] = 5.0
    got = x * from_array(memory, row) + from_array(memory, column)
    close(got, (full * row + column).ravel())
    close(rowsum(x * from_array(memory, row)), (full * row).sum(1, keepdims=True))


def test_sparse_assignment(memory: MatCache) -> None:
    x = from_sparse(memory, X)
    full = X.toarray()
    there = full != 0
    x <<= x * 2
    close(dense(x, X), full * 2)
    x <<= 7
    close(dense(x, X), 7.0 * there)
    x <<= from_array(memory, ROW)
    close(dense(x, X), ROW * there)
    x <<= from_array(memory, COLUMN) * x
    close(dense(x, X), COLUMN * ROW * there)
    x.set(X.data)
    close(dense(x, X), full)
    with pytest.raises(ShapeError, match="same pattern"):
        x <<= from_sparse(memory, X)
    with pytest.raises(ShapeError, match="same pattern"):
        named(memory, "dense", (7, 6)).__ilshift__(x)
    with pytest.raises(ShapeError):
        x <<= from_array(memory, A)
    with pytest.raises(ShapeError, match="expected"):
        x.set(full)


# ---------------------------------------------------------------- indexing and sorting


def test_indexing(memory: MatCache) -> None:
    a = from_array(memory, A)
    close(a[2], A[[2]])
    close(a[-1], A[[-1]])
    close(a[[3, 0, 3]], A[[3, 0, 3]])
    close(a[1:6:2, ::-1], A[1:6:2, ::-1])
    close(a[[1, 2], [0, -6]], A[np.ix_([1, 2], [0, -6])])
    close(a[np.array([], int)], A[[]])
    where_ = from_array(memory, np.array([4, 1]))
    close(a[where_], A[[4, 1]])
    close(a[:, where_], A[:, [4, 1]])
    where_.set(np.array([[0, 0]]))
    close(a[where_, where_], A[np.ix_([0, 0], [0, 0])])
    close((a + 1)[0], A[[0]] + 1)


@pytest.mark.parametrize("index", [7, -8, [0, 99], (0, 6), (slice(None), [-7])])
def test_positions_out_of_range(memory: MatCache, index: Any) -> None:
    with pytest.raises(IndexError, match=r"test_lazy.py:\d+: position -?\d+ on axis [01]"):
        from_array(memory, A)[index]


@pytest.mark.parametrize("wrong", [7, -1])
def test_a_mat_of_positions_out_of_range(memory: MatCache, wrong: int) -> None:
    a, where_ = from_array(memory, A), from_array(memory, np.array([4, 1]))
    good = a[where_].mat()
    where_.set(np.array([[0, wrong]]))
    with pytest.raises(IndexError, match=f"position {wrong} on axis 0, which has 7 entries"):
        a[where_].mat()
    with pytest.raises(RuntimeError, match="overwritten"):  # half-written: not readable
        good.numpy()
    where_.set(np.array([[0, 2]]))
    close(a[where_], A[[0, 2]])


@pytest.mark.parametrize("index", [1.5, [True] * 7, "a", [[1]], (1, 2, 3), [0.0]])
def test_indices_that_are_not_positions_are_refused(memory: MatCache, index: Any) -> None:
    with pytest.raises(ShapeError):
        from_array(memory, A)[index]


def test_sort(memory: MatCache) -> None:
    data = np.array([[3, np.nan, -1, np.inf], [0, -np.inf, np.nan, np.nan]], np.float32)
    np.testing.assert_array_equal(np.asarray(sort(from_array(memory, data))), np.sort(data, axis=1))
    numbers = np.array([[3, 1, 2]])
    assert sort(from_array(memory, numbers)).mat().dtype == np.int64
    x = from_array(memory, A)
    x <<= sort(x)
    np.testing.assert_array_equal(x.numpy(), np.sort(A, axis=1))
    with pytest.raises(ShapeError, match="sparse"):
        sort(from_sparse(memory, X))


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_are_sorted_by_key(threads: int) -> None:
    """Equal keys keep their order: zeros of both signs, NaN of both signs."""
    data = np.random.default_rng(0).integers(-3, 4, (40, 700)).astype(np.float32)
    data[:, ::7], data[:, 3::9], data[:, 5::8] = np.nan, -0.0, np.inf
    data[:, 1::11], data[2, 3] = -np.inf, -np.float32(np.nan)
    with MatCache(threads=threads) as memory:
        x = from_array(memory, data)
        order = argsort(x).mat()
        assert order.dtype == np.int64
        np.testing.assert_array_equal(order.numpy(), np.argsort(data, axis=1, kind="stable"))
        np.testing.assert_array_equal(x.numpy(), data)  # as it was
        keys, values = (from_array(memory, a) for a in (data[:1], np.arange(700.0)[None]))
        order = argsort(keys).mat()
        np.testing.assert_array_equal(keys[:, order].numpy(), np.sort(data[:1], axis=1))
        np.testing.assert_array_equal(values[:, order].numpy(), order.numpy())
        assert argsort(from_array(memory, np.ones((0, 5), np.float32))).mat().shape == (0, 5)


@crossed(columns=[2 * 8192, 3 * 8192 + 1, 40_000, 70_001], threads=[1, 2, 3, 8], rows=[1, 3])
def test_long_rows_are_sorted_by_key_by_several_threads(
    rows: int, threads: int, columns: int
) -> None:
    """A row is cut where threads are more than rows; equal keys still keep their order."""
    rng = np.random.default_rng(columns)
    for keys in (
        rng.integers(-3, 4, (rows, columns)),
        rng.standard_normal((rows, columns)),
        np.tile(np.arange(columns)[::-1], (rows, 1)),  # pieces change places
        np.zeros((rows, columns)),
    ):
        data = keys.astype(np.float32)
        data[:, ::1001], data[:, 5::700] = np.nan, -0.0
        with MatCache(threads=threads) as memory:
            order = argsort(from_array(memory, data)).mat().numpy()
        expected = np.argsort(data.astype(np.float64), axis=1, kind="stable")
        np.testing.assert_array_equal(order, expected)


def test_room_for_sorting_by_key_is_planned() -> None:
    """Several threads merge pieces of a row in it; a frozen cache allocates nothing."""
    data = np.random.default_rng(0).standard_normal((1, 40_000)).astype(np.float32)
    with MatCache(threads=4, reserving=True) as memory:
        keys = named(memory, "keys", data.shape)
        argsort(keys).mat()
        assert "keys being merged" in {row.label for row in memory.plan()}
        memory.commit()
        memory.freeze()
        keys.set(data)
        found = argsort(keys).numpy()
    np.testing.assert_array_equal(found, np.argsort(data, axis=1, kind="stable"))


def test_other_numbers_are_not_sorted_by_key(memory: MatCache) -> None:
    for other in (from_sparse(memory, X), from_array(memory, np.ones((2, 3)))):
        with pytest.raises(ShapeError, match="must be dense float32"):
            argsort(other)


@crossed(shape=[(1, 20_000), (3, 9000), (33, 517), (700, 40), (0, 5), (5, 0)], threads=[1, 2, 8])
def test_rows_are_sorted_by_any_number_of_threads(shape: tuple[int, int], threads: int) -> None:
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    data[:, ::7] = np.nan
    data[1::3] = 0.0
    with MatCache(threads=threads) as memory:
        x = from_array(memory, data)
        np.testing.assert_array_equal(sort(x).numpy(), np.sort(data, axis=1))
        np.testing.assert_array_equal(x.numpy(), data)  # as it was


# ---------------------------------------------------------------- random numbers


def test_philox_reference_has_the_known_answers() -> None:
    """Random123's kat_vectors, philox4x32 with 10 rounds."""
    ones = 0xFFFFFFFF
    assert philox.philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox.philox((ones,) * 4, (ones,) * 2) == (
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD,
    )  # fmt: skip
    assert philox.philox(
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    ) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


@pytest.mark.parametrize("stream", [0, 3])
@pytest.mark.parametrize("key", [(0, 0, 0), (2**40 + 7, 3, 5), (-1, 2**31 - 1, 2**31)])
def test_random_numbers_are_philox(
    memory: MatCache, key: tuple[int, int, int], stream: int
) -> None:
    mat = from_array(memory, np.array([key]))
    got = random(memory, (3, 4), mat, stream).numpy()
    bits = np.array([[philox.element(*key, i, j, stream) for j in range(4)] for i in range(3)])
    np.testing.assert_array_equal(got, ((bits >> 9) + 0.5) * 2.0**-23)


def test_random_numbers_look_uniform(memory: MatCache) -> None:
    key = from_array(memory, np.array([[1, 2, 3]]))
    u = random(memory, (1000, 100), key).numpy()
    assert 0 < u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1
    assert u.mean() == pytest.approx(0.5, abs=5 * np.sqrt(1 / 12 / u.size))
    counts = np.histogram(u, 100, (0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 99 + 5 * np.sqrt(2 * 99)
    other = random(memory, (1000, 100), key, 1).numpy()
    for a, b in ((u[:, 1:], u[:, :-1]), (u[1:], u[:-1]), (u, other)):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 5 / np.sqrt(u.size)


def test_random_numbers_in_expressions(memory: MatCache) -> None:
    key = from_array(memory, np.array([[1, 2, 3]]))
    u, a = random(memory, (7, 6), key).numpy(), from_array(memory, A)
    close(a + 2 * random(memory, (7, 6), key), A + 2 * u)
    assert float(total(random(memory, (7, 6), key))) == pytest.approx(u.sum(dtype=float))
    assert float(total(random(memory, (3, 6), key))) == pytest.approx(u[:3].sum(dtype=float))
    close(colsum(random(memory, (3, 6), key)), u[:3].sum(0, keepdims=True))
    close(rowmax(random(memory, (7, 6), key)), u.max(1, keepdims=True))
    close(a * random(memory, (7, 1), key), A * random(memory, (7, 1), key).numpy())
    before = copy(random(memory, (7, 6), key))
    key.set(np.array([[1, 2, 4]]))
    with pytest.raises(RuntimeError, match="overwritten"):
        before.numpy()
    assert not np.array_equal(random(memory, (7, 6), key).numpy(), u)
    with pytest.raises(ShapeError, match="int64 of shape"):
        random(memory, (2, 2), a)


# ---------------------------------------------------------------- splitting tokens


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.booleans())
def test_halves_of_tokens_add_up(seed: int, fractional: bool) -> None:
    generator = np.random.default_rng(seed)
    counts = sp.random_array((20, 15), density=0.3, rng=generator, format="csr", dtype=np.float32)
    counts.data = np.ceil(counts.data * 20).astype(np.float32) * np.float32(
        0.37 if fractional else 1
    )
    with MatCache(threads=1) as memory:
        ids = from_array(memory, np.arange(20)[:, None])
        key = from_array(memory, np.array([[seed, 0, 0]]))
        seen, scored = split_tokens(from_sparse(memory, counts), ids, key)
        np.testing.assert_array_equal(seen.numpy() + scored.numpy(), counts.data)
        assert (seen.numpy() >= 0).all()
        assert (scored.numpy() >= 0).all()
        if not fractional:
            tokens = np.asarray(counts.sum(axis=1))
            np.testing.assert_array_equal(np.asarray(rowsum(seen))[:, 0], np.ceil(tokens / 2))


def test_huge_entries_are_halved(memory: MatCache) -> None:
    """Also those with more tokens than an int64 holds."""
    counts = sp.csr_array(np.array([[1e9, 1e19, 3e38]], np.float32))
    ids, key = from_array(memory, np.array([[5]])), from_array(memory, np.array([[7, 0, 0]]))
    seen, scored = split_tokens(from_sparse(memory, counts), ids, key)
    np.testing.assert_allclose(seen.numpy() / counts.data, 0.5, rtol=1e-6)
    np.testing.assert_allclose(scored.numpy() / counts.data, 0.5, rtol=1e-6)


def test_the_split_of_a_row_does_not_depend_on_its_block(memory: MatCache) -> None:
    counts = sp.csr_array(np.random.default_rng(0).poisson(1.0, (30, 12)).astype(np.float32))
    key = from_array(memory, np.array([[7, 0, 0]]))

    def seen_of(rows: Any) -> Any:
        part = sp.csr_array(counts[rows])
        ids = from_array(memory, np.asarray(rows)[:, None])
        return dense(split_tokens(from_sparse(memory, part), ids, key)[0], part)

    whole = seen_of(np.arange(30))
    some = np.array([17, 3, 29, 4])
    np.testing.assert_array_equal(seen_of(some), whole[some])
    np.testing.assert_array_equal(seen_of([5]), whole[[5]])
    with pytest.raises(ShapeError, match="expected"):
        split_tokens(from_sparse(memory, counts), key, key)
    ids = from_array(memory, np.arange(30, dtype=np.int32)[:, None])
    with pytest.raises(ShapeError, match=r"\(30, 1\) int32 .* expected .* int64"):
        split_tokens(from_sparse(memory, counts), ids, key)
