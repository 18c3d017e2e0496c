"""Replicas on devices are merged there, to the bits of a merge on the host."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.matcache import Mat, MatCache, Merge, make_merger, named, plan_merge
from blocklearn.matcache.cuda import Cuda, devices, merging
from blocklearn.matcache.cuda.wires import connect
from tests.cuda.test_cuda_learner import CASES, counts, labels, trained
from tests.learner.test_replicas import Sums
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver, stand_ins
from tests.support.cuda_nccl import Library
from tests.support.model_variants import OneSided
from tests.support.often import first_often
from tests.support.own_threads import Started

pytestmark = needs_compiler

WIRES = ["NCCL", "copies"]


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[HostDriver]:
    """Those that were opened."""
    return stand_ins(monkeypatch)


@pytest.fixture
def library(drivers: list[HostDriver], monkeypatch: pytest.MonkeyPatch) -> Library:
    """NCCL of these devices; present unless a test says otherwise."""
    found = Library(drivers)
    monkeypatch.setattr(devices, "nccl", lambda: found)
    return found


Work = tuple[Merge, str, Any, int]  # rule, name, dtype, columns

MATS: list[Work] = [
    ("mean", "one number", np.float32, 1),
    ("mean", "weights", np.float32, 1003),
    ("mean", "weights in double", np.float64, 517),
    ("sum", "statistics", np.float32, 700),
    ("sum", "counts", np.float64, 2),
    ("max", "bounds", np.float64, 333),
    ("same", "clock", np.float32, 5),
]


def merged(caches: Sequence[MatCache], weights: Sequence[float]) -> dict[str, list[bytes]]:
    """What replicas end with that learn, and are merged, once for each of the weights."""

    def mats(cache: MatCache) -> list[Mat]:
        return [named(cache, name, (1, columns), dtype) for _, name, dtype, columns in MATS]

    rules = [rule for rule, *_ in MATS]
    for cache in caches:
        plan_merge(cache, zip(rules, mats(cache), strict=True), len(caches))
        cache.commit()
        cache.freeze()
    each = [mats(cache) for cache in caches]
    merger = make_merger(caches, zip(rules, each[0], strict=True))
    rng = np.random.default_rng(0)
    for weight in weights:
        together = [[own[n] for own in each] for n in range(len(MATS))]
        merger.begin(m for rule, m in zip(rules, together, strict=True) if rule == "sum")
        for own in each:
            for mat in own:
                mat.set(mat.numpy() + rng.standard_normal(mat.shape).astype(mat.dtype))
        merger.merge(zip(rules, together, strict=True), weight)
    found = {m.label: [own[n].numpy().tobytes() for own in each] for n, m in enumerate(each[0])}
    merger.close()
    for cache in caches:
        assert cache.stats().allocations_after_warmup == 0
        cache.close()
    return found


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("replicas", [2, 3])
def test_bits_are_those_of_the_host(
    wire: str, replicas: int, library: Library, drivers: list[HostDriver], monkeypatch: Any
) -> None:
    monkeypatch.setattr(merging, "ROOM", 1024)  # bytes: several rounds for one Mat
    if wire == "copies":
        monkeypatch.setattr(devices, "nccl", lambda: None)
    weights = [0.7, 0.25, 1.0]
    host = merged([MatCache(threads=1, reserving=True) for _ in range(replicas)], weights)
    caches = [
        MatCache(backend=Cuda(devices.open_driver(number)), reserving=True)
        for number in range(replicas)
    ]
    assert merged(caches, weights) == host
    assert len(set(host["weights"])) == 1  # the last weight is 1
    assert len(set(host["clock"])) == replicas
    assert (library.groups > 0) == (wire == "NCCL")
    assert (sum(driver.copied for driver in drivers) > 0) == (wire == "copies")
    assert library.live == 0


def test_timing_and_wires_change_no_bit(
    library: Library, drivers: list[HostDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a look at the merged model, while replicas are apart. Delays of the stand-ins are
    others in each of the runs.
    """
    found = []
    looks = {"eval": (counts(), labels()), "evaluation": bl.Evaluation(every_blocks=1)}
    for wire in ["NCCL", "NCCL", "copies", "copies"]:
        if wire == "copies":
            monkeypatch.setattr(devices, "nccl", lambda: None)
        names = ["cuda:0", "cuda:1", "cuda:2"]
        options = {"replicas": 3, "sync_every": 1, "sync_weight": 0.7}
        learner = trained("glm", names, **options, **({} if len(found) % 2 else looks))
        assert learner.team is not None
        for replica in learner.team.replicas:
            stats = replica.cache.stats()
            assert (stats.allocations, stats.allocations_after_warmup) == (1, 0)
        found.append({n: a.tobytes() for n, a in learner.state().tensors.items()})
        learner.close()
        assert library.live == 0
    assert found[0] == found[1] == found[2] == found[3]
    assert library.initialised == [[0, 1, 2]] * 2
    assert all(driver.copied == 0 for driver in drivers[:6])
    assert all(driver.copied > 0 for driver in drivers[6:])


def test_sums_add_up(library: Library) -> None:
    X = np.arange(60.0, dtype=np.float32).reshape(20, 3)
    for each in ["cuda:0", "cuda:0"], ["cuda:0", "cuda:1", "cuda:2"]:
        learner = bl.Learner(
            Sums(), X, passes=2, block_rows=3, replicas="auto", sync_every=2, device=each
        ).fit()
        np.testing.assert_allclose(learner.state().tensors["sums"], 2 * X.sum(0)[None])
        learner.close()
    assert library.initialised == [[0, 1, 2]]  # not of one device twice


