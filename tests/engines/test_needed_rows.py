"""Workers fetch only the rows that their blocks need; all of them are threads here."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import blocklearn as bl
from blocklearn.learner.engines import given_rows, needed_rows, row_sums, row_threads
from blocklearn.learner.engines.cost import (
    NeededSizes,
    Network,
    Sizes,
    needed_seconds,
    sparse_seconds,
)
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.errands import one_ahead
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.engines.given_rows import KeptRows
from blocklearn.learner.engines.needed_rows import NeededRows
from blocklearn.learner.training.teams import needed_tables, needs, team
from blocklearn.learner.training.teams.lane import Lane
from blocklearn.matcache.cpu.pool import Pool
from blocklearn.models import FM, GLM, LDA, Model
from blocklearn.optimizers import FTRL, LBFGS, AdaGrad, Adam
from tests.engines.test_workers import Stops, learnt
from tests.support import needed_cases
from tests.support.needed_cases import Case
from tests.support.often import crossed, first_often
from tests.support.workers import results


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers gather few rows at a time, and the last ones are fewer."""
    monkeypatch.setattr(needed_rows, "PIECE", 150)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("workers, degrees", [(1, ()), (2, ()), (5, ()), (4, (2, 2))])
def test_fetched_rows_have_the_bits_of_numpy(workers: int, degrees: tuple[int, ...]) -> None:
    """Whole tables at the end, and every row that a block has read."""
    cases = needed_cases.CASES
    found = results(
        workers, lambda own: [needed_cases.by_workers(case, own, degrees) for case in cases]
    )
    needed_cases.check(found, cases)


@pytest.mark.parametrize("each", [1, 7, 100])
def test_a_piece_of_a_merge_travels_in_another_thread_while_one_is_added_up(
    each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of pieces is, and whatever a worker gives and gets of them."""
    monkeypatch.setattr(given_rows, "piece_of", lambda workers: each)
    cases = needed_cases.CASES

    def work(own: Exchange) -> tuple[list[list[bytes]], int]:
        lane, begun = Lane("pieces"), [0]

        def aside(*call: Any) -> Any:
            begun[0] += 1
            return lane.ask(*call)

        made = [needed_cases.by_workers(case, own, aside=aside) for case in cases]
        assert made == [needed_cases.by_scratch(case, own, aside) for case in cases]
        lane.close()
        return made, begun[0]

    made, begun = zip(*results(3, work), strict=True)
    needed_cases.check(made, cases)
    assert len({*begun}) == 1 and begun[0] > 2 * sum(case.merges for case in cases)


@pytest.mark.parametrize("failing", ["first", "last", "between"])
def test_no_piece_is_under_way_after_a_failure(failing: str) -> None:
    """Calls that have begun end first: they hold memory, and the connection to other workers."""
    lane, over = Lane("pieces"), list[int]()

    def call(number: int) -> int:
        time.sleep(0.01)
        over.append(number)
        if (failing, number) in {("first", 0), ("last", 2)}:
            raise OSError(failing)
        return number

    begun = (lane.ask(call, number) for number in range(3))
    with pytest.raises(OSError, match=failing), closing(one_ahead(begun)) as found:
        for number in found:
            if (failing, number) == ("between", 0):
                raise OSError(failing)
    assert over == ([0, 1] if failing != "last" else [0, 1, 2])
    lane.close()


def test_threads_of_a_worker_share_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads take part, and the bits are those of one."""
    monkeypatch.setattr(row_threads, "LEAST", 1)
    cases, seen = needed_cases.CASES, set()

    class Seen(Pool):
        def run(self, task: Any, chunks: int) -> None:
            seen.add(chunks)
            super().run(task, chunks)

    def work(own: Exchange) -> list[list[bytes]]:
        pool = Seen(3)
        try:
            return [needed_cases.by_workers(case, own, pool=pool) for case in cases]
        finally:
            pool.close()

    needed_cases.check(results(2, work), cases)
    assert max(seen) == row_threads.EACH * 3


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_rows_that_last_until_a_merge_have_the_bits_of_numpy(workers: int) -> None:
    """Tables are NaN where no row was put since: owners have what all learned."""
    cases = needed_cases.CASES
    found = results(workers, lambda own: [needed_cases.by_scratch(case, own) for case in cases])
    needed_cases.check(found, cases)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(1, 7),
    st.builds(
        Case,
        st.sampled_from([1, 2, 3, 40, 300]),
        st.lists(st.sampled_from([1, 2, 4, 9]), min_size=1, max_size=3),
        st.sampled_from([0.0, 0.05, 0.5, 1.0]),
        st.integers(1, 3),
        st.integers(1, 4),
        st.lists(st.integers(0, 3), max_size=2),
        st.integers(0, 2**31),
    ),
)
def test_any_number_of_workers_has_the_bits_of_numpy(workers: int, case: Case) -> None:
    needed_cases.check(results(workers, lambda own: [needed_cases.by_workers(case, own)]), [case])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("width", [4, 2 * row_sums.NARROW])
