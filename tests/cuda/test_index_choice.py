"""Who makes the index of blocks, by a model of the time: no device is needed for most of it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.training.plans import gpu_time, index_choice
from blocklearn.learner.training.plans.gpu_time import Card
from scripts.benchmarks.idle_device import idle_devices

X = sp.random_array((4000, 3000), density=0.03, rng=np.random.default_rng(0), dtype=np.float32)
LDA = bl.models.LDA(topics=4, inference="vb")
NO_TIME = Card(memory=1e30, flops=1e30, link=1e30, launch=0.0)


def learner(model: Any, data: Any, device: str = "cuda:0", **options: Any) -> bl.Learner:
    return bl.Learner(model, data, device=device, block_rows=1000, verbose=False, **options)


def source(shuffle: Any, matrix: Any = X) -> MatrixSource:
    return MatrixSource(matrix, block_rows=1000, shuffle=shuffle)


def test_the_device_makes_it_for_rows_that_are_shuffled_in_each_pass() -> None:
    with idle_devices():
        made = learner(LDA, source(True))
        times = made.pass_times
        assert times is not None and times.device < times.host and times.faster == "device"
        assert made.assembly().index == "device"
        assert learner(LDA, source(True), index="host").assembly().index == "host"
        made.fit()
        assert made.team is not None and not made.team.first.intakes[0].indexed_for
        made.close()


@pytest.mark.parametrize(
    ("model", "data", "device"),
    [
        (LDA, source("blocks"), "cuda:0"),
        (LDA, source(False), "cuda:0"),
        (LDA, source(True), "cpu"),
        (bl.models.ALS(rank=3), X, "cuda:0"),
        (bl.models.NMF(components=3), source(True, X.toarray()), "cuda:0"),
    ],
    ids=["same blocks", "in order", "CPU", "reads no index", "dense"],
)
def test_it_makes_no_difference(model: Any, data: Any, device: str) -> None:
    with idle_devices():
        made = learner(model, data, device)
        assert made.pass_times is None
        assert made.assembly().index == "host"


@pytest.mark.parametrize("devices", [1, 4])
def test_the_longest_work_decides(devices: int) -> None:
    """With kernels that take no time, the readers; with a slow card, its kernels and the sort."""
    with idle_devices():
        data = source(True)
        made = learner(LDA, data)
        with closing(made.assembly("host").counting(data.shape, NO_TIME.room)) as replica:
            entries = data.blocks * data.shape.nnz
            found = index_choice.pass_times(replica, [data], NO_TIME, devices)
            assert found is not None
            assert found.host == pytest.approx(10.4e-9 * entries / 4)
            assert found.device == pytest.approx(2.5e-9 * entries / 4)
            slow = NO_TIME._replace(memory=1e6)
            found = index_choice.pass_times(replica, [data], slow, devices)
            kernels = index_choice.CACHED * gpu_time.pass_of(replica, [data], slow).kernels
            assert found is not None and found.faster == "host"
            assert found.host == pytest.approx(kernels / devices)
            sort = (2 * 20 + 24) * entries / 1e6  # 12 bits of a column are two times eight, at most
            assert found.device == pytest.approx((kernels + sort) / devices)
            slow = NO_TIME._replace(link=1e6)
            found = index_choice.pass_times(replica, [data], slow, devices)
            assert found is not None
            saved = entries * 8 / 1e6 / devices
            assert found.host - found.device == pytest.approx(saved)
