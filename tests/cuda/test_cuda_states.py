"""States of rows that stay on a device: the same bits, and no copies to the host after blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.matcache.cuda import kernels as sources
from blocklearn.models import ALS, LDA, NMF
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver
from tests.support.model_variants import ROWS, counts
from tests.support.often import first_often, rarely

from .test_cuda_kernels import THREADS, module
from .test_cuda_learner import drivers  # noqa: F401

pytestmark = needs_compiler
MODELS = {
    "nmf": lambda: NMF(components=3),
    "als": lambda: ALS(rank=3),
    "lda": lambda: LDA(
        topics=3, assignments="kept", warm_up=1, fresh_passes=0, sweeps=2, alpha="auto"
    ),
}


@pytest.mark.parametrize("threads", THREADS)
def test_rows_are_taken_and_put_back(threads: int) -> None:
    rng = np.random.default_rng(0)
    store = rng.normal(size=(40, 5)).astype(np.float32)
    ids = np.array([7, 39, 0, 12, -1, -1])
    rows, run = np.full((6, 5), np.nan, np.float32), module(sources.states_source(4), threads)
    run.call("take_rows", 6, 5, ids, store, rows, blocks=2)
    wanted = np.where(ids[:, None] < 0, 0, store[ids])
    np.testing.assert_array_equal(rows, wanted)
    rows += 1
    after = store.copy()
    after[ids[:4]] += 1
    run.call("put_rows", 6, 5, ids, rows, store, blocks=2)
    np.testing.assert_array_equal(store, after)
    assert not rows[4:].any() and rows[:4].any()


@pytest.mark.parametrize("threads", THREADS)
def test_tokens_are_taken_and_put_back(threads: int) -> None:
    lengths = np.array([3, 0, 70, 5, 1, 2])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    store = np.arange(lengths.sum(), dtype=np.uint16)
    ids = np.array([2, 1, 5, 0, -1])
    parts = [store[offsets[i] : offsets[i + 1]] for i in ids[:4]]
    tokens, places = np.full(80, 999, np.uint16), np.empty(5, np.int64)
    run = module(sources.states_source(2), threads)
    run.call("row_sizes", 5, ids, offsets, places, blocks=2)
    run.call("row_starts", 5, places, 0, blocks=1)
    run.call("take_tokens", 5, ids, offsets, places, store, tokens, blocks=2)
    np.testing.assert_array_equal(tokens[:75], np.concatenate(parts))
    assert (tokens[75:] == 999).all()
    tokens += 100
    after = store.copy()
    for i in ids[:4]:
        after[offsets[i] : offsets[i + 1]] += 100
    run.call("put_tokens", 5, ids, offsets, places, tokens, store, blocks=2)
    np.testing.assert_array_equal(store, after)


def learner(model: str, **options: Any) -> bl.Learner:
    given = {"passes": 3, "block_rows": 40, "seed": 3, "device": "cuda", "verbose": False}
    return bl.Learner(MODELS[model](), counts(), **{**given, **options})


def tensors(found: bl.Learner) -> dict[str, Any]:
    return {name: array.copy() for name, array in found.state().tensors.items()}


class Resumed(bl.Hook):
    """Looks at the state after a block, and sets it again after another."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def block(self, learner: Any, progress: Any) -> None:
        if progress.position == (1, 1):
            self.seen.append(tensors(learner))
            learner.restore(learner.state())


def held(found: bl.Learner) -> set[str]:
    """Which states stay on the device."""
    return {row.name for row in found.plan().rows if row.of == "kept" and "blocks" not in row.name}


@pytest.mark.parametrize("model", first_often(MODELS, 2))
def test_bits_are_those_of_states_on_the_host(
    model: str,
    drivers: list[HostDriver],  # noqa: F811
) -> None:
    """In a pass, after restoring, when scored, at the end, and after closing."""
    results = []
    for room in ("auto", 0):
        hook = Resumed()
        options: dict[str, Any] = {} if model == "als" else {"eval": counts()}
        trained = learner(model, hooks=[hook], device_blocks=room, **options).fit()
        stats = trained.team.first.cache.stats()  # type: ignore[union-attr]
        assert (stats.allocations, stats.allocations_after_warmup) == (1, 0)
        after = {"scores": np.array(list(trained.evaluate(counts()).values()))}
        after |= tensors(trained)
        trained.close()
        after |= {f"closed {name}": array for name, array in tensors(trained).items()}
        results.append([*hook.seen, after])
    launched = [set(driver.launched) for driver in drivers[-2:]]
    used = "take_tokens" if model == "lda" else "take_rows"
    assert used in launched[0] and (used not in launched[1] or model == "als")
    assert len(results[0]) == 2
    for one, other in zip(*results, strict=True):
        assert one.keys() == other.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize("model", first_often(MODELS))
def test_blocks_end_without_a_copy_to_the_host(
    model: str,
    drivers: list[HostDriver],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied = []
    copy_out = HostDriver.copy_out

    def noted(driver: HostDriver, target: Any, address: int, stream: Any) -> None:
        copied.append(target.nbytes)
        copy_out(driver, target, address, stream)

    monkeypatch.setattr(HostDriver, "copy_out", noted)
    seen = []

    class Blocks(bl.Hook):
        def block(self, learner: Any, progress: Any) -> None:
            if progress.position[0] == 1:
                seen.append(sum(size for size in copied if size > 100))

    learner(model, hooks=[Blocks()]).fit().close()
    assert len(seen) > 2
    assert len(set(seen)) == 1


def test_states_stay_where_they_fit(drivers: list[HostDriver]) -> None:  # noqa: F811
    assert held(learner("nmf")) == {"W (on the device)"}
    assert held(learner("nmf", device_blocks=4 * 3 * ROWS)) == {"W (on the device)"}
    assert not held(learner("nmf", device_blocks=4 * 3 * ROWS - 1))
    assert not held(learner("nmf", replicas=2))
    tokens = held(learner("lda"))
    assert "assignments (on the device)" in tokens


@pytest.mark.parametrize("model", ["nmf", *rarely("lda")])
def test_training_goes_on_after_denser_blocks(
    model: str,
    drivers: list[HostDriver],  # noqa: F811
) -> None:
    """They need more room, so the row numbers of later blocks lie elsewhere on the device."""
    denser = sp.csr_array(np.random.default_rng(0).poisson(3.0, counts().shape).astype(np.float32))
    found = []
    for room in ("auto", 0):
        trained = learner(model, device_blocks=room).fit()
        trained.predict(denser)
        trained.passes += 2
        found.append(tensors(trained.fit()))
        trained.close()
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name], err_msg=name)
