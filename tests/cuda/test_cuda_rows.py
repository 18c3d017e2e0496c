"""All rows of a matrix in device memory: blocks bring row numbers, and have the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import HostBlock, MatrixSource
from blocklearn.learner.training.plans.gpu_time import CARDS
from blocklearn.learner.training.replicas.all_rows import bytes_of
from blocklearn.learner.training.settings.devices import Kept
from blocklearn.matcache.cuda import kernels as sources
from scripts.benchmarks.idle_device import idle_devices
from tests.cuda.test_cuda_kernels import THREADS, module
from tests.cuda.test_cuda_learner import drivers  # noqa: F401
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver
from tests.support.often import rarely

pytestmark = needs_compiler
ROWS, COLUMNS, BLOCK = 130, 30, 30


def hostile() -> Any:
    """Empty rows, so many that some blocks may have no entry; one full row; numbers of 64 bits."""
    rng = np.random.default_rng(0)
    X = rng.poisson(0.3, (ROWS, COLUMNS)).astype(np.float64)
    X[5:70] = 0.0
    X[100] = 1 + np.arange(COLUMNS)
    found = sp.csr_array(X)
    found.indices, found.indptr = found.indices.astype(np.int64), found.indptr.astype(np.int64)
    return found


def labels() -> Any:
    return (np.random.default_rng(1).random((ROWS, 3)) < 0.4).astype(np.float32)


def weights() -> Any:
    return np.random.default_rng(2).integers(0, 4, ROWS).astype(np.float32)


def glm() -> tuple[Any, dict[str, Any]]:
    return bl.models.GLM(), {"optimizer": bl.optimizers.AdaGrad(rate=0.5)}


MODELS: dict[str, Any] = {
    "nmf": lambda: (bl.models.NMF(components=3), {}),
    "lda": lambda: (bl.models.LDA(topics=4, inference="vb", inner_iterations=3), {}),
    "kept": lambda: (
        bl.models.LDA(topics=4, assignments="kept", warm_up=1, fresh_passes=0, sweeps=2),
        {},
    ),
    "als": lambda: (bl.models.ALS(rank=3), {}),
    "glm": glm,
    "glm, weights": glm,
    "glm, sparse targets": glm,
    "glm, by row": lambda: (
        bl.models.GLM(),
        {"optimizer": bl.optimizers.AdaGrad(rate=0.7, initial=0.1, step_per="row")},
    ),
    "glm, dense": glm,
}


def source(name: str, shuffle: Any = True, **options: Any) -> MatrixSource:
    X = hostile().toarray() if "dense" in name else hostile()
    labelled = {"targets": sp.csr_array(labels()) if "sparse" in name else labels()}
    options = (labelled if "glm" in name else {}) | options
    if "weights" in name:
        options["weights"] = weights()
    return MatrixSource(X, block_rows=BLOCK, shuffle=shuffle, seed=3, **options)


def learner(name: str, data: Any = None, **options: Any) -> bl.Learner:
    model, own = MODELS[name]()
    data = source(name) if data is None else data
    given = {"passes": 3, "seed": 3, "device": "cuda", "index": "device", "verbose": False}
    return bl.Learner(model, data, **{**given, **own, **options})


def tensors(found: bl.Learner) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in found.state().tensors.items()}


def held(found: bl.Learner) -> set[str]:
    """What stays of the data."""
    names = {row.name for row in found.plan().rows if row.of == "kept"}
    return {name for name in names if "all rows" in name}


@pytest.mark.parametrize("threads", THREADS)
def test_starts_of_many_rows(threads: int) -> None:
    """There are several tiles."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 9, 5000))])
    ids = rng.integers(-1, 5000, 20_001)
    starts, counts = np.full(20_002, -7, np.int64), np.full(2, -7, np.int64)
    run = module(sources.states_source(4), threads)
    run.call("row_sizes", 20_001, ids, offsets, starts, blocks=3)
    run.call("row_starts", 20_001, starts, counts, blocks=1)
    lengths = np.where(ids < 0, 0, np.diff(offsets)[ids])
    np.testing.assert_array_equal(starts, np.concatenate([[0], np.cumsum(lengths)]))
    assert counts.tolist() == [lengths.sum(), -7]