def test_nccl_is_for_one_at_a_time(library: Library) -> None:
    """It may block where two communicators are at work on the same devices at once."""
    backends = [Cuda(devices.open_driver(n)) for n in (0, 1, 0, 1)]
    first, second = (
        connect([b.driver for b in pair], [b.compute for b in pair])
        for pair in (backends[:2], backends[2:])
    )
    entered = threading.Event()

    def enter() -> None:
        with second.held():
            entered.set()

    thread = threading.Thread(target=enter)
    with first.held():
        thread.start()
        assert not entered.wait(0.05)
    thread.join()
    assert entered.is_set()
    for backend in backends:
        backend.close()


@pytest.mark.parametrize("where", ["initAll", "groupEnd"])  # it connects devices in the latter
def test_where_nccl_does_not_work_copies_do(
    where: str, library: Library, drivers: list[HostDriver], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: Any) -> Any:
        raise RuntimeError("NCCL_ERROR_SYSTEM_ERROR: unhandled system error")

    setattr(library, where, broken)
    learner = bl.Learner(
        Sums(), np.ones((14, 2)), block_rows=3, replicas=2, device=["cuda:0", "cuda:1"]
    ).fit()
    np.testing.assert_array_equal(learner.parameter("sums"), [[14.0, 14.0]])
    learner.close()
    (record,) = (r for r in caplog.records if r.levelname == "WARNING")
    assert "merged without it: NCCL_ERROR_SYSTEM_ERROR" in record.getMessage()
    assert library.live == 0
    assert all(driver.copied for driver in drivers)


@pytest.mark.slow
def test_two_learners_at_once(library: Library) -> None:

    def train(seed: int) -> bytes:
        learner = bl.Learner(
            bl.models.NMF(components=3), counts(), passes=3, block_rows=30, seed=seed,
            replicas=2, sync_every=1, device=["cuda:0", "cuda:1"],
        ).fit()  # fmt: skip
        try:
            return learner.parameter("H").tobytes()
        finally:
            learner.close()

    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(train, [1, 2]))
    assert together == [train(1), train(2)]
    assert (library.live, len(library.initialised)) == (0, 4)


def test_the_room_is_planned(library: Library) -> None:
    def planned(replicas: int) -> Any:
        names = [f"cuda:{n}" for n in range(replicas)]
        learner = bl.Learner(Sums(), np.ones((20, 3)), replicas=replicas, device=names)
        return {row.name: row for row in learner.plan().rows}

    room = "parts of replicas that are merged"
    assert room not in planned(1)
    found = planned(2)
    assert found[room].shape == (2, 256)
    assert found[room].device == "cuda:0"
    assert found["sums before a merge"].held == 0  # of the host's memory


def test_without_the_library_there_is_no_wire(recwarn: pytest.WarningsRecorder) -> None:
    """What CuPy says of a missing library is not for users who do not need it."""
    found = devices.nccl()
    assert found is None or found.available
    assert not recwarn.list


@pytest.mark.parametrize("name", first_often(["lda, gibbs", "glm", "als, rows of users"]))
def test_goes_on_in_the_middle_of_a_pass(name: str, library: Library) -> None:
    """Replicas that a merge leaves apart, and sums that are not complete, are part of the state."""
    stop: list[Any] = []

    class Keep(bl.Hook):
        """What a checkpoint after the first merge has."""

        def block(self, learner: Any, progress: Any) -> None:
            if not stop:
                stop.append(learner.state())

    def learner(*hooks: bl.Hook) -> Any:
        model, data, own = CASES[name]()
        if own.pop("one_sided", False):
            data = OneSided(MatrixSource(data, block_rows=30))
        return bl.Learner(
            model, data, passes=2, block_rows=30, seed=3, replicas=2, sync_every=1,
            sync_weight=0.7, device=["cuda:0", "cuda:1"], hooks=hooks, **own,
        )  # fmt: skip

    whole = learner(Keep())
    expected = whole.fit().state().tensors
    whole.close()
    rest = learner()
    rest.restore(stop[0])
    assert rest.progress.block == 2
    found = rest.fit().state().tensors
    for what, numbers in expected.items():
        np.testing.assert_array_equal(found[what], numbers, err_msg=what)
    rest.close()


class Breaks(Sums):
    """Fails in the last block."""

    def update(self, block: Any) -> None:
        super().update(block)
        if block.rows == 2:
            raise RuntimeError("no more")


@pytest.mark.parametrize("model", [Sums, Breaks])
def test_nothing_is_left(model: Any, library: Library, drivers: list[HostDriver]) -> None:
    started = Started()
    for _ in range(5):
        learner = bl.Learner(
            model(), np.ones((14, 2), np.float32), passes=2, block_rows=3, sync_every=1,
            device=["cuda:0", "cuda:1"], replicas="auto",
        )  # fmt: skip
        with pytest.raises(RuntimeError, match="no more") if model is Breaks else nullcontext():
            learner.fit()
        learner.close()
    assert library.initialised == [[0, 1]] * 5 and library.live == 0
    assert len(drivers) == 10
    assert all(driver.closed and not driver._live for driver in drivers)
    assert not any(thread.name == "cuda-stream" for thread in started())
