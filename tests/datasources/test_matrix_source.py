"""MatrixSource: what goes in comes out, whatever its shape."""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_limits

from blocklearn.datasources import BlockShape, DataError, HostBlock, MatrixSource
from blocklearn.datasources.memory.labels import accept_targets

KINDS = ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"]
MAKERS = [getattr(sparse, f"{kind}_{form}") for kind in KINDS for form in ("array", "matrix")]


def table(rows: int, columns: int, density: float = 0.3, seed: int = 0) -> npt.NDArray[np.float32]:
    """A random dense matrix with many zeros."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 9, (rows, columns)).astype(np.float32)
    values[rng.random((rows, columns)) >= density] = 0
    return values


def block_csr(block: HostBlock) -> Any:
    """The sparse part of a block as SciPy sees it, padding included."""
    nnz = block.nnz
    return sparse.csr_array(
        (block.values[:nnz], block.indices[:nnz], block.indptr),
        shape=(block.shape.rows, block.shape.columns),
    )


def block_table(block: HostBlock) -> npt.NDArray[np.float32]:
    """The true rows of a block, dense."""
    full = block.dense if block.shape.dense else block_csr(block).toarray()
    return np.asarray(full[: block.rows])


def read_pass(
    source: MatrixSource, pass_: int = 0
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Row ids and rows of a whole pass, read into one block again and again."""
    block, ids, rows = HostBlock(source.shape), [], []
    for index in range(source.blocks):
        source.read(pass_, index, block)
        check_invariants(block)
        block.transpose()
        check_transposed(block)
        assert (block.pass_, block.index) == (pass_, index)
        ids.append(block.row_ids[: block.rows].copy())
        rows.append(block_table(block).copy())
    return np.concatenate(ids), np.concatenate(rows)


def check_invariants(block: HostBlock) -> None:
    """Padding is empty, indices of a row ascend."""
    assert (block.row_ids[block.rows :] == -1).all() and (block.row_ids[: block.rows] >= 0).all()
    if block.shape.dense:
        assert (block.dense[block.rows :] == 0).all()
        return
    assert (block.indptr[block.rows :] == block.nnz).all() and block.indptr[0] == 0
    for row in range(block.rows):
        inside = block.indices[block.indptr[row] : block.indptr[row + 1]]
        assert (np.diff(inside) > 0).all()


def check_transposed(block: HostBlock) -> None:
    """The transposed index describes SciPy's transpose, and says nothing of other features."""
    if block.shape.dense:
        assert block.n_active == 0
        return
    nnz, n = block.nnz, block.n_active
    expected = sparse.csr_array(block_csr(block).T.tocsr())
    expected.sort_indices()
    lengths = np.diff(expected.indptr)
    np.testing.assert_array_equal(block.active[:n], np.flatnonzero(lengths))
    np.testing.assert_array_equal(np.diff(block.starts[: n + 1]), lengths[lengths > 0])
    assert block.starts[0] == 0
    np.testing.assert_array_equal(block.t_rows[:nnz], expected.indices)
    np.testing.assert_array_equal(block.values[block.t_pos[:nnz]], expected.data)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "bool"])
def test_every_sparse_kind(make: Any, dtype: str) -> None:
    X = table(11, 6).astype(dtype)
    ids, rows = read_pass(MatrixSource(make(X), block_rows=4))
    np.testing.assert_array_equal(ids, np.arange(11))
    np.testing.assert_array_equal(rows, X.astype(np.float32))


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "longdouble", "uint8", "int64", "bool", ">f4", ">i2"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_of_every_real_dtype(dtype: str, order: Any) -> None:
    X = np.asarray(table(7, 3).astype(dtype), order=order)
    source = MatrixSource(X, block_rows=3)
    assert source.shape == BlockShape(rows=3, columns=3, nnz=0, total_rows=7, dense=True)
    np.testing.assert_array_equal(read_pass(source)[1], X.astype(np.float32))


def test_dense_views_and_read_only_arrays() -> None:
    X = table(20, 8)[::-2, ::3]
    X.flags.writeable = False
    np.testing.assert_array_equal(read_pass(MatrixSource(X, block_rows=4))[1], X)


