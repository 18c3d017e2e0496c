"""Replicas are merged on real devices to the bits of a merge on the host; with `pytest -m gpu`."""

from __future__ import annotations

import numpy as np
import pytest

from blocklearn.matcache import MatCache
from blocklearn.matcache.cuda import Cuda, devices, wires
from tests.cuda.test_cuda_learner import trained
from tests.cuda.test_cuda_merging import merged

pytestmark = pytest.mark.gpu


def _on(numbers: list[int]) -> list[MatCache]:
    return [MatCache(backend=Cuda(devices.open_driver(n)), reserving=True) for n in numbers]


def _on_host(replicas: int) -> list[MatCache]:
    return [MatCache(threads=1, reserving=True) for _ in range(replicas)]


WEIGHTS = [0.7, 0.25, 1.0]


@pytest.mark.parametrize("replicas", [2, 3])
def test_bits_of_one_device_several_times(replicas: int) -> None:
    assert merged(_on([0] * replicas), WEIGHTS) == merged(_on_host(replicas), WEIGHTS)


def test_bits_of_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = list(range(devices.count()))
    if len(numbers) < 2:
        pytest.skip("there is one device")
    host = merged(_on_host(len(numbers)), WEIGHTS)
    if devices.nccl() is not None:
        assert merged(_on(numbers), WEIGHTS) == host
    monkeypatch.setattr(wires.devices, "nccl", lambda: None)
    assert merged(_on(numbers), WEIGHTS) == host


def test_replicas_that_share_a_device_learn_the_same_every_time() -> None:
    found = []
    for _ in range(2):
        learner = trained("glm", ["cuda:0", "cuda:0"], replicas=2, sync_every=1, sync_weight=0.7)
        found.append(learner.state().tensors)
        learner.close()
    for name, numbers in found[0].items():
        np.testing.assert_array_equal(numbers, found[1][name], err_msg=name)
