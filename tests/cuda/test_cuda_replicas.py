"""Replicas on 2, 4 and 8 devices of one process, with delays: order, groups, threads, failures."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.training.scoring import TrainingScores
from blocklearn.matcache import DeviceLostError, MatCache, colsum
from blocklearn.matcache.cuda import Cuda, devices
from tests.cuda.test_cuda_merging import MATS, drivers, library, merged  # noqa: F401 (fixtures)
from tests.learner.test_replicas import Sums
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver
from tests.support.cuda_nccl import Library
from tests.support.often import first_often
from tests.support.own_threads import Started

pytestmark = needs_compiler

SEVERAL = [2, 4, 8]
ROWS = 50  # of data in blocks of 3: some replicas get a block less


def names(replicas: int) -> list[str]:
    return [f"cuda:{number}" for number in range(replicas)]


class Drift(Sums):
    """A model whose result depends on the order of blocks and merges. threads: by device."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        super().allocate(shapes, rng)
        self.mean = self.parameter("mean", 1, shapes.columns)
        self.threads = {}

    def update(self, block: Any) -> None:
        super().update(block)
        self.mean <<= self.mean * 0.75 + colsum(block.X) * 0.125
        if self.allocated:
            driver = self.mean.cache.backend.driver
            self.threads.setdefault(driver.number, set()).add(threading.get_ident())


def data(columns: int = 512) -> Any:
    return np.random.default_rng(0).standard_normal((ROWS, columns)).astype(np.float32)


def learner(replicas: int, model: Any = Drift, **options: Any) -> Any:
    return bl.Learner(
        model(), data(), passes=2, block_rows=3, sync_every=2, sync_weight=0.7,
        replicas=replicas, device=names(replicas), **options,
    )  # fmt: skip


@pytest.mark.parametrize("replicas", [4, 8])
def test_bits_of_a_merge_are_those_of_the_host(
    replicas: int,
    library: Library,  # noqa: F811
) -> None:
    host = merged([MatCache(threads=1, reserving=True) for _ in range(replicas)], [0.7, 1.0])
    opened = [devices.open_driver(number) for number in range(replicas)]
    caches = [MatCache(backend=Cuda(driver), reserving=True) for driver in opened]
    assert merged(caches, [0.7, 1.0]) == host
    each = sum(rule != "same" for rule, *_ in MATS)
    assert library.groups == 2 * 2 * each  # parts there and results back, of each Mat, twice
    assert library.live == 0


@pytest.mark.parametrize("replicas", first_often(SEVERAL))
def test_delays_change_no_bit(
    replicas: int,
    library: Library,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Delays differ from run to run, and the last run has copies in place of NCCL."""
    found = []
    for run in range(3):
        if run == 2:
            monkeypatch.setattr(devices, "nccl", lambda: None)
        trained = learner(replicas).fit()
        found.append({name: a.tobytes() for name, a in trained.state().tensors.items()})
        np.testing.assert_allclose(trained.parameter("sums"), 2 * data().sum(0)[None], atol=1e-4)
        trained.close()
    assert found[0] == found[1] == found[2]
    assert library.initialised == [list(range(replicas))] * 2
    assert library.live == 0


@pytest.mark.parametrize("replicas", first_often(SEVERAL))
def test_each_device_has_a_thread_of_its_own(
    replicas: int,
    library: Library,  # noqa: F811
) -> None:
    trained = learner(replicas).fit()
    by_device: dict[int, set[int]] = {}
    for replica in trained.team.replicas:
        for number, threads in replica.model.threads.items():
            by_device.setdefault(number, set()).update(threads)
    trained.close()
    assert sorted(by_device) == list(range(replicas))
    assert all(len(threads - {threading.get_ident()}) == 1 for threads in by_device.values())
    working = [threads - {threading.get_ident()} for threads in by_device.values()]
    assert len(set.union(*working)) == replicas


@pytest.mark.parametrize(
    "replicas, failing, where, wire",
    first_often(
        [
            (2, 0, "in a block", "NCCL"),
            (2, 0, "in a merge", "NCCL"),
            (2, 1, "in a merge", "copies"),
            (8, 5, "in a block", "copies"),
            (8, 5, "in a merge", "NCCL"),
        ],
        2,
    ),
)
def test_a_device_that_fails_ends_the_training_of_all(
    replicas: int,
    failing: int,
    where: str,
    wire: str,
    library: Library,  # noqa: F811
    drivers: list[HostDriver],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others wait for its part of a merge: they are released, and nothing is left."""
    # which blocks are scored depends on time, and so would the number of kernels
    monkeypatch.setattr(TrainingScores, "due", lambda *_: False)
    if wire == "copies":
        monkeypatch.setattr(devices, "nccl", lambda: None)
    trained = learner(replicas).fit()
    ran = drivers[failing].ran
    trained.close()
    merge = [place for place, name in enumerate(ran) if name.startswith("merge_")][4]
    last = len(ran) - 1 - ran[::-1].index("run")
    after = merge if where == "in a merge" else last
    opened = devices.open_driver

    def open_driver(number: int) -> Any:
        driver: Any = opened(number)
        driver.fails_after = after if number == failing else None
        return driver

    monkeypatch.setattr(devices, "open_driver", open_driver)
    started, aborted = Started(), library.aborted
    trained = learner(replicas)
    with pytest.raises(DeviceLostError, match=f"^cuda:{failing} stopped working"):
        trained.fit()
    assert library.aborted - aborted == (replicas if (where, wire) == ("in a merge", "NCCL") else 0)
    with pytest.raises(DeviceLostError, match=f"^cuda:{failing}: what was learned is lost"):
        trained.close()
    assert library.live == 0
    assert all(driver.closed and not driver._live for driver in drivers)
    assert not any("cuda-stream" in t.name or "blocklearn-model" in t.name for t in started())
    monkeypatch.setattr(devices, "open_driver", opened)
    again = trained.fit().parameter("sums")  # the learner begins anew
    np.testing.assert_allclose(again, 2 * data().sum(0)[None], atol=1e-4)
    trained.close()