def test_sums_of_many_workers_are_those_in_their_order(
    width: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are added up in any order only where this changes no bit."""
    monkeypatch.setattr(row_threads, "LEAST", 100)
    rng, workers, rows = np.random.default_rng(0), 40, 60
    before = rng.normal(size=(rows, width)).astype(np.float32)
    before[:, 0] = 1 + 2.0**-23
    before[:5] = [[-0.0], [0.0], [-0.0], [2.0**-149], [np.float32(3e38)]]
    own = [before.copy() for _ in range(workers)]
    read = rng.random((workers, rows)) < 0.03
    read[:, 2] = read[0] = read[-1] = True
    large = 2.0 ** np.arange(rows)
    for rank, numbers in enumerate(own):
        numbers[5:, 2:] *= np.ldexp(rng.normal(size=width - 2), rng.integers(-30, 30))
        if rank in (0, workers - 1):  # what others give is lost between these, or not
            numbers[5:, 0] = large[5:] * (1 if rank == 0 else -1)
    total = own[0].astype(np.float64) * read[0][:, None]
    for numbers, some in zip(own[1:], read[1:], strict=True):
        total += np.where(some[:, None], numbers, before)
    expected = (total * (1.0 / workers)).astype(np.float32)
    assert (expected[:, 0] == 0).any() and (
        expected[:, 0] == before[-1, 0] * np.float32(0.95)
    ).any()
    ids = [np.flatnonzero(some).astype(np.int32) for some in read]
    given = np.concatenate([numbers[some] for numbers, some in zip(own, ids, strict=True)])
    ranks = np.repeat(np.arange(workers), [some.size for some in ids])
    keys = np.sort((np.concatenate(ids).astype(np.int64) << 32) + ranks)
    heads = np.cumsum([0, *(some.size for some in ids)])
    ends = heads[1:].tolist()
    ids_of = np.arange(rows, dtype=np.int32)
    kinds = np.zeros(workers, np.int64)
    pool = Pool(threads)
    row_sums.merge(pool, ids_of, keys, heads, given, kinds, before[None], width)
    pool.close()
    assert before.tobytes() == expected.tobytes()
    assert heads[:-1].tolist() == ends


@pytest.mark.parametrize("means", [0, 3, 20])
def test_some_columns_grow_by_what_they_have_grown_for_each_worker(means: int) -> None:
    """The others become means, also where workers are of two kinds."""
    rng, workers, rows, sums = np.random.default_rng(0), 4, 30, 2
    kinds = np.array([0, 1, 1, 0])
    before = rng.integers(0, 2**20, (2, rows, means + sums)).astype(np.float32)
    before[1, :, means:] = before[0, :, means:]
    own = before[kinds] + rng.integers(-9, 9, (workers, rows, means + sums)).astype(np.float32)
    read = rng.random((workers, rows)) < 0.4
    alike = np.where(read[:, :, None], own, before[kinds]).astype(np.float64)
    grown = (alike[:, :, means:] - before[0, :, means:]).sum(axis=0)
    expected = np.hstack([alike[:, :, :means].mean(axis=0), before[0, :, means:] + grown])
    ids = [np.flatnonzero(some).astype(np.int32) for some in read]
    given = np.concatenate([numbers[some] for numbers, some in zip(own, ids, strict=True)])
    ranks = np.repeat(np.arange(workers), [some.size for some in ids])
    keys = np.sort((np.concatenate(ids).astype(np.int64) << 32) + ranks)
    heads, every = np.cumsum([0, *(some.size for some in ids)]), np.arange(rows, dtype=np.int32)
    row_sums.merge(Pool(1), every, keys, heads, given, kinds, before, means)
    np.testing.assert_array_equal(before[0], expected.astype(np.float32))


def test_memory_for_rows_that_travel_is_kept() -> None:
    """Until more rows travel than it has room for."""
    kept = KeptRows()
    first = kept.rows(40, 2)
    assert first.shape == (40, 2) and first.dtype == np.float32
    for count, columns in ((80, 1), (2, 3), (0, 5), (40, 2)):
        again = kept.rows(count, columns)
        assert again.shape == (count, columns) and again.ctypes.data == first.ctypes.data
    assert kept.rows(100, 2).shape == (100, 2)


def test_numbers_of_rows_are_sent_once() -> None:
    """Owners know from what was fetched which rows a merge gives them."""
    case = Case(2000, [4], rounds=2, merges=3)

    def work(own: Exchange) -> tuple[int, int]:
        sent, read, swap = 0, 0, own.exchange

        def counted(parts: Any, into: Any = None) -> Any:
            nonlocal sent
            if parts[0].dtype == np.int32:
                sent += sum(part.size for rank, part in enumerate(parts) if rank != own.rank)
            return swap(parts, into)

        tables, rows = case.before(), NeededRows(Crew(own), case.rows, counted)
        for merge in range(case.merges):
            blocks = [*case.blocks(own.rank, merge), np.empty(0, np.int32)][: case.rounds]
            for ids in blocks:
                rows.fetch(tables, ids)
            rows.merge(tables)
            every = np.unique(np.concatenate(blocks))
            read += int(np.count_nonzero(every % own.size != own.rank))
        return sent, read

    for sent, read in results(2, work):
        assert sent == read > 0


def test_owners_hold_merged_rows_apart_from_the_tables() -> None:
    """A merge changes no table: a block's rows are put there when they are fetched."""
    case, pause = Case(200, [1, 3], share=0.3), np.empty(0, np.int32)

    def work(own: Exchange) -> None:
        tables, rows = case.before(), NeededRows(Crew(own), case.rows, own.exchange)
        for merge in range(case.merges):
            for ids in case.blocks(0, merge):
                rows.fetch(tables, ids)
                needed_cases.trained(tables, ids, own.rank)
            before = [table.copy() for table in tables]
            rows.merge(tables)
            assert all(map(np.array_equal, tables, before))
        rows.fetch(tables, pause)
        assert all(map(np.array_equal, tables, before))
        rows.merge(tables)
        rows.gather(tables)
        assert not any(map(np.array_equal, tables, before))

    results(2, work)


def test_few_rows_travel() -> None:
    """A worker sends rows that its blocks have read, and those that others ask for."""
    case = Case(20_000, [4], share=0.01, merges=3)

    def work(own: Exchange) -> int:
        sent, swap = [0], own.exchange

        def counted(parts: Any, into: Any = None) -> Any:
            sent[0] += sum(part.nbytes for rank, part in enumerate(parts) if rank != own.rank)
            return swap(parts, into)

        own.exchange = counted  # type: ignore[method-assign]
        tables, rows = case.before(), NeededRows(Crew(own), case.rows, counted)
        for merge in range(case.merges):
            for ids in case.blocks(0, merge):
                rows.fetch(tables, ids)
            rows.merge(tables)
        return sent[0]

    for sent in results(2, work):
        assert 0 < sent < 0.1 * case.merges * case.rows * 16


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let all models that can fetch rows do so; returns their tables, as workers open them."""
    found: list[str] = []

    class Noted(needed_tables.NeededTables):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            found.extend(self.names)

    monkeypatch.setattr(needs, "FEW", 0)
    monkeypatch.setattr(given_rows, "piece_of", lambda workers: 100)
    monkeypatch.setattr(needs, "needed_seconds", lambda _: 0.0)
    monkeypatch.setattr(team, "NeededTables", Noted)
    return found


def data() -> Any:
    """Rows of few columns each: most columns occur in no block."""
    X = sp.random(90, 400, 0.01, format="csr", dtype=np.float32, random_state=0)
    return X, (np.random.default_rng(1).random(90) < 0.5).astype(np.float32)


def data_of(model: Model) -> tuple[Any, Any]:
    """What a model trains on, and is evaluated on."""
    X, y = data()
    train = X if isinstance(model, LDA) else (X, y)
    return train, train


class Own(GLM):
    """May read whole tables: it does not say otherwise."""


PER_ROW, PER_BLOCK = AdaGrad(rate=0.5, step_per="row"), AdaGrad(rate=0.5)
CAN: dict[str, tuple[Model, Any]] = {
    "rows": (GLM(), PER_ROW),
    "blocks": (GLM(), PER_BLOCK),
    "ftrl": (GLM(), FTRL()),
    "adam": (GLM(), Adam()),
    "factors": (FM(factors=3), PER_BLOCK),
}
RESTING: dict[str, Model] = {
    "vb": LDA(topics=3, inference="vb"),
    "cvb0": LDA(topics=3, inference="cvb0", alpha="auto"),
    "sampled": LDA(topics=3, warm_up=1),
}
CANNOT: dict[str, tuple[Model, Any]] = {
    "lasso": (GLM(l1=1e-3), PER_BLOCK),
    "ridge by rows": (GLM(l2=1e-2), PER_ROW),
    "average": (GLM(), AdaGrad(rate=0.5, average_from=3)),
    "full pass": (GLM(l2=1e-2), LBFGS(memory=2)),
    "other class": (Own(), PER_BLOCK),
    "learned prior": (LDA(topics=3, inference="cvb0", eta="auto"), None),
}


def learner(model: Model, optimizer: Any, **given: Any) -> bl.Learner:
    """A learner after two passes, with scores within a pass, which read the whole table."""
    options: dict[str, Any] = {
        "passes": 2, "block_rows": 10, "seed": 3, "sync_every": 2, "threads": 1, **given,
    }  # fmt: skip
    return bl.Learner(
        model, *data_of(model), optimizer=optimizer, verbose=False,
        evaluation=bl.Evaluation(every_blocks=4), **options,
    ).fit()  # fmt: skip


@crossed(name=CAN, workers=[2, 4])
def test_workers_that_fetch_rows_learn_what_replicas_learn(
    name: str, workers: int, always: list[str]
) -> None:
    model, optimizer = CAN[name]
    expected = learnt(learner(model, optimizer, replicas=workers))
    assert not always
    found = results(workers, lambda own: learnt(learner(model, optimizer, engine=own)))
    assert "W" in always
    assert found == [expected] * workers


def test_the_threads_of_a_learner_share_rows(
    always: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while a block trains: two threads may not start the threads of a pool."""
    parts, noted = row_threads.parts, list[int]()

    def counted(*given: Any) -> int:
        noted.append(parts(*given))
        assert noted[-1] == 1 or threading.current_thread().name != "blocklearn-needed-rows"
        return noted[-1]

    monkeypatch.setattr(row_threads, "LEAST", 1)
    monkeypatch.setattr(row_threads, "parts", counted)
    model, optimizer = CAN["factors"]
    given: dict[str, Any] = {"sync_every": 1}  # so that rows arrive between scores
    expected = learnt(learner(model, optimizer, replicas=2, **given))
    found = results(
        2, lambda own: learnt(learner(model, optimizer, engine=own, threads=2, **given))
    )
    assert found == [expected] * 2
    assert max(noted) == 2 * row_threads.EACH


@crossed(name=RESTING, workers=[2, 4])
def test_rows_that_rest_wake_at_their_owners(name: str, workers: int, always: list[str]) -> None:
    """Nine blocks: workers have different clocks, and more different ones in the second pass."""
    expected = learnt(learner(RESTING[name], None, replicas=workers))
    assert not always
    found = results(workers, lambda own: learnt(learner(RESTING[name], None, engine=own)))
    assert "lambda" in always
    assert found == [expected] * workers


@pytest.mark.parametrize("name", first_often(CANNOT, 3))
def test_others_exchange_what_differs(name: str, always: list[str]) -> None:
    """Where rows rest, updates read whole tables, or may."""
    model, optimizer = CANNOT[name]
    results(2, lambda own: learner(model, optimizer, engine=own, passes=1))
    assert not always


@pytest.mark.parametrize(
    "model, given",
    [
        (GLM(), {"replicas": 2}),
        (GLM(), {"sync_weight": 0.5}),
        (RESTING["vb"], {"block_rows": 60}),  # most columns may occur: no row rests
    ],
    ids=["several replicas", "apart", "large blocks"],
)
def test_some_settings_exchange_what_differs(
    model: Model, given: dict[str, Any], always: list[str]
) -> None:
    optimizer = PER_ROW if isinstance(model, GLM) else None
    results(2, lambda own: learner(model, optimizer, engine=own, passes=1, **given))
    assert not always


@pytest.mark.parametrize(
    "model, optimizer", [(GLM(), PER_ROW), (RESTING["vb"], None)], ids=["rows", "vb"]
)
def test_a_hook_reads_the_whole_table_and_a_run_resumes_within_a_pass(
    model: Model, optimizer: Any, always: list[str]
) -> None:
    """Workers have old rows when the hook stops them; the state has none."""
    expected = Stops(4)
    whole = learnt(learner(model, optimizer, replicas=2))
    stopped = learnt(learner(model, optimizer, replicas=2, hooks=[expected]))
    hooks = [Stops(4), Stops(4)]

    def work(own: Exchange) -> tuple[dict[str, Any], dict[str, Any]]:
        early = learner(model, optimizer, engine=own, hooks=[hooks[own.rank]])
        state = early.state()
        other = bl.Learner(
            model, *data_of(model), optimizer=optimizer, threads=1, verbose=False, engine=own,
            passes=2, block_rows=10, seed=3, sync_every=2,
            evaluation=bl.Evaluation(every_blocks=4),
        )  # fmt: skip
        if own.rank == 0:  # the others get it from worker 0
            other.restore(state)
        return learnt(early), learnt(other.fit())

    assert results(2, work) == [(stopped, whole)] * 2
    assert hooks[0].seen == expected.seen
    assert always


@pytest.mark.parametrize("name", ["rows", "blocks", "ftrl"])
def test_clocks_begin_anew_at_merges(name: str, always: list[str]) -> None:
    """As of replicas, where a state is of the middle of a pass and nothing has read the tables."""
    model, optimizer = CAN[name]

    def pauses(**given: Any) -> Any:
        run = bl.Learner(
            model, data(), optimizer=optimizer, threads=1, verbose=False, block_rows=10, seed=3,
            sync_every=1, hooks=[Early()], **given,
        ).fit()  # fmt: skip
        return run.state().position["optimizers"]

    expected = pauses(replicas=2)
    assert results(2, lambda own: pauses(engine=own)) == [expected] * 2
    assert "W" in always


class Early(bl.Hook):
    """Stops after four blocks."""

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        progress.stop = progress.stop or progress.block >= 4


def test_the_cost_model_knows_when_fetching_is_faster() -> None:
    network = Network(5e-5, 1.25e9)
    few = NeededSizes(64, 1, 20_000, 8)
    sizes = Sizes(64, 2**23, 256, 20_000, 64 * 20_000)
    assert needed_seconds(few, network) < 0.2 * sparse_seconds(sizes, network)
    assert needed_seconds(NeededSizes(64, 8, 8 * 20_000, 8), network) > needed_seconds(few, network)
    every = NeededSizes(4, 1, 2**20, 8)
    assert needed_seconds(every, network) > sparse_seconds(Sizes(4, 2**15, 256, 9, 9), network)
