"""HostBlock: what a source may not write, and the transposed index for any number of columns."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.datasources import BlockShape, DataError, HostBlock, MatrixSource, Reader
from blocklearn.matcache.cpu.kernels.transpose import plan_digits, transpose_csr


def test_a_block_refuses_what_a_source_must_not_write() -> None:
    block = HostBlock(BlockShape(rows=3, columns=4, nnz=5, total_rows=3))
    block.row_ids[:] = [10, 11, 12]
    with pytest.raises(DataError, match="rows=4: must be 0 to 3"):
        block.finish(pass_=0, index=0, rows=4)
    block.indptr[:3] = [0, 1, 2]
    block.indices[:2] = [3, 4]
    with pytest.raises(DataError, match="block 7 of pass 2: row 11 has column index 4"):
        block.finish(pass_=2, index=7, rows=2)
    block.indptr[:3], block.indices[:3] = [0, 1, 3], [0, 2, 2]
    block.row_ids[:] = [10, 11, 12]
    with pytest.raises(DataError, match="row 11 has column index 2 twice"):
        block.finish(pass_=0, index=0, rows=2)
    block.indptr[:2] = [1, 2]
    with pytest.raises(DataError, match="offsets start at 1"):
        block.finish(pass_=0, index=0, rows=1)
    with pytest.raises(DataError, match="BlockShape: columns=0"):
        BlockShape(rows=1, columns=0, nnz=0, total_rows=1)
    assert block.nbytes > 0


@pytest.mark.parametrize("columns", [1, 2, 2048, 2049, 2**22, 2**22 + 1, 2**31 - 1])
@pytest.mark.parametrize("positions", [np.int32, np.int64])
def test_transposed_index_for_any_width(columns: int, positions: Any) -> None:
    rng = np.random.default_rng(0)
    rows, width = 50, min(columns, 40)
    drawn = [np.unique(rng.integers(0, columns, width)) for _ in range(rows)]
    drawn[3] = drawn[7] = np.empty(0, np.int64)
    indptr = np.concatenate([[0], np.cumsum([len(d) for d in drawn])])
    indices = np.concatenate(drawn).astype(np.int32)
    nnz = indices.size
    passes, bits = plan_digits(columns)
    assert passes * bits >= (columns - 1).bit_length() and bits <= 11
    ints = [np.empty(nnz, np.int32) for _ in range(5)]
    spare_keys, spare_rows, keys, t_rows, active = ints
    spare_pos, t_pos = np.empty(nnz, positions), np.empty(nnz, positions)
    starts = np.empty(nnz + 1, np.int64)
    n = transpose_csr(
        indptr, indices, rows, passes, np.empty(1 << bits, np.int64),
        spare_keys, spare_rows, spare_pos, keys, t_rows, t_pos, active, starts,
    )  # fmt: skip
    order = np.argsort(indices, kind="stable")
    row_of = np.repeat(np.arange(rows), np.diff(indptr))
    features, counts = np.unique(indices, return_counts=True)
    np.testing.assert_array_equal(t_pos, order)
    np.testing.assert_array_equal(t_rows, row_of[order])
    np.testing.assert_array_equal(active[:n], features)
    np.testing.assert_array_equal(np.diff(starts[: n + 1]), counts)


@pytest.mark.parametrize("keep_bytes", [0, 10**6])
def test_an_index_may_keep_the_order_of_the_old_columns(keep_bytes: int) -> None:
    X = sp.random_array((70, 9), density=0.3, rng=np.random.default_rng(0), format="csr")
    source = MatrixSource(X.astype(np.float32), block_rows=32, keep_bytes=keep_bytes)
    with Reader(source) as reader:
        for _ in range(2):
            for block in reader.blocks(0):
                before = block.active[: block.n_active].copy()
                index = [block.starts.copy(), block.t_rows.copy(), block.t_pos.copy()]
                columns = block.indices[: block.nnz].copy()
                block.renumber(partial(np.subtract, 8), ordered=True)
                assert block.has_index
                np.testing.assert_array_equal(block.active[: block.n_active], 8 - before)
                np.testing.assert_array_equal(block.indices[: block.nnz], 8 - columns)
                for found, wanted in zip(
                    [block.starts, block.t_rows, block.t_pos], index, strict=True
                ):
                    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("keep_bytes", [0, 10**6])
def test_columns_are_renumbered_before_the_index(keep_bytes: int) -> None:
    """Also those of blocks that a source keeps or lends, which themselves stay as they are."""
    X = sp.random_array((70, 9), density=0.3, rng=np.random.default_rng(0), format="csr")
    source = MatrixSource(X.astype(np.float32), block_rows=32, keep_bytes=keep_bytes)

    def reverse(block: HostBlock) -> None:
        block.renumber(lambda columns, into: np.subtract(8, columns, out=into))

    def seen(reader: Reader, pass_: int) -> tuple[Any, Any]:
        rows, turned = [], []
        for block in reader.blocks(pass_):
            n, nnz = block.n_active, block.nnz
            entries = block.values[:nnz], block.indices[:nnz], block.indptr[: block.rows + 1]
            rows.append(sp.csr_array(entries, shape=(block.rows, 9)).toarray())
            entries = block.values[block.t_pos[:nnz]], block.t_rows[:nnz], block.starts[: n + 1]
            table = np.zeros((9, block.rows), np.float32)
            table[block.active[:n]] = sp.csr_array(entries, shape=(n, block.rows)).toarray()
            turned.append(table.T)
        return np.vstack(rows), np.vstack(turned)

    with Reader(source, prepare=reverse) as reader, Reader(source) as plain:
        for pass_ in range(3):
            for found in seen(reader, pass_):
                np.testing.assert_array_equal(found, X.astype(np.float32).toarray()[:, ::-1])
            for found in seen(plain, pass_):
                np.testing.assert_array_equal(found, X.astype(np.float32).toarray())