@pytest.mark.parametrize("threads", THREADS)
def test_rows_become_a_block(threads: int) -> None:
    X = hostile()
    ids = np.array([100, 7, 129, 3, 8, 0, -1, -1])
    wanted = X[ids[ids >= 0]]
    starts, counts = np.full(9, -7, np.int64), np.full(2, -7, np.int64)
    columns, values = np.full(99, -7, np.int32), np.full(99, -7, np.float32)
    run = module(sources.states_source(4), threads)
    offsets, indices = X.indptr.astype(np.int64), X.indices.astype(np.int32)
    run.call("row_sizes", 8, ids, offsets, starts, blocks=2)
    run.call("row_starts", 8, starts, counts, blocks=1)
    given = indices, X.data.astype(np.float32).view(np.uint32)
    run.call("take_entries", 8, ids, offsets, *given, starts, columns, values, blocks=2)
    assert starts.tolist() == [*wanted.indptr, wanted.nnz, wanted.nnz]
    assert counts.tolist() == [wanted.nnz, -7]  # the second is that of the index
    np.testing.assert_array_equal(columns[: wanted.nnz], wanted.indices)
    np.testing.assert_array_equal(values[: wanted.nnz], wanted.data)
    assert (columns[wanted.nnz :] == -7).all()


@pytest.mark.parametrize(
    "name",
    ["nmf", "glm, weights", *rarely("glm", "als", "glm, dense", "lda", "kept", "glm, by row"),
     *rarely("glm, sparse targets")],
)  # fmt: skip
def test_bits_are_those_of_rows_gathered_by_the_host(
    name: str,
    drivers: list[HostDriver],  # noqa: F811
) -> None:
    """Also where training stops in a pass, and after predictions for blocks with more entries."""
    results = []
    for room in ("auto", 0):
        found = learner(name, device_blocks=room)
        assert bool(held(found)) == (room == "auto")
        found.fit()
        stats = found.team.first.cache.stats()  # type: ignore[union-attr]
        assert (stats.allocations, stats.allocations_after_warmup) == (1, 0)
        seen = [tensors(found)]
        if name != "als":
            denser = hostile().toarray() + 1
            found.predict(denser if "dense" in name else sp.csr_array(denser))
        found.passes += 2
        seen.append(tensors(found.fit()))
        found.close()
        results.append(seen)
    assert results[0] == results[1]
    assert drivers[-2].sent < drivers[-1].sent


