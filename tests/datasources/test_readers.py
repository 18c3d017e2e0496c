"""A reader with several threads: the same blocks in the same order; and none for blocks at hand."""

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import BlockShape, DataError, HostBlock, MatrixSource, Reader
from blocklearn.datasources.read_ahead import Task
from blocklearn.learner.training.replicas.replica import Replica

pytestmark = pytest.mark.usefixtures("reader_threads", "no_block_is_small")
Threads = Callable[[], list[threading.Thread]]


class Stripes:
    """Blocks of two rows that hold their own number, read by several threads at once.

    pause: seconds that the block of a number takes. bad: one that cannot be read in pass 0.
    kept_from: the first block that is at hand.
    """

    names, fingerprint = None, "0" * 16

    def __init__(
        self, blocks: int, readers: int, pause: Any = None, bad: int = -1, kept_from: int = 10**9
    ) -> None:
        self.shape = BlockShape(rows=2, columns=1000, nnz=2, total_rows=2 * blocks)
        self.blocks, self.readers, self.bad, self.kept_from = blocks, readers, bad, kept_from
        self.pause = pause or (lambda index: 0.0)
        self.read_by: dict[int, threading.Thread] = {}
        self.now = self.most = 0
        self._lock = threading.Lock()

    def kept(self, pass_: int, index: int) -> bool:
        return index >= self.kept_from

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        with self._lock:
            self.read_by[index] = threading.current_thread()
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.pause(index))
        if index == self.bad and pass_ == 0:
            with self._lock:
                self.now -= 1
            raise OSError("stripe gone")
        into.row_ids[:] = 2 * index, 2 * index + 1
        into.indptr[:] = 0, 1, 2
        into.indices[:2], into.values[:2] = index % 1000, index
        into.finish(pass_=pass_, index=index, rows=2)
        with self._lock:
            self.now -= 1


def check(block: HostBlock, index: int) -> None:
    assert block.index == index and block.values[:2].tolist() == [index, index]
    assert block.active[: block.n_active].tolist() == [index % 1000]
    assert block.row_ids.tolist() == [2 * index, 2 * index + 1]


@pytest.mark.parametrize(("readers", "ring"), [(1, None), (2, 2), (3, None), (5, 4), (4, 12)])
def test_blocks_come_in_order_however_long_each_takes(readers: int, ring: int | None) -> None:
    random.seed(readers)
    source = Stripes(60, readers, pause=lambda index: random.choice([0.0, 0.0, 0.003]))
    with Reader(source, ring=ring) as reader:
        for pass_ in range(3):
            for number, block in enumerate(reader.blocks(pass_)):
                if random.random() < 0.1:
                    time.sleep(0.003)
                check(block, number)
            assert number == 59
    assert source.most <= readers


def test_threads_read_at_the_same_time(reader_threads: Threads) -> None:
    """Three blocks wait for each other: with fewer threads none would ever be read."""
    meeting = threading.Barrier(3)

    def together(index: int) -> float:
        meeting.wait(timeout=30)
        return 0.0

    source = Stripes(9, 3, pause=together)
    with Reader(source) as reader:
        for number, block in enumerate(reader.blocks(0)):
            check(block, number)
        assert len(reader_threads()) == 3
        assert reader.nbytes == 5 * HostBlock(source.shape).nbytes
    assert len({thread.name for thread in source.read_by.values()}) == 1  # all are the reader's
    assert len(set(source.read_by.values())) > 1


def test_no_block_is_ready_when_each_is_read_after_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait, waited_for = Task.wait, [threading.Event() for _ in range(9)]

    def tell_and_wait(task: Task, seconds: float) -> bool:
        waited_for[task.place.index].set()
        return wait(task, seconds)

    def late(index: int) -> float:
        assert waited_for[index].wait(30)
        return 0.0

    monkeypatch.setattr(Task, "wait", tell_and_wait)
    with Reader(Stripes(9, 1, pause=late)) as reader:
        assert len(list(reader.blocks(0))) == 9
        assert reader.ready == 0.0


def test_every_block_is_ready_where_the_model_is_slower() -> None:
    with Reader(Stripes(9, 2)) as reader:
        for _ in reader.blocks(0):
            for place in reader._ahead._ahead:
                while place.task and not place.task.wait(30):
                    pass
        assert reader.ready == 9.0 - 1.0  # nothing was asked for before the first


@pytest.mark.parametrize("bad", [0, 3, 19])
def test_a_failure_of_one_thread_ends_the_pass_with_block_and_cause(bad: int) -> None:
    """Blocks before it still come, though others behind it were read already."""
    source = Stripes(20, 4, pause=lambda index: 0.02 if index == bad else 0.0, bad=bad)
    with Reader(source) as reader:
        seen = []
        with pytest.raises(DataError, match=f"block {bad} of pass 0 .*stripe gone") as caught:
            for block in reader.blocks(0):
                seen.append(block.index)
        assert isinstance(caught.value.__cause__, OSError)
        assert seen == list(range(bad))
        assert [block.index for block in reader.blocks(1)] == list(range(20))


