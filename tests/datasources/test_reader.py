"""Reader: every block once and in order, no array after the first, no thread left behind."""

import gc
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from scipy import sparse

from blocklearn.datasources import (
    BlockShape,
    DataError,
    HostBlock,
    IterableSource,
    MatrixSource,
    Reader,
)
from blocklearn.datasources.arrays.copy_rows import count_up, expand_csr, gather_csr, gather_dense
from blocklearn.datasources.arrays.validate import (
    all_fit,
    check_dense,
    check_weights,
    csr_is_good,
)
from blocklearn.learner.training.replicas.block_input import DEVICE_READERS, readers_for
from blocklearn.matcache.cpu.kernels.transpose import transpose_by_counting, transpose_csr
from tests.support.often import rarely

pytestmark = pytest.mark.usefixtures("reader_threads", "no_block_is_small")
Threads = Callable[[], list[threading.Thread]]


def matrix(rows: int = 100, columns: int = 30, density: float = 0.2) -> Any:
    rng = np.random.default_rng(0)
    return sparse.random_array((rows, columns), density=density, rng=rng, format="csr")


class Failing:
    """A source whose block `bad` cannot be read in pass 0."""

    def __init__(self, bad: int, error: BaseException, blocks: int = 5) -> None:
        self.shape = BlockShape(rows=2, columns=3, nnz=1, total_rows=2 * blocks)
        self.blocks, self.bad, self.error = blocks, bad, error
        self.names = None
        self.fingerprint = "0" * 16

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        if index == self.bad and pass_ == 0:
            raise self.error
        into.indptr[:] = 0
        into.row_ids[:] = [2 * index, 2 * index + 1]
        into.finish(pass_=pass_, index=index, rows=2)


@pytest.mark.parametrize("ring", [2, 3, 9])
@pytest.mark.parametrize("shuffle", [False, True])
def test_blocks_come_in_order_with_their_transpose(ring: int, shuffle: bool) -> None:
    X = matrix()
    source = MatrixSource(X, block_rows=7, shuffle=shuffle)
    with Reader(source, ring=ring) as reader:
        for pass_ in range(3):
            rows, seen = [], []
            for block in reader.blocks(pass_):
                assert block.pass_ == pass_
                seen.append(block.index)
                rows.append(block.row_ids[: block.rows].copy())
                ids = rows[-1]
                expected = X[ids].T.tocsr()
                expected.sort_indices()
                np.testing.assert_array_equal(block.t_rows[: block.nnz], expected.indices)
                np.testing.assert_array_equal(
                    block.values[block.t_pos[: block.nnz]], expected.data.astype(np.float32)
                )
            assert seen == list(range(15))
            assert sorted(np.concatenate(rows).tolist()) == list(range(100))


def test_a_pass_can_start_in_the_middle() -> None:
    with Reader(MatrixSource(matrix(), block_rows=10)) as reader:
        assert [block.index for block in reader.blocks(0, start=7)] == [7, 8, 9]
        assert [block.index for block in reader.blocks(0, start=10)] == []
        for pass_, start in [(-1, 0), (0, 11), (0, -1)]:
            with pytest.raises(DataError, match=f"pass {pass_} from block {start}"):
                reader.blocks(pass_, start)


def test_a_source_of_one_block_has_a_ring_of_one() -> None:
    source = MatrixSource(np.arange(14.0).reshape(7, 2), block_rows=8)
    with Reader(source, lend=2) as reader:
        assert reader.nbytes == HostBlock(source.shape).nbytes
        for pass_ in range(3):
            assert [(block.pass_, block.rows) for block in reader.blocks(pass_)] == [(pass_, 7)]


def test_dense_blocks() -> None:
    X = np.arange(14.0).reshape(7, 2)
    with Reader(MatrixSource(X, block_rows=3)) as reader:
        found = np.concatenate([block.dense[: block.rows].copy() for block in reader.blocks(0)])
        assert reader.nbytes == 3 * HostBlock(MatrixSource(X, block_rows=3).shape).nbytes
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize(
    "kind", ["csr int32", "csr shuffled", "csr in blocks", "csr hashed", "dense shuffled"]
)
def test_steady_state_allocates_no_arrays(kind: str) -> None:
    """Blocks of varying size and a ragged last one; the smallest array of a block is 16 kB."""
    X = matrix(rows=20_001, columns=5_000, density=0.004)
    given = X[:, :40].toarray() if kind.startswith("dense") else X
    if "hashed" in kind:
        given = sparse.csr_array((X.data, X.indices * 2_000, X.indptr), shape=(20_001, 10_000_000))
    source = MatrixSource(
        given,
        targets=X[:, :30],
        weights=np.arange(20_001.0),
        block_rows=2_000,
        shuffle="blocks" if "in blocks" in kind else "shuffled" in kind or "hashed" in kind,
        keep_bytes=1_000_000,  # room for half of the blocks
    )
    with Reader(source) as reader:
        for pass_ in range(2):  # compiles, allocates
            for _ in reader.blocks(pass_):
                pass
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for pass_ in range(2, 5):
                for _ in reader.blocks(pass_):
                    pass
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak - before < 12_000, "more than the small objects of Python"


def allocates(function: Any, signatures: list[Any]) -> bool:
    """Whether the machine code asks Numba's runtime for memory (tracemalloc does not see that)."""
    fresh = numba.njit(nogil=True)(function)  # code from the disk cache cannot be inspected
    for signature in signatures:
        fresh.compile(signature)
    return any("NRT_MemInfo_alloc" in code for code in fresh.inspect_llvm().values())