def test_a_block_sends_its_row_numbers(drivers: list[HostDriver]) -> None:  # noqa: F811
    """And small numbers: its key, step sizes."""
    sent = []
    for passes in (3, 4):
        learner("glm, weights", passes=passes).fit().close()
        sent.append(drivers[-1].sent)
    blocks = -(-ROWS // BLOCK)
    assert 8 * BLOCK * blocks <= sent[1] - sent[0] <= (8 * BLOCK + 64) * blocks


def test_what_is_planned() -> None:
    with idle_devices():
        every = {f"{part} of X, all rows" for part in ("offsets", "columns", "values")}
        labelled = {f"{part}, all rows (on the device)" for part in ("weights", "Y")}
        every = {f"{name} (on the device)" for name in every}
        assert held(learner("glm")) == every | labelled
        assert held(learner("glm, dense")) == labelled | {"X, all rows (on the device)"}
        across = {name.replace("X", "X (transposed)") for name in every}
        across |= {"weights (transposed), all rows (on the device)"}
        assert held(learner("als")) == every | across | (labelled - {"Y, all rows (on the device)"})
        data = source("glm")
        whole = bytes_of(data, features=True)
        targets = {"Y, all rows (on the device)"}
        planned = learner("glm", device_blocks=whole).plan()
        rows = [row for row in planned.rows if "all rows" in row.name]
        assert sum(-(-row.nbytes // 256) * 256 for row in rows) == whole
        assert {(row.of, row.device, row.held) for row in rows} == {("kept", "cuda:0", 0)}
        ring = next(row for row in planned.rows if row.name.startswith("ring"))
        assert ring.nbytes < 8 * data.nnz
        assert held(learner("glm", device_blocks=whole - 1)) == targets
        assert held(learner("glm", index="host")) == targets  # which readers make, of columns
        assert not held(learner("nmf", index="host"))
        assert not held(learner("glm", passes=1))
        kept = learner("glm", source("glm", "blocks"), index="host")
        assert held(kept) == targets
        assert "blocks kept on the device" in {row.name for row in kept.plan().rows}
        assert not held(learner("glm", device="cpu"))


def test_the_floor_of_a_pass_copies_row_numbers() -> None:
    with idle_devices():
        blocks = -(-ROWS // BLOCK)
        assert learner("glm").assembly().gpu_floor(CARDS["H200"]).copied == 8 * BLOCK * blocks
        targets = learner("glm", device_blocks=bytes_of(source("glm"), features=False))
        bare = learner("glm", device_blocks=0)
        saved = (
            bare.assembly().gpu_floor(CARDS["H200"]).copied
            - targets.assembly().gpu_floor(CARDS["H200"]).copied
        )
        assert saved == 4 * 3 * BLOCK * blocks


class Doubled(MatrixSource):
    """Changes what it reads."""

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        super().read(pass_, index, into)
        into.values[:] *= 2.0


@pytest.mark.slow
def test_a_source_with_a_read_of_its_own_is_read(drivers: list[HostDriver]) -> None:  # noqa: F811
    data = Doubled(hostile(), targets=labels(), block_rows=BLOCK, shuffle=True, seed=3)
    found = learner("glm", data)
    assert not held(found)
    twice = learner("glm", MatrixSource(
        2 * hostile(), targets=labels(), block_rows=BLOCK, shuffle=True, seed=3
    ))  # fmt: skip
    assert tensors(found.fit()) == tensors(twice.fit())
    found.close()
    twice.close()


@pytest.mark.slow
@pytest.mark.parametrize("names", [["cuda:0", "cuda:0"], *rarely(["cuda:0", "cuda:1"])])
def test_replicas_have_all_rows_each(
    names: list[str],
    drivers: list[HostDriver],  # noqa: F811
) -> None:
    found = []
    for room in ("auto", 0):
        made = learner("glm", device=names, replicas=2, sync_every=1, device_blocks=room)
        assert bool(held(made)) == (room == "auto")
        found.append(tensors(made.fit()))
        made.close()
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["glm", *rarely("nmf")])
def test_devices_of_different_size_keep_the_same(
    name: str,
    drivers: list[HostDriver],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One has room for all rows, the other one too, or for targets, or for nothing."""
    found, rooms = [], iter([])
    monkeypatch.setattr(Kept, "limit", lambda kept, left: next(rooms))
    whole, targets = (bytes_of(source(name), features=each) for each in (True, False))
    for other in (whole, targets, 10):
        rooms = iter([whole, other])
        made = learner(name, device=["cuda:0", "cuda:1"], replicas=2, sync_every=1)
        found.append(tensors(made.fit()))
        assert next(rooms, None) is None
        made.close()
    assert found[0] == found[1] == found[2]


def test_rows_are_checked_before_they_are_copied(drivers: list[HostDriver]) -> None:  # noqa: F811
    X = hostile()
    X.data[-1] = -3.0
    data = MatrixSource(X, block_rows=BLOCK, shuffle=True)
    with pytest.raises(bl.datasources.DataError, match="row 129, column .* is -3, but this model"):
        learner("nmf", data).fit()
    bad = labels()
    bad[77, 1] = 0.5
    good = MatrixSource(hostile(), targets=bad, block_rows=BLOCK, shuffle=True)
    bad[77, 1] = -1.0
    with pytest.raises(ValueError, match=r"-1"):
        learner("glm", good).fit()
    changed = hostile()
    data = MatrixSource(changed, targets=labels(), block_rows=BLOCK, shuffle=True)
    changed.data[3] = np.nan
    with pytest.raises(bl.datasources.DataError, match="row 0, column .* is nan"):
        learner("glm", data).fit()


def test_a_run_resumes_in_the_middle_of_a_pass(drivers: list[HostDriver]) -> None:  # noqa: F811
    class Stops(bl.Hook):
        def block(self, learner: Any, progress: Any) -> None:
            progress.stop = progress.position == (1, 2)

    whole = tensors(learner("glm, weights").fit())
    first = learner("glm, weights", hooks=[Stops()]).fit()
    state = first.state()
    first.close()
    second = learner("glm, weights")
    second.restore(state)
    assert tensors(second.fit()) == whole


@pytest.mark.parametrize("shuffle", [True, False, "blocks"])
def test_row_numbers_are_those_of_the_blocks(shuffle: Any) -> None:
    data = source("glm, weights", shuffle)
    numbers, whole = data.row_numbers(), HostBlock(data.shape)
    block = HostBlock(numbers.shape)
    assert numbers.fingerprint == data.fingerprint and numbers.blocks == data.blocks
    assert block.nbytes < whole.nbytes / 3
    for pass_, index in [(0, 0), (1, 4), (1, 0)]:
        data.read(pass_, index, whole)
        numbers.read(pass_, index, block)
        assert (block.rows, block.nnz, block.pass_) == (whole.rows, whole.nnz, pass_)
        np.testing.assert_array_equal(block.row_ids, whole.row_ids)
        np.testing.assert_array_equal(block.weights, whole.weights)