@pytest.mark.parametrize("after", [0, 5])
def test_closing_in_the_middle_waits_for_every_thread(after: int, reader_threads: Threads) -> None:
    for round_ in range(5):
        source = Stripes(50, 3, pause=lambda index: 0.001 * (index % 3))
        reader = Reader(source)
        blocks = reader.blocks(0)
        for _ in range(after + 1):
            next(blocks)
        time.sleep(0.001 * round_)
        reader.close()
        assert not reader_threads() and source.now == 0
        with pytest.raises(DataError, match="closed in the middle"):
            next(blocks)


def test_leaving_early_then_another_pass() -> None:
    source = Stripes(30, 3, pause=lambda index: 0.001)
    with Reader(source) as reader:
        for after in range(8):
            for block in reader.blocks(0):
                if block.index == after:
                    break
            assert [block.index for block in reader.blocks(1, start=27)] == [27, 28, 29]


def test_blocks_at_hand_are_read_by_whoever_wants_them(reader_threads: Threads) -> None:
    source = Stripes(10, 2, kept_from=4)
    with Reader(source) as reader:
        for number, block in enumerate(reader.blocks(0)):
            check(block, number)
        threads = reader_threads()
    assert all(source.read_by[index] in threads for index in range(4))
    assert all(source.read_by[index] is threading.current_thread() for index in range(4, 10))


def test_where_all_are_at_hand_no_thread_is_started(reader_threads: Threads) -> None:
    with Reader(Stripes(10, 2, kept_from=0)) as reader:
        assert [block.index for block in reader.blocks(0)] == list(range(10))
        assert not reader_threads()


def test_a_failure_at_hand_is_told_as_any_other() -> None:
    with Reader(Stripes(10, 2, bad=6, kept_from=3)) as reader:
        with pytest.raises(DataError, match="block 6 of pass 0 .*stripe gone"):
            list(reader.blocks(0))
        assert [block.index for block in reader.blocks(1)] == list(range(10))


@pytest.mark.parametrize("shuffle", [False, "blocks", True])
def test_a_matrix_says_what_it_keeps(shuffle: Any) -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((90, 20), density=0.2, rng=rng, format="csr", dtype=np.float32)
    source = MatrixSource(X, block_rows=20, shuffle=shuffle)
    with Reader(source) as reader:
        for pass_ in range(2):
            at_hand = [source.kept(pass_, index) for index in range(source.blocks)]
            assert at_hand == [pass_ > 0 and shuffle is not True] * source.blocks
            assert len(list(reader.blocks(pass_))) == source.blocks


def test_small_blocks_of_a_matrix_are_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse.csr_array(np.eye(12, dtype=np.float32)[np.arange(90) % 12])
    for data, numbers in ((X, 18), (X.toarray(), 20 * 12)):  # entries on average
        source = MatrixSource(data, block_rows=20, shuffle=True)
        for few in (numbers - 1, numbers):
            monkeypatch.setattr("blocklearn.datasources.memory.matrix.FEW_NUMBERS", few)
            assert source.kept(0, 0) == (few == numbers)


