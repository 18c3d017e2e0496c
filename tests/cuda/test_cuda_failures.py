"""Devices that fail, that others use, or whose driver is too old: what a user is told."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.exit_codes import ExitCode, exit_code, message
from blocklearn.matcache import DeviceError, DeviceLostError, MatCache, MemoryPlanError
from blocklearn.matcache.cuda import Cuda, devices
from blocklearn.matcache.cuda.cupy_driver import CupyDriver
from blocklearn.matcache.devices import resolve
from tests.cuda.test_cuda_learner import counts, drivers  # noqa: F401 (a fixture)
from tests.support import cupy_standin
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver
from tests.support.cupy_standin import Machine
from tests.support.learn_command import Learn, command  # noqa: F401 (a fixture)
from tests.support.own_threads import Started

pytestmark = needs_compiler


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One device, seen through CuPy."""
    return cupy_standin.install(monkeypatch, [HostDriver()])[0]


def cuda_error(status: int) -> Any:
    return cupy_standin.real.cuda.runtime.CUDARuntimeError(status)


def failing(status: int) -> Any:
    """A call of CUDA that fails."""

    def call(*args: Any) -> Any:
        raise cuda_error(status)

    return call


# ------------------------------------------------------------------ what CUDA's errors become


@pytest.mark.parametrize(
    "status, kind, code, said",
    [
        (999, DeviceLostError, ExitCode.UNAVAILABLE, "cudaErrorUnknown.*stopped working.*Xid"),
        (214, DeviceLostError, ExitCode.UNAVAILABLE, "cudaErrorECCUncorrectable.*stopped working"),
        (46, DeviceError, ExitCode.UNAVAILABLE, "Another program has reserved the device"),
        (222, DeviceError, ExitCode.UNAVAILABLE, "The NVIDIA driver is of CUDA 12.9"),
        (2, MemoryPlanError, ExitCode.OUT_OF_MEMORY, "Other programs may have taken.*nvidia-smi"),
        (
            700,
            RuntimeError,
            ExitCode.INTERNAL,
            "cudaErrorIllegalAddress.*A kernel failed on cuda:0",
        ),
        (1, RuntimeError, ExitCode.INTERNAL, "^cudaErrorInvalidValue"),
    ],
)
def test_errors_of_cuda_say_what_they_mean(
    status: int, kind: type[Exception], code: ExitCode, said: str, machine: Machine
) -> None:
    driver = CupyDriver(0)
    stream = driver.stream()
    machine.memsetAsync = failing(status)  # type: ignore[method-assign]
    with pytest.raises(kind) as error:
        driver.clear(driver.allocate(64), 64, stream)
    assert exit_code(error.value) == code
    text = message(error.value).replace("\n", " ")
    assert (text.startswith("cuda:0 (a stand-in): ")) == (code != ExitCode.INTERNAL)
    assert re.search(said, text), text
    assert driver.lost == (status in (999, 214, 700))
    driver.close()


def test_memory_of_a_lost_device_is_not_freed(machine: Machine) -> None:
    """Its calls would fail, and their errors hide the first one."""
    cache = MatCache(backend=Cuda(devices.open_driver(0)))
    mat = bl.matcache.from_array(cache, np.ones((3, 3), np.float32))
    for name in ("streamSynchronize", "free", "memcpyAsync", "memsetAsync", "memGetInfo"):
        setattr(machine, name, failing(999))
    with pytest.raises(DeviceLostError, match="cuda:0"):
        mat.numpy()
    cache.close()


def test_memory_that_another_program_takes_after_the_plan(machine: Machine) -> None:
    """Between the look at the free memory and the allocation."""
    backend = Cuda(devices.open_driver(0))

    def taken(size: int) -> int:
        machine.hosts[0].memory = 1 << 20
        raise cuda_error(2)

    machine.malloc = taken  # type: ignore[method-assign]
    with pytest.raises(MemoryPlanError, match="needs 2,097,152 bytes of .* 1,048,576 of its .*end"):
        backend.allocate(1 << 21)
    with pytest.raises(MemoryPlanError, match="needs 4,096 bytes in one piece of"):
        backend.allocate(4096)
    backend.close()


def test_a_device_without_memory_for_a_context(machine: Machine) -> None:
    machine.memGetInfo = failing(2)  # type: ignore[method-assign]
    with pytest.raises(MemoryPlanError, match="^device: cuda:0.*out of memory.*nvidia-smi lists"):
        devices.open_driver(0)


def test_a_device_in_exclusive_use(machine: Machine) -> None:
    machine.memGetInfo = failing(46)  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match="^device: cuda:0.*Another program has reserved"):
        devices.open_driver(0)


@pytest.mark.parametrize(
    "versions, said",
    [
        ((11040, 12090), r"driver is of CUDA 11\.4, CuPy's libraries of 12\.9\. Install a newer d"),
        ((12040, 13000), r"of CUDA 12\.4, .* of 13\.0\. .* \(pip install cupy-cuda12x\[ctk\]\)\.$"),
        ((0, 12090), "CUDA needs an NVIDIA driver, and CuPy"),
    ],
)
def test_a_driver_that_is_too_old(
    versions: tuple[int, int], said: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.versions = versions
    monkeypatch.setattr("blocklearn.matcache.cuda.cupy_driver.device_count", failing(35))
    with pytest.raises(DeviceError, match=said):
        devices.open_driver(0)
    assert resolve("auto") == "cpu"


def test_a_driver_too_old_for_what_the_compiler_made(machine: Machine) -> None:
    """Such a driver opens the device, and refuses the first kernel."""
    machine.versions = 12000, 12090
    machine.hosts[0].function = failing(222)  # type: ignore[method-assign]
    with pytest.raises(
        DeviceError, match="^device: .*CUDA 12.0, CuPy's libraries of 12.9. Install"
    ):
        devices.open_driver(0)


# ------------------------------------------------------------------ runs


RUN = """
model: {kind: nmf, components: 3}
data: {train: {kind: file, path: counts.npz}, block_rows: 30}
learner: {device: cuda, passes: 3, threads: 1}
checkpoint: {every_blocks: 2}
out: run
"""


def test_a_run_whose_device_fails_resumes(
    drivers: list[HostDriver],  # noqa: F811
    command: Learn,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With exit code 69; the resumed run ends with the model of an undisturbed one."""
    started = Started()
    sp.save_npz("counts.npz", counts())
    Path("run.yaml").write_text(RUN)
    learn = "train", "--config", "run.yaml", "--quiet"
    assert command(*learn, "--out", "whole")[0] == 0
    kernels = len(drivers[-1].ran)
    opened = devices.open_driver

    def failing_driver(number: int) -> HostDriver:
        opened(number)
        drivers[-1].fails_after = kernels // 2
        return drivers[-1]

    with monkeypatch.context() as patch:
        patch.setattr(devices, "open_driver", failing_driver)
        code, _, err = command(*learn)
    assert code == ExitCode.UNAVAILABLE
    assert err.startswith("learn: cuda:0 stopped working\n")  # in which block, it cannot know
    assert "the same command with --resume auto resumes the run" in err
    gc.collect()  # the error held the learner
    assert drivers[-1].closed and not drivers[-1]._live
    assert command(*learn, "--resume", "auto")[0] == 0
    whole, resumed = (bl.load(folder).parameter("H") for folder in ("whole", "run"))
    np.testing.assert_array_equal(resumed, whole)
    gc.collect()
    assert not any(thread.name == "cuda-stream" for thread in started())