@st.composite
def hostile(draw: st.DrawFn) -> npt.NDArray[np.float32]:
    """Matrices with empty rows, a huge row, no non-zeros at all, or a single row or column."""
    rows, columns = draw(st.integers(1, 40)), draw(st.sampled_from([1, 2, 7, 50, 2049]))
    X = table(rows, columns, draw(st.sampled_from([0.0, 0.02, 0.5])), draw(st.integers(0, 9)))
    if draw(st.booleans()):
        X[draw(st.integers(0, rows - 1))] = 1.5
    if draw(st.booleans()):
        X[draw(st.integers(0, rows - 1)) :] = 0
    return X


@settings(deadline=None, max_examples=60)
@given(hostile(), st.integers(1, 45), st.booleans(), st.booleans(), st.integers(0, 3))
@example(np.zeros((3, 5), np.float32), 2, True, False, 0)
@example(np.ones((1, 1), np.float32), 1, False, False, 0)
def test_any_shape_comes_out_as_it_went_in(
    X: npt.NDArray[np.float32], block_rows: int, shuffle: bool, dense: bool, pass_: int
) -> None:
    given_X = X if dense else sparse.csr_array(X)
    source = MatrixSource(given_X, block_rows=block_rows, shuffle=shuffle, seed=3)
    ids, rows = read_pass(source, pass_)
    np.testing.assert_array_equal(np.sort(ids), np.arange(len(X)))
    np.testing.assert_array_equal(rows, X[ids])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 99), st.sampled_from([np.int32, np.int64]))
def test_duplicate_and_unsorted_indices_are_summed_on_a_copy(seed: int, offsets: Any) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, 12)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(offsets)
    indices = rng.integers(0, 5, lengths.sum()).astype(offsets)
    data = rng.integers(100, 255, lengths.sum()).astype(np.uint8)
    X = sparse.csr_array((data, indices, indptr), shape=(12, 5))
    before = X.indices.copy(), X.data.copy()
    expected = np.zeros((12, 5), np.float32)
    np.add.at(expected, (np.repeat(np.arange(12), lengths), indices), data.astype(np.float32))
    np.testing.assert_array_equal(read_pass(MatrixSource(X, block_rows=5))[1], expected)
    np.testing.assert_array_equal(X.indices, before[0])
    np.testing.assert_array_equal(X.data, before[1])


def test_sums_of_bytes_do_not_wrap() -> None:
    data, where = np.full(3, 200, np.uint8), (np.zeros(3, int), np.zeros(3, int))
    X = sparse.coo_array((data, where), shape=(1, 2))
    assert read_pass(MatrixSource(X))[1].tolist() == [[600.0, 0.0]]


def test_csr_is_kept_and_dense_is_kept() -> None:
    X = sparse.csr_array(table(9, 5))
    matrix: Any = MatrixSource(X)._matrix
    assert np.shares_memory(matrix.indices, X.indices)
    assert np.shares_memory(matrix.values, X.data)
    D = table(9, 5).astype(np.float64)
    kept: Any = MatrixSource(D)._matrix
    assert np.shares_memory(kept, D)


def test_int64_offsets_and_a_capacity_larger_than_the_contents() -> None:
    X = table(9, 5)
    csr = sparse.csr_array(X)
    spare = np.full(3, 77)  # behind the last row, as in a matrix that was not pruned
    wide = sparse.csr_array(X)
    wide.indptr = csr.indptr.astype(np.int64)
    wide.indices = np.concatenate([csr.indices, spare]).astype(np.int64)
    wide.data = np.concatenate([csr.data, spare]).astype(np.float64)
    source = MatrixSource(wide, block_rows=4)
    np.testing.assert_array_equal(read_pass(source)[1], X)
    assert source.fingerprint == MatrixSource(csr).fingerprint


def test_capacity_is_the_largest_block_and_safe_when_shuffled() -> None:
    X = np.zeros((6, 10), np.float32)
    for row, length in enumerate([1, 9, 2, 8, 3, 0]):
        X[row, :length] = 1
    csr = sparse.csr_array(X)
    assert MatrixSource(csr, block_rows=2).shape.nnz == 10
    assert MatrixSource(csr, block_rows=2, shuffle=True).shape.nnz == 17
    assert MatrixSource(csr, block_rows=100, shuffle=True).shape.nnz == 23
    assert MatrixSource(sparse.csr_array((3, 4)), block_rows=2).shape.nnz == 1
    assert MatrixSource(csr, block_rows=100).shape.rows == 100