@pytest.mark.parametrize("few", [17, 18])
def test_rather_small_blocks_need_a_thread_for_their_index_alone(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have 18 entries on average."""
    monkeypatch.setattr("blocklearn.datasources.memory.matrix.FEW_NUMBERS", 0)
    monkeypatch.setattr("blocklearn.datasources.memory.matrix.FEW_ENTRIES", few)
    X = sparse.csr_array(np.eye(12, dtype=np.float32)[np.arange(90) % 12])
    readers: list[str] = []

    class Told(MatrixSource):
        def read(self, pass_: int, index: int, into: HostBlock) -> None:
            readers.append(threading.current_thread().name)
            super().read(pass_, index, into)

    with Reader(Told(X, block_rows=20, shuffle=True)) as reader:
        for indexed in (True, False):
            readers.clear()
            for block in reader.blocks(0, indexed=indexed):
                assert block.has_index == indexed
            own = {threading.current_thread().name} if few == 18 and not indexed else set()
            assert set(readers) == (own or {"blocklearn-reader"})


def test_without_an_index_there_is_none() -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((90, 20), density=0.2, rng=rng, format="csr", dtype=np.float32)
    source = MatrixSource(X, block_rows=20, shuffle="blocks")
    with Reader(source, indexed=False) as reader, Reader(source) as other:
        assert reader.nbytes < other.nbytes
        for pass_ in range(2):
            for block, twin in zip(reader.blocks(pass_), other.blocks(pass_), strict=True):
                assert not block.indexed and block.n_active == 0
                assert block.active.size == block.t_rows.size == block.t_pos.size == 0
                assert twin.indexed and twin.n_active > 0
                np.testing.assert_array_equal(block.values[: block.nnz], twin.values[: twin.nnz])


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("shuffle", [False, "blocks"])
def test_what_is_kept_serves_whoever_comes(first: bool, shuffle: Any) -> None:
    """Whether a block was kept with its index or without, each reader gets what it wants."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((90, 20), density=0.2, rng=rng, format="csr", dtype=np.float32)
    settings: Any = {"block_rows": 20, "shuffle": shuffle}
    source, anew = MatrixSource(X, **settings), MatrixSource(X, **settings, keep_bytes=0)
    for pass_, indexed in enumerate([first, not first, first]):
        with Reader(source, indexed=indexed) as reader, Reader(anew) as fresh:
            for block, twin in zip(reader.blocks(pass_), fresh.blocks(pass_), strict=True):
                np.testing.assert_array_equal(block.row_ids, twin.row_ids)
                np.testing.assert_array_equal(block.indptr, twin.indptr)
                np.testing.assert_array_equal(block.values[: block.nnz], twin.values[: twin.nnz])
                if indexed:
                    n = twin.n_active
                    assert block.n_active == n
                    np.testing.assert_array_equal(block.active[:n], twin.active[:n])
                    np.testing.assert_array_equal(block.starts[: n + 1], twin.starts[: n + 1])
                    np.testing.assert_array_equal(block.t_pos[: block.nnz], twin.t_pos[: twin.nnz])


def test_rows_in_the_order_of_the_matrix_are_never_copied() -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((90, 20), density=0.2, rng=rng, format="csr", dtype=np.float32)
    with Reader(MatrixSource(X, block_rows=20, keep_bytes=0), indexed=False) as reader:
        for block in reader.blocks(0):
            assert np.shares_memory(block.values, X.data)
            assert np.shares_memory(block.indices, X.indices)


@pytest.mark.parametrize(
    ("model", "optimizer", "uses"),
    [
        (bl.models.GLM(), None, set()),
        (bl.models.GLM(l2=1e-3), None, set()),
        (bl.models.GLM(l1=1e-3), None, {"train"}),
        (bl.models.GLM(), bl.optimizers.AdaGrad(), {"train"}),
        (bl.models.LDA(topics=3), None, {"train"}),
    ],
    ids=["rows", "rows with penalties", "l1", "blocks", "topics"],
)
def test_a_learner_has_only_those_indices_made_that_its_program_reads(
    model: Any, optimizer: Any, uses: set[str]
) -> None:
    rng = np.random.default_rng(0)
    X = sparse.csr_array(np.ceil(rng.random((90, 20)) * 5 * (rng.random((90, 20)) < 0.3)))
    data = (X, rng.integers(2, size=90)) if model.needs_targets else X
    learner = bl.Learner(
        model, data, data, passes=2, block_rows=20, optimizer=optimizer, threads=1
    ).fit()
    assert learner.team is not None
    assert learner.team.first.intakes[0].indexed_for == uses
    assert np.isfinite(list(learner.progress.scores.values())).all()
    assert np.isfinite(learner.predict(X)).all()


def test_a_reader_fills_the_indices_of_the_passes_that_want_them() -> None:
    X = sparse.random(50, 20, 0.2, format="csr", random_state=0)
    with Reader(MatrixSource(X, block_rows=8, shuffle=True)) as reader:
        for pass_, indexed in enumerate([True, False, True, False]):
            found = [block.has_index for block in reader.blocks(pass_, indexed=indexed)]
            assert found == [indexed] * 7


@pytest.mark.parametrize(("shuffle", "columns"), [(True, 20), (True, 400), ("blocks", 20)])
def test_passes_whose_updates_read_no_index_have_none_made(
    shuffle: Any, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept topics: passes of cvb0, of fresh draws, and the first sweep read it, later ones not.

    Blocks that are kept from pass to pass keep their index. The score of a block of the last pass
    reads it where most columns occur in no block.
    """
    rng = np.random.default_rng(0)
    some = sparse.csr_array(rng.poisson(0.3, (90, 20)).astype(np.float32))
    X = sparse.csr_array((some.data, some.indices, some.indptr), (90, columns))
    source = MatrixSource(X, block_rows=20, shuffle=shuffle)
    model = bl.models.LDA(topics=3, assignments="kept", warm_up=1, fresh_passes=1)
    made: list[int] = []  # passes of the blocks
    transpose = HostBlock.transpose

    def noted(block: HostBlock) -> None:
        made.extend([block.pass_] * (not block.has_index))
        transpose(block)

    monkeypatch.setattr(HostBlock, "transpose", noted)
    found = bl.Learner(model, source, passes=6, threads=2).fit()
    needed = [0] * 5 if shuffle == "blocks" else sorted([0, 1, 2] * 5)
    assert sorted(made) == needed + [5] * (columns == 400)
    made.clear()
    monkeypatch.setattr(Replica, "reads_index", lambda *args: True)
    expected = bl.Learner(model, source, passes=6, threads=2).fit()
    assert set(made) == (set() if shuffle == "blocks" else set(range(6)))  # the source keeps them
    np.testing.assert_array_equal(found.parameter("lambda"), expected.parameter("lambda"))