def test_kernels_allocate_nothing() -> None:
    wide = sparse.csr_array(matrix())
    wide.resize((100, 10_000))
    for X in (matrix(), wide, matrix().toarray()):
        weights = np.ones(100)
        source = MatrixSource(X, targets=matrix(), weights=weights, block_rows=10, shuffle=True)
        with Reader(source) as reader:
            assert len(list(reader.blocks(0))) == 10
    kernels: list[Any] = [
        all_fit, csr_is_good, check_dense, check_weights,
        count_up, expand_csr, gather_csr, gather_dense,
        transpose_by_counting, transpose_csr,
    ]  # fmt: skip
    for kernel in kernels:
        assert kernel.signatures and not allocates(kernel.py_func, kernel.signatures[:1])
    assert allocates(lambda n: np.ones(n).sum(), [(numba.int64,)])  # it would be seen


@pytest.mark.parametrize("bad", [0, 2, 4])
@pytest.mark.parametrize("error", [OSError("disk gone"), MemoryError(), KeyboardInterrupt()])
def test_a_failure_of_the_thread_reaches_the_consumer(bad: int, error: BaseException) -> None:
    with Reader(Failing(bad, error)) as reader:
        seen = []
        with pytest.raises(DataError, match=f"block {bad} of pass 0 could not be read") as caught:
            for block in reader.blocks(0):
                seen.append(block.index)
        assert caught.value.__cause__ is error
        assert str(error) in str(caught.value)
        assert seen == list(range(bad))
        assert [block.index for block in reader.blocks(1)] == [0, 1, 2, 3, 4]  # it lives on


@pytest.mark.parametrize("after", range(6))
@pytest.mark.parametrize("ring", [2, 3])
def test_leaving_a_pass_early(after: int, ring: int) -> None:
    with Reader(MatrixSource(matrix(), block_rows=10), ring=ring) as reader:
        for _ in range(20):
            for block in reader.blocks(0):
                if block.index == after:
                    break
            assert [block.index for block in reader.blocks(1, start=8)] == [8, 9]


def test_closing_in_the_middle_of_a_pass(reader_threads: Threads) -> None:
    reader = Reader(MatrixSource(matrix(), block_rows=10))
    pass_ = reader.blocks(0)
    next(pass_)
    assert len(reader_threads()) == 1
    reader.close()
    assert not reader_threads()
    with pytest.raises(DataError, match="closed in the middle"):
        next(pass_)
    reader.close()
    with pytest.raises(DataError, match="it is closed"):
        reader.blocks(0)


def test_an_error_in_the_loop_closes_the_reader() -> None:
    with (
        pytest.raises(ZeroDivisionError),
        Reader(MatrixSource(matrix(), block_rows=10)) as reader,
    ):
        for block in reader.blocks(0):
            1 / (block.index - 3)


def test_one_pass_at_a_time() -> None:
    with Reader(MatrixSource(matrix(), block_rows=10)) as reader:
        first, early = reader.blocks(0), reader.blocks(1)
        next(first)
        with pytest.raises(DataError, match="pass 0 has not ended"):
            reader.blocks(1)
        with pytest.raises(DataError, match="pass 0 has not ended"):
            next(early)
        assert len(list(first)) == 9


def test_a_dropped_reader_lets_its_thread_go(reader_threads: Threads) -> None:
    reader = Reader(MatrixSource(matrix(), block_rows=10))
    next(reader.blocks(0))
    (thread,) = reader_threads()
    del reader
    gc.collect()
    thread.join(timeout=10)
    assert not thread.is_alive()


@pytest.mark.parametrize("state", ["in mid-pass", *rarely("between passes")])
def test_a_reader_that_nobody_closed_does_not_keep_the_process(state: str) -> None:
    program = (
        "import numpy as np\n"
        "from blocklearn.datasources import MatrixSource, Reader\n"
        "reader = Reader(MatrixSource(np.ones((9, 2)), block_rows=1))\n"
        "blocks = reader.blocks(0)\n"
        "next(blocks)\n"
    ) + ("list(blocks)\n" if state == "between passes" else "")
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_was_never_used(reader_threads: Threads) -> None:
    with Reader(MatrixSource(matrix())):
        assert not reader_threads()
    with pytest.raises(DataError, match="ring=1"):
        Reader(MatrixSource(matrix()), ring=1)


def test_several_threads_read_a_matrix_that_is_shuffled() -> None:
    """As many as are asked for, with the blocks of one thread, in their order."""
    X = sparse.random_array((900, 50), density=0.1, rng=np.random.default_rng(0))
    source = MatrixSource(X, block_rows=20, shuffle=True)

    def seen(readers: int | None) -> list[tuple[bytes, ...]]:
        with Reader(source, readers=readers) as reader:
            threads = reader._ahead
            found = [
                (block.row_ids.tobytes(), block.values[: block.nnz].tobytes(),
                 block.t_rows[: block.nnz].tobytes())
                for pass_ in range(2) for block in reader.blocks(pass_)
            ]  # fmt: skip
            assert len(threads._threads) == (readers or 1)
            assert len(threads._ring) == len(threads._threads) + 2
        return found

    assert seen(4) == seen(None)


def test_devices_have_more_readers_of_a_matrix() -> None:
    source = MatrixSource(np.eye(3, dtype=np.float32))
    assert (readers_for(source, "cpu"), readers_for(source, "cuda")) == (1, DEVICE_READERS)
    stream = IterableSource(lambda pass_: iter([]), BlockShape(2, 3, 4, 2))
    assert readers_for(stream, "cuda") == 1