def test_order_is_a_function_of_seed_and_pass_alone() -> None:
    X = np.arange(300.0).reshape(-1, 1)

    def order(source: MatrixSource, pass_: int) -> list[int]:
        return list(read_pass(source, pass_)[0])

    source = MatrixSource(X, block_rows=64, shuffle=True, seed=5)
    first, second = order(source, 0), order(source, 1)
    assert first != second and first != list(range(300))
    assert order(source, 0) == first
    assert order(MatrixSource(X, block_rows=7, shuffle=True, seed=5), 1) == second
    assert order(MatrixSource(X, block_rows=64, shuffle=True, seed=6), 0) != first
    block = HostBlock(source.shape)
    source.read(1, 3, block)  # any block at any time
    assert block.row_ids[: block.rows].tolist() == second[192:256]


def test_two_threads_in_two_passes_do_not_disturb_each_other() -> None:
    X = np.arange(500.0).reshape(-1, 1)
    source = MatrixSource(X, block_rows=10, shuffle=True)
    expected = [read_pass(source, pass_)[0] for pass_ in (0, 1)]
    found: dict[int, Any] = {}

    def work(pass_: int) -> None:
        found[pass_] = read_pass(source, pass_)[0]

    threads = [threading.Thread(target=work, args=(pass_,)) for pass_ in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_fingerprint_follows_contents_only() -> None:
    X = table(30, 7)
    mark = MatrixSource(sparse.csr_array(X)).fingerprint
    assert len(mark) == 16 and int(mark, 16) >= 0
    same = [
        MatrixSource(sparse.csc_matrix(X)),
        MatrixSource(sparse.csr_array(X.astype(np.int8)), block_rows=3, shuffle=True, seed=9),
    ]
    assert {source.fingerprint for source in same} == {mark}
    changed = X.copy()
    changed[29, 6] += 1
    assert MatrixSource(sparse.csr_array(changed)).fingerprint != mark
    assert MatrixSource(sparse.csr_array(X.T)).fingerprint != mark
    assert MatrixSource(X).fingerprint != mark
    assert MatrixSource(X).fingerprint == MatrixSource(np.asfortranarray(X, float)).fingerprint


NAN, INF = float("nan"), float("inf")


def broken_csr(
    indptr: list[int], indices: list[int], columns: int, bad: float = 1.0, dtype: Any = np.float32
) -> Any:
    """A CSR array that SciPy has not looked at."""
    X = sparse.csr_array((len(indptr) - 1, columns), dtype=dtype)
    X.indptr, X.indices = np.array(indptr), np.array(indices)
    X.data = np.ones(len(indices), dtype)
    X.data[-1] = bad
    return X


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (broken_csr([0, 1, 3], [0, 1, 2], 4, NAN), "row 1, column 2 is nan"),
        (broken_csr([0, 1, 3], [0, 1, 2], 4, INF, np.float64), "row 1, column 2 is inf"),
        (broken_csr([0, 1, 3], [0, 1, 2], 4, 1e39, np.float64), r"row 1, column 2 is 1e\+39"),
        (broken_csr([0, 1, 3], [0, 2, 1], 4, NAN), "row 1, column 1 is nan"),
        (broken_csr([0, 1, 3], [0, 1, 4], 4), r"row 1 has column index 4.* 4 columns"),
        (broken_csr([0, 1, 3], [0, -1, 2], 4), "row 1 has column index -1"),
        (broken_csr([0, 2, 1], [0, 1, 2], 4), "row 1 spans the offsets 2 to 1"),
        (broken_csr([0, 1, 9], [0, 1, 2], 4), "row 1 spans the offsets 1 to 9"),
        (broken_csr([-1, 1, 3], [0, 1, 2], 4), "row 0 spans the offsets -1 to 1"),
        (np.array([[1.0, 2.0], [3.0, NAN]]), "row 1, column 1 is nan"),
        (np.array([[1.0, -1e300]]), r"row 0, column 1 is -1e\+300"),
        (np.array([[np.longdouble(1e300)]]), "row 0, column 0 is inf"),
        (sparse.coo_array(np.array([[0.0, 1e300]])), "row 0, column 1 is inf"),
        (np.ones(4), r"shape \(4,\).*reshape"),
        (sparse.coo_array(np.ones(4)), r"shape \(4,\).*two dimensions"),
        (np.ones((0, 4)), "at least one row and one column"),
        (sparse.csr_array((4, 0)), "at least one row and one column"),
        (np.ones((2, 2), complex), "complex128.*real numbers"),
        (np.array([["a"]], object), "object.*real numbers"),
        (sparse.csr_array(np.ones((2, 2), complex)), "real numbers"),
        (np.ma.masked_array(np.ones((2, 2)), mask=np.eye(2, dtype=bool)), "masked"),
        ([[1.0, 2.0]], r"a list, but.*numpy\.asarray"),
    ],
)
def test_faults_are_named(X: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        MatrixSource(X)


def test_a_broken_csc_is_refused_before_it_can_crash() -> None:
    X = sparse.csc_array(table(5, 4))
    X.indices[0] = 1000
    with pytest.raises(DataError, match="X is not a valid csc matrix"):
        MatrixSource(X)


def test_settings_are_checked() -> None:
    X = np.ones((3, 2))
    with pytest.raises(DataError, match="block_rows=0"):
        MatrixSource(X, block_rows=0)
    with pytest.raises(DataError, match="seed=-1"):
        MatrixSource(X, seed=-1)
    with pytest.raises(DataError, match=r"2 columns and 3 names.*pass X\.T"):
        MatrixSource(X, names=["a", "b", "c"])
    with pytest.raises(DataError, match="2 columns and 5 names, but each column has one name."):
        MatrixSource(X, names=list("abcde"))
    huge = sparse.csr_array(([1.0], ([0], [0])), shape=(1, 2**31))
    with pytest.raises(DataError, match="2147483648 columns"):
        MatrixSource(huge)
    assert MatrixSource(X, names=["a", "b"]).names == ["a", "b"]


def test_read_checks_its_arguments() -> None:
    source = MatrixSource(np.ones((3, 2)), block_rows=2)
    block = HostBlock(source.shape)
    for pass_, index in [(-1, 0), (0, 2), (0, -1)]:
        with pytest.raises(DataError, match=f"block {index} of pass {pass_}"):
            source.read(pass_, index, block)
    with pytest.raises(DataError, match="cannot hold"):
        source.read(0, 0, HostBlock(BlockShape(rows=2, columns=3, nnz=0, total_rows=3, dense=True)))
    few = MatrixSource(sparse.eye_array(4, format="csr"), block_rows=2)
    with pytest.raises(DataError, match="cannot hold"):
        few.read(0, 0, HostBlock(replace(few.shape, nnz=1)))
    larger = HostBlock(replace(few.shape, nnz=9))
    few.read(0, 1, larger)
    assert (larger.nnz, larger.indices[:2].tolist()) == (2, [2, 3])


def test_a_matrix_changed_under_way_is_noticed() -> None:
    X = sparse.csr_array(table(9, 5, 0.9))
    X.indptr = X.indptr.astype(np.int64)  # the width that is kept, not copied
    source = MatrixSource(X, block_rows=3)
    block = HostBlock(source.shape)
    X.data[-1] = NAN
    with pytest.raises(DataError, match="block 2 of pass 0: row 8, column"):
        source.read(0, 2, block)
    X.indptr[4:] = X.indptr[-1]
    with pytest.raises(DataError, match="row 3 is not what it was"):
        source.read(0, 1, block)


@pytest.mark.parametrize("keep_bytes", [2**20, 20])
def test_indices_and_values_of_other_kinds_are_converted_once_where_memory_allows(
    keep_bytes: int,
) -> None:
    X = table(20, 9)
    csr = sparse.csr_array(X.astype(np.float64))
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    source = MatrixSource(csr, block_rows=6, keep_bytes=keep_bytes)
    block, shown = HostBlock(source.shape, indexed=False), []
    for index in (1, 3, 1):
        source.read(0, index, block)
        np.testing.assert_array_equal(block_table(block), X[6 * index : 6 * index + 6])
        shown.append((block.indices.ctypes.data, block.values.ctypes.data))
    kept = keep_bytes == 2**20
    assert (shown[0] == shown[2] != shown[1]) == kept  # parts of one copy, in place of gathered
    assert (shown[0] == shown[1]) != kept


def test_targets_by_columns_are_copied_and_others_kept() -> None:
    by_rows = np.arange(6.0).reshape(3, 2)
    assert accept_targets(by_rows, 3) is by_rows
    copied = accept_targets(np.asfortranarray(by_rows), 3)
    assert isinstance(copied, np.ndarray) and copied.flags.c_contiguous
    np.testing.assert_array_equal(copied, by_rows)


def test_sums_of_targets_have_the_same_bits_with_any_threads_of_blas() -> None:
    rng = np.random.default_rng(0)
    targets, weights = rng.normal(size=(2000, 300)).astype(np.float32), rng.random(2000)
    source = MatrixSource(np.ones((2000, 1)), targets=targets, weights=weights)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            found.append(source.label_sums())
    assert found[0] == found[1]
